"""Line tables and instructions of GPU code, held to other readers, and broken ones."""

from __future__ import annotations

import io
import random

import pytest
from dumps import KNOWN, NAMES, core_of_name
from elftools.common.utils import struct_parse
from elftools.dwarf.lineprogram import LineProgram
from elftools.dwarf.structs import DWARFStructs
from elftools.elf.elffile import ELFFile

from sm90_verify.frontends.cudacore.instructions import (
    BarrierInstruction,
    PhaseCheck,
    branch_target,
    phase_check,
    thread_barrier,
)
from sm90_verify.frontends.cudacore.lines import DamagedLines, LineTable, line_table
from sm90_verify.frontends.cudacore.modules import CUDA_LINES, PTX_LINES, STRINGS

LINES = [name for name in NAMES if KNOWN[name]["lines"]]


def section(name: str, title: str) -> bytes:
    file = ELFFile(io.BytesIO(core_of_name(name).grids[0].module.image))
    return file.get_section_by_name(title).data()


def read_by_elftools(data: bytes) -> dict[int, tuple[str, int] | None]:
    """By address from which on a row counts, file and line; None behind the end of a sequence."""
    found: dict[int, tuple[str, int] | None] = {}
    at = 0
    while at < len(data):
        structs = DWARFStructs(little_endian=True, dwarf_format=32, address_size=8, dwarf_version=2)
        stream = io.BytesIO(data)
        header = struct_parse(structs.Dwarf_lineprog_header, stream, at)
        end, start = at + 4 + header["unit_length"], at + 10 + header["header_length"]
        for entry in LineProgram(header, stream, structs, start, end).get_entries():
            state = entry.state
            if state is None:
                continue
            if state.end_sequence:
                found.setdefault(state.address, None)
                continue
            files = header["file_entry"]
            name = files[state.file - 1].name.decode() if 0 < state.file <= len(files) else ""
            found[state.address] = name, state.line
        at = end
    return found


# ---------------------------------------------------------------- line tables


@pytest.mark.parametrize("title", [CUDA_LINES, PTX_LINES])
@pytest.mark.parametrize("name", LINES)
def test_rows_are_those_that_another_reader_finds(name, title):
    data = section(name, title)
    table, expected = line_table(data), read_by_elftools(data)
    assert list(table.starts) == sorted(expected) and len(expected) > 20
    for address, row in expected.items():
        for pc in (address, address + 8):
            places = table.at(pc)
            if row is None:
                assert places == ()
            else:
                assert (places[0].file.rpartition("/")[2], places[0].line) == row


@pytest.mark.parametrize("name", LINES)
def test_every_chain_of_calls_ends_in_the_kernel(name):
    """The outermost place of an instruction lies in the file of the kernel, unless a function was not inlined."""
    core = core_of_name(name)
    module = core.grids[0].module
    kernel = module.kernel_at(core.grids[0].entry)
    outer = set()
    for pc in range(kernel.address, kernel.address + kernel.size, 16):
        places = module.places(pc)
        assert 1 <= len(places) <= 24
        assert all(place.file and place.line for place in places)
        assert all(place.function for place in places[:-1])
        outer.add(places[-1].file.rpartition("/")[2])
    source = {"hang_pipelines.cu": "pipelines.cu", "hang_gemm.cu": "gemm.cu", "cutlass_epilogue.cu": "device_kernel.h"}
    assert source.get(KNOWN[name]["source"], KNOWN[name]["source"]) in outer
    assert len(outer) <= (2 if name.startswith("cutlass") else 1)


def test_an_address_before_and_behind_all_rows():
    table = line_table(section("places", CUDA_LINES), section("places", STRINGS))
    assert table.at(0) == () and table.at(1 << 60) == () and LineTable().at(0) == ()


def test_no_lines_at_all():
    assert line_table(b"") == LineTable([], [], [], [])


