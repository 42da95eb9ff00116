"""Z3 on machines made by hand, small enough to know what it must say."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.smt.bounded import bounded, violation_of
from sm90_verify.engines.smt.induction import prove
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.errors import Source, SpecError
from sm90_verify.spec.model.machine import Action, Check, Location, Machine, Role, Variable
from sm90_verify.spec.ptx.expr import FALSE, TRUE, Field, Lit

HERE = Source("model.py", 1)


def hand_made(
    *,
    initial: int = 0,
    limit: int = 3,
    guard: Any = TRUE,
    more: tuple[Action, ...] = (),
    checks: tuple[Check, ...] = (),
    final: bool = False,
) -> Machine:
    """One role that counts `x` up to `limit` and starts again, for ever."""
    x = Field("x", 3)
    place = Location("count", "x", HERE, final=final)
    up = Action("up", "counter", "count", "x", 0, 0, (x < limit) & guard, (("x", x + 1),), (), HERE)
    wrap = Action("wrap", "counter", "wrap", "x", 0, 0, (x >= limit) & guard, (("x", Lit(0, 3)),), (), HERE)
    return Machine(
        "hand-made",
        {},
        (Variable("at.counter", 1, 0, "location"), Variable("x", 3, initial, "count")),
        (Role("counter", "at.counter", (place,), 32),),
        (up, wrap, *more),
        checks,
        ("deadlock", "race"),
    )


def bad(value: int, *, halts: bool = False) -> Check:
    return Check("race", Field("x", 3) == value, f"x is {value}", "x", halts)


def test_an_initial_state_that_is_wrong_is_a_violation_of_length_0() -> None:
    machine = hand_made(initial=5, checks=(bad(5),))
    assert bounded(machine, 3).violations["race"].actions == ()
    assert prove(machine, timeout=5).verdicts["race"] == VIOLATED


def test_a_violation_is_found_at_its_exact_length() -> None:
    machine = hand_made(checks=(bad(2),))
    assert bounded(machine, 1).violations == {}
    assert bounded(machine, 2).violations["race"].actions == (0, 0)
    assert prove(machine, timeout=5).verdicts["race"] == VIOLATED


def test_an_unreachable_value_is_proved_only_with_an_invariant() -> None:
    machine = hand_made(checks=(bad(6),))
    proof = prove(machine, timeout=5)
    assert proof.verdicts["race"] == PROVED
    assert proof.verdicts["deadlock"] == PROVED


def test_a_step_that_halts_is_not_followed() -> None:
    stop = Action(
        "stop", "counter", "stop", "x", 0, 0, Field("x", 3) == 1, (("x", Lit(7, 3)),), (bad(1, halts=True),), HERE
    )
    machine = hand_made(more=(stop,), checks=(Check("deadlock", Field("x", 3) == 7, "x is 7", "x"),))
    found = bounded(machine, 8)
    assert found.violations["race"].actions == (0, 2)
    assert "deadlock" not in found.violations
    proof = prove(machine, timeout=5)
    assert proof.verdicts == {"deadlock": UNDETERMINED, "race": VIOLATED}


def test_a_machine_in_which_nothing_can_happen_is_not_proved() -> None:
    ended = prove(hand_made(guard=FALSE, final=True), timeout=3)
    assert set(ended.verdicts.values()) == {UNDETERMINED}
    stuck = prove(hand_made(guard=FALSE), timeout=3)
    assert stuck.verdicts["deadlock"] == VIOLATED
    assert stuck.violations["deadlock"].actions == ()


def test_an_action_that_can_never_be_taken_is_noted() -> None:
    never = Action("never", "counter", "never", "x", 0, 0, FALSE, (), (), HERE)
    proof = prove(hand_made(more=(never,)), timeout=5)
    assert proof.verdicts["deadlock"] == PROVED
    assert any("never be taken" in note and "never" in note for note in proof.notes)
    assert not prove(hand_made(), timeout=5).notes


def test_a_role_that_waits_for_ever_while_another_goes_on_is_not_proved() -> None:
    """No single state shows it, so bounded search is silent; the proof must not be."""
    waits = Location("wait", "x", HERE)
    ends = Location("end", "", HERE, final=True)
    go = Action("go", "waiter", "wait", "x", 0, 1, Field("x", 3) == 7, (), (), HERE)
    machine = hand_made(more=(go,))
    machine = replace(
        machine,
        variables=(*machine.variables, Variable("at.waiter", 1, 0, "location")),
        roles=(*machine.roles, Role("waiter", "at.waiter", (waits, ends), 32)),
    )
    assert "deadlock" in explore(machine).violations
    assert bounded(machine, 10).violations == {}
    proof = prove(machine, timeout=5)
    assert proof.verdicts["deadlock"] != PROVED


def test_no_property_at_all_is_an_error() -> None:
    machine = hand_made()
    for question in (lambda: prove(machine, []), lambda: bounded(machine, 3, [])):
        with pytest.raises(ValueError, match="no property"):
            question()
    for question in (lambda: prove(machine, ["speed"]), lambda: bounded(machine, 3, ["speed"])):
        with pytest.raises(ValueError, match="speed"):
            question()


def test_a_literal_that_does_not_fit_is_an_error_when_the_machine_is_made() -> None:
    with pytest.raises(SpecError, match="does not fit"):
        hand_made(checks=(bad(8),))


def test_a_schedule_that_violates_nothing_is_refused() -> None:
    machine = hand_made(checks=(bad(2),))
    with pytest.raises(RuntimeError, match="violates nothing"):
        violation_of(machine, (0,), ["race"])
