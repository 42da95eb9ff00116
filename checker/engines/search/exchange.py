"""States with interchangeable roles in one order, and what a path through such states is in the roles' own names."""

from __future__ import annotations

from collections.abc import Sequence

from sm90_verify.engines.search.packed import PackedMachine, Successors, Violations
from sm90_verify.spec.model.machine import Check

Takes = tuple[int, ...]
"""For every role, by number, the one that takes its place."""


class Exchange:
    """The interchangeable roles and clusters of a machine, as engines.search.symmetry finds them."""

    def __init__(self, packed: PackedMachine) -> None:
        self.packed = packed
        self.own: dict[int, tuple[int, ...]] = {}
        """By the first role of what can change places, its steps, which are in the same order for each."""
        self.nth: dict[int, tuple[int, int]] = {}
        """By step, whose it is, and its place in that order."""
        for group, _, _ in packed.groups:
            for member, actions in zip(group.members, group.actions, strict=True):
                self.own[member[0]] = actions
                self.nth.update((index, (member[0], number)) for number, index in enumerate(actions))

    def in_order(self, state: int) -> tuple[int, Takes]:
        """The state with interchangeable roles in order, and which one takes each role's place."""
        takes = list(range(len(self.packed.roles)))
        for group, shifts, mask in self.packed.groups:
            found = sorted([(state >> shift & mask, number) for number, shift in enumerate(shifts)])
            for place, ((own, number), shift) in enumerate(zip(found, shifts, strict=True)):
                if number != place:
                    state += own - (state >> shift & mask) << shift
                    for here, there in zip(group.members[place], group.members[number], strict=True):
                        takes[here] = there
        return state, tuple(takes)

    def really(self, action: int, takes: Takes) -> int:
        """The action of what has taken the place of the one that the action is of."""
        if action not in self.nth:
            return action
        role, number = self.nth[action]
        return self.own[takes[role]][number]

    def really_of(self, check: Check, actions: Sequence[int], by_step: bool) -> Check:
        """The check of the same property that a schedule violates: it may be of other roles than `check`."""
        if not self.packed.groups:
            return check
        out: Successors = []
        bad: Violations = []
        state = self.packed.initial
        for action in actions[: len(actions) - by_step]:
            state = next(successor for index, successor in self.packed.successors(state) if index == action)
        self.packed.whole(state, out, bad)
        for shift, mask, functions in self.packed.roles:
            functions[state >> shift & mask](state, out, bad)
        for agent in self.packed.agents:
            agent(state, out, bad)
        found = [self.packed.checks[number] for number, action in bad if action == (actions[-1] if by_step else -1)]
        return next(one for one in found if one.property == check.property)

    def take_for_all(self, taken: bytearray) -> None:
        """Marks a step as taken if another of the interchangeable roles has taken it."""
        for group, _, _ in self.packed.groups:
            for same in zip(*group.actions, strict=True):
                if any(taken[index] for index in same):
                    for index in same:
                        taken[index] = 1


class Replaced(dict[int, int]):
    """From a set of roles, a bit each, to those that take their places."""

    def __init__(self, takes: Takes) -> None:
        self.takes = takes

    def __missing__(self, roles: int) -> int:
        self[roles] = sum(1 << role for place, role in enumerate(self.takes) if roles >> place & 1)
        return self[roles]
