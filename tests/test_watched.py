"""Checks on states that wait for a variable to change say in every state what all of them say, looked at one by one;
and a role that an access does not touch has nothing to say about it.
"""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from corpus_table import CASES
from hypothesis import given
from machines import kernel_of, machine_of
from rings import Filled
from test_readings import any_expression, states

from sm90_verify.counterexample import watched
from sm90_verify.counterexample.trace import changed_by, initial_state, is_enabled, take
from sm90_verify.counterexample.watched import StandingChecks
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.model.machine import Machine
from sm90_verify.spec.model.touching import Touching, bystanders
from sm90_verify.spec.model.variables import Variables
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.expr import Expr, compute, evaluate, fold, is_false, support_of

BROKEN = [pytest.param(case.broken, id=case.id) for case in CASES]


def by_compute(expr: Expr, state: dict[str, int]) -> int:
    """All of it, by what the operators mean."""
    return fold(
        expr,
        lambda lit: lit.value,
        lambda field: state[field.name],
        lambda node, values: compute(node.operator, values, node.arguments[-1].width),
    )


@given(any_expression, states())
def test_what_is_not_looked_at_makes_no_difference(expr: Expr, state: dict[str, int]) -> None:
    assert evaluate(expr, state) == by_compute(expr, state)


@given(any_expression, states(), states())
def test_a_value_is_the_same_as_long_as_its_support_is(expr: Expr, one: dict[str, int], other: dict[str, int]) -> None:
    kept = support_of(expr, one)
    assert evaluate(expr, {**other, **{name: one[name] for name in kept}}) == evaluate(expr, one)


def one_by_one(machine: Machine, state: dict[str, int]) -> bool:
    standing = (check for role in machine.roles for check in role.locations[state[role.counter]].checks)
    return any(by_compute(check.when, state) for check in (*machine.checks, *standing))


def compared(machine: Machine, seed: int, most: int = 60) -> list[bool]:
    """A random schedule: what the checks said in its states, after it was found to be right."""
    rng, state = random.Random(seed), initial_state(machine)
    checks = StandingChecks(machine, lambda check: True)
    said = [checks.holds(state, None)]
    for _ in range(most):
        ways = [action for action in machine.actions if is_enabled(machine, action, state)]
        if not ways:
            break
        action, before = rng.choice(ways), state
        state = take(machine, action, before)
        changed = changed_by(machine, action, before, state)
        assert set(changed) == {name for name in state if state[name] != before[name]}
        said.append(checks.holds(state, changed))
        assert said[-1] == one_by_one(machine, state), action.name
    return said


@pytest.mark.parametrize("pipeline", BROKEN)
def test_checks_that_wait_say_what_all_of_them_say(pipeline: Pipeline) -> None:
    for seed in range(3):
        compared(machine_of(pipeline), seed)


def test_the_comparison_sees_checks_that_hold_and_stop_holding() -> None:
    found = [compared(machine_of(case.broken), seed) for case in CASES for seed in range(3)]
    assert any(one and not other for said in found for one, other in pairwise(said))
    assert any(other and not one for said in found for one, other in pairwise(said))


def test_a_check_that_waits_for_too_little_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "support_of", lambda expr, state, known: sorted(support_of(expr, state, known))[:-1])
    with pytest.raises(AssertionError):
        for case in CASES:
            for seed in range(3):
                compared(machine_of(case.broken), seed)


# ---------------------------------------------------------------- which roles are asked


@pytest.mark.parametrize("pipeline", [*BROKEN, pytest.param(Filled(), id="filled")])
def test_roles_that_are_not_asked_have_nothing_to_say(pipeline: Pipeline) -> None:
    kernel = kernel_of(pipeline)
    variables = Variables(kernel)
    roles = list(bystanders(variables).values())
    touching = Touching(roles)
    for _, _, node in variables.nodes():
        for access in effects_of(node.operation).accesses:
            asked = touching.among(roles, access)
            for role in (one for one in roles if one not in asked):
                assert is_false(role.conflict(access)[0]) and is_false(role.unfenced(access, True)[0])
