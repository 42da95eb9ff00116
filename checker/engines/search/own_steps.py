"""Steps of a role that nobody else can notice, and that nobody else can change: read off the expressions of a machine.

Such a step touches only variables that no other role, no copy that lands and no check on whole states touches, and
moves its role between two locations that all their expressions take for the same. Then it commutes with whatever others
do, changes neither what they can do nor what they violate, and what its own checks say does not depend on them: an
access to a tile in registers, a wgmma.fence.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

from sm90_verify.engines.search.one_of import OneOf, one_of
from sm90_verify.spec.model.machine import Action, Location, Machine, Role
from sm90_verify.spec.model.tick import Tick, unheard
from sm90_verify.spec.ptx.expr import Apply, Expr, fields_of

SEEN = 64
"""Expressions that are looked at between two looks at the clock."""


def own_steps(machine: Machine, tick: Tick = unheard) -> dict[tuple[str, int], Expr]:
    """By role and location where only such a step can be taken: when it can."""
    ways: dict[tuple[str, int], list[Action]] = {}
    for action in machine.actions:
        if action.location is not None:
            ways.setdefault((action.role, action.location), []).append(action)
    seen = _Seen(machine, tick)
    found = {}
    for role in machine.roles:
        alike = seen.alike(role)
        for index, place in enumerate(role.locations):
            steps = ways.get((role.name, index), [])
            if len(steps) == 1 and seen.own(role, place, steps[0]):
                target = steps[0].target
                if target is not None and alike[target] == alike[index]:
                    found[role.name, index] = steps[0].guard
    return found


def _read(action: Action) -> Iterator[Expr]:
    """What decides what the action does."""
    yield action.guard
    yield from (value for _, value in action.updates)
    yield from (check.when for check in action.checks)


class _Seen:
    """Who touches which variable, and between which locations of a role others tell a difference."""

    def __init__(self, machine: Machine, tick: Tick) -> None:
        self.fields: dict[int, frozenset[str]] = {}
        self.touched = {role.counter: {role.name} for role in machine.roles}
        self.told: dict[str, set[frozenset[int] | None]] = {role.counter: set() for role in machine.roles}
        self.counters = {role.counter: role for role in machine.roles}
        self.sets: dict[int, OneOf] = {}
        self.looked: set[tuple[str, int]] = set()
        for number, (who, expr) in enumerate(self._expressions(machine)):
            if number % SEEN == 0:
                tick("comparing", who, number // SEEN, None)
            self._look(who, expr)
        for action in machine.actions:
            for name, _ in action.updates:
                self.touched.setdefault(name, set()).add(action.role)

    @staticmethod
    def _expressions(machine: Machine) -> Iterator[tuple[str, Expr]]:
        for check in machine.checks:
            yield "", check.when
        for action in machine.actions:
            for expr in _read(action):
                yield action.role, expr
        for role in machine.roles:
            for place in role.locations:
                for check in place.checks:
                    yield role.name, check.when

    def _look(self, who: str, expr: Expr) -> None:
        """Notes what the expression, of that role or of none, reads."""
        if (who, id(expr)) in self.looked:
            return
        self.looked.add((who, id(expr)))
        fields = fields_of(expr, self.fields)
        for name in fields:
            self.touched.setdefault(name, set()).add(who)
        if any(name in self.counters and self.counters[name].name != who for name in fields):
            name, values = one_of(expr, self.sets)
            if not name and isinstance(expr, Apply):
                for argument in expr.arguments:
                    self._look(who, argument)
            else:
                self.told[name or next(iter(fields))].add(values if name else None)

    def only(self, role: Role, name: str) -> bool:
        """Nobody but the role touches the variable."""
        return self.touched[name] <= {role.name}

    def own(self, role: Role, place: Location, step: Action) -> bool:
        """What stands at the place, and the step there, concern nothing that anybody else touches. (Where the role
        itself is, it knows.)
        """
        read = chain((check.when for check in place.checks), _read(step))
        names = {name for expr in read for name in fields_of(expr, self.fields)} - {role.counter}
        return not (step.beyond or step.fails) and all(
            self.only(role, name) for name in names.union(name for name, _ in step.updates)
        )

    def alike(self, role: Role) -> list[tuple[int, ...]]:
        """Per location of the role, what others tell of it: equal for two that they do not tell apart."""
        places: list[list[int]] = [[] for _ in role.locations]
        for number, told in enumerate(self.told[role.counter]):
            for index in range(len(places)) if told is None else told:
                if index < len(places):
                    places[index].append(-index - 1 if told is None else number)
        return [tuple(place) for place in places]
