"""Roles that do the same, such as the consumers of a pipeline, and the one state that stands for all those that differ
only in which of them is where.

Roles are interchangeable if exchanging two of them, with the variables that are theirs, maps the machine to
itself: initial values, guards, updates and checks of every step and state. Whether it does is decided on the machine,
not on how it was written: expressions are compared up to the order and nesting of sums, ands, ors and xors. Exchanging
two roles in a state then exchanges them in all that can happen from there, so that a violation is reachable from a
state exactly if one, after as many steps, is reachable from the state with the roles in another order. The search keeps
one order. That goes together with engines.search.reduction, whose promise is for each state by itself: if a violation
is reachable, then in no more steps from one of the steps that it follows.

What is asked about one role by name is asked along a path, on which every edge says how roles were exchanged at its
end: whether a role can run again, and which steps in the roles' own names a schedule consists of
(engines.search.exchange).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from sm90_verify.spec.model.machine import Action, Check, Machine, Role, Variable
from sm90_verify.spec.ptx.expr import Apply, Expr, Field, Lit, fold

COMMUTES = ("and", "or", "xor", "add")
Rename = dict[str, str]


class Interchangeable(NamedTuple):
    """Interchangeable roles, by number, and per role its own variables, in corresponding order."""

    roles: tuple[int, ...]
    variables: tuple[tuple[str, ...], ...]


def find_groups(machine: Machine) -> tuple[Interchangeable, ...]:
    """The largest groups of roles of which any two are interchangeable."""
    forms: _Forms | None = None
    taken, groups = set[int](), []
    for first, role in enumerate(machine.roles):
        if first in taken:
            continue
        members, variables = [first], []
        for other in range(first + 1, len(machine.roles)):
            if other in taken or not _look_alike(role, machine.roles[other]):
                continue
            rename = _exchange(machine, role.name, machine.roles[other].name)
            if not rename:
                continue
            forms = forms or _Forms(machine)
            if forms.are_kept(rename, {first: other, other: first}):
                members.append(other)
                variables.append(tuple(rename[name] for name in _of_role(machine, role.name)))
        if variables:
            groups.append(Interchangeable(tuple(members), (_of_role(machine, role.name), *variables)))
            taken.update(members)
    return tuple(groups)


def _look_alike(one: Role, other: Role) -> bool:
    """A quick answer for most pairs: operations of the same kinds on the same barriers, in the same places."""
    return [(place.kind, place.barrier, place.parity, place.final) for place in one.locations] == [
        (place.kind, place.barrier, place.parity, place.final) for place in other.locations
    ]


def _of_role(machine: Machine, role: str) -> tuple[str, ...]:
    """The variables of the role."""
    return tuple(variable.name for variable in machine.variables if variable.role == role)


def _exchange(machine: Machine, one: str, other: str) -> Rename:
    """The variables with those of two roles exchanged, in their order; nothing if these are not of the same kinds."""
    own, theirs = ([variable for variable in machine.variables if variable.role == role] for role in (one, other))
    if [_shape(variable) for variable in own] != [_shape(variable) for variable in theirs]:
        return {}
    rename = {variable.name: variable.name for variable in machine.variables}
    for mine, yours in zip(own, theirs, strict=True):
        rename[mine.name], rename[yours.name] = yours.name, mine.name
    return rename


def _shape(variable: Variable) -> tuple[str, int, int, int]:
    return variable.kind, variable.index, variable.width, variable.initial


class _Forms:
    """Numbers for expressions: the same for two that differ only in the order and nesting of operators that commute."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.numbers: dict[Hashable, int] = {}
        self.parts: list[tuple[str, tuple[int, ...]]] = []
        self.by_role = {role.name: number for number, role in enumerate(machine.roles)}
        self.same = {variable.name: variable.name for variable in machine.variables}
        self.original = self._machine(self.same)

    def are_kept(self, rename: Rename, roles: dict[int, int]) -> bool:
        """Renaming the variables and exchanging the roles gives the same machine."""
        by_role, others = self._machine(rename)
        before, others_before = self.original
        return others == others_before and all(
            after == before[roles.get(number, number)] for number, after in enumerate(by_role)
        )

    def _machine(self, rename: Rename) -> tuple[list[list[Hashable]], Hashable]:
        """Per role the checks where it stands and its steps, in order; and what has no role, which an exchange must
        leave as it is.
        """
        memo: dict[int, int] = {}
        by_role: list[list[Hashable]] = [
            [(rename[role.counter], self._checks(place.checks, rename, memo)) for place in role.locations]
            for role in self.machine.roles
        ]
        others: list[Hashable] = []
        for action in self.machine.actions:
            step = self._action(action, rename, memo)
            if action.role in self.by_role:
                by_role[self.by_role[action.role]].append(step)
            else:
                others.append(step)
        return by_role, (others, self._checks(self.machine.checks, rename, memo))

    def _action(self, action: Action, rename: Rename, memo: dict[int, int]) -> Hashable:
        updates = frozenset((rename[name], self._form(value, rename, memo)) for name, value in action.updates)
        guard = self._form(action.guard, rename, memo)
        return action.location, action.target, guard, updates, self._checks(action.checks, rename, memo)

    def _checks(self, checks: tuple[Check, ...], rename: Rename, memo: dict[int, int]) -> Hashable:
        return frozenset((check.property, self._form(check.when, rename, memo), check.halts) for check in checks)

    def _form(self, expr: Expr, rename: Rename, memo: dict[int, int]) -> int:
        def literal(lit: Lit) -> int:
            return self._number(("literal", lit.value, lit.width), ())

        def field(field: Field) -> int:
            return self._number(("field", rename[field.name], field.width), ())

        def operation(node: Apply, parts: list[int]) -> int:
            if node.operator in COMMUTES:
                name = f"{node.operator} {node.width}"
                flat = sorted(
                    number
                    for part in parts
                    for number in (self.parts[part][1] if self.parts[part][0] == name else (part,))
                )
                return self._number((name, tuple(flat)), tuple(flat), name)
            ordered = sorted(parts) if node.operator in ("eq", "ne") else parts
            return self._number((node.operator, node.width, tuple(ordered)), ())

        return fold(expr, literal, field, operation, memo)

    def _number(self, key: Hashable, flat: tuple[int, ...], name: str = "") -> int:
        number = self.numbers.setdefault(key, len(self.parts))
        if number == len(self.parts):
            self.parts.append((name, flat))
        return number
