"""Templates for CTAs that others may keep waiting: where their roles can be before they are started, and what whoever
has waited for a grid knows.
"""

from __future__ import annotations

from collections.abc import Iterable

from sm90_verify.engines.smt.tables import Candidate, Graph, TabledMachine
from sm90_verify.spec.model.accesses import in_locations
from sm90_verify.spec.ptx.expr import Field


def start_candidates(model: TabledMachine) -> Iterable[Candidate]:
    """A role beyond a step that sets such a variable finds it set; once a grid is complete, its roles have ended."""
    for variable in (*model.machine.of_kind("started"), *model.machine.of_kind("complete")):
        field = model.fields[variable.name]
        for role, graph in model.graphs.items():
            before = in_locations(graph.counter, _without(graph, field))
            yield Candidate("starts", f"{variable.name} behind {role}", before | (field == 1))
            if variable.kind == "complete":
                final = [at for at, place in enumerate(graph.role.locations) if place.final]
                yield Candidate("starts", f"{role} has ended", (field == 0) | in_locations(graph.counter, final))


def _without(graph: Graph, field: Field) -> frozenset[int]:
    """The locations that the role can reach without a step that changes the variable."""
    found, todo = {0}, [0]
    while todo:
        for _, action in graph.ways[todo.pop()]:
            changes = any(name == field.name for name, _ in action.updates)
            if not changes and action.target is not None and action.target not in found:
                found.add(action.target)
                todo.append(action.target)
    return frozenset(found)
