"""What can be read off a role's program alone: numbers by location, and their lookup as an expression over its
counter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import gcd

from sm90_verify.spec.model.accesses import in_locations
from sm90_verify.spec.model.machine import Action, Machine, ProgressKind, Role, RoleProgress, VariableKind
from sm90_verify.spec.ptx.expr import TRUE, Expr, Field, Lit, where

MOST_CASES = 64


@dataclass(frozen=True)
class Graph:
    """A role as a graph: by location, the actions there, each with its index. Location 0 is the start."""

    role: Role
    counter: Field
    ways: tuple[tuple[tuple[int, Action], ...], ...]

    def successors(self, location: int) -> list[int]:
        return [action.target for _, action in self.ways[location] if action.target is not None]


def graph_of(machine: Machine, role: Role) -> Graph:
    """The graph of a role's actions."""
    ways: list[list[tuple[int, Action]]] = [[] for _ in role.locations]
    for index, action in enumerate(machine.actions):
        if action.role == role.name and action.location is not None:
            ways[action.location].append((index, action))
    width = next(variable.width for variable in machine.variables if variable.name == role.counter)
    return Graph(role, Field(role.counter, width), tuple(tuple(way) for way in ways))


@dataclass(frozen=True)
class Candidate:
    """A one-bit expression over the variables of a machine that may be true of all its reachable states.

    chain: candidates of one chain follow from each other, strongest first; only the strongest few are worth a try.
    """

    template: str
    about: str
    holds: Expr
    chain: str = ""


@dataclass(frozen=True)
class TabledMachine:
    """A machine with what the templates look up in it again and again."""

    machine: Machine
    graphs: dict[str, Graph]
    fields: dict[str, Field]
    initial: dict[str, int]

    def by_role(self, kind: VariableKind, of: str) -> dict[str, Field]:
        """By role, its variable of a kind that belongs to `of`; roles in the machine's order."""
        found = {one.role: self.fields[one.name] for one in self.machine.of_kind(kind) if one.of == of}
        return {role: found[role] for role in self.graphs if role in found}

    def progress(self, kind: ProgressKind, object: str) -> list[RoleProgress]:
        return [p for p in self.machine.structure.progress if p.kind == kind and p.object == object]


def tabled(machine: Machine) -> TabledMachine:
    """The machine with its graphs and variables by name."""
    return TabledMachine(
        machine,
        {role.name: graph_of(machine, role) for role in machine.roles},
        {variable.name: Field(variable.name, variable.width) for variable in machine.variables},
        {variable.name: variable.initial for variable in machine.variables},
    )


def count_along(graph: Graph, weight: Callable[[Action], int]) -> tuple[tuple[int, ...], int]:
    """The sum of the weights on the way to each location, and the modulus up to which all ways agree (0: exactly)."""
    values: dict[int, int] = {0: 0}
    modulus, todo = 0, [0]
    while todo:
        location = todo.pop(0)
        for _, action in graph.ways[location]:
            if action.target is None:
                continue
            total = values[location] + weight(action)
            if action.target not in values:
                values[action.target] = total
                todo.append(action.target)
            modulus = gcd(modulus, total - values[action.target])
    return tuple(values.get(location, 0) for location in range(len(graph.ways))), modulus


def recent_along(
    graph: Graph, most: int, given: Callable[[Action], int | None]
) -> tuple[frozenset[tuple[int, ...]], ...]:
    """By location, the last values given on each way there, newest first, up to `most` of them."""
    found: list[frozenset[tuple[int, ...]]] = [frozenset()] * len(graph.ways)
    found[0] = frozenset({()})
    todo = [0]
    while todo:
        location = todo.pop(0)
        for _, action in graph.ways[location]:
            if action.target is None:
                continue
            value = given(action)
            arriving = found[location]
            if value is not None:
                arriving = frozenset((value, *recent)[:most] for recent in arriving)
            if not arriving <= found[action.target]:
                found[action.target] |= arriving
                todo.append(action.target)
    return tuple(found)


def last_along(graph: Graph, start: int, given: Callable[[Action], int | None]) -> tuple[frozenset[int], ...]:
    """By location, what the last action with a value may have given: `start` if there was none yet."""
    recent = recent_along(graph, 1, given)
    return tuple(frozenset(values[0] if values else start for values in ways) for ways in recent)


