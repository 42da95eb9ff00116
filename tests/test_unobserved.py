"""An arrival in a phase that follows one nobody has seen: a note, and a violation of a strict pipeline."""

from __future__ import annotations

import json
import linecache
from pathlib import Path

import pytest
from corpus.unobserved import HandsOnBeforeItLooks, LoadedByTheLeader
from corpus_table import NOTED
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs import ALONE, OPERATIONS, programs_of, soup
from rings import Filled

from sm90_verify import Pipeline, barrier, check, render, role
from sm90_verify.cli.main import main
from sm90_verify.engines.engine import Answer, Question, Subject, apart
from sm90_verify.engines.noted import set_aside
from sm90_verify.engines.search.engine import SearchEngine
from sm90_verify.engines.search.explore import explore
from sm90_verify.report.as_json import to_object
from sm90_verify.report.text import WIDTH
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED, Finding
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.properties import NOTED as ONLY_NOTED

UNOBSERVED = "unobserved-phase"
PIPELINES = [pytest.param(*row, id=f"{row[0].name} {row[0].trips}") for row in NOTED]
SMALL = [pytest.param(*row, id=f"{row[0].name} {row[0].trips}") for row in NOTED if row[0].cluster == "1x1"]
CORPUS = Path(__file__).parent / "corpus" / "unobserved.py"


def strict(pipeline: Pipeline) -> Pipeline:
    return type(pipeline)(**{**pipeline.parameters(), "strict": True})


def assert_noted(result, text):
    assert result.verdict == PROVED
    assert UNOBSERVED not in {finding.id for finding in result.findings} and result.trace is None
    (note,) = result.noted
    assert note.property == UNOBSERVED and "9.7.13.15.4" in note.because
    assert text in linecache.getline(note.file, note.line)


def assert_violated(result, text):
    assert result.noted == () and result.trace is not None
    assert {finding.id: finding.verdict for finding in result.findings}[UNOBSERVED] == VIOLATED
    (found,) = (finding for finding in result.findings if finding.id == UNOBSERVED)
    assert text in linecache.getline(found.trace.steps[-1].file, found.trace.steps[-1].line)


# ---------------------------------------------------------------- every engine


@pytest.mark.parametrize("reduced", [True, False])
@pytest.mark.parametrize(("pipeline", "text"), PIPELINES)
def test_search_notes_it_and_proves_the_rest(pipeline, text, reduced):
    assert_noted(check(pipeline, reduced=reduced), text)
    if pipeline.name != "MulticastByTheLeader":
        assert_violated(check(strict(pipeline), reduced=reduced), text)


@pytest.mark.parametrize(("pipeline", "text"), PIPELINES)
def test_order_notes_it_and_proves_the_rest_unless_arrivals_can_change_places(pipeline, text):
    result = check(pipeline, engine="order")
    if pipeline.name == "RendezvousOfAll":  # either arrival of a CTA may be the first in a phase
        assert result.verdict == UNDETERMINED and [note.property for note in result.noted] == [UNOBSERVED]
    else:
        assert_noted(result, text)
        assert_noted(check(pipeline, engine="search+order"), text)
    assert_violated(check(strict(pipeline), engine="order"), text)


@pytest.mark.parametrize(("pipeline", "text"), SMALL)
def test_smt_notes_it_and_proves_the_rest(pipeline, text):
    """One with loops without end is not proved in any time that was tried, and noted early."""
    result = check(pipeline, engine="smt", timeout=60 if pipeline.trips == 2 else 2)
    assert [note.property for note in result.noted] == [UNOBSERVED]
    assert VIOLATED not in {finding.verdict for finding in result.findings}
    if pipeline.trips == 2:
        assert_noted(result, text)
    assert_violated(check(strict(pipeline), engine="smt", timeout=30), text)


def test_a_wait_that_can_be_lapped_stays_a_violation():
    lapped = HandsOnBeforeItLooks(counted=False, trips=2)
    for words in ("search", "order", "smt"):
        result = check(lapped, engine=words)
        assert {finding.id: finding.verdict for finding in result.findings}["phase-lapped"] == VIOLATED
        assert [note.property for note in result.noted] == [UNOBSERVED]


