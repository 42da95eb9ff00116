"""Shared decisions that are lost: what is proved whatever they were, what is left open, and what stays exact."""

from __future__ import annotations

import pytest
from corpus_table import CASES
from machines import machine_of
from random_choices import a_kernel, said

from sm90_verify.counterexample.replay import replay_trace
from sm90_verify.engines.check import check
from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.search.reached import LEADS, ORDINARY, READS, Steps, movers_later, movers_surely
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.decisions import choices_kept, iterations_kept
from sm90_verify.spec.model.machine import LIMIT
from sm90_verify.spec.ptx.expr import TRUE


class BothSkip(Pipeline):
    """Two roles skip tiles by the same decision, and nothing makes one wait for the other."""

    trips = "all"

    @role(warps=1, copies=2)
    def one(self):
        for _ in self.loop():
            yield self.choose("skip", True, False)


class TwoLoops(Pipeline):
    """Two roles that have nothing in common."""

    trips = "all"

    @role(warps=1)
    def one(self):
        for _ in self.loop(name="own"):
            yield self.choose("a", 1, 2)

    @role(warps=1)
    def other(self):
        for _ in self.loop():
            yield self.choose("b", 1, 2)


class Three(Pipeline):
    """Each of two choices is shared by two of three roles, the loop by all."""

    trips = "all"

    @role(warps=1)
    def first(self):
        for _ in self.loop():
            yield self.choose("a", 1, 2)

    @role(warps=1)
    def second(self):
        for _ in self.loop():
            yield self.choose("b", 1, 2)

    @role(warps=1)
    def third(self):
        for _ in self.loop():
            yield self.choose("a", 1, 2)
            yield self.choose("b", 1, 2)


class Ring(Pipeline):
    """What a slot holds is chosen; the producer is at most `stages` ahead."""

    trips = "all"
    stages = 2
    broken = False
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self, at):
        kind = yield self.choose("kind", "x", "y")
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(self.a.bytes)
        yield self.a[at].load(signals=self.full[at], tag=kind)

    @role(warps=4)
    def consumer(self, at):
        kind = yield self.choose("kind", "x", "y")
        yield self.full[at].wait(at.phase)
        yield self.a[at].read(tag="x" if self.broken else kind)
        yield self.empty[at].arrive()


class Late(Pipeline):
    """The consumer reads the first decision when the last slot of the ring is full."""

    stages = 8
    wrong = "none"
    full = barrier(arrivals=1)
    first = barrier(arrivals=1, slots=1)

    @role(warps=1)
    def producer(self):
        chosen = yield self.choose("kind", "x", "y")
        yield self.full[0].arrive()
        if chosen == "x":
            yield self.first.arrive()
        for slot in range(1, self.stages):
            yield self.choose("kind", "x", "y")
            yield self.full[slot].arrive()

    @role(warps=1)
    def consumer(self):
        yield self.full[self.stages - 1].wait(0)
        if (yield self.choose("kind", "x", "y")) != self.wrong[0]:
            return
        yield self.first.wait(0)


class Depends(Pipeline):
    """Whoever is far behind must know whether a tile has work: the producer may skip any number of tiles."""

    trips = "all"
    full = barrier(arrivals=1, slots=1)
    empty = barrier(arrivals=1, slots=1)

    @role(warps=1)
    def producer(self):
        at = PipelineState.start(1, producer=True)
        for _ in self.loop():
            if (yield self.choose("tile", "work", "none")) == "work":
                yield self.empty.wait(at.phase)
                yield self.full.arrive()
                at += 1

    @role(warps=1)
    def consumer(self):
        at = PipelineState.start(1)
        for _ in self.loop():
            if (yield self.choose("tile", "work", "none")) == "work":
                yield self.full.wait(at.phase)
                yield self.empty.arrive()
                at += 1


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_a_limit_of_a_step_always_holds(case):
    """Who looks for a proof follows the step: what a state may be like there is a limit of the state."""
    for pipeline in (case.broken, *case.fixed):
        for action in machine_of(pipeline).actions:
            assert all(check.when is TRUE for check in action.checks if check.property == LIMIT), action.name


@pytest.mark.parametrize(
    ("pipeline", "states"),
    [(BothSkip(), (3, 223)), (TwoLoops(), (6, 9)), (Three(), (11_312, 18_212))],
    ids=["skip", "two", "three"],
)
def test_what_no_decision_matters_to_is_proved_for_any_number(pipeline, states):
    for reduced, expected in zip((True, False), states, strict=True):
        result = check(pipeline, engine="search", reduced=reduced)
        assert (result.verdict, result.states, result.notes) == (PROVED, expected, ())
    assert check(pipeline).engine == "order"


def test_all_engines_prove_that_both_skip():
    assert check(BothSkip(), engine="search+order+smt").verdict == PROVED


