"""A template for named barriers at which a role arrives and goes on: where all their roles can be at the same time.

Who waits inside does not tell there how many threads have arrived. So these roles are executed with everything else
left out: of their steps, only what moves or reads the barriers and the loops that they share; whatever else a step
asks for is granted. That reaches at least what the machine can reach, and no step of the machine leaves it.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence

from sm90_verify.engines.smt.tables import Candidate, Graph, TabledMachine, tabled
from sm90_verify.spec.model.accesses import in_locations
from sm90_verify.spec.model.machine import Action, Machine, VariableKind
from sm90_verify.spec.model.words import listed
from sm90_verify.spec.ptx.expr import TRUE, Expr, any_of, evaluate, fields_of

MOST = 4000
"""Combinations of places and values that a candidate names at most."""
MEETINGS: tuple[VariableKind, ...] = ("arrived", "count", "met")
LOOPS: tuple[VariableKind, ...] = ("ended", "iterations behind")
CONTENTS: tuple[VariableKind, ...] = ("holds",)

Together = tuple[tuple[int, ...], tuple[int, ...]]
"""A place of each role, and the values of the variables."""


def turn_candidates(model: TabledMachine) -> Iterable[Candidate]:
    """One candidate for all roles that such barriers connect, if it is short enough."""
    for roles in _connected(model):
        turns = _Turns(model, roles)
        reached = turns.reached()
        if reached:
            yield Candidate("turns", listed(roles), turns.expression(reached))


class Waiters:
    """What these roles can do while one of them waits. Nothing is executed before somebody asks."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.turns: dict[str, _Turns] | None = None
        self.found: dict[str, dict[Together, None]] = {}

    def comes_to_rest(self, other: str, role: str, location: int, left_out: Container[int]) -> bool:
        """Whether `other` takes finitely many steps, none of these actions among them, while the role is blocked at
        the location.
        """
        if self.turns is None:
            model = tabled(self.machine)
            groups = [_Turns(model, roles) for roles in _connected(model)]
            self.turns = {graph.role.name: turns for turns in groups for graph in turns.graphs}
        turns = self.turns.get(role)
        if turns is None or self.turns.get(other) is not turns:
            return False
        if role not in self.found:
            self.found[role] = dict.fromkeys(turns.reached())
        reached = self.found[role]
        return bool(reached) and turns.comes_to_rest(reached, other, role, location, left_out)


def _connected(model: TabledMachine) -> list[tuple[str, ...]]:
    """The roles that meet at barriers of threads where one of them arrives and does not wait, as one group each."""
    groups: list[dict[str, None]] = []
    for variable in model.machine.of_kind("arrived"):
        moves = [one for one in model.machine.actions if any(name == variable.name for name, _ in one.updates)]
        if not any(one.kind == "step" for one in moves) or len(model.by_role("met", variable.of)) < 1:
            continue
        merged = {action.role: None for action in moves}
        for group in [group for group in groups if not merged.keys().isdisjoint(group)]:
            groups.remove(group)
            merged.update(group)
        groups.append(merged)
    return [tuple(role for role in model.graphs if role in group) for group in groups]


