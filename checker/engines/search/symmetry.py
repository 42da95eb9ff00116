"""Roles that do the same, such as the consumers of a pipeline, and the one state that stands for all those that differ
only in which of them is where.

Roles are interchangeable if exchanging two of them, with the variables that are theirs, maps the machine to
itself: initial values, guards, updates and checks of every step and state. Whether it does is decided on the machine,
not on how it was written: expressions are compared up to the order and nesting of sums, ands, ors and xors. Exchanging
two roles in a state then exchanges them in all that can happen from there, so that a violation is reachable from a
state exactly if one, after as many steps, is reachable from the state with the roles in another order. The search keeps
one order. The same holds of whole clusters of a grid, with all roles, barriers, buffers and copies that they have for
themselves. That goes together with engines.search.reduction, whose promise is for each state by itself: if a violation
is reachable, then in no more steps from one of the steps that it follows.

What is asked about one role by name is asked along a path, on which every edge says how roles were exchanged at its
end: whether a role can run again, and which steps in the roles' own names a schedule consists of
(engines.search.exchange).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

from sm90_verify.spec.model.machine import Action, Check, Machine, Variable
from sm90_verify.spec.model.tick import Tick, unheard
from sm90_verify.spec.ptx.expr import Apply, Expr, Field, Lit, fold

COMMUTES = ("and", "or", "xor", "add")
Rename = dict[str, str]


class Interchangeable(NamedTuple):
    """What can change places: roles, or whole clusters, each with its roles by number, its own variables and its steps
    (of roles, and of copies into its memory), all in corresponding order.
    """

    members: tuple[tuple[int, ...], ...]
    variables: tuple[tuple[str, ...], ...]
    actions: tuple[tuple[int, ...], ...]

    @property
    def roles(self) -> tuple[int, ...]:
        """Those of all members."""
        return tuple(role for member in self.members for role in member)


class _Member(NamedTuple):
    """roles: by number. variables: its own, in the machine's order."""

    roles: tuple[int, ...]
    variables: tuple[str, ...]


def find_groups(machine: Machine, tick: Tick = unheard) -> tuple[Interchangeable, ...]:
    """The largest groups of clusters of a grid, and of roles that are in none of those, of which any two are
    interchangeable.
    """
    forms: _Forms | None = None
    taken, groups = set[int](), []
    for kind in (*_clusters(machine), _single_roles(machine)):
        for first, one in enumerate(kind):
            if not taken.isdisjoint(one.roles):
                continue
            members = [one]
            for other in kind[first + 1 :]:
                if not taken.isdisjoint(other.roles) or not _look_alike(machine, one, other):
                    continue
                rename = _exchange(machine, one, other)
                if not rename:
                    continue
                forms = forms or _Forms(machine, tick)
                if forms.are_kept(rename, one, other):
                    members.append(_Member(other.roles, tuple(rename[name] for name in one.variables)))
            if members[1:]:
                actions = tuple(_steps(machine, member) for member in members)
                groups.append(
                    Interchangeable(tuple(m.roles for m in members), tuple(m.variables for m in members), actions)
                )
                taken.update(groups[-1].roles)
    return tuple(groups)


def _single_roles(machine: Machine) -> list[_Member]:
    return [_Member((number,), _of_role(machine, role.name)) for number, role in enumerate(machine.roles)]


def _clusters(machine: Machine) -> Iterator[list[_Member]]:
    """By grid, its clusters that have roles."""
    numbers = {role.name: number for number, role in enumerate(machine.roles)}
    for grid in dict.fromkeys(info.grid for info in machine.structure.clusters):
        mine = [info for info in machine.structure.clusters if info.grid == grid and info.roles]
        yield [_Member(tuple(numbers[role] for role in info.roles), info.variables) for info in mine]


def _steps(machine: Machine, member: _Member) -> tuple[int, ...]:
    """Those of its roles, one after the other, then those of copies that are its own."""
    found = [
        index
        for role in member.roles
        for index, action in enumerate(machine.actions)
        if action.role == machine.roles[role].name
    ]
    return (*found, *_landings(machine, member))


