"""A template for named barriers at which a role arrives and goes on: where all their roles can be at the same time.

Who waits inside does not tell there how many threads have arrived. So these roles are executed with everything else
left out: of their steps, only what moves or reads the barriers and the loops that they share; whatever else a step
asks for is granted. That reaches at least what the machine can reach, and no step of the machine leaves it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from sm90_verify.engines.smt.tables import Candidate, Graph, TabledMachine
from sm90_verify.spec.model.accesses import in_locations
from sm90_verify.spec.model.machine import Action, VariableKind
from sm90_verify.spec.model.words import listed
from sm90_verify.spec.ptx.expr import Expr, Field, all_of, any_of, evaluate, fields_of

MOST = 400
"""Combinations of places and values that a candidate names at most."""
MEETINGS: tuple[VariableKind, ...] = ("arrived", "count", "met")
LOOPS: tuple[VariableKind, ...] = ("ended", "iterations behind")

Together = tuple[tuple[int, ...], tuple[int, ...]]
"""A place of each role, and the values of the variables."""


def turn_candidates(model: TabledMachine) -> Iterable[Candidate]:
    """One candidate for all roles that such barriers connect, if it is short enough."""
    for roles in _connected(model):
        turns = _Turns(model, roles)
        reached = turns.reached()
        if reached:
            yield Candidate("turns", listed(roles), turns.expression(reached))


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
        """Those of barriers at which none but these roles meet, and of the loops of these roles, without those that
        depend on anything else.
        """
        actions, kinds = self.model.machine.actions, (*MEETINGS, *LOOPS)
        loops = {one.of for one in self.model.machine.of_kind("iterations behind") if one.role in roles}
        owners = {one.name: one.of for one in self.model.machine.variables if one.kind in kinds}
        for one in self.model.machine.variables:
            if one.kind in LOOPS and one.of not in loops:
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
            for after in self._after(todo.pop()):
                if after not in found:
                    found[after] = None
                    todo.append(after)
            if len(found) > MOST:
                return []
        return list(found)

    def _after(self, before: Together) -> Iterable[Together]:
        at, values = before
        state = dict(zip(self.names, values, strict=True))
        for number, graph in enumerate(self.graphs):
            for _, action in graph.ways[at[number]]:
                if action.target is not None and self._may_be_taken(action, state):
                    place = self.places[number][action.target]
                    yield (*at[:number], place, *at[number + 1 :]), self._moved(action, state)
        for action in self.others:
            if self._may_be_taken(action, state):
                yield at, self._moved(action, state)

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

    def expression(self, reached: list[Together]) -> Expr:
        """That the roles are at one of these places with one of the values that belong to it."""
        values: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
        for at, state in reached:
            values.setdefault(at, []).append(state)
        fields = [self.model.fields[name] for name in self.names]
        return any_of(
            all_of(self._stands(number, place) for number, place in enumerate(at))
            & any_of(_equal(fields, state) for state in states)
            for at, states in values.items()
        )

    def _stands(self, number: int, place: int) -> Expr:
        here = [location for location, other in enumerate(self.places[number]) if other == place]
        return in_locations(self.graphs[number].counter, here)


def _equal(fields: list[Field], values: tuple[int, ...]) -> Expr:
    return all_of(field == value for field, value in zip(fields, values, strict=True))
