"""Files that are no core dumps, or damaged ones: refused in one line, and never a traceback."""

from __future__ import annotations

import gzip
import lzma
import random
import struct
import sys

import pytest
from dumps import headers, path_of, raw, rebuilt

from sm90_verify.frontends.cudacore.container import HEADER, SECTION, SectionKind, container_of
from sm90_verify.frontends.cudacore.mbarrier_word import decode
from sm90_verify.frontends.cudacore.read import core_of, read_core
from sm90_verify.frontends.cudacore.waits import wait_of
from sm90_verify.spec.errors import SpecError

NAME = "tma_async_producer_phase"


def read(data: bytes):
    return core_of(container_of("x.cudacore", data))


def everything(data: bytes):
    """All that can be asked of a dump: a SpecError, or an answer."""
    core = read(data)
    for grid in core.grids:
        assert grid.module is None or isinstance(grid.module.ptx, str | None)
    for cta in core.ctas:
        cta.word(0x400)
        for warp in cta.warps:
            for lane in warp.lanes[:4]:
                core.places(lane.pc), core.ptx_line_of(lane.pc), core.function_at(lane.pc), wait_of(core, warp, lane)
    return core


def refused(data: bytes) -> str:
    with pytest.raises(SpecError) as caught:
        everything(data)
    assert "\n" not in str(caught.value) and str(caught.value).startswith("x.cudacore: ")
    return str(caught.value).removeprefix("x.cudacore: ")


def without(*kinds):
    return rebuilt(raw(NAME), lambda kind, info, row, data: None if kind in kinds else (row, data))


# ---------------------------------------------------------------- other files


def test_what_cannot_be_read(tmp_path):
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(SpecError, match=r"cannot be read: (Is a directory|No such file)"):
            read_core(str(path))


def test_an_empty_file():
    assert refused(b"") == (
        "is empty: the dump was not written; run the program with CUDA_ENABLE_USER_TRIGGERED_COREDUMP=1, and write a"
        " byte into its CUDA_COREDUMP_PIPE"
    )


@pytest.mark.parametrize("data", [b"\x7f", b"#!/bin/sh\n", b"{}", bytes(10_000), b"ELF" * 100])
def test_a_file_of_another_kind(data):
    assert refused(data).startswith("is no core dump: it does not begin like an ELF file; run the program with")


def test_an_elf_file_of_the_host():
    with open(sys.executable, "rb") as file:
        data = file.read(4096)
    assert refused(data).startswith("is an ELF file, but of no GPU (machine 62): a core dump of the host program?")


def test_compiled_code():
    core = read(raw(NAME))
    image = core.grids[0].module.image
    assert refused(image).startswith("is compiled GPU code and no core dump (ELF type 2): run the program with")