class _Turns:
    def __init__(self, model: TabledMachine, roles: tuple[str, ...]) -> None:
        self.model = model
        self.graphs = [model.graphs[role] for role in roles]
        self.names = self._variables(roles)
        self.places = [[self._place(graph, at) for at in range(len(graph.ways))] for graph in self.graphs]
        self.others = [
            action
            for action in model.machine.actions
            if action.role not in roles and any(name in self.names for name, _ in action.updates)
        ]

    def _variables(self, roles: tuple[str, ...]) -> tuple[str, ...]:
        """Those of barriers at which none but these roles meet, of their loops, and of what several of them write,
        without those that depend on anything else.
        """
        actions, kinds = self.model.machine.actions, (*MEETINGS, *LOOPS, *CONTENTS)
        loops = {one.of for one in self.model.machine.of_kind("iterations behind") if one.role in roles}
        owners = {one.name: one.of for one in self.model.machine.variables if one.kind in kinds}
        for one in self.model.machine.variables:
            writers = {action.role for action in actions if any(name == one.name for name, _ in action.updates)}
            if (one.kind in LOOPS and one.of not in loops) or (one.kind in CONTENTS and len(writers) < 2):
                owners.pop(one.name)
        for action in actions:
            for name, _ in action.updates:
                if action.role not in roles and name in owners and owners[name] not in loops:
                    owners = {other: of for other, of in owners.items() if of != owners[name]}
        while True:
            foreign = {
                owners[name]
                for action in actions
                for name, value in action.updates
                if name in owners and not fields_of(value) <= owners.keys()
            }
            if not foreign:
                return tuple(owners)
            owners = {name: of for name, of in owners.items() if of not in foreign}

    def _concerns(self, action: Action) -> bool:
        return any(name in self.names for name, _ in action.updates) or not fields_of(action.guard).isdisjoint(
            self.names
        )

    def _place(self, graph: Graph, location: int) -> int:
        """The location to which the role comes from there, whatever happens, without a step that concerns us."""
        been: list[int] = []
        while location not in been:
            targets = set(graph.successors(location))
            if len(targets) != 1 or any(self._concerns(action) for _, action in graph.ways[location]):
                return location
            been.append(location)
            location = targets.pop()
        return min(been[been.index(location) :])

    def reached(self) -> list[Together]:
        """All that the roles can reach with everything else left out; nothing if that is too much."""
        initial = self.model.initial
        first: Together = tuple(places[0] for places in self.places), tuple(initial[name] for name in self.names)
        found, todo = {first: None}, [first]
        while todo:
            for _, after in self._after(todo.pop()):
                if after not in found:
                    found[after] = None
                    todo.append(after)
            if len(found) > MOST:
                return []
        return list(found)

    def _after(self, before: Together, left_out: Container[int] = ()) -> Iterable[tuple[int, Together]]:
        """What can come next, and which of the roles moves, -1 for anybody else."""
        at, values = before
        state = dict(zip(self.names, values, strict=True))
        for number, graph in enumerate(self.graphs):
            for index, action in graph.ways[at[number]]:
                if index not in left_out and action.target is not None and self._may_be_taken(action, state):
                    place = self.places[number][action.target]
                    yield number, ((*at[:number], place, *at[number + 1 :]), self._moved(action, state))
        for action in self.others:
            if self._may_be_taken(action, state):
                yield -1, (at, self._moved(action, state))

    def comes_to_rest(
        self, reached: Iterable[Together], other: str, role: str, location: int, left_out: Container[int]
    ) -> bool:
        """Of all that is reached, the other role moves on no cycle of what leaves the role blocked."""
        names = [graph.role.name for graph in self.graphs]
        mine, moving = names.index(role), names.index(other)
        guards = [action.guard for _, action in self.graphs[mine].ways[location]]
        if self.places[mine][location] != location or not all(self._known(guard) for guard in guards):
            return False
        if any(self._goes_round(self.graphs[moving], place) for place in self.places[moving]):
            return False
        blocked = {
            one: None
            for one in reached
            if one[0][mine] == location
            and not any(evaluate(guard, dict(zip(self.names, one[1], strict=True))) for guard in guards)
        }
        after = {one: [(who, to) for who, to in self._after(one, left_out) if to in blocked] for one in blocked}
        return not any(
            who == moving and one in _ahead(after, to) for one, following in after.items() for who, to in following
        )

    def _goes_round(self, graph: Graph, place: int) -> bool:
        """The role comes back to the place without a step that concerns us."""
        at, been = place, set[int]()
        while at not in been:
            been.add(at)
            targets = set(graph.successors(at))
            if len(targets) != 1 or any(self._concerns(action) for _, action in graph.ways[at]):
                return False
            at = targets.pop()
        return True

    def _may_be_taken(self, action: Action, state: Mapping[str, int]) -> bool:
        """As far as these variables say; what halts is not followed."""
        halts = (check.when for check in action.checks if check.halts)
        return self._may(action.guard, state) and not any(self._must(when, state) for when in halts)

    def _may(self, condition: Expr, state: Mapping[str, int]) -> bool:
        return not self._known(condition) or bool(evaluate(condition, dict(state)))

    def _must(self, condition: Expr, state: Mapping[str, int]) -> bool:
        return self._known(condition) and bool(evaluate(condition, dict(state)))

    def _known(self, condition: Expr) -> bool:
        return fields_of(condition) <= set(self.names)

    def _moved(self, action: Action, state: Mapping[str, int]) -> tuple[int, ...]:
        after = dict(state)
        for name, value in action.updates:
            if name in after:
                after[name] = evaluate(value, dict(state))
        return tuple(after[name] for name in self.names)

    def expression(self, reached: Iterable[Together]) -> Expr:
        """That the roles are at one of these places with values that belong to it: a decision on one role or variable
        after the other, in which what is left to decide is spelled out once.
        """
        known: dict[frozenset[tuple[int, ...]], Expr] = {}

        def spell(level: int, rows: frozenset[tuple[int, ...]]) -> Expr:
            if rows == {()}:
                return TRUE
            if rows not in known:
                rest: dict[int, list[tuple[int, ...]]] = {}
                for row in sorted(rows):
                    rest.setdefault(row[0], []).append(row[1:])
                alike: dict[frozenset[tuple[int, ...]], list[int]] = {}
                for number, them in rest.items():
                    alike.setdefault(frozenset(them), []).append(number)
                known[rows] = any_of(self._is(level, ones) & spell(level + 1, left) for left, ones in alike.items())
            return known[rows]

        return spell(0, frozenset((*at, *values) for at, values in reached))

    def _is(self, level: int, numbers: Sequence[int]) -> Expr:
        if level < len(self.graphs):
            here = [location for location, place in enumerate(self.places[level]) if place in numbers]
            return in_locations(self.graphs[level].counter, here)
        field = self.model.fields[self.names[level - len(self.graphs)]]
        return in_locations(field, numbers)


def _ahead(after: Mapping[Together, Sequence[tuple[int, Together]]], start: Together) -> set[Together]:
    """What can be reached from there, itself included."""
    found, todo = {start}, [start]
    while todo:
        for _, to in after[todo.pop()]:
            if to not in found:
                found.add(to)
                todo.append(to)
    return found
