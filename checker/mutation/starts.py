"""Mutations of a whole role at once: another start state."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TypeAlias, assert_never

from sm90_verify.mutation.neighbours import Neighbours
from sm90_verify.mutation.variation import Variation, changed
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.phase import Phase


def starts(near: Neighbours) -> Iterator[Variation]:
    """Start states of a role: the other phase, and a stage further on."""
    yield Variation("start", "in the other phase", lambda one: (flipped(one),))
    yield Variation("start", "a stage further on", lambda one: (_a_stage_on(one, near),))
    yield Variation("start", "a lap further on", lambda one: (_a_lap_on(one),))


Staged: TypeAlias = op.Wait | op.Arrive | op.Transaction | op.Load | op.Touch | op.Store
"""What names the barrier or the buffers of a stage."""


def _a_stage_on(operation: op.Operation, near: Neighbours) -> op.Operation:
    if isinstance(operation, op.Wait) and isinstance(operation.phase, Phase) and near.wraps(operation.barrier):
        operation = _a_lap_on(operation)
    if not isinstance(operation, Staged):
        return operation
    match operation:
        case op.Wait() | op.Arrive() | op.Transaction():
            return changed(operation, barrier=near.shifted(operation.barrier, 1))
        case op.Load():
            moved = near.reloaded(operation, lambda name: near.shifted(name, 1), lambda name: near.shifted(name, 1))
            read = None if moved.read is None else near.moved(moved.read, near.shifted(moved.read.object, 1))
            return replace(moved, read=read)
        case op.Touch():
            accesses = tuple(near.moved(one, near.shifted(one.object, 1)) for one in operation.accesses)
            return replace(operation, accesses=accesses)
        case op.Store():
            sources = tuple(near.moved(one, near.shifted(one.object, 1)) for one in operation.sources)
            return replace(operation, sources=sources)
        case _:
            assert_never(operation)


def _a_lap_on(operation: op.Operation) -> op.Operation:
    if not isinstance(operation, op.Wait) or not isinstance(operation.phase, Phase):
        return operation
    phase = operation.phase
    return replace(operation, phase=Phase(phase.lap + 1, phase.lineage, phase.flipped))


def flipped(operation: op.Operation) -> op.Operation:
    """A wait with the other phase bit; anything else as it is."""
    if not isinstance(operation, op.Wait) or isinstance(operation.phase, op.Token):
        return operation
    phase = operation.phase
    return replace(operation, phase=phase ^ 1 if isinstance(phase, Phase) else 1 - phase)
