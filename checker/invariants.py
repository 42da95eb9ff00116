"""Candidate invariants, generated from the structure of a pipeline: what its barriers, copies, loops and locations
say.

All of them are guesses. What a template says is true of the pipelines that it was made for, and nothing rests on it:
a candidate counts only after checker.induction has shown that it holds at the start and that every step keeps all of
them.
"""

from __future__ import annotations

from checker.agreements import agreement_candidates
from checker.clocks import barrier_candidates
from checker.tables import Candidate, model_of
from spec.expr import Lit
from spec.machine import Machine


def candidates(machine: Machine) -> list[Candidate]:
    """All candidates for a machine, in declaration order, without those that say nothing."""
    model = model_of(machine)
    found = [*barrier_candidates(model), *agreement_candidates(model)]
    return [candidate for candidate in found if not isinstance(candidate.holds, Lit)]
