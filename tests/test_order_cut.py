"""A violation of a large kernel: its run is stopped some events later, and executed on a Machine that is cut.

The kernels here are small ones that are taken for large.
"""

from __future__ import annotations

import pytest
from corpus.unobserved import LoadedByTheLeader
from corpus_table import CASES
from traced import traced

from sm90_verify.counterexample.trace import known_again, shows_again
from sm90_verify.engines.by_default import by_default
from sm90_verify.engines.engine import Answer, Question, Subject
from sm90_verify.engines.order import cut, order, progress, schedule
from sm90_verify.engines.order.engine import OrderEngine
from sm90_verify.engines.search.engine import SearchEngine
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.cut import Cut
from sm90_verify.spec.model.kernel import Kernel


class Rounds(Pipeline):
    """A ring of one stage, so many times round. early: the round in which the consumer gives the stage back before it
    has read it (-1: none); sem: of what gives it back.
    """

    rounds = 8
    early = -1
    late = -1
    sem = "release"
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self):
        for number in range(self.rounds):
            yield self.empty.wait(1 ^ number & 1)
            yield self.full.arrive_expect_tx(self.a.bytes)
            yield self.a.load(signals=self.full)

    @role(warps=1)
    def consumer(self):
        for number in range(self.rounds):
            yield self.full.wait(number & 1)
            if number == self.early:
                yield self.empty.arrive(sem=self.sem)
            yield self.a.read()
            if number not in (self.early, self.late):
                yield self.empty.arrive(sem=self.sem)


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cut, "LARGE", 0)
    monkeypatch.setattr(progress, "MORE_EVENTS", 4)


def answered(kernel: Kernel) -> Answer:
    return OrderEngine().answer(Question(Subject(kernel)))


def verdicts(answer: Answer) -> dict[str, str]:
    return {one.id: one.verdict for one in answer.findings}


def violated(answer: Answer) -> set[str]:
    return {one for one, verdict in verdicts(answer).items() if verdict == VIOLATED}


STRAIGHT = [
    case
    for case in CASES
    if all(
        node.successors == ({None: at + 1} if at + 1 < len(program.nodes) else {})
        for program in traced(case.broken).programs
        for at, node in enumerate(program.nodes)
    )
]


def test_many_cases_are_straight() -> None:
    assert len(STRAIGHT) > 40


