"""Which steps of different processes can be taken in either order, so that one order per pair of neighbours is
enough.

Two steps are independent if neither writes what the other reads or writes, where a step reads what its guard, its
updates and its checks mention. A role's counter is written by each of its steps, but what others ask of it is only
whether it is in some set of locations; so each such question is an observation of its own, written by the steps that
change its answer.

Why keeping one order loses no shortest violation: let a shortest schedule that violates a property contain neighbours
a, b of different processes that are independent. Swapping them gives the same states before and after, so the
schedule stays one of the machine if the state in between is not one behind which nothing is defined. Such a state
would be one by a check that neither a alone nor b alone brings about or takes away, for it holds neither before nor
after; therefore two steps that both write what one such check reads count as dependent. If b is the violating step
itself, it reads what its checks read, so it would violate the property without a before it, one step earlier: the
schedule was no shortest one. Among all schedules that swaps lead to, the one whose processes are lexicographically
least has no neighbours that could be swapped downwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sm90_verify.spec.model.machine import Action, Check, Machine
from sm90_verify.spec.ptx.expr import Apply, Expr, compute, fold

Observed = frozenset[tuple[str, tuple[int, ...]]]
"""Names of variables, with (); and for a counter the values that a question about it has, location by location."""


@dataclass(frozen=True)
class _Known:
    """A value that depends on one counter at most."""

    counter: str
    values: tuple[int, ...]


@dataclass(frozen=True)
class Footprint:
    """What a group of actions of one process reads and writes, and the actions."""

    process: int
    reads: Observed
    writes: Observed
    actions: tuple[int, ...]


def processes_of(machine: Machine) -> list[tuple[int, ...]]:
    """The actions of each role, in order, then each action without a role as a process of its own."""
    numbers = {role.name: number for number, role in enumerate(machine.roles)}
    found: list[list[int]] = [[] for _ in machine.roles]
    for index, action in enumerate(machine.actions):
        if action.location is None:
            found.append([index])
        else:
            found[numbers[action.role]].append(index)
    return [tuple(actions) for actions in found]


def observations(expr: Expr, sizes: dict[str, int]) -> Observed:
    """What an expression reads; `sizes` gives the number of locations by counter."""
    return _observed(_fold(expr, sizes))


def _fold(expr: Expr, sizes: dict[str, int]) -> _Known | Observed:
    def operation(node: Apply, parts: list[_Known | Observed]) -> _Known | Observed:
        known = [part for part in parts if isinstance(part, _Known)]
        counters = {part.counter: None for part in known if part.counter}
        if len(known) == len(parts) and len(counters) <= 1:
            counter = next(iter(counters), "")
            width = node.arguments[-1].width
            rows = range(sizes[counter] if counter else 1)
            columns = [part.values if part.counter else part.values * len(rows) for part in known]
            return _Known(counter, tuple(compute(node.operator, [c[row] for c in columns], width) for row in rows))
        return frozenset[tuple[str, tuple[int, ...]]]().union(*(_observed(part) for part in parts))

    return fold(
        expr,
        lambda lit: _Known("", (lit.value,)),
        lambda field: (
            _Known(field.name, tuple(range(sizes[field.name])))
            if field.name in sizes
            else frozenset({(field.name, ())})
        ),
        operation,
    )


def _observed(part: _Known | Observed) -> Observed:
    if not isinstance(part, _Known):
        return part
    return frozenset({(part.counter, part.values)}) if len(set(part.values)) > 1 else frozenset()


def footprints(machine: Machine) -> list[Footprint]:
    """The actions of each process, grouped by what they read and write of what others can see."""
    sizes = {role.counter: len(role.locations) for role in machine.roles}
    counters = {role.name: role.counter for role in machine.roles}
    reads = [_reads(action, sizes, counters.get(action.role, "")) for action in machine.actions]
    halting = _halting_observations(machine, sizes)
    questions: dict[str, dict[tuple[int, ...], None]] = {}
    for observed in (*reads, *halting):
        for name, values in sorted(observed):
            if values:
                questions.setdefault(name, {})[values] = None
    groups: dict[tuple[int, Observed, Observed], list[int]] = {}
    for process, actions in enumerate(processes_of(machine)):
        for index in actions:
            action = machine.actions[index]
            written: set[tuple[str, tuple[int, ...]]] = {(name, ()) for name, _ in action.updates}
            if action.location is not None and action.target is not None:
                counter = counters[action.role]
                for values in questions.get(counter, {}):
                    if values[action.location] != values[action.target]:
                        written.add((counter, values))
            ends = {(f"halting check {n}", ()) for n, check in enumerate(halting) if check & written}
            groups.setdefault((process, reads[index], frozenset(written | ends)), []).append(index)
    return [Footprint(process, r, w, tuple(actions)) for (process, r, w), actions in groups.items()]


def independent(one: Footprint, other: Footprint) -> bool:
    """Whether steps of the two can be swapped when they are neighbours."""
    if one.process == other.process:
        return False
    return not (one.writes & (other.reads | other.writes) or other.writes & one.reads)


def _reads(action: Action, sizes: dict[str, int], own: str) -> Observed:
    parts = [action.guard, *(value for _, value in action.updates), *(check.when for check in action.checks)]
    found = frozenset[tuple[str, tuple[int, ...]]]().union(*(observations(part, sizes) for part in parts))
    return frozenset(item for item in found if item[0] != own)


def _halting_observations(machine: Machine, sizes: dict[str, int]) -> list[Observed]:
    found = [observations(check.when, sizes) for check in _halting(machine.checks)]
    for role in machine.roles:
        for index, location in enumerate(role.locations):
            here = tuple(int(index == other) for other in range(len(role.locations)))
            for check in _halting(location.checks):
                found.append(observations(check.when, sizes) | {(role.counter, here)})
    return found


def _halting(checks: Iterable[Check]) -> list[Check]:
    return [check for check in checks if check.halts]