@pytest.mark.parametrize("title", [CUDA_LINES, PTX_LINES])
def test_broken_tables_are_refused_or_read(title):
    data = section("places", title)
    for cut in range(4, len(data), 7):
        with pytest.raises(DamagedLines):
            line_table(data[:cut])
    draw = random.Random(3)
    read = 0
    for _ in range(400):
        broken = bytearray(data)
        for _ in range(3):
            broken[draw.randrange(len(broken))] = draw.randrange(256)
        try:
            table = line_table(bytes(broken), b"abc")
        except DamagedLines:
            continue
        read += 1
        assert all(len(table.at(start)) <= 64 for start in table.starts)
    assert read > 50


# ---------------------------------------------------------------- instructions


@pytest.mark.parametrize(
    ("low", "high", "meaning"),
    [
        (0x00001002030075A7, 0x000E64000800017F, PhaseCheck(3, None, 0x10, 2)),
        (0x00006805020075A7, 0x000EA40008000147, PhaseCheck(2, 7, 0x68, 5)),
        (0x00000800FF0075A7, 0x000E240008000144, PhaseCheck(None, 4, 8, 0)),
        (0x00000003000085A7, 0x000E64000800007F, PhaseCheck(0, None, 0, 3)),
        (0xFFFFF003000085A7, 0x000E64000800007F, PhaseCheck(0, None, -16, 3)),
        (0x0000000000007B1D, 0x000FEC0000010000, None),
    ],
)
def test_the_check_of_a_phase(low, high, meaning):
    """As nvdisasm reads them: P0, [R3+URZ+0x10], R2, and so on."""
    assert phase_check(low.to_bytes(8, "little") + high.to_bytes(8, "little")) == meaning


@pytest.mark.parametrize(
    ("low", "high", "meaning"),
    [
        (0x0000000000007B1D, 0x000FEC0000010000, BarrierInstruction(0, 0, None)),
        (0x0141800000007B1D, 0x000FEC0000010000, BarrierInstruction(5, 0x60, None)),
        (0x000000080000751D, 0x0001E20000010000, BarrierInstruction(None, 0, 8)),
        (0x000180060000751D, 0x0003E20000010000, BarrierInstruction(None, 0x60, 6)),
        (0x010000070000791D, 0x0007E40000010000, BarrierInstruction(4, None, 7)),
        (0x000000090000731D, 0x0001E40000010000, BarrierInstruction(None, None, 9)),
        (0x0000000000007B1D, 0x000FEC0004014800, BarrierInstruction(0, 0, None)),  # BAR.RED.OR
        (0x0101800000007B1D, 0x000FF00000002000, None),  # BAR.ARV 0x4, 0x60
        (0x000180060000751D, 0x0003F00000002000, None),
    ],
)
def test_a_barrier_of_threads(low, high, meaning):
    assert thread_barrier(low.to_bytes(8, "little") + high.to_bytes(8, "little")) == meaning


@pytest.mark.parametrize(
    ("low", "high", "pc", "target"),
    [
        (0xFFFFFFFC00FC7947, 0x000FC0000383FFFF, 0x6920, 0x6920),
        (0xFFFFFFFC00F88947, 0x001FEA000383FFFF, 0x330, 0x320),
        (0x0000000000188947, 0x002FEA0003800000, 0x220, 0x290),
        (0x00000034006C8947, 0x000FEA0003800000, 0x9E0, 0x3FA0 + 0x4000 - 0x4000),
        (0x0000000000007B1D, 0x000FEC0000010000, 0, None),
    ],
)
def test_where_a_branch_goes(low, high, pc, target):
    assert branch_target(low.to_bytes(8, "little") + high.to_bytes(8, "little"), pc) == target


def test_half_an_instruction():
    for length in (0, 2, 15):
        code = bytes.fromhex("a7750003021000007f01000800640e00")[:length]
        assert phase_check(code) is None and thread_barrier(code) is None and branch_target(code, 0) is None