@pytest.mark.parametrize("case", STRAIGHT, ids=lambda case: case.id)
def test_what_a_cut_machine_shows_the_whole_one_shows(case, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = traced(case.broken)
    before = answered(kernel)
    monkeypatch.setattr(cut, "LARGE", 0)
    monkeypatch.setattr(progress, "MORE_EVENTS", 4)
    now = answered(kernel)
    assert bool(violated(now)) == bool(violated(before))
    assert violated(now) <= violated(before)
    for one in now.findings:
        if one.verdict == PROVED:
            assert verdicts(before).get(one.id, PROVED) == PROVED
        if one.trace is not None:
            whole = compile_kernel(kernel)
            assert shows_again(whole, one.trace)
            assert known_again(whole, one.trace).because == one.trace.because


@pytest.mark.parametrize("fixed", [one for case in STRAIGHT for one in case.fixed], ids=lambda one: one.name)
def test_what_is_proved_stays_so(fixed: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel = traced(fixed)
    before = verdicts(answered(kernel))
    monkeypatch.setattr(cut, "LARGE", 0)
    monkeypatch.setattr(progress, "MORE_EVENTS", 4)
    assert verdicts(answered(kernel)) == before


def test_the_run_is_stopped_behind_the_first_violation(large: None) -> None:
    """The lost arrival in the last round is a deadlock, and lies behind what is looked at."""
    kernel = traced(Rounds(rounds=40, early=2, late=38))
    whole = order(kernel)
    assert (whole.verdict_on("race"), whole.verdict_on("deadlock"), whole.stopped) == (VIOLATED, VIOLATED, False)
    answer = answered(kernel)
    assert verdicts(answer)["race"] == VIOLATED
    assert verdicts(answer)["deadlock"] == UNDETERMINED
    note = next(one.note for one in answer.findings if one.id == "deadlock")
    assert note == "the run was stopped after the first violations"
    assert answer.events < whole.events / 4


def test_only_what_is_asked_stops_the_run(large: None) -> None:
    kernel = traced(Rounds(rounds=40, early=2, late=38))
    answer = OrderEngine().answer(Question(Subject(kernel), ("deadlock",)))
    assert verdicts(answer) == {"deadlock": VIOLATED}


def test_with_other_engines_the_whole_is_looked_at(large: None) -> None:
    kernel = traced(Rounds(rounds=12, early=2, late=10))
    answer = OrderEngine().answer(Question(Subject(kernel), together=True))
    assert {"race", "deadlock"} <= violated(answer)


def test_little_is_compiled(large: None) -> None:
    outcome = order(traced(Rounds(rounds=40, early=2)), stopping=("race",))
    first, *_ = cut.machines(outcome, Question(Subject(outcome.kernel)))
    whole = compile_kernel(outcome.kernel)
    assert len(first.actions) < len(whole.actions) / 4
    names = {action.name for action in first.actions}
    assert [action.name for action in first.actions] == [one.name for one in whole.actions if one.name in names]
    assert first.variables == whole.variables
    assert [len(one.locations) for one in first.roles] == [len(one.locations) for one in whole.roles]


def test_a_schedule_does_not_go_on_where_the_machine_is_cut(large: None) -> None:
    """It would seem to be stuck there."""
    outcome = order(traced(Rounds(rounds=4, late=1)))
    (failure,) = (one for one in outcome.failures if one.property == "deadlock")
    machine = compile_kernel(outcome.kernel, cut=Cut({"producer": 3, "consumer": 3}, frozenset()))
    assert outcome.plan is not None
    with pytest.raises(schedule.CutOff):
        schedule.show(machine, outcome.plan, failure)


def test_where_the_first_violations_are_none_the_rest_is_looked_at(
    large: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if no schedule showed the race."""
    show = schedule.show

    def blind(machine, plan, failure):  # type: ignore[no-untyped-def]
        return None if failure.property == "race" else show(machine, plan, failure)

    monkeypatch.setattr(schedule, "show", blind)
    answer = answered(traced(Rounds(rounds=40, early=2, late=38)))
    assert verdicts(answer)["deadlock"] == VIOLATED
    assert verdicts(answer)["race"] == UNDETERMINED


def test_what_is_only_noted_does_not_stop_the_run(large: None) -> None:
    kernel = trace(LoadedByTheLeader(trips=8))
    answer = answered(kernel)
    assert violated(answer) == {"unobserved-phase"}
    assert set(verdicts(answer).values()) == {VIOLATED, PROVED}
    assert order(kernel, stopping=["unobserved-phase"]).stopped


# ---------------------------------------------------------------- what search is not asked


@pytest.mark.parametrize(("bound", "asked"), [({}, False), ({"limit": 2_000}, True), ({"timeout": 2.0}, True)])
def test_a_relaxed_arrival_in_many_locations_is_searched_with_a_bound_only(
    bound: dict[str, float], asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """order cannot follow it, and search would not come to an end."""
    calls = []
    search = SearchEngine.answer

    def counted(self: SearchEngine, question: Question) -> Answer:
        calls.append(question)
        return search(self, question)

    monkeypatch.setattr(SearchEngine, "answer", counted)
    kernel = traced(Rounds(rounds=40, sem="relaxed"))
    answer = by_default(Question(Subject(kernel), **bound))  # type: ignore[arg-type]
    assert bool(calls) == asked
    if not asked:
        assert set(verdicts(answer).values()) == {UNDETERMINED}
        assert all("orders less" in one.note for one in answer.findings)
        assert "--limit" in answer.because


def test_a_relaxed_arrival_in_few_locations_is_searched() -> None:
    answer = by_default(Question(Subject(traced(Rounds(rounds=2, sem="relaxed")))))
    assert verdicts(answer)["race"] == VIOLATED
    answer = by_default(Question(Subject(traced(Rounds(rounds=2)))))
    assert verdicts(answer)["race"] == PROVED
