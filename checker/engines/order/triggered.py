"""Arrivals that follow cp.asyncs of themselves (cp.async.mbarrier.arrive.noinc, PTX ISA 9.7.13.15.15).

Such an arrival is a contribution that nothing but its issue is before, as landing bytes are. The cp.asyncs before it
are over for whoever knows the phase that counts it, or one that counts a later arrival of the same threads, or their
own wait for the group. A proxy fence covers what they wrote if it comes after one of these.
"""

from __future__ import annotations

from collections.abc import Iterable

from sm90_verify.engines.order import phases, signals
from sm90_verify.engines.order.clocks import NEVER, Clock
from sm90_verify.engines.order.plan import Move
from sm90_verify.engines.order.progress import Progress
from sm90_verify.engines.order.state import InFlight
from sm90_verify.spec.ptx.numbers import apply

Flights = dict[int, InFlight]
"""By barrier, the last copies of some bytes of which it tells."""


def arrive(run: Progress, role: int, move: Move, *, observe: bool) -> None:
    """The arrivals that the last event of the role triggers, in this run at once. observe: nobody may have seen the
    phase before complete.
    """
    (number,), state = move.things, run.state
    barrier, use = state.barriers[number], run.plan.barriers[number]
    event, node, clock = state.done[role] - 1, state.log[-1][1], run.now(role)
    _tracked(run, role, move, number, event)
    assert move.operation is not None
    applied = apply(barrier.parts, move.operation, observe)
    for property, because in applied.violates:
        happened = property != "unobserved-phase"
        reached = signals.within(run, role, number) if happened else clock
        run.fail(property, f"{use.name}: {because}", use.name, reached, (~role, node), happened=happened)
    if run.halted:
        return
    barrier.copies = True
    state.log.append((~role, node, number, barrier.stage))
    phases.follow(run, number, applied, role, event, clock)


def _tracked(run: Progress, role: int, move: Move, number: int, event: int) -> None:
    """From here on the barrier tells of the role's cp.asyncs."""
    state, stage = run.state, run.state.barriers[number].stage
    for region, write in move.tracks:
        state.regions[region][role].made_by(event, write=write)
        flights = state.flights[region]
        for other, _ in list(of_role(flights, role)):
            del flights[other]
        flights[number] = InFlight(stage, role, event, copied=True)
    for region in move.also:
        flights = state.flights[region]
        known = next((one for _, one in of_role(flights, role)), None)
        # what another role has copied into the same bytes since, and the barrier tells of, is what matters
        if known is not None and (number not in flights or (flights[number].copied and flights[number].role == role)):
            flights[number] = known._replace(stage=stage)


def waited(run: Progress, role: int, move: Move, event: int) -> None:
    """The role has waited for the group of cp.asyncs that an arrival follows."""
    for region in move.awaited:
        flights = run.state.flights[region]
        for barrier, one in list(of_role(flights, role)):
            if one.waited == NEVER:
                flights[barrier] = one._replace(waited=event)


def of_role(flights: Flights, role: int) -> Iterable[tuple[int, InFlight]]:
    """The cp.asyncs of a role among them, each with the barrier."""
    return ((barrier, one) for barrier, one in flights.items() if one.copied and one.role == role)


def is_over(run: Progress, role: int, clock: Clock, flights: Flights, issuer: int) -> bool:
    """The role with that clock knows that the cp.asyncs of another one are over, or its own."""
    known = run.state.done[role] if issuer == role else clock[issuer]
    return any(
        clock[run.roles + barrier] > one.stage or known > one.waited for barrier, one in of_role(flights, issuer)
    )


def is_fenced(run: Progress, clock: Clock, flights: Flights, issuer: int) -> bool:
    """A proxy fence comes after the cp.asyncs, and before what the role does next."""
    plan = run.plan
    return any(
        clock[plan.fenced_stage(barrier)] > one.stage or clock[plan.fenced + issuer] > one.waited
        for barrier, one in of_role(flights, issuer)
    )


def not_before(run: Progress, flights: Flights, issuer: int) -> tuple[int, ...]:
    """By role, an event such that no earlier one is after the cp.asyncs of the issuer: by whatever tells that these are
    over. All of it is put off where a schedule has them late; the first to tell is not the last that tracks them.
    """
    told = [run.not_before(issuer, one.event, barrier, one.stage) for barrier, one in of_role(flights, issuer)]
    told += [run.not_before(issuer, one.waited) for _, one in of_role(flights, issuer) if one.waited != NEVER]
    return tuple(map(min, zip(*told, strict=True)))
