"""Search and bounded Z3 agree on every broken program: the same violations, each after the same number of steps.

But for roles that poll: search shows a deadlock where one begins to do nothing but fail tests, bounded Z3 where it has
failed the last of them, and not at all if there is no last one.
"""

from __future__ import annotations

import pytest
from corpus_table import CASES
from machines import machine_of

from sm90_verify.counterexample.trace import execute, is_enabled
from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.smt.bounded import bounded
from sm90_verify.engines.violation import Violation
from sm90_verify.spec.model.machine import LIMIT, Machine

DEEPEST = 6
"""Programs with longer schedules are compared up to their shortest violation only."""
LARGEST = 500
"""Steps times actions of the machine. Where the shortest violation takes more, Z3 is to find none in fewer steps."""
BROKEN = [pytest.param(case.broken, id=case.id) for case in CASES if case.broken is not None]


@pytest.mark.parametrize("pipeline", BROKEN)
def test_same_violations_after_as_many_steps(pipeline):
    machine = machine_of(pipeline)
    shown = explore(machine).violations
    searched = {property: len(violation.actions) for property, violation in shown.items() if property != LIMIT}
    depth = max(searched.values())
    depth = depth if depth <= DEEPEST else min(searched.values())
    depth = min(depth, LARGEST // len(machine.actions))
    found = bounded(machine, depth)
    assert not found.ran_out
    lengths = {property: len(violation.actions) for property, violation in found.violations.items()}
    if "deadlock" in lengths and any(action.fails for action in machine.actions):
        assert searched["deadlock"] <= lengths["deadlock"] <= searched["deadlock"] + len(machine.roles)
        lengths["deadlock"] = searched["deadlock"]
    elif "deadlock" in searched and _asks_on(machine, shown["deadlock"]):
        del searched["deadlock"]
    assert lengths == {property: length for property, length in searched.items() if length <= depth}
    for violation in found.violations.values():
        execute(machine, violation.actions)


def _asks_on(machine: Machine, deadlock: Violation) -> bool:
    """A role that is stuck can still fail a test."""
    state = execute(machine, deadlock.actions).last
    return any(
        action.fails and action.role in deadlock.stuck and is_enabled(machine, action, state)
        for action in machine.actions
    )
