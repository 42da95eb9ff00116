"""A shorter schedule that shows the same violation: steps that it does without are left out.

A role's steps follow from each other, so that what can be left out of it is its end. Each role in turn is stopped as
early as the violation lets it be, and each copy is left in flight; whoever then cannot take a step stops there too.
Every candidate is executed on the Machine by the specification. What is found need not be a shortest schedule: a
violation that a schedule comes to in its second round may be there in the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from sm90_verify.counterexample.trace import State, changed_by, initial_state, is_enabled, take
from sm90_verify.counterexample.watched import StandingChecks
from sm90_verify.engines.effort import Effort
from sm90_verify.engines.violation import Violation
from sm90_verify.spec.model.machine import Check, Machine
from sm90_verify.spec.ptx.expr import Known, evaluate

Lane: TypeAlias = tuple[str, int]
"""A role, or a copy that lands."""
LOOK = 64
"""Steps of a candidate between looks at what it may cost."""
ROUNDS = 3
"""What one role does without can let an earlier one stop earlier."""


def shortened(machine: Machine, violation: Violation, effort: Effort) -> Violation:
    """The violation with as few of its actions as were found within the effort; the same property and reason. One of
    roles that are stuck stays as it is, since those that are stopped would seem to be stuck too.
    """
    return violation if violation.stuck else _Shortening(machine, violation, effort).result()


class _Shortening:
    def __init__(self, machine: Machine, violation: Violation, effort: Effort) -> None:
        self.machine, self.violation, self.effort = machine, violation, effort

    def result(self) -> Violation:
        actions = self.violation.actions
        for _ in range(ROUNDS):
            before = len(actions)
            for lane in dict.fromkeys(map(self._lane, reversed(actions))):
                actions = self._stop_early(actions, lane)
            if len(actions) == before:
                break
        return self.violation._replace(actions=actions)

    def _lane(self, index: int) -> Lane:
        action = self.machine.actions[index]
        return (action.role, -1) if action.location is not None else ("", index)

    def _stop_early(self, actions: tuple[int, ...], lane: Lane) -> tuple[int, ...]:
        """With as few steps of one lane as will do; the guilty step stays."""
        low, steps = 0, [index for index in actions if self._lane(index) == lane]
        if self.violation.by_step and actions and self._lane(actions[-1]) == lane:
            return actions
        high = len(steps)
        while low < high:
            if self.effort.ran_out():
                return actions
            middle = low if low == 0 and high == len(steps) else (low + high) // 2
            found = self._without(actions, lane, middle)
            if found is None:
                low = middle + 1
            else:
                actions = found
                high = min(middle, sum(self._lane(index) == lane for index in found))
        return actions

    def _without(self, actions: Sequence[int], lane: Lane, keep: int) -> tuple[int, ...] | None:
        """The schedule with the first `keep` steps of a lane, less what cannot be taken then; None if it shows the
        violation no more.
        """
        state, taken, stopped, done = initial_state(self.machine), [], set[Lane](), 0
        halting, known = StandingChecks(self.machine, lambda check: check.halts), Known()
        for number, index in enumerate(actions):
            mine, action = self._lane(index), self.machine.actions[index]
            if mine == lane:
                done += 1
            is_guilty = self.violation.by_step and number == len(actions) - 1
            if number % LOOK == LOOK - 1 and self.effort.ran_out():
                return None
            late = mine in stopped or (mine == lane and done > keep)
            if late or not is_enabled(self.machine, action, state, known):
                if is_guilty:
                    return None
                if mine[0]:
                    stopped.add(mine)
                continue
            taken.append(index)
            if is_guilty:
                return tuple(taken) if self._is_meant(action.checks, state) else None
            if any(check.halts and evaluate(check.when, state, known) for check in action.checks):
                return None
            before = state
            state, known = take(self.machine, action, before, known), {}
            if halting.holds(state, changed_by(self.machine, action, before, state), known):
                return tuple(taken) if number == len(actions) - 1 and self._shows(state) else None
        return tuple(taken) if len(taken) < len(actions) and self._shows(state) else None

    def _shows(self, state: State) -> bool:
        places = (check for role in self.machine.roles for check in role.locations[state[role.counter]].checks)
        return self._is_meant((*self.machine.checks, *places), state)

    def _is_meant(self, checks: Sequence[Check], state: State) -> bool:
        return any(
            (check.property, check.because) == (self.violation.property, self.violation.because)
            and evaluate(check.when, state)
            for check in checks
        )
