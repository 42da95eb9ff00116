"""Candidate invariants, generated from the structure of a pipeline: what its barriers, copies, loops and locations
say.

All of them are guesses. What a template says is true of the pipelines that it was made for, and nothing rests on it:
a candidate counts only after engines.smt.induction has shown that it holds at the start and that every step keeps
all of them.
"""

from __future__ import annotations

from sm90_verify.engines.smt.agreements import agreement_candidates
from sm90_verify.engines.smt.clocks import barrier_candidates
from sm90_verify.engines.smt.starts import start_candidates
from sm90_verify.engines.smt.tables import Candidate, tabled
from sm90_verify.engines.smt.turns import turn_candidates
from sm90_verify.engines.smt.walk import Walk
from sm90_verify.spec.model.accesses import in_locations
from sm90_verify.spec.model.machine import Machine
from sm90_verify.spec.ptx.expr import Lit


def candidates(machine: Machine) -> list[Candidate]:
    """All candidates for a machine, in declaration order, without those that say nothing."""
    model = tabled(machine)
    found = [
        *barrier_candidates(model),
        *agreement_candidates(model),
        *turn_candidates(model),
        *start_candidates(model),
    ]
    return [candidate for candidate in found if not isinstance(candidate.holds, Lit)]


def learned(machine: Machine, seen: Walk) -> list[Candidate]:
    """Candidates read off concrete walks: where a role has been seen while a buffer still held what it held at first.

    A loop that closes makes the first round and a later one the same location; this tells them apart.
    """
    model = tabled(machine)
    order = [variable.name for variable in machine.variables]
    found = []
    for name in [variable.name for variable in machine.of_kind("holds")]:
        place, field = order.index(name), model.fields[name]
        early = [state for state in seen.states if state[place] == model.initial[name]]
        for graph in model.graphs.values():
            counter = order.index(graph.counter.name)
            before = in_locations(graph.counter, {state[counter] for state in early})
            found.append(Candidate("learned", f"{name} and {graph.role.name}", before | (field != model.initial[name])))
    return found
