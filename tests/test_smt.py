"""Z3 against breadth-first search: same verdicts, same shortest lengths; and proofs that fail when they should."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, assume, example, given, settings
from hypothesis import strategies as st

from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.smt import houdini
from sm90_verify.engines.smt.bounded import NotASchedule, Unrolling, bounded, deepen
from sm90_verify.engines.smt.houdini import UNLIKE, strengthen
from sm90_verify.engines.smt.induction import prove
from sm90_verify.engines.smt.invariants import candidates
from sm90_verify.engines.smt.read_z3 import number_in, z3_module
from sm90_verify.engines.smt.tables import Candidate
from sm90_verify.engines.smt.unroll import initial_state, relation, take
from sm90_verify.engines.smt.walk import walk
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import Body, barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.machine import Machine
from sm90_verify.spec.ptx.expr import Field, evaluate

PIPELINES = kernels("pipeline")

WITH_CONSUMERS = tuple(name for name, kernel in PIPELINES.items() if "consumers" in kernel.parameter_names())


class Ring(Pipeline):
    """A producer and a consumer around a ring of stages, with one thing to get wrong at each step."""

    stages = 1
    full_arrivals = 1
    empty_arrivals = 1
    copied = True
    announced = 16
    producer_waits = True
    producer_parity = 0
    consumer_waits = True
    consumer_parity = 0
    releases = 1
    early_release = False
    tail = True

    full = barrier(arrivals="full_arrivals")
    empty = barrier(arrivals="empty_arrivals")
    a = tile(bytes=16)

    @role(warps=1)
    def producer(self) -> Body:
        at = PipelineState.start(self.stages, producer=True)
        for _ in self.loop():
            if self.producer_waits:
                yield self.empty[at].wait(at.phase ^ self.producer_parity)
            if self.copied:
                yield self.full[at].arrive_expect_tx(self.announced)
                yield self.a[at].load(signals=self.full[at], tag=at.tag)
            else:
                yield self.a[at].write(tag=at.tag)
                yield self.full[at].arrive()
            at = at + 1
        if self.tail:
            for _ in range(self.stages):
                yield self.empty[at].wait(at.phase)
                at = at + 1

    @role(warps=4)
    def consumer(self) -> Body:
        at = PipelineState.start(self.stages)
        for _ in self.loop():
            if self.consumer_waits:
                yield self.full[at].wait(at.phase ^ self.consumer_parity)
            if self.early_release:
                yield self.empty[at].arrive(self.releases)
            yield self.a[at].read(tag=at.tag)
            if not self.early_release and self.releases:
                yield self.empty[at].arrive(self.releases)
            at = at + 1


rings = st.fixed_dictionaries(
    {
        "stages": st.integers(1, 2),
        "trips": st.sampled_from(("all", "all", "forever", 1, 2, 3)),
        "full_arrivals": st.sampled_from((1, 1, 1, 2)),
        "empty_arrivals": st.sampled_from((1, 1, 1, 2)),
        "copied": st.booleans(),
        "announced": st.sampled_from((16, 16, 16, 32)),
        "producer_waits": st.sampled_from((True, True, True, False)),
        "producer_parity": st.sampled_from((0, 0, 0, 1)),
        "consumer_waits": st.sampled_from((True, True, True, False)),
        "consumer_parity": st.sampled_from((0, 0, 0, 1)),
        "releases": st.sampled_from((1, 1, 1, 0, 2)),
        "early_release": st.sampled_from((False, False, True)),
        "tail": st.booleans(),
    }
)


def lengths(machine: Machine) -> dict[str, int]:
    """The shortest length by property; without a deadlock of one role while others go on, which no state shows."""
    found = {name: violation.actions for name, violation in explore(machine).violations.items()}
    if "deadlock" in found:
        last = replayed(machine, found["deadlock"])[-1]
        if any(take(machine, last, index) is not None for index in range(len(machine.actions))):
            del found["deadlock"]
    return {name: len(actions) for name, actions in found.items()}


def replayed(machine: Machine, actions: tuple[int, ...]) -> list[dict[str, int]]:
    states = [initial_state(machine)]
    for index in actions:
        after = take(machine, states[-1], index)
        assert after is not None, machine.actions[index].name
        states.append(after)
    return states


@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=list(HealthCheck),
)
@given(rings)
@example({"early_release": True})
@example({"empty_arrivals": 2, "trips": 3})
@example({"producer_waits": False})
@example({"announced": 32})
@example({"producer_waits": False, "consumer_parity": 1, "releases": 0, "tail": False})
@example({"tail": False, "trips": "forever"})
def test_random_rings_agree_with_search(parameters: dict[str, Any]) -> None:
    try:
        machine = compile_kernel(trace(Ring(**parameters)))
    except SpecError:
        assume(False)
    truth = explore(machine)
    expected = lengths(machine)
    for ordered, depth in ((True, 11), (False, 6)):
        found = bounded(machine, depth, ordered=ordered)
        assert {name: len(v.actions) for name, v in found.violations.items()} == {
            name: length for name, length in expected.items() if length <= depth
        }
        for violation in found.violations.values():
            replayed(machine, violation.actions)
    proof = prove(machine, timeout=3, depth=9)
    for name, verdict in proof.verdicts.items():
        if name in truth.violations:
            assert verdict != PROVED, (name, parameters)
        else:
            assert verdict != VIOLATED, (name, parameters)
    for name, violation in proof.violations.items():
        assert len(violation.actions) == expected[name] or name in proof.long


SIZES = [(name, 1, 1) for name in WITH_CONSUMERS]


@pytest.mark.parametrize(
    ("name", "stages", "consumers"), [*SIZES, ("async", 2, 1), ("tma-store", 2, 1), ("tma-async", 2, 2)]
)
def test_the_pipeline_classes_are_proved(name: str, stages: int, consumers: int) -> None:
    machine = compile_kernel(trace(PIPELINES[name](stages=stages, consumers=consumers)))
    proof = prove(machine, timeout=600)
    assert not explore(machine).violations
    assert set(proof.verdicts.values()) == {PROVED}, proof.reasons
    assert not proof.violations


def test_what_time_does_not_allow_is_undetermined() -> None:
    machine = compile_kernel(trace(PIPELINES["tma-async"](stages=2)))
    proof = prove(machine, timeout=0.2, depth=4)
    assert set(proof.verdicts.values()) == {UNDETERMINED}
    assert all(proof.reasons.values())


# ---------------------------------------------------------------- proofs that must not succeed


def ring(**parameters: Any) -> Machine:
    return compile_kernel(trace(Ring(**{"stages": 2, **parameters})))


def test_the_right_ring_is_proved_with_every_template() -> None:
    proof = prove(ring())
    assert set(proof.verdicts.values()) == {PROVED}
    assert {"clock", "unseen", "arrivals", "incomplete", "bytes", "copies", "contents", "loops"} <= {
        candidate.template for candidate in proof.invariants
    }


@pytest.mark.parametrize(
    ("template", "lost", "stages"),
    [
        ("clock", "phase-lapped", 1),
        ("unseen", "phase-lapped", 2),
        ("arrivals", "arrival-count", 1),
        ("incomplete", "deadlock", 1),
        ("bytes", "tx-count", 1),
        ("copies", "tx-count", 1),
        ("contents", "stale-read", 1),
        ("loops", "deadlock", 1),
    ],
)
def test_without_a_template_the_proof_fails_and_nothing_is_violated(template: str, lost: str, stages: int) -> None:
    machine = ring(stages=stages)
    guesses = [guess for guess in candidates(machine) if guess.template != template]
    proof = prove(machine, timeout=300, guesses=guesses, depth=3)
    assert proof.verdicts[lost] == UNDETERMINED
    assert "rule out" in proof.reasons[lost] or "ruled out" in proof.reasons[lost]
    assert VIOLATED not in proof.verdicts.values()


@pytest.mark.parametrize(
    "broken",
    [
        {"early_release": True},
        {"producer_parity": 1},
        {"consumer_waits": False},
        {"empty_arrivals": 2},
        {"announced": 32},
        {"releases": 0},
    ],
)
def test_a_broken_ring_is_refuted_with_the_shortest_schedule(broken: dict[str, Any]) -> None:
    machine = ring(**{"stages": 1, **broken})
    expected = lengths(machine)
    assert expected
    proof = prove(machine, timeout=300, depth=max(expected.values()))
    found = {name: len(violation.actions) for name, violation in proof.violations.items()}
    assert found.keys() <= expected.keys()
    assert all(found[name] == expected[name] or name in proof.long for name in found)
    assert min(found.values()) == min(expected.values())
    assert all(proof.verdicts[name] == VIOLATED for name in found if name in proof.verdicts)


def test_a_solver_that_finds_no_schedule_is_replaced() -> None:
    """One that has lost what was asserted: what it finds cannot be taken, and a new one finds the shortest schedule."""
    machine = ring(stages=1, early_release=True)
    unrolling = Unrolling(relation(machine))
    assert not deepen(unrolling, 3, ["race"], 0.0).violations
    lost = unrolling.solver = z3_module().SolverFor("QF_FD")
    found = deepen(unrolling, 40, ["race"], 0.0)
    assert len(found.violations["race"].actions) == lengths(machine)["race"] > 3 and unrolling.solver is not lost


def test_a_new_solver_that_finds_none_either_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then the two readings of the machine differ."""
    begun = []

    def actions(self: Unrolling, model: object, length: int) -> tuple[int, ...]:
        raise NotASchedule("the readings differ")

    monkeypatch.setattr(Unrolling, "actions", actions)
    monkeypatch.setattr(Unrolling, "begin", lambda self, begin=Unrolling.begin: (begun.append(1), begin(self)))
    with pytest.raises(NotASchedule, match="the readings differ"):
        bounded(ring(stages=1, early_release=True), 40, ["race"])
    assert begun == [1, 1]


