"""verify hang: what it says of every dump that is kept, and whether the kernel is found to lead there by itself."""

from __future__ import annotations

from functools import cache

import pytest
from commands import run
from dumps import KNOWN, NAMES, SOURCES_OF_OUR_OWN, WITH_MODEL, core_of_name, path_of, ptx_file, ptx_of, raw, rebuilt

from sm90_verify.decide.hang import ELSEWHERE, FAULT, NOT_ALONE, OWN, check_hang
from sm90_verify.frontends.cudacore.container import SectionKind
from sm90_verify.frontends.cudacore.mbarrier_word import decode, encode
from sm90_verify.report.text import render
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED

OPEN = {
    "places": "waits in a loop for memory to change",
    "tma_async_producer_phase_without_lines": "give the PTX with --ptx",
}
"""Dumps whose kernel is not decided from the dump alone, and why."""
DECIDED = [name for name in NAMES if name not in OPEN and name != "exception"]
CHAINS = {
    "tma_async_expect_more": [
        "warp 0 waits for empty[0], 128 of 128 arrivals missing: warps 4-7 would come",
        "warps 4-7 wait for full[0], 16 bytes missing: 4112 bytes are expected in PTX line 406",
    ],
    "tma_async_producer_phase": [
        "warp 0 waits for empty[0], 128 of 128 arrivals missing: warps 4-7 would come",
        "warps 4-7 wait for full[0], 1 of 1 arrivals missing: warp 0 would come",
        "so they wait for each other",
    ],
    "tma_async_release_by_some_warps": [
        "warp 0 waits for empty[0], 32 of 128 arrivals missing: warps 4-6 have come in this phase, and nobody else",
    ],
    "transaction_async_commit_by_one_lane": [
        "warp 0 waits for empty[0], 128 of 128 arrivals missing: warps 4-7 would come",
        "warps 4-7 wait for full[0], 31 of 32 arrivals missing: warp 0 has come in this phase, and nobody else",
    ],
    "ws_no_tail_release": ["warp 0 waits for empty[0], 128 of 128 arrivals missing: warps 4-7, who arrive there, have"],
    "cooperative_store_tail": ["warp 2 waits for empty2[3], 256 of 256 arrivals missing: nobody arrives there"],
    "epilogue_none": ["warp 0 waits for empty[3], 256 of 256 arrivals missing: nobody arrives there"],
    "cutlass_cooperative_reuse": ["warp 2 waits for empty2[3], 256 of 256 arrivals missing: nobody arrives there"],
    "pingpong_order_swapped": [
        "warp 0 waits for empty[0]",
        "warps 4-7 wait for order, 128 of 128",
        "warps 8-11 wait for full[0], 1 of 1 arrivals missing: warp 0 would come",
        "so they wait for each other",
    ],
}


@cache
def result_of(name):
    return check_hang(path_of(name))


def mbarrier_waits(name):
    return [(ctas, one) for ctas in result_of(name).hang.ctas for one in ctas.waits if one.kind == "mbarrier"]


# ---------------------------------------------------------------- what the dump says


@pytest.mark.parametrize("name", WITH_MODEL)
def test_barriers_phases_and_what_is_missing_are_those_of_the_model(name):
    known = KNOWN[name]
    names = {address: barrier for barrier, address in known["addresses"].items()}
    waited = {(one["object"], one["op"]) for one in known["waits"].values() if one["op"].startswith("wait parity")}
    found = set()
    for ctas, one in mbarrier_waits(name):
        prefix = f"cta{ctas.rank}." if known["cluster"] > 1 else ""
        found.add((prefix + names[one.address], f"wait parity {one.parity}"))
        state = known["barriers"][prefix + names[one.address]]
        (barrier,) = [other for other in ctas.barriers if other.address == one.address]
        assert (barrier.phase, barrier.pending, barrier.bytes) == (one.parity, state["pending"], state.get("tx", 0))
        assert barrier.found == "waited for"
        arrivals = f"{barrier.pending} of {barrier.count} arrivals"
        parts = [arrivals] * bool(barrier.pending) + [f"{barrier.bytes} bytes"] * bool(barrier.bytes)
        assert one.missing == f"{' and '.join(parts)} missing"
    assert found == waited


