"""Templates for named barriers and __syncthreads: who has arrived, and how often."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise
from math import gcd

from sm90_verify.engines.smt.tables import (
    Candidate,
    Graph,
    TabledMachine,
    count_along,
    lookup,
    total,
)
from sm90_verify.spec.model.accesses import in_locations
from sm90_verify.spec.model.machine import Action
from sm90_verify.spec.ptx.expr import Lit, all_of, where

EXACT = 64
"""Modulus for counts that are exact because no loop without end is involved."""


def meeting_candidates(model: TabledMachine) -> Iterable[Candidate]:
    """The arrived threads are those of the roles with a flag, and all participants are in the same generation."""
    threads = {role.name: role.threads for role in model.machine.roles}
    for variable in model.machine.of_kind("arrived"):
        name, arrived = variable.of, model.fields[variable.name]
        flags = model.by_role("met", name)
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
    for location, way in enumerate(graph.ways):
        for _, action in way:
            if any(name == arrived for name, _ in action.updates) and not _is_inside(graph, location):
                yield action.location, action.target


def _one_on(edges: frozenset[tuple[int | None, int | None]]) -> Callable[[Action], int]:
    return lambda action: int((action.location, action.target) in edges)


def _is_inside(graph: Graph, location: int) -> bool:
    """Whether a role waits there for a barrier of threads to complete."""
    return graph.role.locations[location].kind == "inside"
