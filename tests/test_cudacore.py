"""Core dumps of kernels that hang on an H200, read, and held to what is known of each."""

from __future__ import annotations

from collections import Counter

import pytest
from dumps import KNOWN, NAMES, SOURCES_OF_OUR_OWN, WITH_MODEL, core_of_name, ptx_of

from sm90_verify.frontends.cudacore.__main__ import main
from sm90_verify.frontends.cudacore.dump import EXCEPTIONS
from sm90_verify.frontends.cudacore.mbarrier_word import MbarrierWord, decode
from sm90_verify.frontends.cudacore.waits import (
    ClusterBarrierWait,
    LanesWait,
    MbarrierWait,
    ThreadsWait,
    wait_of,
)

LINES = [name for name in NAMES if KNOWN[name]["lines"]]
PIPELINES = [name for name in NAMES if KNOWN[name]["source"] == "hang_pipelines.cu"]
GEMMS = [name for name in NAMES if KNOWN[name]["source"] == "hang_gemm.cu"]


def waiting(core, cta):
    """What the lanes of a CTA wait for, each with how many do."""
    return Counter(wait_of(core, warp, lane) for warp in cta.warps for lane in warp.lanes)


# ---------------------------------------------------------------- launches


@pytest.mark.parametrize("name", NAMES)
def test_the_gpu_and_the_driver(name):
    core = core_of_name(name)
    (device,) = core.devices
    assert (device.name, device.sm, device.multiprocessors, device.warps) == ("NVIDIA H200", "sm_90", 132, 64)
    assert core.driver == "580.159"


@pytest.mark.parametrize("name", PIPELINES)
def test_the_launch_of_a_pipeline(name):
    """Grid, block, dynamic shared memory and parameters are those that the program was told."""
    known = KNOWN[name]
    (grid,) = core_of_name(name).grids
    ctas, threads, shared, trips, rows, _, source_bytes, stage = known["arguments"]
    assert grid.kernel == "pipeline" and grid.active
    assert (grid.grid, grid.block, grid.threads) == ((ctas, 1, 1), (threads, 1, 1), threads)
    assert grid.cluster == (known["cluster"], 1, 1)
    assert (grid.static_shared, grid.dynamic_shared, grid.dynamic_is_exact) == (0x400, shared, True)
    (arguments,) = grid.parameters
    assert len(arguments) == 88 and arguments == grid.parameter_block
    words = [int.from_bytes(arguments[at : at + 4], "little") for at in range(0, 88, 4)]
    assert (words[6], words[12], words[18], words[19]) == (source_bytes, stage, trips, rows)