def test_a_ring_bounds_how_far_anybody_is_ahead():
    for reduced, states in ((True, 995), (False, 5_911)):
        found = explore(machine_of(Ring()), reduced=reduced)
        assert (found.states, found.violations, found.open, found.beyond) == (states, {}, {}, "")
    machine = machine_of(Ring(broken=True))
    assert len(explore(machine).violations["stale-read"].actions) == 10


@pytest.mark.parametrize(("wrong", "verdict"), [("x", PROVED), ("y", VIOLATED)])
def test_the_eighth_decision_back_is_known_in_a_ring_of_eight(wrong, verdict):
    result = check(Late(wrong=wrong))
    assert result.verdict == verdict
    found = explore(machine_of(Late(wrong=wrong)))
    assert found.beyond == "" and bool(found.violations) == (verdict == VIOLATED)


@pytest.mark.parametrize("wrong", ["x", "y"])
def test_what_is_found_behind_a_lost_decision_is_open(wrong):
    """With four decisions remembered, nobody can tell the right one from the wrong one."""
    for reduced in (True, False):
        found = explore(compile_kernel(trace(Late(wrong=wrong, stages=5)), kept=4), reduced=reduced)
        assert not found.violations and list(found.open) == ["deadlock"]
    assert (
        "consumer can be more than 4 shared decisions behind another role (choices of 'kind')" in found.open["deadlock"]
    )


def test_a_role_that_depends_on_lost_decisions_is_undetermined_and_says_what_to_do(monkeypatch):
    assert check(Depends(trips=3)).verdict == PROVED
    monkeypatch.setattr("sm90_verify.spec.model.variables.choices_kept", lambda depth: 2)
    monkeypatch.setattr("sm90_verify.spec.model.variables.iterations_kept", lambda depth: 2)
    result = check(Depends(), engine="search")
    assert result.verdict == UNDETERMINED
    note = next(finding.note for finding in result.findings if finding.id == "deadlock")
    assert note.startswith("consumer can be more than 2 shared decisions behind another role (iterations of 'trips')")
    assert "trips=2 decides it" in note
    assert check(Depends(), engine="order").verdict == PROVED


def test_that_a_role_goes_on_for_ever_whatever_was_lost_is_proved():
    assert check(Depends(trips="forever")).verdict == PROVED


def test_violations_are_shown_without_lost_decisions():
    """Also where other schedules lose some."""

    class Stuck(BothSkip):
        done = barrier(arrivals=1, slots=1)

        @role(warps=1)
        def waits(self):
            yield self.done.wait(0)

    machine = machine_of(Stuck())
    violation = explore(machine).violations["deadlock"]
    assert violation.stuck == ("waits",) and not any(machine.actions[step].beyond for step in violation.actions)
    result = check(Stuck())
    shown = next(finding.trace for finding in result.findings if finding.id == "deadlock")
    assert result.verdict == VIOLATED and replay_trace(Stuck(), shown).verdict == VIOLATED


def test_how_many_decisions_are_kept():
    assert [choices_kept(depth) for depth in (1, 4, 5, 12, 100)] == [6, 6, 7, 14, 30]
    assert [iterations_kept(depth) for depth in (1, 2, 4)] == [14, 30, 30]


def steps(edges, kinds, movers):
    """By state the targets of its steps."""
    offsets = [sum(len(one) for one in edges[:state]) for state in range(len(edges) + 1)]
    return Steps(offsets, [target for one in edges for target in one], movers, (), (), kinds)


def test_who_goes_on_must_go_on_whichever_decision_was_lost():
    """From state 1 role 0 can step, from state 2 nobody."""
    read = READS + 1
    both = steps([[1, 2], [1], []], [read, read, ORDINARY], [2, 2, 1])
    assert movers_later(both, 3)[0] == 3 and movers_surely(both, 3)[0] == 2


def test_finitely_many_decisions_are_lost():
    """In state 0 role 1 reads one, and has caught up in state 1 or not yet: at last it has."""
    read = READS + 1
    again = steps([[0, 1], [1]], [read, read, ORDINARY], [2, 2, 1])
    assert movers_surely(again, 3) == [3, 1]
    leads = steps([[2], [1], [0, 1]], [LEADS, ORDINARY, read, read], [4, 1, 2, 2])
    assert movers_surely(leads, 7) == [6, 1, 2]


@pytest.mark.parametrize("first", range(0, 30, 10))
def test_how_much_is_remembered_never_turns_proved_into_violated(first):
    """Nor do a few iterations; of programs 0 to 799, 2000 to 2799, 4000 to 4199 and 5000 to 5199 none did."""
    for seed in range(first, first + 10):
        kernel = a_kernel(seed)
        if kernel is not None:
            verdicts = {said(kernel, 1, reduced=True)[0], said(kernel, None, reduced=False)[0]}
            few = a_kernel(seed, 2)
            if few is not None and PROVED in verdicts:
                verdicts.add(said(few, None, reduced=False)[0])
            assert not {PROVED, VIOLATED} <= verdicts, seed