# ---------------------------------------------------------------- the reduction does not rely on it


@settings(max_examples=50, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs_of(OPERATIONS, st.integers(2, 3)), st.fixed_dictionaries(ALONE))
def test_on_random_programs_search_says_what_all_schedules_without_the_rule_say(programs, parameters):
    try:
        kernel = trace(soup(programs, **parameters))
        found = explore(compile_kernel(kernel.allowing()), limit=4_000)
        seen = explore(compile_kernel(kernel), limit=4_000)
    except SpecError:
        return
    if found.complete and set(found.violations) <= {"limit"} and not found.halted:
        result = check(kernel, limit=8_000)
        assert result.verdict == PROVED if "limit" not in found.violations else result.verdict != VIOLATED
        assert [note.property for note in result.noted] == [one for one in seen.violations if one in ONLY_NOTED]
    elif found.violations and set(found.violations) != {"limit"}:
        assert check(kernel, limit=8_000).verdict == VIOLATED


class LapsBehindAnother(Pipeline):
    """What is wrong comes after an arrival that is noted: the search must go on behind it."""

    p = barrier(arrivals=1)
    go = barrier(arrivals=1)

    @role(warps=1)
    def writer(self):
        yield self.p.arrive()
        yield self.p.arrive()
        yield self.go.wait(0)

    @role(warps=1)
    def reader(self):
        yield self.p.wait(0)


def test_what_else_is_wrong_is_found_behind_it():
    for words in ("search", "order"):
        result = check(LapsBehindAnother(), engine=words)
        assert result.verdict == VIOLATED and [note.property for note in result.noted] == [UNOBSERVED]
        assert {one.id for one in result.findings if one.verdict == VIOLATED} & {"deadlock", "phase-lapped"}


def test_only_the_array_on_which_it_happens_is_no_longer_relied_on():
    """The other barriers are still `plain`, so that few more states are visited."""
    subject = Subject(trace(LoadedByTheLeader()))
    action = next(one for one in subject.machine.actions if one.role == "cta0.consumer" and "cta1.empty" in one.object)
    one = subject.allowing(subject.signalled_like(action))
    plain = {info.name for info in one.machine.structure.barriers if info.plain}
    assert "cta1.empty" not in plain and {"cta0.empty", "cta0.full", "cta1.full"} <= plain
    assert not any(info.plain for info in subject.lenient.machine.structure.barriers)
    few = SearchEngine().answer(Question(subject)).states
    assert few < explore(subject.lenient.machine, reduced=True).states


def test_the_rest_is_asked_again_without_it():
    """An engine's answer on other properties does not rest on what is only noted."""
    asked = []

    def answer(question):
        asked.append(question)
        again = len(asked) > 1
        findings = (Finding("race", PROVED if again else UNDETERMINED), Finding(UNOBSERVED, VIOLATED))
        return Answer("x", findings[: 1 if again else 2], events=len(asked))

    kernel = trace(HandsOnBeforeItLooks())
    found = apart(Question(Subject(kernel)), answer)
    assert [(one.id, one.verdict) for one in found.findings] == [("race", PROVED), (UNOBSERVED, VIOLATED)]
    assert asked[1].properties == ("race",) and UNOBSERVED not in asked[1].subject.machine.properties
    asked.clear()
    assert apart(Question(Subject(trace(HandsOnBeforeItLooks(strict=True)))), answer).events == 1


# ---------------------------------------------------------------- what the answer is


def test_asked_alone_it_is_neither_proved_nor_violated():
    with pytest.raises(SpecError, match="all that was asked, and no more than a note unless") as error:
        check(HandsOnBeforeItLooks(), properties=(UNOBSERVED,))
    assert error.value.where is not None and "done[at].arrive()" in linecache.getline(*_place(error.value))
    both = check(HandsOnBeforeItLooks(), properties=(UNOBSERVED, "race", "deadlock"))
    assert both.verdict == PROVED and [one.id for one in both.findings] == ["deadlock"] and len(both.noted) == 1
    assert check(HandsOnBeforeItLooks(), properties=("deadlock",)).noted == ()
    assert check(HandsOnBeforeItLooks(looks=True), properties=(UNOBSERVED,)).verdict == PROVED
    assert check(HandsOnBeforeItLooks(strict=True), properties=(UNOBSERVED,)).verdict == VIOLATED