def test_compressed_files(tmp_path):
    data = raw(NAME)
    for name, packed in (("x.gz", gzip.compress(data)), ("x.xz", lzma.compress(data)), ("x", data)):
        (tmp_path / name).write_bytes(packed)
        assert read_core(str(tmp_path / name)).ctas == read_core(path_of(NAME)).ctas
        if name != "x":
            for cut in (7, 20, len(packed) // 2, len(packed) - 1):
                assert "compressed file is" in refused(packed[:cut])
            assert "compressed file is damaged" in refused(packed[:40] + b"\xff" * 100 + packed[140:])


# ---------------------------------------------------------------- cut and damaged dumps


def test_a_dump_that_is_cut_off_anywhere():
    data = raw("exception")
    table = struct.unpack_from("<Q", data, 40)[0]
    cuts = {4, 16, 63, 64, 65, table - 1, table, table + 63, table + 64, len(data) - 1}
    cuts |= {random.Random(1).randrange(len(data)) for _ in range(40)}
    for cut in cuts:
        assert "cut off" in refused(data[:cut]), cut


def test_a_dump_that_is_not_complete():
    """While it is written, its header has no table of sections."""
    data = bytearray(raw(NAME))
    struct.pack_into("<Q", data, 40, 0)
    assert refused(bytes(data)) == "has no sections: the dump was not completed; wait until the file stops growing"
    struct.pack_into("<Q", data, 40, 64)
    struct.pack_into("<H", data, 58, 40)
    assert refused(bytes(data)) == "is damaged: section headers of 40 bytes, and ELF has 64"


def test_bytes_that_are_wrong():
    """Of the headers and tables, and of the modules: an error or an answer, and nothing else."""
    data = raw("exception")
    draw = random.Random(7)
    table = struct.unpack_from("<Q", data, 40)[0]
    kinds = (SectionKind.RELOCATED_IMAGE, SectionKind.GRIDS, SectionKind.MODULES, SectionKind.LANES, SectionKind.CTAS)
    places = [(fields[4], fields[5]) for fields in headers(data) if fields[1] in kinds and fields[5]]
    answered = 0
    for number in range(300):
        broken = bytearray(data)
        for _ in range(draw.choice((1, 1, 4))):
            start, size = draw.choice([(0, 64), (table, len(data) - table), *places]) if number % 3 else places[0]
            broken[start + draw.randrange(size)] = draw.choice((0, 1, 127, 128, 255, draw.randrange(256)))
        try:
            everything(bytes(broken))
            answered += 1
        except SpecError as error:
            assert "\n" not in str(error)
    assert 50 < answered < 300


def test_a_damaged_module():
    core = read(raw(NAME))
    image = core.grids[0].module.image

    def change(kind, info, row, data):
        if kind != SectionKind.RELOCATED_IMAGE:
            return row, data
        broken = bytearray(data)
        broken[40:48] = b"\xff" * 8
        return row, bytes(broken)

    assert image and "is damaged (" in refused(rebuilt(raw(NAME), change))


def test_rows_that_are_too_short():
    def change(kind, info, row, data):
        return (40, data[:40]) if kind == SectionKind.GRIDS else (row, data)

    assert refused(rebuilt(raw(NAME), change)) == (
        "is damaged: its table of grids has 40 bytes in rows of 40, and a row has 104 or more: make the dump again"
    )


def test_a_table_that_is_no_whole_rows():
    def change(kind, info, row, data):
        return (row, data[:-1]) if kind == SectionKind.WARPS else (row, data)

    assert "its table of warps has 319 bytes in rows of 64" in refused(rebuilt(raw(NAME), change))


def test_a_cta_of_a_grid_that_is_not_there():
    def change(kind, info, row, data):
        return (row, b"\x09" + data[1:]) if kind == SectionKind.CTAS and data else (row, data)

    assert refused(rebuilt(raw(NAME), change)) == "is damaged: a CTA of grid 9, which it has not: make the dump again"


def test_a_dump_in_which_nothing_runs():
    assert refused(without(SectionKind.CTAS)) == (
        "no CTA was running when the dump was made: ask for it while the kernel hangs, and before anybody ends it"
    )


def test_a_dump_without_devices():
    assert refused(without(SectionKind.DEVICES)).startswith("has no table of devices, and so is no core dump of CUDA:")


# ---------------------------------------------------------------- what a dump may lack


def test_a_dump_without_memory_and_registers():
    """As with skip_shared_memory, or in a lightweight dump."""
    kinds = (SectionKind.SHARED, SectionKind.REGISTERS, SectionKind.PREDICATES, SectionKind.UNIFORM_REGISTERS)
    core = read(without(*kinds, SectionKind.GLOBAL, SectionKind.PARAMETERS))
    (cta,) = core.ctas
    assert cta.shared == b"" and cta.word(0x400) is None
    grid = core.grids[0]
    assert grid.parameters is None and grid.parameter_block is None
    assert (grid.dynamic_shared, grid.dynamic_is_exact) == (9216, False)
    wait = wait_of(core, cta.warps[0], cta.warps[0].lanes[0])
    assert (wait.address, wait.rank, wait.parity) == (None, None, None)


def test_a_dump_without_code():
    core = read(without(SectionKind.RELOCATED_IMAGE))
    (grid,) = core.grids
    assert (grid.kernel, grid.static_shared, grid.parameters, len(grid.parameter_block)) == ("", None, None, 88)
    assert (grid.dynamic_shared, grid.dynamic_is_exact) == (9216, True)
    pc = core.ctas[0].warps[0].pc
    assert core.places(pc) == () and core.function_at(pc) is None
    assert wait_of(core, core.ctas[0].warps[0], core.ctas[0].warps[0].lanes[0]) is None


def test_a_dump_of_an_older_driver():
    """With the fields that every driver writes: neither clusters nor bytes of shared memory are in it."""
    least = {
        SectionKind.GRIDS: 104,
        SectionKind.CTAS: 24,
        SectionKind.WARPS: 32,
        SectionKind.LANES: 48,
        SectionKind.MULTIPROCESSORS: 8,
        SectionKind.DEVICES: 72,
    }

    def change(kind, info, row, data):
        if kind not in least:
            return row, data
        return least[kind], b"".join(data[at : at + least[kind]] for at in range(0, len(data), row))

    core, now = read(rebuilt(raw(NAME), change)), read(raw(NAME))
    (grid,), (cta,) = core.grids, core.ctas
    assert (grid.cluster, cta.cluster, cta.shared_size) == (None, None, None)
    assert (grid.dynamic_shared, grid.dynamic_is_exact) == (9216, True)
    assert {(warp.exited, warp.registers) for warp in cta.warps} == {(None, None)}
    assert [warp.pcs for warp in cta.warps] == [warp.pcs for warp in now.ctas[0].warps]
    assert decode(cta.word(0x480)).pending == 128


def test_more_sections_than_the_header_can_count():
    """Then section 0 says how many there are, and which one has the names."""
    data = bytearray(raw(NAME))
    table, names = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<H", data, 62)[0]
    count = struct.unpack_from("<H", data, 60)[0]
    SECTION.pack_into(data, table, 0, 0, 0, 0, 0, count, names, 0, 0, 0)
    struct.pack_into("<HH", data, 60, 0, 0xFFFF)
    assert len(headers(bytes(data))) == count
    core = read(bytes(data))
    assert core.ctas == read(raw(NAME)).ctas and core.devices[0].name == "NVIDIA H200"


def test_the_header_is_that_of_elf():
    assert (HEADER.size, SECTION.size) == (64, 64)
