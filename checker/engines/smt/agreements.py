"""Templates for everything that roles must agree on apart from mbarriers: contents, loops, choices, meetings,
counters.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise, product
from math import gcd

from sm90_verify.engines.smt.tables import (
    Candidate,
    Graph,
    Model,
    constant_update,
    count_along,
    last_along,
    lookup,
    lookup_all,
    reaching,
    recent_along,
    sum_of_cases,
    total,
)
from sm90_verify.spec.model.accesses import in_locations
from sm90_verify.spec.model.machine import Action
from sm90_verify.spec.ptx.expr import FALSE, TRUE, Apply, Expr, Field, Lit, all_of, any_of, fields_of, where

EXACT = 64
"""Modulus for counts that are exact because no loop without end is involved."""


def agreement_candidates(model: Model) -> Iterable[Candidate]:
    """All that these templates say about a machine."""
    for graph in model.graphs.values():
        size = len(graph.ways)
        if size < 1 << graph.counter.width:
            yield Candidate("locations", graph.role.name, graph.counter < size)
    yield from _contents(model)
    yield from _written_by_one(model)
    yield from _counters(model)
    yield from _loops(model)
    yield from _meetings(model)
    yield from _choices(model)


# ---------------------------------------------------------------- what buffers hold


def _contents(model: Model) -> Iterable[Candidate]:
    """While no copy is in flight, a buffer holds what was last issued or written, by location of who did it."""
    contents = dict.fromkeys(copy.content for copy in model.machine.structure.copies if copy.content)
    contents.update((name, None) for name in model.fields if name.endswith(".holds"))
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


def _writers(model: Model, names: list[str]) -> list[Graph]:
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


def _written_by_one(model: Model) -> Iterable[Candidate]:
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


def _counters(model: Model) -> Iterable[Candidate]:
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


# ---------------------------------------------------------------- decisions that all roles share


def _loops(model: Model) -> Iterable[Candidate]:
    """Iterations done plus iterations behind are the same for all roles of a trip-count loop; the first is not
    behind.
    """
    iterations = {p.role: p for p in model.machine.structure.progress if p.kind == "iteration"}
    for ended in [name for name in model.fields if name.startswith("loop.") and name.endswith(".ended")]:
        loop = ended[len("loop.") : -len(".ended")]
        behind = {
            role: model.fields[f"behind.{role}.{loop}"]
            for role in model.graphs
            if f"behind.{role}.{loop}" in model.fields
        }
        if len(behind) < 2:
            continue
        yield Candidate("loops", f"somebody leads {loop}", any_of(field == 0 for field in behind.values()))
        yield from _bounds("loops", behind)
        counts = {
            role: (tuple(value or 0 for value in iterations[role].by_location), iterations[role].modulus)
            for role in behind
            if role in iterations
        }
        if len(counts) == len(behind):
            yield from _in_step("loops", model, behind, counts)
        for role, field in behind.items():
            heads = _reading(model.graphs[role], field.name)
            past = set(range(len(model.graphs[role].ways))) - reaching(model.graphs[role], heads)
            inside = ~in_locations(model.graphs[role].counter, past)
            yield Candidate("loops", f"{role} has ended {loop}", inside | (field == 0) & (model.fields[ended] == 1))


def _bounds(template: str, behind: dict[str, Field]) -> Iterable[Candidate]:
    for role, field in behind.items():
        for most in range(1, (1 << field.width) - 1):
            yield Candidate(template, f"{role} is at most {most} behind", field <= most, f"{field.name} <=")


def _in_step(
    template: str, model: Model, behind: dict[str, Field], counts: dict[str, tuple[tuple[int, ...], int]]
) -> Iterable[Candidate]:
    """count by location + behind is the same for all, modulo what the counts recur with."""
    roles = list(behind)
    for one, other in pairwise(roles):
        width = behind[one].width
        modulus = gcd(counts[one][1], counts[other][1])
        if modulus == 0:
            largest = max(*counts[one][0], *counts[other][0]) + (1 << max(width, behind[other].width))
            wide = largest.bit_length()
            exact = [
                lookup(model.graphs[role].counter, counts[role][0], wide) + _widened(behind[role], wide)
                for role in (one, other)
            ]
            yield Candidate(template, f"{one} and {other} are in step", exact[0] == exact[1])
            continue
        if modulus == 1 or behind[other].width != width or modulus > 1 << width:
            continue
        sides = []
        small: list[Expr] = []
        for role in (one, other):
            done = lookup(model.graphs[role].counter, [value % modulus for value in counts[role][0]], width)
            sides.append(_modulo(done + behind[role], modulus))
            if modulus & (modulus - 1):
                small.append(behind[role] < (1 << width) - modulus)
        yield Candidate(template, f"{one} and {other} are in step", all_of([*small, sides[0] == sides[1]]))


def _widened(field: Field, width: int) -> Expr:
    cases = [(field == number, number) for number in range(1, 1 << field.width)]
    return sum_of_cases([[*cases, (TRUE, 0)]], width)


def _modulo(number: Expr, modulus: int) -> Expr:
    if modulus & (modulus - 1) == 0:
        return number & (modulus - 1)
    result = number
    for times in range(1, ((1 << number.width) - 1) // modulus + 1):
        result = where(number >= times * modulus, number - times * modulus, result)
    return result


def _reading(graph: Graph, name: str) -> list[int]:
    """The locations with an action whose guard reads the variable."""
    return [
        location for location, way in enumerate(graph.ways) if any(name in fields_of(action.guard) for _, action in way)
    ]


def _choices(model: Model) -> Iterable[Candidate]:
    """What a role has chosen is in the history, as far back as the role is behind."""
    for newest in [name for name in model.fields if name.startswith("choice.") and name.endswith(".0")]:
        choice = newest[len("choice.") : -len(".0")]
        behind = {
            role: model.fields[f"behind.{role}.{choice}"]
            for role in model.graphs
            if f"behind.{role}.{choice}" in model.fields
        }
        history = [model.fields[name] for name in model.fields if name.startswith(f"choice.{choice}.")]
        yield Candidate("choices", f"somebody leads {choice}", any_of(field == 0 for field in behind.values()))
        yield from _bounds("choices", behind)
        counts = {}
        for role, field in behind.items():
            graph = model.graphs[role]
            heads = frozenset(_reading(graph, field.name))
            counts[role] = count_along(graph, _one_at(heads))
            chosen = recent_along(graph, len(history), _answers(graph, heads))
            for age in range(len(history)):
                past = [place for place, recent in enumerate(chosen) if all(len(one) > age for one in recent)]
                answers = [frozenset(one[age] for one in recent if len(one) > age) for recent in chosen]
                known: Expr = FALSE
                for distance, entry in enumerate(history[age:]):
                    if distance < 1 << field.width:
                        known = known | (field == distance) & lookup_all(graph.counter, answers, entry)
                about = f"{role} chose {choice}, {age} before its last"
                yield Candidate("choices", about, ~in_locations(graph.counter, past) | known)
        yield from _in_step("choices", model, behind, counts)


def _one_at(heads: frozenset[int]) -> Callable[[Action], int]:
    return lambda action: int(action.location in heads)


def _answers(graph: Graph, heads: frozenset[int]) -> Callable[[Action], int | None]:
    """The number of the option that an action at a choice takes: options come in order, each picked or found."""

    def answer(action: Action) -> int | None:
        if action.location not in heads:
            return None
        targets = list(dict.fromkeys(other.target for _, other in graph.ways[action.location or 0]))
        return targets.index(action.target)

    return answer


# ---------------------------------------------------------------- named barriers and __syncthreads


def _meetings(model: Model) -> Iterable[Candidate]:
    """The arrived threads are those of the roles with a flag, and all participants are in the same generation."""
    threads = {role.name: role.threads for role in model.machine.roles}
    for arrived in [model.fields[name] for name in model.fields if name.endswith(".arrived")]:
        name = arrived.name[: -len(".arrived")]
        flags = {role: model.fields[f"{name}.{role}"] for role in model.graphs if f"{name}.{role}" in model.fields}
        zero = Lit(0, arrived.width)
        parts = [where(flag == 1, Lit(threads[role], arrived.width), zero) for role, flag in flags.items()]
        yield Candidate("meetings", f"threads at {name}", arrived == total([zero, *parts]))
        yield Candidate("meetings", f"{name} is not full", ~all_of(flag == 1 for flag in flags.values()))
        entered: list[tuple[str, tuple[int, ...], int]] = []
        for role, flag in flags.items():
            graph = model.graphs[role]
            enters = frozenset(_entering(graph, arrived.name))
            inside = [target for _, target in enters if target is not None and _is_inside(graph, target)]
            yield Candidate("meetings", f"{role} waits at {name}", (flag == 0) | in_locations(graph.counter, inside))
            counts, modulus = count_along(graph, _one_on(enters))
            entered.append((role, counts, modulus))
        for (one, counts, modulus), (other, more, period) in pairwise(entered):
            common = gcd(modulus, period) or EXACT
            if common < 2:
                continue
            width = (common - 1).bit_length()
            sides = []
            for role, table in ((one, counts), (other, more)):
                counter = model.graphs[role].counter
                here = lookup(counter, [value % common for value in table], width)
                done = lookup(counter, [(value - 1) % common for value in table], width)
                sides.append(where(flags[role] == 1, done, here))
            yield Candidate("meetings", f"{one} and {other} at {name}", sides[0] == sides[1])


def _entering(graph: Graph, arrived: str) -> Iterable[tuple[int | None, int | None]]:
    """The edges on which a role arrives: they move the thread count, and do not start from inside."""
    for way in graph.ways:
        for _, action in way:
            if any(name == arrived for name, _ in action.updates) and not action.op.startswith("leave"):
                yield action.location, action.target


def _one_on(edges: frozenset[tuple[int | None, int | None]]) -> Callable[[Action], int]:
    return lambda action: int((action.location, action.target) in edges)


def _is_inside(graph: Graph, target: int) -> bool:
    """Whether the location behind an arrival is one that waits for the barrier to complete."""
    return graph.role.locations[target].op.startswith("inside")