def _landings(machine: Machine, member: _Member) -> list[int]:
    copies = ((index, machine.landing(action)) for index, action in enumerate(machine.actions))
    return [index for index, copy in copies if copy is not None and copy.variable in member.variables]


def _look_alike(machine: Machine, one: _Member, other: _Member) -> bool:
    """A quick answer for most pairs: operations of the same kinds, in the same places; of roles that are no whole
    clusters, on the same barriers.
    """

    def looks(member: _Member) -> list[list[tuple[str, str, int | None, bool]]]:
        alone = member.roles[1:] == () and not machine.structure.clusters
        return [
            [(place.kind, place.barrier if alone else "", place.parity, place.final) for place in role.locations]
            for role in (machine.roles[number] for number in member.roles)
        ]

    return looks(one) == looks(other)


def _of_role(machine: Machine, role: str) -> tuple[str, ...]:
    """The variables of the role."""
    return tuple(variable.name for variable in machine.variables if variable.role == role)


def _exchange(machine: Machine, one: _Member, other: _Member) -> Rename:
    """The variables with those of two members exchanged, in their order; nothing if these are not of the same kinds."""
    known = {variable.name: variable for variable in machine.variables}
    own, theirs = ([known[name] for name in member.variables] for member in (one, other))
    if [_shape(variable) for variable in own] != [_shape(variable) for variable in theirs]:
        return {}
    rename = {name: name for name in known}
    for mine, yours in zip(own, theirs, strict=True):
        rename[mine.name], rename[yours.name] = yours.name, mine.name
    return rename


def _shape(variable: Variable) -> tuple[str, int, int, int]:
    return variable.kind, variable.index, variable.width, variable.initial


class _Forms:
    """Numbers for expressions: the same for two that differ only in the order and nesting of operators that commute."""

    def __init__(self, machine: Machine, tick: Tick) -> None:
        self.machine, self.tick = machine, tick
        self.numbers: dict[Hashable, int] = {}
        self.parts: list[tuple[str, tuple[int, ...]]] = []
        self.by_role = {role.name: number for number, role in enumerate(machine.roles)}
        self.same = {variable.name: variable.name for variable in machine.variables}
        self.original = self._machine(self.same)

    def are_kept(self, rename: Rename, one: _Member, other: _Member) -> bool:
        """Renaming the variables and exchanging the roles, and the copies, of two members gives the same machine."""
        roles = dict(zip((*one.roles, *other.roles), (*other.roles, *one.roles), strict=True))
        agents, more = _landings(self.machine, one), _landings(self.machine, other)
        if len(agents) != len(more):
            return False
        copies = dict(zip((*agents, *more), (*more, *agents), strict=True))
        by_role, landings, checks = self._machine(rename)
        before, landings_before, checks_before = self.original
        return (
            checks == checks_before
            and all(after == before[roles.get(number, number)] for number, after in enumerate(by_role))
            and all(after == landings_before[copies.get(index, index)] for index, after in landings.items())
        )

    def _machine(self, rename: Rename) -> tuple[list[list[Hashable]], dict[int, Hashable], Hashable]:
        """Per role the checks where it stands and its steps, in order; the steps that have no role, by number; and the
        checks on whole states.
        """
        memo: dict[int, int] = {}
        by_role: list[list[Hashable]] = [
            [(rename[role.counter], self._checks(place.checks, rename, memo)) for place in role.locations]
            for role in self.machine.roles
        ]
        others: dict[int, Hashable] = {}
        for index, action in enumerate(self.machine.actions):
            self.tick("comparing", action.role, index, action.source)
            step = self._action(action, rename, memo)
            if action.role in self.by_role:
                by_role[self.by_role[action.role]].append(step)
            else:
                others[index] = step
        return by_role, others, self._checks(self.machine.checks, rename, memo)

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