def _place(error):
    return error.where.file, error.where.line


def test_where_it_is_open_and_nothing_else_is():
    subject = Subject(trace(HandsOnBeforeItLooks()))
    unsure, sure = Finding(UNOBSERVED, UNDETERMINED, note="no time"), Finding("race", PROVED)
    found = set_aside(subject, (sure, unsure))
    assert found.findings == (sure,) and found.noted == () and "no time" in found.sentences[0]
    both = (Finding("race", UNDETERMINED, note="no time"), unsure)
    assert set_aside(subject, both).findings == both
    assert set_aside(subject, (unsure,)).findings == (unsure,)
    assert set_aside(Subject(trace(HandsOnBeforeItLooks(strict=True))), (sure, unsure)).findings == (sure, unsure)


def test_the_report_of_a_note():
    result = check(HandsOnBeforeItLooks())
    lines = render(result).splitlines()
    start = next(number for number, line in enumerate(lines) if line.startswith("note["))
    assert lines[start].startswith(f"note[{UNOBSERVED}] ") and len(lines) - 1 - start <= 5
    assert all(len(line) <= WIDTH for line in lines)
    assert "strict=true" in " ".join(lines[start:]) and lines[-1].startswith("verify: PROVED HandsOnBeforeItLooks")
    written = to_object(result)
    (note,) = written["noted"]
    assert sorted(note) == ["because", "file", "line", "property", "role", "rule"]
    assert (note["property"], note["file"], note["line"]) == (UNOBSERVED, str(CORPUS), result.noted[0].line)
    assert UNOBSERVED not in {one["id"] for one in written["properties"]} and written["trace"] is None
    assert to_object(check(Filled()))["noted"] == []


def test_the_command(capsys):
    ask = ["spec", f"{CORPUS}:HandsOnBeforeItLooks"]
    assert main(ask) == 0
    assert f"note[{UNOBSERVED}]" in capsys.readouterr().out
    assert main([*ask, "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["noted"][0]["property"] == UNOBSERVED
    assert main([*ask, "--set", "strict=true"]) == 1
    assert f"error[{UNOBSERVED}]" in capsys.readouterr().out
    assert main([*ask, "--property", UNOBSERVED]) == 2
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and "--set strict=true" in said.err


# ---------------------------------------------------------------- the parameter that is gone


def test_a_class_or_a_keyword_that_still_sets_observation_gets_one_line():
    class Sets(HandsOnBeforeItLooks):
        observation = False

    for make in (Sets, lambda: HandsOnBeforeItLooks(observation=False)):
        with pytest.raises(SpecError, match="there is no 'observation' any more: an arrival in a phase") as error:
            make()
        assert error.value.where.file == __file__ and "observation" in linecache.getline(*_place(error.value))


def test_a_class_may_call_something_else_observation():
    class Counts(HandsOnBeforeItLooks):
        observation = 3

    assert Counts(observation=2).parameters()["observation"] == 2


def test_what_is_possible_besides_is_said_by_the_machine():
    """Order asks again about the kernel in which it is allowed, and answers for all that it was asked at first."""

    class Twice(Pipeline):
        b = barrier(arrivals=1)

        @role(warps=1)
        def arrives(self):
            yield self.b.arrive()
            yield self.b.arrive()
            yield self.cta_sync()

        @role(warps=1)
        def waits(self):
            yield self.cta_sync()
            yield self.b.wait((PipelineState.start(1) + 1).phase)

    assert_noted(check(Twice(), engine="order"), "b")
    (finding,) = check(Twice(), engine="order", properties=("named-barrier",)).findings
    assert (finding.id, finding.verdict) == ("named-barrier", PROVED)
