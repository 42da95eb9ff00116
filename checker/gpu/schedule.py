"""The same schedule in another order, in which copies land as soon after their start as they can.

On a GPU a copy lands by itself, some hundreds of nanoseconds after it was started; a schedule that lets much happen
before then cannot be followed. Steps that do not touch each other can change places, though: all that can come before
a copy's start comes before it, and then its landing as early as it can. What is left between the two needs a copy that
is late.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sm90_verify.engines.search.packed import pack
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.model.machine import Machine


class Schedule:
    """Actions of a machine, one after the other, that are possible from its initial state on. order: where each was at
    first.
    """

    def __init__(self, machine: Machine, actions: Sequence[int]) -> None:
        """Raises SpecError if they are not possible."""
        self.packed = pack(machine)
        self.actions = list(actions)
        self.order = list(range(len(actions)))
        self.states = [self.packed.initial]
        for action in actions:
            state = self._after(self.states[-1], action)
            if state is None:
                raise SpecError(f"{machine.actions[action].name} is not possible where the schedule has it")
            self.states.append(state)

    def _after(self, state: int, action: int) -> int | None:
        return next((other for index, other in self.packed.successors(state) if index == action), None)

    def swap(self, at: int) -> bool:
        """Exchanges an action and the next if both orders are possible and lead to the same state."""
        first, second = self.actions[at : at + 2]
        middle = self._after(self.states[at], second)
        if middle is None or self._after(middle, first) != self.states[at + 2]:
            return False
        for row in (self.actions, self.order):
            row[at], row[at + 1] = row[at + 1], row[at]
        self.states[at + 1] = middle
        return True

    def hasten(self, at: int, least: int = 0) -> None:
        """Moves an action as far towards the beginning as it can go, or to `least`."""
        while at > least and self.swap(at - 1):
            at -= 1

    def postpone(self, at: int) -> None:
        """Moves before an action what can be moved there of all that follows it."""
        for following in range(at + 1, len(self.actions)):
            self.hasten(following, at)


def promptly(machine: Machine, actions: Sequence[int], starts: Iterable[int]) -> tuple[int, ...]:
    """The schedule with its copies as short as they can be. starts: where they are started."""
    schedule = Schedule(machine, actions)
    for start in starts:
        schedule.postpone(schedule.order.index(start))
    for at, action in enumerate(schedule.actions):
        if machine.actions[action].location is None:
            schedule.hasten(at)
    return tuple(schedule.actions)