def test_false_guesses_are_dropped_and_true_ones_kept() -> None:
    machine = ring()
    guesses = candidates(machine)
    lies = [
        Candidate("lie", "nothing is ever pending", Field("full[0].pending", 1) == 0),
        Candidate("lie", "the producer never moves", Field("at.producer", guesses_width(machine)) == 0),
        Candidate("lie", "false", Field("full[0].phase", 1) != Field("full[0].phase", 1)),
    ]
    kept = strengthen(relation(machine), [*lies, *guesses], walk(machine), 1e9)
    assert kept is not None
    assert all(candidate.template != "lie" for candidate in kept)
    assert len(kept) > 20
    proof = prove(machine, guesses=[*guesses, *lies])
    assert set(proof.verdicts.values()) == {PROVED}


@pytest.mark.parametrize(
    ("half", "wrong"),
    [("before", (0,)), ("after", range(UNLIKE - 1)), ("before", range(0, 2 * UNLIKE, 2))],
    ids=["first", "in a row", "every other"],
)
def test_a_model_that_evaluation_contradicts_drops_nothing(
    wrong: Collection[int], half: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked for again, with the same outcome; but not for ever."""
    machine = ring()
    arguments = relation(machine), candidates(machine), replace(walk(machine), states=[]), 1e9  # refuted by Z3 alone
    expected = strengthen(*arguments)
    initial = [variable.initial for variable in machine.variables]
    size, count, always = len(initial), [0], []

    def read(model: object, term: object) -> int:
        (number, place), count[0] = divmod(count[0], 2 * size), count[0] + 1
        if (number not in wrong and not always) or half != ("before" if place < size else "after"):
            return number_in(model, term)
        return 1 if half == "before" else initial[place - size]  # false of what is, or true of what is to be broken

    monkeypatch.setattr(houdini, "number_in", read)
    assert expected and strengthen(*arguments) == expected and count[0] > 2 * size * max(wrong)
    always.append(True)
    with pytest.raises(RuntimeError, match="the readings differ"):
        strengthen(*arguments)


def guesses_width(machine: Machine) -> int:
    return next(variable.width for variable in machine.variables if variable.name == "at.producer")


def test_a_lie_alone_proves_nothing() -> None:
    """An invariant that excludes everything would prove everything, if it were not checked."""
    machine = ring(stages=1, early_release=True)
    lie = Candidate("lie", "false", Field("full[0].phase", 1) != Field("full[0].phase", 1))
    proof = prove(machine, guesses=[lie], timeout=300, depth=20)
    assert proof.verdicts["race"] == VIOLATED
    assert not proof.invariants


def test_invariants_hold_in_every_state_that_search_reaches() -> None:
    machine = ring(trips=3)
    proof = prove(machine, guesses=candidates(machine))
    for state in walk(machine).states:
        values = {variable.name: value for variable, value in zip(machine.variables, state, strict=True)}
        assert all(evaluate(candidate.holds, values) for candidate in proof.invariants)


def test_running_out_of_time_is_undetermined() -> None:
    proof = prove(ring(stages=2), timeout=0.01)
    assert PROVED not in proof.verdicts.values()
    assert all(proof.reasons[name] for name in proof.verdicts)
