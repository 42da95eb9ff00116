"""Which line a report blames, what its table shows, which violation it leads with, and what formats make of it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from sm90_verify.cli.main import main
from sm90_verify.engines.check import check
from sm90_verify.python_file import load_classes
from sm90_verify.report.as_json import object_of, to_object, trace_object
from sm90_verify.report.formats import FORMATS
from sm90_verify.report.of_result import sections_of
from sm90_verify.report.sections import (
    Break,
    Column,
    Execution,
    JsonValues,
    Lines,
    Nested,
    Paragraph,
    ScheduleTable,
    Table,
    Tally,
)
from sm90_verify.report.text import render, text
from sm90_verify.result import (
    PROPERTIES,
    PROVED,
    SEVERITY,
    VIOLATED,
    Definition,
    Finding,
    Recovered,
    Result,
    Trace,
)

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


# ---------------------------------------------------------------- sections and formats


def kinds(reports) -> str:
    """A format as short as one can be."""
    return " ".join(type(section).__name__ for report in reports for section in report)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["pipeline", "--stages", "1"], "Findings Notes Verdict"),
        (["spec"], "Headline Excerpt ScheduleTable Stuck Execution Break Findings Notes Verdict"),
        (["claims", "43"], "Table Table Break Tally JsonValues"),
    ],
)
def test_a_format_is_one_function_of_the_reports(monkeypatch, tmp_path, capsys, arguments, told):
    path = tmp_path / "kernel.py"
    path.write_text(HEAD + STUCK)
    monkeypatch.setitem(FORMATS, "kinds", kinds)
    arguments = [*arguments, str(path)] if arguments == ["spec"] else arguments
    assert main([*arguments, "--format", "kinds"]) == (1 if "spec" in arguments else 0)
    assert capsys.readouterr().out == f"{told}\n"


def test_a_report_holds_the_whole_trace_and_json_reads_it_there(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text(HEAD + EARLY)
    (kernel,) = load_classes(str(path))
    result = check(kernel())
    report = sections_of(result)
    (execution,) = (section for section in report if isinstance(section, Execution))
    assert execution.trace is result.trace and execution.shortest is result.shortest is True
    assert object_of(report)["trace"] == trace_object(result.trace)
    (schedule,) = (section for section in report if isinstance(section, ScheduleTable))
    told = len(result.trace.steps) + len(result.trace.next)
    assert schedule.hidden and len(schedule.rows) + schedule.hidden == told
    (schedule,) = (section for section in sections_of(result, every_step=True) if isinstance(section, ScheduleTable))
    assert len(schedule.rows) == told and not schedule.hidden


def test_the_command_that_finds_a_trace_again():
    result = Result("m", "m", {}, "search", (Finding("race", VIOLATED, Trace("race", "so it is", ())),))
    assert "  trace: 0 steps     replay: verify replay trace.json (write it" in render(result)
    told = {again: text([sections_of(result, again=again)]) for again in ("", "verify spec x.py")}
    assert "again: verify spec x.py" in told["verify spec x.py"]
    assert "again" not in told[""] and not any("replay:" in one for one in told.values())


def test_a_violation_without_a_trace_is_told():
    result = Result("m", "m", {}, "search", (Finding("race", VIOLATED), Finding("deadlock", PROVED)))
    assert render(result).splitlines()[:2] == ["violated  race", "  proved   deadlock"]


def test_a_result_shows_the_parameters_that_it_names():
    result = Result("m", "ring", {"stages": 4, "depth": 2}, "search", (Finding("race", PROVED),), shown=("depth",))
    assert "verify: PROVED ring depth=2  0.00 s" in render(result)
    defined = replace(result, definition=Definition("ring.py", "Ring"), reduced=True, recovered=Recovered((), ()))
    written = to_object(defined)
    assert written["model"] == {
        "name": "ring",
        "parameters": {"stages": 4, "depth": 2},
        "file": "ring.py",
        "class": "Ring",
    }
    assert list(written)[-3:] == ["reduced", "table", "roles"]
    assert not {"reduced", "shortest", "table"} & set(to_object(result))


def test_tables_break_their_last_column_only():
    words = " ".join(["word"] * 30)
    table = Table((Column("name", 6), Column("n", 4, right=True), Column("what", gap=2)), (("a", "7", words),), 2)
    head, first, second = text([(table,)]).splitlines()
    assert head == "  name      n  what"
    assert first.startswith("  a         7  word word") and len(first) <= 100
    assert second.startswith(" " * 15 + "word")
    assert text([(Table((Column(width=3, right=True), Column()), (("1", "x"),)),)]) == "  1 x"


def test_what_people_read_and_scripts_do_not_and_the_other_way_round():
    tally = Tally("SETTLED", "2 claims", ("3 runs", "0.10 s"))
    report = (
        Paragraph("read me"),
        Break(),
        Nested((Lines(("kept whole",)),), 2),
        tally,
        JsonValues("claims", {"a": 1}),
    )
    assert text([report]).splitlines() == [
        "read me",
        "",
        "  kept whole",
        "verify: SETTLED 2 claims  3 runs  0.10 s",
    ]
    written = object_of(report)
    assert (written["command"], written["a"]) == ("claims", 1) and list(written)[:2] == ["schema", "tool"]
    with pytest.raises(ValueError, match="without its verdict"):
        object_of((tally,))