@pytest.mark.parametrize("name", NAMES)
def test_every_cta_and_every_lane_is_told_once(name):
    core, state = core_of_name(name), result_of(name).hang
    assert sum(len(one.blocks) for one in state.ctas) == len(core.ctas)
    lanes = sum(one.lanes * len(ctas.blocks) for ctas in state.ctas for one in ctas.waits)
    assert lanes == sum(len(warp.lanes) for cta in core.ctas for warp in cta.warps)
    for ctas in state.ctas:
        there = {warp for one in ctas.waits for warp in one.warps}
        threads = next(grid.threads for grid in core.grids if grid.kernel == ctas.kernel)
        assert there.isdisjoint(ctas.ended) and there | set(ctas.ended) == set(range(threads // 32))


@pytest.mark.parametrize("name", [name for name in SOURCES_OF_OUR_OWN if KNOWN[name]["lines"]])
def test_lines_are_those_of_the_wait_and_of_its_callers(name):
    text = ptx_of(name)
    for _, one in mbarrier_waits(name):
        files = [(file.rpartition("/")[2], line) for file, line in one.places]
        assert files[0] == ("ptx.cuh", 107)
        assert files[-1][0] in ("pipelines.cu", "gemm.cu", "hang_places.cu")
        assert "mbarrier.try_wait" in text[one.ptx_line - 1]


def test_without_lines_the_rest_is_told():
    for _, one in mbarrier_waits("tma_async_producer_phase_without_lines"):
        assert (one.places, one.ptx_line) == ((), 0) and one.missing


def test_every_kind_of_wait():
    state = result_of("places").hang
    assert [one.blocks for one in state.ctas] == [((0, 0, 0), (2, 0, 0)), ((1, 0, 0), (3, 0, 0))]
    said = {(one.kind, one.warps, one.lanes, one.thing): one.missing for one in state.ctas[0].waits}
    assert said == {
        ("mbarrier", (0,), 8, "mbarrier 0x400"): "1 of 3 arrivals missing",
        ("mbarrier", (0,), 8, "mbarrier 0x408"): "1048575 of 1048575 arrivals missing",
        ("unknown", (0,), 8, ""): "for nothing that the dump says: running, asleep, or after copies",
        ("threads", (1,), 32, "barrier 5"): "32 of 96 threads are here",
        ("cluster", (3,), 32, "the barrier of the cluster"): "not all threads of the cluster have arrived",
        ("threads", (4,), 32, "__syncthreads"): "32 threads are here, warps 0-1, 3, 5-7 not",
        ("mbarrier", (5,), 32, "mbarrier 0x420"): "1 of 2 arrivals missing",
        ("mbarrier", (6,), 32, "mbarrier 0x410"): "1024 bytes missing",
        ("mbarrier", (7,), 32, "mbarrier 0x418"): "7 of 7 arrivals missing, 512 bytes too early",
    }


def test_lanes_that_wait_for_the_others_of_their_warp():
    (wait,) = [one for one in result_of("ws_release_own_2x1").hang.ctas[0].waits if one.kind == "lanes"]
    assert (wait.warps, wait.lanes) == ((0,), 31)


def test_words_beside_those_that_are_waited_for():
    """Where nobody names barriers: stages that lie next to each other, and nothing else."""
    (ctas,) = result_of("tma_async_producer_phase_without_lines").hang.ctas
    assert [(one.address, one.found) for one in ctas.barriers] == [
        (0x400, "waited for"),
        (0x408, "beside"),
        (0x480, "waited for"),
        (0x488, "beside"),
    ]


def test_a_wait_that_is_over(tmp_path):
    """The phase of full[0] has completed after all: its waiters can go on, and are no hang."""

    def over(kind, info, row, data):
        if kind == SectionKind.SHARED:
            word = decode(int.from_bytes(data[0x400:0x408], "little"))
            data = (
                data[:0x400]
                + encode(word._replace(phase=1, pending=1, tx_count=0)).to_bytes(8, "little")
                + data[0x408:]
            )
        return row, data

    path = tmp_path / "over.cudacore"
    path.write_bytes(rebuilt(raw("tma_async_producer_phase"), over))
    result = check_hang(str(path))
    (wait,) = [one for one in result.hang.ctas[0].waits if one.address == 0x400]
    assert wait.missing == "nothing: that phase is over, and they can go on"
    assert result.hang.chain[-1] == "warps 4-7 can go on: the phase of full[0] that they wait for is over"
    assert any(note.startswith(ELSEWHERE) and "full[0] of CTA (0, 0, 0)" in note for note in result.notes)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda kind, row, data: None if kind == SectionKind.SHARED else (row, data),
            "the dump does not have its bytes",
        ),
        (
            lambda kind, row, data: (row, bytes(len(data)) if kind == SectionKind.SHARED else data),
            "there is no mbarrier: it was not initialised, or overwritten",
        ),
        (
            lambda kind, row, data: None if kind == SectionKind.REGISTERS else (row, data),
            "which one is in a register that the dump lacks",
        ),
    ],
)
def test_what_a_dump_lacks_is_said(change, said, tmp_path):
    path = tmp_path / "less.cudacore"
    path.write_bytes(rebuilt(raw("tma_async_producer_phase"), lambda kind, info, row, data: change(kind, row, data)))
    result = check_hang(str(path))
    assert {one.missing for one in result.hang.ctas[0].waits if one.kind == "mbarrier"} == {said}
    assert OWN not in result.notes


def test_faults_come_first():
    result = result_of("exception")
    text = render(result)
    assert text.startswith("fault: multiprocessor 124: warp: illegal instruction at ptx.cuh:45 < hang_places.cu:56\n")
    assert FAULT in result.notes and OWN not in result.notes
    assert {finding.id for finding in result.findings} > {"deadlock", "phase-lapped"}


# ---------------------------------------------------------------- what the PTX says


