"""`verify log --all-schedules`: the ten logs are proved from what they show, and broken logs are not.

A violation counts only if it is there without anything that is inferred; what rests on that is undetermined.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import pytest
from log_edits import LOGS, path_of, records_of, renumbered
from short_logs import Entry, check, records_from

from sm90_verify.cli.main import main
from sm90_verify.decide.log import check_log_schedules, check_records_schedules, of_a_cluster
from sm90_verify.frontends.log.check import check_records, checked
from sm90_verify.frontends.log.clusters import cta_grid
from sm90_verify.frontends.log.kernel_of_log import reading_of
from sm90_verify.frontends.log.synclog import Record
from sm90_verify.frontends.log.table import BarrierTable, recover
from sm90_verify.frontends.log.unexplained import NotShown
from sm90_verify.result import Finding, Result, Trace
from sm90_verify.spec.ptx import operations as op

Pick = Callable[[Record, BarrierTable], bool]


def without(log: str, pick: Pick) -> tuple[Record, ...]:
    records = records_of(log)
    table = recover(records)
    return renumbered([one for one in records if not pick(one, table)])


def of_ring(name: str) -> Pick:
    return lambda one, table: (
        bool(one.values) and one.values[0] in table.ring and table.ring[one.values[0]].name == name
    )


def of_kind(kind: str) -> Pick:
    return lambda one, _: one.kind == kind


def verdicts(result: Result) -> dict[str, str]:
    return {finding.id: finding.verdict for finding in result.findings}


@pytest.mark.parametrize("log", LOGS)
def test_the_ten_logs_are_proved(log: str) -> None:
    result = check_log_schedules(path_of(log), table=True)
    assert set(verdicts(result).values()) == {"proved"}
    assert set(verdicts(result)) >= {"deadlock", "race", "phase-lapped", "arrival-count", "tx-count", "missing-fence"}
    assert result.scope == {"trips": "as logged", "schedules": "all"}
    assumed = [note for note in result.notes if note.startswith("assumed: ")]
    assert any("execute its wgmmas" in note for note in assumed) and any("a store reads" in note for note in assumed)
    assert any("the others do what block 0 does" in note for note in assumed) == log.endswith("2x1")
    assert result.table is not None and any("full" in ring.ring for ring in result.table.rings)


@pytest.mark.parametrize("log", ["ws_mixed", "coop_reuse_delay", "ws_fp8_s7"])
def test_other_kernels_are_proved(log: str) -> None:
    assert check_log_schedules(path_of(log)).verdict == "proved"


def test_one_run_is_allowed_and_not_proved(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", path_of("ws_void")]) == 0
    assert "verify: ALLOWED" in capsys.readouterr().out
    assert main(["log", path_of("ws_void"), "--all-schedules", "--format", "json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["verdict"] == "proved" and any(note.startswith("assumed: ") for note in said["notes"])


# ---------------------------------------------------------------- what only other schedules show


def test_a_barrier_that_nobody_waits_for_in_time_is_lapped_in_some_schedule() -> None:
    """What was recorded is right. But nothing keeps warp 1 from arriving twice before warp 0 has waited once."""
    start: list[Entry] = [
        (0, "cluster_barrier_init", (1024, 32)),
        (0, "fence_barrier_init", ()),
        (0, "syncthreads", ()),
        (1, "syncthreads", ()),
    ]
    turns: list[Entry] = [
        (1, "cluster_barrier_arrive", (1024,)),
        (0, "cluster_barrier_wait", (1024, 0)),
        (1, "cluster_barrier_arrive", (1024,)),
        (0, "cluster_barrier_wait", (1024, 1)),
    ]
    back: list[Entry] = [
        (0, "cluster_barrier_init", (1032, 32)),
        (0, "cluster_barrier_arrive", (1032,)),
        (1, "cluster_barrier_wait", (1032, 0)),
    ]
    assert check(start + turns).verdict == "allowed"
    result = check_records_schedules(records_from(start + turns), "short.log")
    assert verdicts(result)["phase-lapped"] == "violated" and verdicts(result)["arrival-count"] != "violated"
    assert result.trace is not None and result.trace.steps[-1].file == "short.log"
    held = [start[0], back[0], *start[1:], *turns[:2], *back[1:], *turns[2:]]
    assert verdicts(check_records_schedules(records_from(held), "short.log"))["phase-lapped"] == "proved"


def test_an_initialisation_that_is_not_fenced_is_seen() -> None:
    records = without("ws_void", of_kind("fence_barrier_init"))
    assert check_records(records, "edited.log").verdict == "allowed"
    assert verdicts(check_records_schedules(records, "edited.log"))["barrier-init"] == "violated"


def test_a_run_that_is_not_allowed_is_the_answer() -> None:
    records = list(records_of("ws"))
    del records[next(i for i, one in enumerate(records) if one.kind == "warpgroup_wait")]
    result = check_records_schedules(renumbered(records), "edited.log")
    assert result.verdict == "violated" and result.trace is not None
    assert result.trace.because == check_records(renumbered(records), "edited.log").trace.because
    assert any("no other schedule was looked at" in note for note in result.notes)


# ---------------------------------------------------------------- what an assumption decides is open


def opened(records: tuple[Record, ...]) -> dict[str, str]:
    result = check_records_schedules(records, "edited.log")
    assert result.verdict == "undetermined", result.trace
    return {finding.id: finding.note for finding in result.findings if finding.verdict == "undetermined"}


def test_stores_of_bytes_that_nobody_fences_are_open() -> None:
    found = opened(without("ws_void", of_kind("fence_view_async_shared")))
    assert set(found) == {"missing-fence"} and "what the log does not show" in found["missing-fence"]


def test_a_start_without_a_barrier_is_open() -> None:
    found = opened(without("ws_void", of_kind("syncthreads")))
    assert set(found) == {"barrier-init"} and "initialisation" in found["barrier-init"]


def test_stores_that_no_barrier_is_in_front_of_are_open() -> None:
    found = opened(without("ws_c22", lambda one, _: one.kind.startswith("named_barrier")))
    assert set(found) == {"race"} and "no bar.sync" in found["race"]


def test_a_fence_that_nobody_needs_leaves_accesses_open() -> None:
    """It is there for something that the log does not show, as where operands are transposed in place."""
    assert check_log_schedules(path_of("ws_tf32")).verdict == "undetermined"
    records = list(records_of("ws_void"))
    index = next(i for i, one in enumerate(records) if one.kind == "warpgroup_arrive")
    records.insert(index, replace(records[index], kind="fence_view_async_shared"))
    assert set(opened(renumbered(records))) == {"race"}


def test_what_ctas_that_do_not_log_decide_is_open() -> None:
    """Broken in block 0, it is broken in all; but that the others do the same is assumed."""
    trace = Trace("exit-hazard", "cta1 is signalled after its end", ())
    one = of_a_cluster(Finding("exit-hazard", "violated", trace))
    assert (one.verdict, one.trace) == ("undetermined", None)
    assert one.note == f"it is violated if the CTAs that do not log do what block 0 does: {trace.because}"
    assert of_a_cluster(Finding("race", "proved")) == Finding("race", "proved")


def test_copies_that_are_not_logged_are_open() -> None:
    result = check_log_schedules(path_of("ws_cpasync"))
    assert set(verdicts(result).values()) == {"undetermined"}
    assert "cp.async" in result.findings[0].note


# ---------------------------------------------------------------- the parts


def test_multicast_loads_are_sliced_among_the_ctas() -> None:
    records = records_of("coop_c22")
    grid = cta_grid(records, recover(records))
    assert (grid.width, grid.height, sorted(grid.along.values())) == (2, 2, ["x", "y"])
    first, second = sorted(grid.along, key=grid.along.__getitem__)
    assert (grid.filled(first, 3), grid.filled(second, 3), grid.filled(-1, 3)) == ((2, 3), (1, 3), (3,))
    assert grid.released(0) == (1, 2) and cta_grid(records_of("ws"), recover(records_of("ws"))).size == 1


def test_a_load_of_another_header_line_is_not_guessed() -> None:
    records = [replace(one, source_line=999) if one.kind == "tma_load" else one for one in records_of("ws_2x1")]
    with pytest.raises(NotShown, match="multicast"):
        cta_grid(records, recover(records))


def test_every_byte_that_is_expected_is_loaded() -> None:
    """By all CTAs of the cluster together, at places that lie side by side."""
    for log in ("coop_c22", "ws_2x1", "ws"):
        kernel = reading_of(checked(records_of(log), log)[1], log).kernel(certain=False)
        loaded: dict[str, int] = {}
        expected: dict[str, int] = {}
        for program in kernel.programs:
            for node in program.nodes:
                if isinstance(node.operation, op.Load):
                    for _, barrier in node.operation.destinations:
                        loaded[barrier] = loaded.get(barrier, 0) + node.operation.bytes
                if isinstance(node.operation, op.Arrive) and node.operation.expect:
                    name = node.operation.barrier
                    expected[name] = expected.get(name, 0) + node.operation.expect
                if isinstance(node.operation, op.Transaction):
                    name = node.operation.barrier
                    expected[name] = expected.get(name, 0) + node.operation.bytes
        assert loaded == expected and len(loaded) > 6


def test_lanes_in_step_and_logged_accesses_alone_are_proved_too() -> None:
    """What is asked where something is violated must not be violated by itself."""
    reading = reading_of(checked(records_of("ws_2x1"), "x")[1], "x")
    kinds = [type(node.operation).__name__ for one in reading.kernel(certain=True).programs for node in one.nodes]
    assert kinds.count("WarpSync") > 100
    touches = [
        node.operation.kind
        for one in reading.kernel(certain=True).programs
        for node in one.nodes
        if isinstance(node.operation, op.Touch)
    ]
    assert set(touches) == {"mma"}


# ---------------------------------------------------------------- the command


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("nowhere.log", "--all-schedules"), "nowhere.log: No such file or directory"),
        ((path_of("ws"), "--table"), "--table means nothing without --all-schedules"),
        ((path_of("ws"), "--memory", "2"), "--memory means nothing without --all-schedules"),
        ((path_of("ws"), "--engine", "search"), "--engine means nothing without --all-schedules"),
        ((path_of("ws"), "--all-schedules", "--property", "nonsense"), "unknown property 'nonsense'"),
        ((path_of("ws"), "--all-schedules", "--against", "gemm"), "give one of them"),
    ],
)
def test_mistakes_are_told_in_a_line(words: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", *words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and said in err


def test_bounds_hold(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", path_of("coop"), "--all-schedules", "--timeout", "0.05"]) == 3
    assert "UNDETERMINED" in capsys.readouterr().out
    assert main(["log", path_of("ws_void"), "--all-schedules", "--engine", "search", "--limit", "50"]) == 3
