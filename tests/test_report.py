"""Which line a report blames, what its table shows, and which violation it leads with."""

from __future__ import annotations

import json

import pytest

from sm90_verify.cli.main import main
from sm90_verify.result import PROPERTIES, SEVERITY

HEAD = "from sm90_verify import Pipeline, barrier, role, tile\n"

STUCK = """class Stuck(Pipeline):
    trips = 1
    go = barrier(arrivals=1)
    never = barrier(arrivals=1)

    @role(warps=1)
    def first(self, at):
        yield self.go.arrive()

    @role(warps=1)
    def second(self, at):
        yield self.go.wait(0)
        yield self.never.wait(0)
"""
STUCK_AT_ONCE = """class Stuck(Pipeline):
    never = barrier(arrivals=1)

    @role(warps=1)
    def first(self):
        yield self.never.wait(0)
"""
WRONG_STAGE = """class WaitsOnTheWrongStage(Pipeline):
    full = barrier(arrivals=1, slots=2)
    a = tile(bytes=1024, slots=2)

    @role(warps=1)
    def producer(self):
        for s in range(2):
            yield self.full[s].arrive_expect_tx(self.a.bytes)
            yield self.a[s].load(signals=self.full[s], tag=s)

    @role(warps=1)
    def consumer(self):
        yield self.full[0].wait(0)
        yield self.a[1].read(tag=1)
"""
EARLY = """class ReleasesBeforeItReads(Pipeline):
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(self.a.bytes)
        yield self.a[at].load(signals=self.full[at])

    @role(warps=4)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.empty[at].arrive()
        yield self.a[at].read()
"""


def report(tmp_path, capsys, text: str) -> str:
    path = tmp_path / "kernel.py"
    path.write_text(HEAD + text)
    assert main(["spec", str(path)]) == 1
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("kernel", "headline", "marked"),
    [
        (STUCK, "error[deadlock]: second can never run again", "yield self.never.wait(0)"),
        (STUCK_AT_ONCE, "error[deadlock]: first can never run again", "yield self.never.wait(0)"),
        (WRONG_STAGE, "error[race]", "yield self.full[0].wait(0)"),
        (EARLY, "error[race]", "yield self.empty[at].arrive()"),
    ],
    ids=["stuck", "stuck at once", "wrong stage", "early release"],
)
def test_the_guilty_line_is_marked(tmp_path, capsys, kernel, headline, marked):
    out = report(tmp_path, capsys, kernel)
    assert out.startswith(headline)
    (line,) = (line for line in out.splitlines() if line.startswith(">"))
    assert marked in line


def test_the_table_shows_the_wait_and_the_access_that_is_about_to_happen(tmp_path, capsys):
    out = report(tmp_path, capsys, WRONG_STAGE)
    assert "wait parity 0 full[0]" in out
    assert "x next   15                                 read k=1 a[1]" in out


def test_no_sentence_stands_twice(tmp_path, capsys):
    out = report(tmp_path, capsys, STUCK)
    assert out.count("second waits for never phase parity 0, line 14") == 1 and "because" not in out


def test_blocked_roles_have_a_line(tmp_path, capsys):
    path = tmp_path / "kernel.py"
    path.write_text(HEAD + STUCK)
    assert main(["spec", str(path), "--property", "deadlock", "--format", "json"]) == 1
    (blocked,) = json.loads(capsys.readouterr().out)["trace"]["blocked"]
    assert (blocked["role"], blocked["file"], blocked["line"], blocked["to_blame"]) == ("second", str(path), 14, True)


def test_the_most_severe_violation_leads():
    assert sorted(SEVERITY) == sorted(PROPERTIES)
    assert SEVERITY[:4] == ("race", "stale-read", "deadlock", "missing-fence") and SEVERITY[-1] == "unobserved-phase"
