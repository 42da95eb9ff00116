"""The checks on the states of a schedule, of which each is only looked at again when it can have come to hold.

A check that does not hold in a state holds in none in which the variables that make it so (`support_of`) are still the
same. So it waits for one of them to change; and the checks of a place, for a role that comes there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from sm90_verify.spec.model.machine import Check, Machine, Role
from sm90_verify.spec.ptx.expr import Expr, Known, evaluate, support_of

State = dict[str, int]


@dataclass(eq=False)
class _Waiting:
    """A condition that did not hold when it was looked at. role: "" for the whole machine; stay: how often the role had
    changed its place when it came to the one that the condition is of. done: it has been looked at again since.
    """

    when: Expr
    role: str = ""
    stay: int = 0
    done: bool = False


class StandingChecks:
    """matters: which checks are looked at."""

    def __init__(self, machine: Machine, matters: Callable[[Check], bool]) -> None:
        self.machine, self.matters = machine, matters
        self.by_counter = {role.counter: role for role in machine.roles}
        self.waiting: dict[str, list[_Waiting]] = {}
        self.places: dict[tuple[str, int], list[Check]] = {}
        self.everywhere = [check for check in machine.checks if matters(check)]
        self.stays = {role.name: 0 for role in machine.roles}
        self.afresh = True

    def at(self, role: Role, place: int) -> list[Check]:
        """The checks of a place that matter."""
        key = role.name, place
        if key not in self.places:
            self.places[key] = [check for check in role.locations[place].checks if self.matters(check)]
        return self.places[key]

    def holds(self, state: State, changed: Iterable[str] | None, known: Known | None = None) -> bool:
        """Whether any of the checks holds in a state. changed: the variables that are not what they were in the state
        that was asked about before; None if that is not known. known: of the state.
        """
        known = {} if known is None else known
        due: list[_Waiting] = []
        if changed is None or self.afresh:
            self.afresh = False
            self.waiting.clear()
            due += [_Waiting(check.when) for check in self.everywhere]
            for role in self.machine.roles:
                due += self._of_place(role, state)
        else:
            for name in changed:
                due += self.waiting.pop(name, ())
                if name in self.by_counter:
                    due += self._of_place(self.by_counter[name], state)
        for one in due:
            if one.done or (one.role and one.stay != self.stays[one.role]):
                continue
            one.done = True
            if evaluate(one.when, state, known):
                self.afresh = True
                return True
            again = replace(one, done=False)
            for name in support_of(one.when, state, known):
                self.waiting.setdefault(name, []).append(again)
        return False

    def _of_place(self, role: Role, state: State) -> list[_Waiting]:
        self.stays[role.name] += 1
        stay = self.stays[role.name]
        return [_Waiting(check.when, role.name, stay) for check in self.at(role, state[role.counter])]
