"""Bulk copies land: their bytes are counted in a phase of their barrier, and are there for whoever knows that phase."""

from __future__ import annotations

from collections.abc import Hashable

from sm90_verify.engines.order import ctas, phases, signals
from sm90_verify.engines.order.plan import Move, Use
from sm90_verify.engines.order.progress import Progress
from sm90_verify.engines.order.state import InFlight
from sm90_verify.spec.ptx.numbers import apply


def land(run: Progress, role: int, move: Move) -> None:
    """The copy lands, in this run as soon as it can; the event that issued it is the last one of the role."""
    for number, leaves in zip(move.things, move.leaves, strict=True):
        stage = run.state.barriers[number].stage
        _land_one(run, role, move, number)
        if run.halted:
            return
        for use in move.uses:
            if use.lands == number:
                _landed(run, role, use, number, stage, run.state.done[role] - 1)
        leave(run.state.content, leaves)


def _land_one(run: Progress, role: int, move: Move, number: int) -> None:
    state = run.state
    barrier, use = state.barriers[number], run.plan.barriers[number]
    event = state.done[role] - 1
    node = state.log[-1][1]
    stage, clock = barrier.stage, run.now(role)
    assert move.operation is not None
    if use.invals:
        barrier.used[role] = event
    for piece in range(move.pieces):
        if barrier.stage != stage:
            because = f"{use.name} completes a phase between two pieces of one copy"
            run.diverge("tx-count", because, use.name, signals.within(run, role, number), None)
        applied = apply(barrier.parts, move.operation, False)
        for property, because in applied.violates:
            reached = signals.within(run, role, number)
            run.fail(property, f"{use.name}: {because}", use.name, reached, (~role, node), happened=True)
        if run.halted:
            return
        barrier.copies = True
        if piece == 0:
            state.log.append((~role, node, number, stage))
        phases.land(run, number, applied, role, event, clock)


def _landed(run: Progress, role: int, use: Use, barrier: int, stage: int, event: int) -> None:
    """The copy's bytes are counted in the phase of that stage; until it is known to be complete, they may come late."""
    flights = run.state.flights[use.bytes]
    known = flights.get(barrier)
    if known is None or known[0] <= stage:
        flights[barrier] = InFlight(stage, role, event)
    ctas.look_at_flight(run, use.access, barrier, stage, role, event)


def leave(content: dict[str, Hashable], *leaves: tuple[str, Hashable, tuple[str, ...]]) -> None:
    """What buffers hold after a write."""
    for buffer, tag, others in leaves:
        content[buffer] = tag
        for other in others:
            content.pop(other, None)