@pytest.mark.parametrize("name", GEMMS)
def test_the_launch_of_a_gemm(name):
    """Its first parameter is aligned to 64 bytes: in the bank of constants the block begins with a gap."""
    known = KNOWN[name]
    (grid,) = core_of_name(name).grids
    rows, columns, k_tiles, ctas = known["arguments"]
    threads = 256 if known["macros"]["SCHEDULE"] == 0 else 384
    assert (grid.kernel, grid.grid, grid.block) == ("gemm", (ctas, 1, 1), (threads, 1, 1))
    assert grid.cluster == (known["cluster"], 1, 1)
    maps, *numbers = grid.parameters
    assert [int.from_bytes(one, "little") for one in numbers] == [rows * columns, rows, k_tiles]
    assert len(maps) == 512 and grid.parameter_block[48 : 48 + 512] == maps
    boxes = [(maps[128 * one + 56] + 1, maps[128 * one + 55] + 1) for one in range(4)]
    tile_m, tile_n = known["macros"]["TILE_M"], known["macros"]["TILE_N"]
    assert boxes == [(tile_m, 64), (tile_n // known["cluster"], 64), (tile_m, 32), (tile_m, 32)]
    barriers = 8 * (2 * known["macros"]["STAGES"] + 2 * known["macros"]["STAGES_C"] + 6)
    assert 0x400 + barriers <= grid.static_shared <= 0x400 + barriers + 8
    assert grid.dynamic_is_exact and grid.dynamic_shared % 1024 == 0
    assert grid.registers == 168 or known["macros"]["SCHEDULE"] == 0


@pytest.mark.parametrize("name", NAMES)
def test_ctas_and_warps(name):
    core = core_of_name(name)
    for number, grid in enumerate(core.grids):
        found = list(core.of_grid(grid))
        assert {cta.grid for cta in found} <= {number}
        cluster = KNOWN[name]["cluster"]
        for cta in found:
            assert cta.cluster[0] == (cta.block[0] // cluster if cluster > 1 else 0)
            assert len(cta.shared) == cta.shared_size and cta.shared_size % 128 == 0
            assert 0 <= cta.shared_size - grid.static_shared - grid.dynamic_shared < 128
            assert [warp.warp for warp in cta.warps] == sorted({warp.warp for warp in cta.warps})
            for warp in cta.warps:
                assert sum(1 << lane.lane for lane in warp.lanes) == warp.valid
                assert warp.active & ~warp.valid == 0 and warp.exited == ~warp.valid & 0xFFFFFFFF
                assert warp.diverged == warp.valid & ~warp.active
                assert {lane.thread[0] for lane in warp.lanes} <= set(range(32 * warp.warp, 32 * warp.warp + 32))
                assert warp.pc in warp.pcs and sum(warp.pcs.values()) == warp.valid
                assert {len(lane.registers) for lane in warp.lanes} == {4 * (warp.registers - 2)}
                assert {lane.pc - lane.offset for lane in warp.lanes} == {grid.entry}
                assert all(core.function_at(lane.pc).has(lane.pc) for lane in warp.lanes)


def test_registers_are_those_that_setmaxnreg_has_left():
    (cta,) = core_of_name("pingpong_expect_more").ctas
    assert [warp.registers for warp in cta.warps] == [40, *[232] * 8]


# ---------------------------------------------------------------- barriers and waits


@pytest.mark.parametrize("name", WITH_MODEL)
def test_barriers_are_as_the_model_leaves_them(name):
    """All that can change of every barrier: phase, pending count and tx-count."""
    known, core = KNOWN[name], core_of_name(name)
    compared = 0
    for cta in core.ctas:
        prefix = f"cta{cta.block[0] % known['cluster']}." if known["cluster"] > 1 else ""
        for barrier, address in known["addresses"].items():
            parts = known["barriers"].get(prefix + barrier, {})
            word = decode(cta.word(address))._asdict()
            word["tx"] = word.pop("tx_count")
            assert parts == {part: word[part] for part in parts}, (cta.block, barrier)
            compared += bool(parts)
    assert compared >= 2 * len(core.ctas)


@pytest.mark.parametrize("name", WITH_MODEL)
def test_lanes_wait_for_what_the_roles_wait_for(name):
    known, core = KNOWN[name], core_of_name(name)
    names = {address: barrier for barrier, address in known["addresses"].items()}
    for cta in core.ctas:
        rank = cta.block[0] % known["cluster"]
        prefix = f"cta{rank}." if known["cluster"] > 1 else ""
        found = {
            (prefix + names[one.address], f"wait parity {one.parity}")
            for one in waiting(core, cta)
            if isinstance(one, MbarrierWait)
        }
        told = [one for role, one in known["waits"].items() if role.startswith(prefix)]
        assert found == {(one["object"], one["op"]) for one in told if one["op"].startswith("wait parity")}
        assert {one.rank for one in waiting(core, cta) if isinstance(one, MbarrierWait)} == {rank}
        assert None not in waiting(core, cta)


def test_a_producer_that_waits_for_the_wrong_phase():
    """The consumers wait for full[0], which has got no arrival; the producer for empty[0], which needs 128."""
    (cta,) = core_of_name("tma_async_producer_phase").ctas
    assert decode(cta.word(0x400)) == MbarrierWord(0, 1, 1, 0)
    assert decode(cta.word(0x480)) == MbarrierWord(0, 128, 128, 0)


def test_more_bytes_are_expected_than_are_copied():
    core = core_of_name("tma_async_expect_more")
    assert [cta.block for cta in core.ctas] == [(0, 0, 0), (1, 0, 0), (2, 0, 0)]
    for cta in core.ctas:
        assert decode(cta.word(0x400)) == decode(cta.word(0x408)) == MbarrierWord(0, 0, 1, 16)


def test_every_kind_of_wait():
    core = core_of_name("places")
    assert [cta.block[0] for cta in core.ctas] == [0, 1, 2, 3]
    assert [cta.cluster[0] for cta in core.ctas] == [0, 0, 1, 1]
    for cta in core.ctas:
        words = [decode(cta.word(address)) for address in (0x400, 0x408, 0x410, 0x418, 0x420)]
        assert words == [
            MbarrierWord(0, 1, 3, 0),
            MbarrierWord(0, 1048575, 1048575, 0),
            MbarrierWord(0, 0, 1, 1024),
            MbarrierWord(0, 7, 7, -512),
            MbarrierWord(1, 1, 2, 0),
        ]
        found = {warp.warp: {wait_of(core, warp, lane) for lane in warp.lanes} for warp in cta.warps}
        assert sorted(found) == [0, 1, 3, 4, 5, 6, 7]
        entry = core.grids[0].entry
        rank = cta.block[0] % 2
        assert found[0] == {
            None,  # a loop of nanosleep
            MbarrierWait(entry + 0x5A0, 0x400, rank, 0),
            MbarrierWait(entry + 0x4D0, 0x408, rank, 0),
        }
        assert found[1] == {ThreadsWait(entry + 0x5E0, 5, 96)}
        assert found[3] == {ClusterBarrierWait(entry + 0x770)}
        assert found[4] == {ThreadsWait(entry + 0x690, 0, 0)}
        assert [(one.address, one.parity) for number in (5, 6, 7) for one in found[number]] == [
            (0x420, 1),
            (0x410, 0),
            (0x418, 0),
        ]
        (first, *_) = cta.warps
        assert sorted(first.pcs.values()) == [0xFF, 0xFF00, 0xFF000000]
        assert (first.valid, first.exited, first.diverged.bit_count()) == (0xFF00FFFF, 0x00FF0000, 16)


def test_lanes_that_wait_for_their_warp():
    """The elected lane of the producer still waits, the others have gone on to the barrier of the cluster."""
    core = core_of_name("cooperative_release_own_2x1")
    for cta in core.ctas:
        found = {warp.warp: Counter(type(wait_of(core, warp, lane)) for lane in warp.lanes) for warp in cta.warps}
        assert found[0] == {MbarrierWait: 1, LanesWait: 31}
        assert found[1] == found[3] == {ClusterBarrierWait: 32}


# ---------------------------------------------------------------- lines


def test_lines_are_those_that_the_debugger_shows():
    """As cuda-gdb 13.0 reads the same dump (info cuda threads)."""
    core = core_of_name("places")
    entry = core.grids[0].entry
    shown = {
        0x5A0: ("ptx.cuh", 107),
        0x4B0: ("ptx.cuh", 107),
        0x410: ("hang_places.cu", 48),
        0x5F0: ("hang_places.cu", 51),
        0x770: ("ptx.cuh", 183),
        0x6A0: ("hang_places.cu", 54),
        0xA80: ("ptx.cuh", 107),
        0xB80: ("ptx.cuh", 107),
        0x940: ("ptx.cuh", 107),
    }
    for offset, line in shown.items():
        file, number = core.line_of(entry + offset)
        assert (file.rpartition("/")[2], number) == line
    standing = {pc - entry for cta in core.ctas for warp in cta.warps for pc in warp.pcs}
    assert standing == set(shown)


def test_calls_that_were_inlined_and_one_that_was_not():
    core = core_of_name("places")
    entry = core.grids[0].entry
    inner, wait, kernel = core.places(entry + 0x5A0)
    assert inner.function.endswith("3ptx10try_parityILi1000EEEjjj") and wait.function == "_Z4waitjj"
    assert [(one.file.rpartition("/")[2], one.line) for one in (wait, kernel)] == [
        ("hang_places.cu", 18),
        ("hang_places.cu", 44),
    ]
    called = core.function_at(entry + 0xB80)
    assert (called.name, called.address - entry, called.shared) == ("_Z14wait_elsewherejj", 0xB10, None)
    lane = core.ctas[0].warps[5].lanes[0]
    assert (core.ctas[0].warps[5].warp, lane.pc, lane.callers) == (6, entry + 0xB80, (entry + 0x890,))
    (caller,) = core.places(entry + 0x890)
    assert (caller.file.rpartition("/")[2], caller.line) == ("hang_places.cu", 64)
    assert {one.callers for warp in core.ctas[0].warps[:5] for one in warp.lanes} == {()}


@pytest.mark.parametrize("name", [name for name in LINES if name in SOURCES_OF_OUR_OWN])
def test_ptx_lines_are_lines_of_the_ptx(name):
    """Of the file that was compiled, and of the text that the dump itself has."""
    core, ptx = core_of_name(name), ptx_of(name)
    for cta in core.ctas:
        for one in waiting(core, cta):
            if isinstance(one, MbarrierWait | ThreadsWait):
                line = core.ptx_line_of(one.pc)
                word = "mbarrier.try_wait" if isinstance(one, MbarrierWait) else "bar"
                assert word in ptx[line - 1]
                assert core.places(one.pc)[-1].file.startswith("")
    text = core.grids[0].module.ptx.split("\n")
    instructions = [number for number, line in enumerate(text) if line.endswith(";")]
    assert len(instructions) > 100
    for number in instructions:
        assert ptx[number].split("//")[0].split() == text[number].split(), number


def test_a_module_without_lines():
    core, same = core_of_name("tma_async_producer_phase_without_lines"), core_of_name("tma_async_producer_phase")
    pc = core.ctas[0].warps[0].pc
    assert core.places(pc) == () and core.line_of(pc) is None and core.ptx_line_of(pc) is None
    assert core.grids[0].module.ptx is None
    found, beside = ([(one.address, one.parity) for one in waiting(which, which.ctas[0])] for which in (core, same))
    assert found == beside == [(0x480, 0), (0x400, 0)]


def test_a_pc_of_no_module():
    core = core_of_name("places")
    assert core.places(0x1234) == () and core.ptx_line_of(0x1234) is None and core.function_at(0x1234) is None


@pytest.mark.parametrize("name", ["cutlass_cooperative_reuse", "cutlass_cooperative_reuse_delay"])
def test_a_kernel_of_cutlass(name):
    """Of all its warps, one lane is left: load_tail of the epilogue waits for a stage that nobody gives back."""
    core = core_of_name(name)
    (grid,) = core.grids
    assert grid.kernel.startswith("_ZN7cutlass13device_kernel") and (grid.grid, grid.block) == ((1, 2, 1), (384, 1, 1))
    assert not grid.dynamic_is_exact and grid.dynamic_shared % 128 == 0
    (parameters,) = grid.parameters
    assert len(parameters) % 64 == 0
    for cta in core.ctas:
        (warp,) = cta.warps
        (lane,) = warp.lanes
        assert (warp.warp, lane.lane) == (2, 0)
        places = [(one.file.rpartition("/")[2], one.line) for one in core.places(lane.pc)]
        assert places[0] == ("barrier.h", 424)
        assert ("sm90_epilogue_tma_warpspecialized.hpp", 521) in places
        assert "device_kernel.h" in places[-1][0]
        line = core.ptx_line_of(wait_of(core, warp, lane).pc)
        assert "mbarrier.try_wait.parity" in grid.module.ptx.split("\n")[line - 1]


# ---------------------------------------------------------------- several grids, and exceptions


def test_two_grids_at_once():
    core = core_of_name("two_grids")
    assert {grid.id: grid.parameters[2] for grid in core.grids} == {1: b"\x81\0\0\0", 2: b"\x40\0\0\0"}
    for grid in core.grids:
        warps = [[warp.warp for warp in cta.warps] for cta in core.of_grid(grid)]
        assert warps == ([[0, 7]] * 2 if grid.id == 1 else [[6]] * 2)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "exception"])
def test_a_dump_that_was_asked_for_has_no_exceptions(name):
    assert core_of_name(name).exceptions == ()


def test_an_exception():
    """Three lanes arrive at once where two arrivals are pending: the GPU calls it an illegal instruction."""
    core = core_of_name("exception")
    entry = core.grids[0].entry
    assert {one.what for one in core.exceptions} == {"warp: illegal instruction"}
    assert {one.pc for one in core.exceptions} == {entry + 0xA00}
    assert [one.where for one in core.exceptions] == [
        "multiprocessor 124",
        "multiprocessor 125",
        "CTA (0, 0, 0) warp 5 lane 0",
        "CTA (1, 0, 0) warp 5 lane 0",
    ]
    assert core.places(entry + 0xA00)[0].line == 45 and "arrive" in core.places(entry + 0xA00)[0].function
    assert {lane.exception for cta in core.ctas for warp in cta.warps for lane in warp.lanes} == {
        EXCEPTIONS[0],
        EXCEPTIONS[4],
    }


# ---------------------------------------------------------------- printed


def test_what_is_printed(capsys):
    assert main([core_of_name("places").path, core_of_name("exception").path]) == 0
    shown = capsys.readouterr().out
    assert "grid 1 places: (4, 1, 1) CTAs of (256, 1, 1), clusters of (2, 1, 1)" in shown
    assert "warp  1 lanes ffffffff places+0x5f0 ptx 255 hang_places.cu:51" in shown
    assert "exception: CTA (0, 0, 0) warp 5 lane 0: warp: illegal instruction at 0x" in shown
    assert main(["nowhere"]) == 2
    assert capsys.readouterr().err.startswith("error: nowhere: cannot be read: No such file")
