"""Logs that stop: of kernels that hang, who waits and whose arrival is missing; of others, that nothing is known."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hung_logs import hung
from log_edits import FOLDERS, LOGS, as_text, records_of, renumbered, text_of

from sm90_verify.cli.main import main
from sm90_verify.frontends.log.check import check_log, check_records
from sm90_verify.frontends.log.hung import at_the_end
from sm90_verify.frontends.log.synclog import Record
from sm90_verify.frontends.log.table import recover
from sm90_verify.report.text import render

EVERY_LOG = tuple(path.name.split(".")[0] for folder in FOLDERS for path in sorted(folder.glob("*.log.xz")))


def arrival(records: tuple[Record, ...], kind: str, number: int, address: int | None = None) -> int:
    """The place of an arrival that is executed, at that barrier if one is given."""
    found = [
        index
        for index, one in enumerate(records)
        if one.kind == kind and address in (None, one.values[0]) and (len(one.values) < 3 or one.values[2])
    ]
    return found[number]


RELEASE, EXPECT = "cluster_barrier_arrive_cluster", "cluster_transaction_barrier_arrive_and_expect_tx"


@pytest.mark.parametrize("log", LOGS)
def test_a_log_of_a_kernel_without_a_mistake_is_whole(log: str) -> None:
    """The simulation does all of it; so what it leaves out otherwise cannot happen."""
    assert len(hung(records_of(log), -1)) == len(records_of(log))


@pytest.mark.parametrize(
    ("log", "kind", "number", "lacks"),
    [
        ("ws", RELEASE, 9, "warp 0 waits for mainloop empty[2] phase 0"),
        ("ws", EXPECT, 3, "warp 4 waits for mainloop full[3] phase 0"),
        ("ws_void", EXPECT, 3, "warp 4 waits for mainloop full[3] phase 0"),
        ("coop", RELEASE, 9, "warp 0 waits for mainloop empty[1] phase 0"),
        ("pp", RELEASE, 9, "warp 4 waits for epilogue load full[1] phase 0"),
    ],
)
def test_a_kernel_that_hangs_is_a_deadlock(log: str, kind: str, number: int, lacks: str) -> None:
    records = records_of(log)
    dropped = arrival(records, kind, number)
    stopped = hung(records, dropped)
    assert len(stopped) < len(records)
    result = check_records(stopped, "hung.log")
    assert {finding.id for finding in result.findings if finding.verdict == "violated"} == {"deadlock"}
    assert result.trace is not None and lacks in result.trace.because
    waiting = {entry.role.split(" ")[1] for entry in result.trace.blocked}
    assert len(waiting) >= 5, "the warp that loads, and those that multiply"
    assert all(entry.line <= len(stopped) + 1 for entry in result.trace.blocked)
    assert "arrivals" in render(result)


def test_whose_arrival_is_missing() -> None:
    records = records_of("ws")
    dropped = arrival(records, RELEASE, 9)
    result = check_records(hung(records, dropped), "hung.log")
    assert result.trace is not None
    (entry,) = [one for one in result.trace.blocked if one.role.startswith("warp 0 ")]
    late = records[dropped].warp
    assert entry.missing == f"missing: 32 of 128 arrivals (warp {late} has arrived 0 times, the others 1)"


def test_the_text_may_be_cut_as_well(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Nobody can go on: it does not matter whether `synclog end` was printed."""
    records = records_of("ws")
    text = as_text(hung(records, arrival(records, RELEASE, 9)))
    path = tmp_path / "hung.log"
    path.write_text(text.removesuffix("synclog end\n"))
    assert main(["log", str(path)]) == 1
    assert "blocked  warp 0 (mainloop load" in capsys.readouterr().out
    assert main(["log", str(path), "--all-schedules"]) == 1
    path.write_text("\n".join(text.split("\n")[:200]) + "\nsynclog at 24")
    assert main(["log", str(path)]) == 3
    out = capsys.readouterr().out
    assert "may be under way" in out and "`synclog end`" in out


@pytest.mark.parametrize("log", EVERY_LOG)
def test_no_start_of_a_run_that_ended_is_a_deadlock(log: str) -> None:
    """Such a run went on from there."""
    records = records_of(log)
    for number in sorted(random.Random(log).sample(range(1, len(records) + 1), 30)):
        assert at_the_end(records[:number], recover(records[:number])).stuck == (), number


def test_a_log_that_was_cut_is_never_allowed(tmp_path: Path) -> None:
    lines = text_of("ws_void").split("\n")
    path = tmp_path / "cut.log"
    for number in (4, 60, 300, len(lines) - 2):
        path.write_text("\n".join(lines[:number]) + "\n")
        result = check_log(str(path))
        assert {finding.verdict for finding in result.findings} == {"undetermined"}


def test_warps_that_have_not_begun_may_still_go_on() -> None:
    """A whole warpgroup that has only come to the start may do what the others wait for."""
    records = records_of("ws")
    stopped = hung(records, arrival(records, RELEASE, 9))
    assert at_the_end(stopped, recover(stopped)).stuck
    idle = [replace(one, warp=warp) for warp in (8, 9, 10, 11) for one in stopped if one.warp == 1]
    more = renumbered([*idle, *stopped])
    assert at_the_end(more, recover(more)).stuck == ()