def ahead_along(graph: Graph, here: Sequence[int | None]) -> tuple[int | None, ...]:
    """By location, the largest number that can be met next on the way; None where no number can be met any more."""
    found: list[int | None] = list(here)
    changed = True
    while changed:
        changed = False
        for location in range(len(found) - 1, -1, -1):
            if here[location] is not None:
                continue
            ahead = [found[target] for target in graph.successors(location)]
            best = max((number for number in ahead if number is not None), default=None)
            if best != found[location]:
                found[location] = best
                changed = True
    return tuple(found)


def reaching(graph: Graph, goals: Iterable[int]) -> frozenset[int]:
    """The locations from which one of the goals can be reached, the goals included."""
    before: list[list[int]] = [[] for _ in graph.ways]
    for location in range(len(graph.ways)):
        for target in graph.successors(location):
            before[target].append(location)
    found = set(goals)
    todo = list(found)
    while todo:
        for location in before[todo.pop()]:
            if location not in found:
                found.add(location)
                todo.append(location)
    return frozenset(found)


def constant_update(action: Action, name: str) -> int | None:
    """The constant that an action gives to a variable, if it does."""
    for updated, value in action.updates:
        if updated == name and isinstance(value, Lit):
            return value.value
    return None


def lookup(counter: Field, values: Sequence[int], width: int) -> Expr:
    """The number that the table has at the role's location."""
    places: dict[int, list[int]] = {}
    for location, value in enumerate(values):
        places.setdefault(value, []).append(location)
    ordered = sorted(places, key=lambda value: -len(places[value]))
    result: Expr = Lit(ordered[0], width)
    for value in ordered[1:]:
        result = where(in_locations(counter, places[value]), Lit(value, width), result)
    return result


def lookup_all(counter: Field, sets: Sequence[frozenset[int]], value: Expr) -> Expr:
    """`value` is one of the numbers that the table has at the role's location."""
    result: Expr = TRUE
    places: dict[frozenset[int], list[int]] = {}
    for location, numbers in enumerate(sets):
        places.setdefault(numbers, []).append(location)
    for numbers, locations in places.items():
        equal: Expr = ~TRUE
        for number in sorted(numbers):
            equal = equal | (value == number)
        result = result & (~in_locations(counter, locations) | equal)
    return result


def sum_of_cases(sums: Sequence[Sequence[tuple[Expr, int]]], width: int) -> Expr:
    """The sum of one number from each list, the one whose condition holds (the last one if none does), wrapped to
    `width`.

    Spelled out case by case while there are few, which is much easier to reason about than adders.
    """
    mask = (1 << width) - 1
    ways = 1
    for cases in sums:
        ways *= len(cases)
    if ways > MOST_CASES:
        return total([Lit(0, width), *(_choose(cases, width) for cases in sums)])

    def spell(position: int, sum_so_far: int) -> Expr:
        if position == len(sums):
            return Lit(sum_so_far & mask, width)
        *first, (_, number) = sums[position]
        result = spell(position + 1, sum_so_far + number)
        for condition, other in reversed(first):
            result = where(condition, spell(position + 1, sum_so_far + other), result)
        return result

    return spell(0, 0)


def _choose(cases: Sequence[tuple[Expr, int]], width: int) -> Expr:
    *first, (_, number) = cases
    mask = (1 << width) - 1
    result: Expr = Lit(number & mask, width)
    for condition, other in reversed(first):
        result = where(condition, Lit(other & mask, width), result)
    return result


def cases_of(counter: Field, values: Sequence[int]) -> list[tuple[Expr, int]]:
    """A table over a role's locations as conditions and numbers."""
    places: dict[int, list[int]] = {}
    for location, number in enumerate(values):
        places.setdefault(number, []).append(location)
    return [(in_locations(counter, locations), number) for number, locations in places.items()]


def total(terms: Sequence[Expr]) -> Expr:
    """The sum, which wraps."""
    result = terms[0]
    for term in terms[1:]:
        result = result + term
    return result


def zeros(values: Sequence[int]) -> list[int]:
    """The locations at which a table is 0."""
    return [location for location, value in enumerate(values) if value == 0]
