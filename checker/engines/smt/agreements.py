"""Templates for everything that roles must agree on apart from mbarriers: locations, contents, counters, and what the
modules of shared decisions and of meetings add.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from math import gcd

from sm90_verify.engines.smt.decisions import choice_candidates, loop_candidates
from sm90_verify.engines.smt.meetings import meeting_candidates
from sm90_verify.engines.smt.tables import (
    Candidate,
    Graph,
    TabledMachine,
    constant_update,
    count_along,
    last_along,
    lookup,
    lookup_all,
    total,
)
from sm90_verify.engines.smt.turns import turn_candidates
from sm90_verify.spec.model.machine import Action
from sm90_verify.spec.ptx.expr import Apply, Expr, Field, Lit, all_of, any_of


def agreement_candidates(model: TabledMachine) -> Iterable[Candidate]:
    """All that these templates say about a machine."""
    for graph in model.graphs.values():
        size = len(graph.ways)
        if size < 1 << graph.counter.width:
            yield Candidate("locations", graph.role.name, graph.counter < size)
    yield from _contents(model)
    yield from _written_by_one(model)
    yield from _fenced(model)
    yield from _counters(model)
    yield from loop_candidates(model)
    yield from meeting_candidates(model)
    yield from turn_candidates(model)
    yield from choice_candidates(model)


# ---------------------------------------------------------------- what buffers hold


def _contents(model: TabledMachine) -> Iterable[Candidate]:
    """While no copy is in flight, a buffer holds what was last issued or written, by location of who did it."""
    contents = dict.fromkeys(copy.content for copy in model.machine.structure.copies if copy.content)
    contents.update((variable.name, None) for variable in model.machine.of_kind("holds"))
    for name in contents:
        holds = model.fields[name]
        busy = [copy.variable for copy in model.machine.structure.copies if copy.content == name]
        writers = _writers(model, [name, *busy])
        idle = all_of(model.fields[variable] == 0 for variable in busy)
        tables = [last_along(graph, model.initial[name], _Given([name, *busy])) for graph in writers]
        if len(writers) == 1:
            yield Candidate("contents", name, ~idle | lookup_all(writers[0].counter, tables[0], holds))
        elif 1 < len(writers) <= 3:
            yield from _latest(name, holds, idle, writers, tables, [name, *busy])


def _fenced(model: TabledMachine) -> Iterable[Candidate]:
    """Behind a proxy fence, no write that a role fences for others is without one, location by location; and where
    tensormaps are released, and acquired.
    """
    for variable in model.machine.of_kind("bare"):
        for graph in model.graphs.values():
            table = last_along(graph, 1, _Given([variable.name]))
            for location, values in enumerate(table):
                if values == frozenset((0,)):
                    behind = (graph.counter != location) | (model.fields[variable.name] == 0)
                    yield Candidate("fenced", f"{variable.name} at {graph.role.name}@{location}", behind)
    for variable in model.machine.of_kind("edited"):
        edited = model.fields[variable.name]
        for graph in model.graphs.values():
            for location, about in product(range(len(graph.ways)), (edited != 1, edited == 0)):
                what = f"{variable.name} at {graph.role.name}@{location}"
                yield Candidate("edited", what, (graph.counter != location) | about)


def _latest(
    name: str,
    holds: Field,
    idle: Expr,
    writers: list[Graph],
    tables: list[tuple[frozenset[int], ...]],
    names: list[str],
) -> Iterable[Candidate]:
    """Several writers: how many writes each is ahead of the first one says who wrote last."""
    counts, modulus = [], 0
    for graph in writers:
        count, period = count_along(graph, lambda action: _Given(names)(action) is not None)
        counts.append(count)
        modulus = gcd(modulus, period)
    modulus = min(modulus & -modulus, 8) or 8
    if modulus < 2:
        return
    width = (modulus - 1).bit_length()
    shown = [
        lookup(graph.counter, [value % modulus for value in count], width)
        for graph, count in zip(writers, counts, strict=True)
    ]
    for ahead in product(range(modulus), repeat=len(writers) - 1):
        differ = any_of(one - shown[0] != number for one, number in zip(shown[1:], ahead, strict=True))
        about = f"{name} with {ahead}"
        yield Candidate("turns at contents", f"{about} never", idle & differ | ~idle)
        for graph, table in zip(writers, tables, strict=True):
            latest = ~idle | differ | lookup_all(graph.counter, table, holds)
            yield Candidate("turns at contents", f"{about} from {graph.role.name}", latest)


def _writers(model: TabledMachine, names: list[str]) -> list[Graph]:
    return [
        graph
        for graph in model.graphs.values()
        if any(_Given(names)(action) is not None for way in graph.ways for _, action in way)
    ]


class _Given:
    """The constant that an action gives to any of the variables."""

    def __init__(self, names: list[str]) -> None:
        self.names = names

    def __call__(self, action: Action) -> int | None:
        values = [constant_update(action, name) for name in self.names]
        return next((value for value in values if value is not None), None)


# ---------------------------------------------------------------- variables that one role's location explains


def _written_by_one(model: TabledMachine) -> Iterable[Candidate]:
    """A variable that only one role writes, and only with constants, is what the role wrote last."""
    writes: dict[str, list[tuple[Action, Expr]]] = {}
    for action in model.machine.actions:
        for name, value in action.updates:
            writes.setdefault(name, []).append((action, value))
    for name, found in writes.items():
        roles = dict.fromkeys(action.role for action, _ in found)
        if len(roles) == 1 and next(iter(roles)) in model.graphs and all(isinstance(value, Lit) for _, value in found):
            graph = model.graphs[next(iter(roles))]
            table = last_along(graph, model.initial[name], _Given([name]))
            yield Candidate("written by one", name, lookup_all(graph.counter, table, model.fields[name]))


def _counters(model: TabledMachine) -> Iterable[Candidate]:
    """A variable that every step moves by a constant, or not at all, is the sum of what the roles' locations say."""
    steps: dict[str, list[int | None]] = {}
    for action in model.machine.actions:
        for name, value in action.updates:
            moved = _moved(name, value)
            steps.setdefault(name, []).append(moved if action.location is not None else None)
    for name, moves in steps.items():
        if None in moves:
            continue
        field, parts = model.fields[name], []
        for graph in model.graphs.values():
            counts, modulus = count_along(graph, _Moves(name))
            if modulus % (1 << field.width):
                break
            if any(counts):
                mask = (1 << field.width) - 1
                parts.append(lookup(graph.counter, [count & mask for count in counts], field.width))
        else:
            yield Candidate("counters", name, field == total([Lit(model.initial[name], field.width), *parts]))


class _Moves:
    """By how much an action moves a variable."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __call__(self, action: Action) -> int:
        return sum(_moved(self.name, value) or 0 for updated, value in action.updates if updated == self.name)


def _moved(name: str, value: Expr) -> int | None:
    """The constant that an update adds to its own variable."""
    match value:
        case Field(name=other) if other == name:
            return 0
        case Apply("add", (Field(name=other), Lit(value=amount))) if other == name:
            return amount
        case Apply("sub", (Field(name=other), Lit(value=amount))) if other == name:
            return -amount
    return None