@pytest.mark.parametrize("name", DECIDED)
def test_a_schedule_leads_exactly_here(name):
    """With the PTX that is in the dump, nothing else is asked for."""
    result = result_of(name)
    assert [(finding.id, finding.verdict) for finding in result.findings] == [("deadlock", VIOLATED)]
    assert OWN in result.notes and result.trace is not None and result.trace.steps
    waited = {one.thing.partition(" at ")[0] for _, one in mbarrier_waits(name) if " at " in one.thing}
    blocked = {one.waits_for.rpartition(".")[2] for one in result.trace.blocked if one.phase}
    assert waited == blocked


@pytest.mark.parametrize("name", OPEN)
def test_what_is_not_decided_says_why(name):
    result = result_of(name)
    (finding,) = result.findings
    assert finding.verdict == UNDETERMINED and OPEN[name] in finding.note
    assert OWN not in result.notes and NOT_ALONE not in result.notes


@pytest.mark.parametrize("name", CHAINS)
def test_from_wait_to_wait(name):
    chain = result_of(name).hang.chain
    assert len(chain) == len(CHAINS[name])
    for said, begins in zip(chain, CHAINS[name], strict=True):
        assert said.startswith(begins)


def test_who_brings_what_and_where_these_stand():
    (ctas,) = result_of("tma_async_expect_more").hang.ctas
    full, _, empty, _ = ctas.barriers
    assert (full.name, empty.name) == ("full[0]", "empty[0]")
    assert full.brings == (
        "warp 0 expects 4112 bytes in PTX line 406: to come behind the wait for empty[0]",
        "warp 0 copies 4096 bytes in PTX line 446: to come behind the wait for empty[0]",
    )
    assert empty.brings == ("warps 4-7 arrive in PTX line 287: to come behind the wait for full[0]",)
    (ctas,) = result_of("ws_no_tail_release").hang.ctas
    (empty,) = [one for one in ctas.barriers if one.found == "waited for"]
    assert empty.brings == ("warps 4-7 arrive in PTX line 488: ended",)


def test_ptx_of_a_dump_that_has_none(tmp_path):
    name = "tma_async_producer_phase_without_lines"
    result = check_hang(path_of(name), ptx=ptx_file(tmp_path, name))
    assert result.verdict == VIOLATED and OWN in result.notes


def test_a_kernel_that_cannot_hang_by_itself(tmp_path, capsys):
    """The same launch of the kernel without the mistake: bytes are missing that it does not lose."""
    name = "ws_expect_more"
    right = ptx_file(tmp_path, name, ("mov.u32 \t%r128, 16400;", "mov.u32 \t%r128, 16384;"))
    result = check_hang(path_of(name), ptx=right)
    assert [(finding.id, finding.verdict) for finding in result.findings] == [("deadlock", PROVED)]
    assert NOT_ALONE in result.notes and OWN not in result.notes
    assert result.hang.chain[-1].startswith("warps 4-7 wait for full[0], 16 bytes missing: 16384 bytes are expected in")
    (ctas,) = result.hang.ctas
    assert ctas.barriers[0].brings[0].endswith("gemm_mainloop.cuh:12): now at the wait for empty[0]")
    assert run("hang", path_of(name), "--ptx", right, capsys=capsys)[0] == 0


def test_a_kernel_that_hangs_elsewhere(tmp_path):
    other = ptx_file(tmp_path, "tma_async_producer_phase")
    result = check_hang(path_of("tma_async_expect_more"), ptx=other)
    (note,) = [note for note in result.notes if note.startswith(ELSEWHERE)]
    assert result.verdict == VIOLATED and OWN not in result.notes
    assert "full[0] of CTA (0, 0, 0): phase parity 0, 16 bytes missing in the dump, phase parity 0, 1 of 1" in note


@pytest.mark.parametrize(
    ("dump", "kernel", "said"),
    [
        ("pingpong_no_tail_release", "pingpong_no_release", "warps 0, 8-11 of CTA (0, 0, 0) wait for something else"),
        ("ws_no_tail_release", "ws_expect_more", "warps 4-7 of CTA (0, 0, 0): not ended in this run, and ended in the"),
        ("ws_expect_more", "ws_no_tail_release", "warps 4-7 of CTA (0, 0, 0): not ended in the dump, and ended in the"),
    ],
)
def test_warps_that_wait_or_have_ended_elsewhere(dump, kernel, said, tmp_path):
    result = check_hang(path_of(dump), ptx=ptx_file(tmp_path, kernel))
    (note,) = [note for note in result.notes if note.startswith(ELSEWHERE)]
    assert said in note


def test_of_several_grids_the_others_stay_open(tmp_path):
    """One of two grids is decided: that it cannot hang says nothing of the other."""
    note = "of this dump, grid 1 of places was not decided"
    assert note in result_of("two_grids").notes
    right = ptx_file(tmp_path, "two_grids", ("mov.u32 \t%r20, 1024;", "mov.u32 \t%r20, 0;"))
    result = check_hang(path_of("two_grids"), ptx=right)
    assert [(finding.verdict, finding.note) for finding in result.findings] == [(UNDETERMINED, note)]
