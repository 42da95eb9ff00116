"""mbarrier.init and mbarrier.inval: everything that is done to a barrier is after its init and before its inval, and
no data lies in its bytes in between.
"""

from __future__ import annotations

from sm90_verify.engines.order import memory, phases, signals
from sm90_verify.engines.order.clocks import NEVER, join
from sm90_verify.engines.order.plan import Move
from sm90_verify.engines.order.progress import Progress
from sm90_verify.engines.order.state import InFlight
from sm90_verify.spec.ptx.memory import describe
from sm90_verify.spec.ptx.needs import UNTOUCHED
from sm90_verify.spec.ptx.numbers import apply

_NOTHING = InFlight(-1, 0, 0)


def live(run: Progress, role: int, move: Move) -> None:
    """init or inval: everything that was done to the barrier must be before it."""
    state, number = run.state, move.thing
    barrier, use = state.barriers[number], run.plan.barriers[number]
    clock, step = state.clock[role], (role, state.at[role])
    assert move.operation is not None
    applied = apply(barrier.parts, move.operation, False)
    for property, because in applied.violates:
        reached = signals.within(run, role, number)
        run.fail(property, f"{use.name}: {because}", use.name, reached, step, happened=True)
    if run.halted:
        return
    known = clock[run.roles + number]
    if move.kind == "init" and known < barrier.stage:
        because = f"{use.name}: nothing orders its init after the last inval"
        run.fail("barrier-init", because, use.name, run.now(role), step)
    elif move.kind == "inval" and known < barrier.first:
        signals.not_initialised(run, role, number, step)
    elif move.kind == "inval":
        _must_be_unused(run, role, move, step)
    memory.access(run, role, move)
    barrier.parts = applied.barrier
    phases.next_stage(run, number, run.publish(role))
    state.clock[role] = barrier.completions[-1]
    if move.kind == "inval":
        barrier.dead = (*barrier.dead, barrier.stage)
    else:
        barrier.first = barrier.stage
        barrier.seen = dict.fromkeys(barrier.seen, barrier.stage)
        barrier.fresh = tuple(barrier.seen) if use.invals else ()
        barrier.required, barrier.witness, barrier.used = {}, {}, {}
        barrier.unfenced[role] = barrier.hidden[role] = NEVER


def nobody_may_stand_there(run: Progress, number: int) -> None:
    """In this run, no role has come to a wait on the barrier that has just been invalidated."""
    barrier, name = run.state.barriers[number], run.plan.barriers[number].name
    for role, at in enumerate(run.state.at):
        move = run.plan.moves[role][at]
        if run.state.inside[role] < 0 and move.kind in ("wait", "token") and move.thing == number:
            because = f"{name}: inval while {run.plan.programs[role].name} stands at a wait on it"
            reached = join(run.now(role), barrier.completions[-1])
            run.fail("barrier-init", because, name, reached, happened=True)


def must_be_dead(run: Progress, role: int, move: Move) -> None:
    """Barriers in whose bytes an access begins: if nothing races with their init and inval, they are as in this run."""
    for access, number in move.over_barriers:
        if run.state.barriers[number].parts.alive:
            name = run.plan.barriers[number].name
            because = UNTOUCHED.said(role=run.plan.programs[role].name, access=describe(access), barrier=name)
            reached = signals.behind(run, role, number)
            run.fail("barrier-init", because, name, reached, (role, run.state.at[role]), happened=True)


def _must_be_unused(run: Progress, role: int, move: Move, step: tuple[int, int]) -> None:
    """Everything that was done to the barrier is before its inval."""
    barrier, use = run.state.barriers[move.thing], run.plan.barriers[move.thing]
    clock = run.state.clock[role]
    for other, event in barrier.used.items():
        if other != role and clock[other] <= event:
            because = f"{use.name}: {move.kind} while {run.plan.programs[other].name} may still use it"
            reached = join(run.now(role), run.clock_at(other, event))
            run.fail("barrier-init", because, use.name, reached, step, beyond=run.clock_at(other, event + 1))
    if any(one.role < 0 for one in barrier.contributions):
        because = f"{use.name}: {move.kind} while bytes of its current phase may still be in flight"
        run.fail("barrier-init", because, use.name, run.now(role), step, astray=True)
    for flights in run.state.flights:
        stage, issuer, event, *_ = flights.get(move.thing, _NOTHING)
        if stage < barrier.first or clock[run.roles + move.thing] > stage:
            continue
        because = f"{use.name}: inval while a copy that counts its bytes there is in flight"
        reached = [*join(clock, run.clock_at(issuer, event + 1))]
        reached[role] = run.state.done[role] + 1
        landing = ~issuer, run.node_of(issuer, event)
        run.fail("barrier-init", because, use.name, reached, landing, late=(issuer, event, move.thing))
