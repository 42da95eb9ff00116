"""Schedules that are executed by looking only at what can have changed are those found by looking at everything."""

from __future__ import annotations

import pytest
from corpus_table import CASES
from machines import kernel_of, machine_of

from sm90_verify.counterexample.trace import execute, make_trace
from sm90_verify.counterexample.watched import StandingChecks
from sm90_verify.engines.by_default import by_default
from sm90_verify.engines.effort import Effort
from sm90_verify.engines.engine import Answer, Question, Subject
from sm90_verify.engines.order import order
from sm90_verify.engines.order.engine import OrderEngine
from sm90_verify.engines.order.schedule import confirm
from sm90_verify.engines.search.engine import SearchEngine
from sm90_verify.engines.shorten import shortened
from sm90_verify.engines.violation import Violation
from sm90_verify.result import UNDETERMINED, VIOLATED, Finding
from sm90_verify.spec.language.pipeline import Pipeline

BROKEN = [pytest.param(case.broken, id=case.id) for case in CASES]


def shown(pipeline: Pipeline) -> dict[str, Violation]:
    return confirm(order(kernel_of(pipeline)), machine_of(pipeline))


def always_look(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(StandingChecks, "holds", lambda *_: True)


def look_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    original = StandingChecks.holds
    monkeypatch.setattr(StandingChecks, "holds", lambda self, state, changed, known=None: original(self, state, None))


@pytest.mark.parametrize("pipeline", BROKEN)
def test_the_same_violations_by_the_same_schedules(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    machine, quick = machine_of(pipeline), shown(pipeline)
    shorter = {name: shortened(machine, one, Effort()) for name, one in quick.items()}
    traces = [make_trace(machine, one.property, one.because, one.actions, one.stuck) for one in quick.values()]
    look_afresh(monkeypatch)
    assert {name: shortened(machine, one, Effort()) for name, one in quick.items()} == shorter
    always_look(monkeypatch)
    assert shown(pipeline) == quick
    for one, trace in zip(quick.values(), traces, strict=True):
        assert make_trace(machine, one.property, one.because, one.actions, one.stuck) == trace
        whole, last = execute(machine, one.actions), execute(machine, one.actions, every=False)
        assert (whole.last, whole.violated) == (last.last, last.violated)
        assert [(step.action, step.before) for step in whole.steps] == [
            (step.action, step.before) for step in last.steps
        ]
        assert whole.steps[-1:] == last.steps[-1:]


def test_the_comparison_is_of_many_violations() -> None:
    found = [one for case in CASES for one in shown(case.broken).values()]
    assert len(found) > 100
    assert {bool(one.stuck) for one in found} == {one.by_step for one in found} == {True, False}


# ---------------------------------------------------------------- what is only noted, in a large machine


def asked_of_search(monkeypatch: pytest.MonkeyPatch, most: int, verdict: str) -> Effort:
    """What search may spend on what order leaves open, where order says that about unobserved-phase."""
    asked: list[Question] = []
    findings = (Finding("unobserved-phase", verdict, note="?"), Finding("race", UNDETERMINED, note="?"))
    monkeypatch.setattr("sm90_verify.engines.by_default.MOST_ACTIONS", most)
    monkeypatch.setattr(OrderEngine, "answer", lambda self, question: Answer("order", findings))
    monkeypatch.setattr(
        SearchEngine, "answer", lambda self, question: asked.append(question) or Answer("search", findings)
    )
    by_default(Question(Subject(kernel_of(CASES[0].broken))))
    return asked[0].effort


def test_what_stays_open_of_a_large_machine_is_searched_briefly(monkeypatch: pytest.MonkeyPatch) -> None:
    brief = asked_of_search(monkeypatch, 0, VIOLATED)
    assert 0 < brief.timeout <= 5 and "what order leaves open" in brief.purpose
    assert asked_of_search(monkeypatch, 3_000, VIOLATED).timeout == 0
    assert asked_of_search(monkeypatch, 0, UNDETERMINED).timeout == 0
