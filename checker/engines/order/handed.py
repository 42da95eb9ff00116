"""What a role knows only because others told it where nothing is released: that it was before, and no more.

Lanes of a warp meet at elect.sync, shfl.sync and the like, CTAs at barrier.cluster.arrive.relaxed: who goes on comes
later, but is not ordered after what the others have waited for. An access that is before one of the role in all
schedules, but not in causality order, is no race that a schedule could show, and PTX does not promise what is found.
"""

from __future__ import annotations

from sm90_verify.engines.order import triggered
from sm90_verify.engines.order.clocks import NEVER, Clock
from sm90_verify.engines.order.over import is_open
from sm90_verify.engines.order.plan import Use
from sm90_verify.engines.order.progress import Progress
from sm90_verify.engines.order.state import InFlight, Spans
from sm90_verify.spec.ptx.memory import describe


def must_know(run: Progress, role: int, use: Use) -> None:
    """All that conflicts with an access that begins now, and is over, is before it in causality order, and fenced."""
    if run.handed:
        return
    state, plan, clock = run.state, run.plan, run.state.clock[role]
    known = clock[run.width :]
    for number in plan.near[use.bytes]:
        together = plan.together[role] if number in plan.joint or use.bytes in plan.joint else ()
        for other, spans in state.regions[number].items():
            if other == role or other in together:
                continue
            alike = clock[other] == known[other] and clock[plan.fenced + other] == known[plan.fenced + other]
            if not (alike and spans.group < 0) and _differs(run, role, use, number, other, spans):
                run.handed = _because(run, role, use, other)
        for barrier, one in state.flights[number].items() if use.write or number not in plan.taken else ():
            told, knows = (_knows_over(run, role, some, use, number, barrier, one) for some in (clock, known))
            if told and not knows:
                run.handed = _because(run, role, use, one.role)


def _differs(run: Progress, role: int, use: Use, number: int, other: int, spans: Spans) -> bool:
    """An access of another role is over, or fenced, only for all that the others have told."""
    clock = run.state.clock[role]
    known = clock[run.width :]
    if is_open(run, role, known, use, other, number, spans):
        return not is_open(run, role, clock, use, other, number, spans)
    return use.asynchronous and _unfenced(run, known, other, spans) and not _unfenced(run, clock, other, spans)


def _unfenced(run: Progress, clock: Clock, other: int, spans: Spans) -> bool:
    """A generic write of another role that no proxy fence is known to come after."""
    if run.plan.kernel.rules.strict:
        return clock[other] <= spans.raw_write
    made = spans.raw_wrote if spans.raw_write == NEVER else spans.raw_write
    return clock[run.plan.fenced + other] <= made


def _knows_over(run: Progress, role: int, clock: Clock, use: Use, number: int, barrier: int, one: InFlight) -> bool:
    """A role with that clock knows that copies of some bytes have landed, and are fenced, if that is needed."""
    if not one.copied:
        return clock[run.roles + barrier] > one.stage
    flights = run.state.flights[number]
    over = clock[run.roles + barrier] > one.stage or triggered.is_over(run, role, clock, flights, one.role)
    return over and (not use.asynchronous or triggered.is_fenced(run, clock, flights, one.role))


def _because(run: Progress, role: int, use: Use, other: int) -> str:
    me, them = run.plan.programs[role].name, run.plan.programs[other].name
    line = run.plan.moves[role][run.state.at[role]].node.source
    return (
        f"{describe(use.access)} by {me} ({line}) comes after an access of {them}, as {me} was told where it "
        "met others that released nothing: that orders no memory, and it has not waited for it itself"
    )
