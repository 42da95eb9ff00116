"""Phases of an mbarrier: in every order of its contributions, a phase is filled by all of them together only.

A phase completes only with no arrival pending, so all arrivals are needed; if every expect_tx by itself is before some
arrival, the tx-count is positive from then on until all bytes have landed. An expect_tx that no arrival follows is
allowed only if the bytes that can land before it are less than those that have been announced for certain. An arrival
of no thread does not count; it has to be before the completion only if a wait with its token asks for this very phase.

In every order the tx-count must stay in its range, whether or not the phase completes (counts).
"""

from __future__ import annotations

from sm90_verify.engines.order import counts
from sm90_verify.engines.order.clocks import NEVER, Clock, join
from sm90_verify.engines.order.plan import BarrierUse
from sm90_verify.engines.order.progress import Progress
from sm90_verify.engines.order.state import BarrierState, Contribution
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.limits import COUNT_LIMIT
from sm90_verify.spec.ptx.needs import SEEN
from sm90_verify.spec.ptx.numbers import Applied


def changes_nothing(operation: op.Operation | None, use: BarrierUse) -> bool:
    """An arrival of no thread and without bytes, on a barrier whose tokens nobody waits with."""
    return isinstance(operation, op.Arrive) and not operation.count and not operation.expect and not use.tokens


def contribute(run: Progress, number: int, operation: op.Operation, applied: Applied, role: int, event: int) -> None:
    """An arrival, expect_tx or complete_tx is made in the current phase."""
    barrier, use, clock = run.state.barriers[number], run.plan.barriers[number], run.publish(role)
    moved = applied.barrier.tx - barrier.parts.tx
    if changes_nothing(operation, use):
        return
    if isinstance(operation, op.Arrive) and operation.count:
        if barrier.open_expects:
            barrier.open_expects = [one for one in barrier.open_expects if clock[one[1]] <= one[2]]
    elif moved > 0 or isinstance(operation, op.Arrive):
        barrier.open_expects.append((moved, role, event))
    if barrier.open_arrivals:
        barrier.open_arrivals = [one for one in barrier.open_arrivals if clock[one[0]] <= one[1]]
    if isinstance(operation, op.Arrive) and operation.kind == "no_complete" and operation.count:
        barrier.open_arrivals.append((role, event))
    _add(barrier, Contribution(moved, clock, role, event))
    _settle(run, number, applied)


def land(run: Progress, number: int, applied: Applied, role: int, event: int, clock: Clock) -> None:
    """A piece of a bulk copy that the event of the role has issued lands in the current phase."""
    barrier = run.state.barriers[number]
    moved = applied.barrier.tx - barrier.parts.tx
    if barrier.open_arrivals:
        barrier.open_arrivals = [one for one in barrier.open_arrivals if clock[one[0]] <= one[1]]
    _add(barrier, Contribution(moved, clock, ~role, event))
    _settle(run, number, applied)


def follow(run: Progress, number: int, applied: Applied, role: int, event: int, clock: Clock) -> None:
    """Arrivals that follow cp.asyncs before an event of the role are made in the current phase."""
    barrier = run.state.barriers[number]
    barrier.open_expects = [one for one in barrier.open_expects if clock[one[1]] <= one[2]]
    barrier.open_arrivals = [one for one in barrier.open_arrivals if clock[one[0]] <= one[1]]
    _add(barrier, Contribution(0, clock, ~role, event))
    _settle(run, number, applied)


def _add(barrier: BarrierState, contribution: Contribution) -> None:
    moved = contribution.moved
    if moved > 0:
        barrier.expected += moved
        barrier.highest += moved
    else:
        barrier.lowest += moved
    barrier.contributions.append(contribution)
    barrier.shared = join(barrier.shared, contribution.clock)


def _settle(run: Progress, number: int, applied: Applied) -> None:
    """A contribution has been made. With no arrival pending, could another order have completed the phase before?"""
    barrier = run.state.barriers[number]
    barrier.parts = applied.barrier
    _stay_in_range(run, number)
    if applied.completes or barrier.parts.pending == 0:
        _any_order(run, number)
    if applied.completes:
        _not_last(run, number)
        _complete(run, number)
    elif barrier.parts.pending == 0 and barrier.parts.tx < 0:
        _too_many_bytes(run, number)


def _too_many_bytes(run: Progress, number: int) -> None:
    """All arrivals have been made, and more bytes have landed than were expected: the phase could end before."""
    barrier, use = run.state.barriers[number], run.plan.barriers[number]
    reached = run.everything()
    reached[run.roles + number] = barrier.stage
    because = f"{use.name}: more bytes are delivered than were expected"
    run.diverge("tx-count", because, use.name, reached, None)


def _complete(run: Progress, number: int) -> None:
    """The phase completes, in this run by its last contribution."""
    barrier = run.state.barriers[number]
    stage = barrier.stage
    assert barrier.shared is not None
    clock = next_stage(run, number, barrier.shared)
    _must_have_passed(run, number, stage, clock)


def _must_have_passed(run: Progress, number: int, stage: int, clock: Clock) -> None:
    """Whoever waited for the phase before is before the completion of this one."""
    barrier = run.state.barriers[number]
    for who, (seen, event, stand) in barrier.required.items():
        role = ~who if who < 0 else who
        if seen == stage and clock[role] <= event:
            name, waiter = run.plan.barriers[number].name, run.plan.programs[role].name
            because = SEEN.said(barrier=name, role=waiter)
            reached = join(clock, run.clock_at(role, stand))
            run.fail(SEEN.property, because, name, reached)
            run.diverged = run.diverged or because


def next_stage(run: Progress, number: int, clock: Clock) -> Clock:
    """After the clock a completion, init or inval ends what has been contributed so far."""
    barrier = run.state.barriers[number]
    clock = clock.copy()
    barrier.stage += 1
    barrier.copied = barrier.copies
    barrier.copies = False
    clock[run.roles + number] = clock[run.roles + number - run.width] = barrier.stage
    barrier.completions.append(clock)
    barrier.shared = None
    barrier.expected = 0
    barrier.highest = barrier.lowest = 0
    barrier.contributions, barrier.open_expects, barrier.open_arrivals = [], [], []
    return clock


def _stay_in_range(run: Progress, number: int) -> None:
    """Whether the tx-count stays within +-(2^20-1) in every order of the contributions so far; each is asked about once
    it is made, so that nothing that comes after a violation is taken for certain.
    """
    barrier, name = run.state.barriers[number], run.plan.barriers[number].name
    because = f"{name}: the tx-count can leave its range of +-(2^20-1) bytes"
    if barrier.highest > COUNT_LIMIT:
        cut = counts.extreme(barrier.contributions, 1)
        barrier.highest = sum(one.moved for one in cut)
        if barrier.highest > COUNT_LIMIT:
            reached = _all_of(run, number, [one.clock for one in cut])
            reached[run.roles + number] = barrier.stage
            run.fail("tx-count", because, name, reached)
            run.diverged = run.diverged or because
            barrier.highest = -NEVER
    if barrier.lowest < -COUNT_LIMIT:
        cut = counts.extreme(barrier.contributions, -1)
        barrier.lowest = sum(one.moved for one in cut)
        if barrier.lowest < -COUNT_LIMIT:
            run.fail("tx-count", because, name, _all_of(run, number, [one.clock for one in cut]))
            run.diverged = run.diverged or because
            barrier.lowest = NEVER


def _any_order(run: Progress, number: int) -> None:
    """Whether the contributions of the current phase fill it in every order of them, and only all together."""
    barrier, use = run.state.barriers[number], run.plan.barriers[number]
    certain = barrier.expected - sum(bytes for bytes, _, _ in barrier.open_expects)
    for _, role, event in barrier.open_expects:
        others = [one for one in barrier.contributions if one.clock[role] <= event]
        if sum(-one.moved for one in others if one.moved < 0) >= certain:
            node = run.node_of(role, event)
            what = "an expect_tx" if barrier.expected > certain else "an arrival of no thread"
            because = f"{use.name}: nothing orders {what} before the last arrival of its phase"
            reached = _all_of(run, number, [one.clock for one in others])
            run.diverge("tx-count", because, use.name, reached, (role, node))


def _not_last(run: Progress, number: int) -> None:
    """Whether each arrive.noComplete is before some other contribution, now that all of them are known."""
    barrier, use = run.state.barriers[number], run.plan.barriers[number]
    for role, event in barrier.open_arrivals:
        others = [one.clock for one in barrier.contributions if one.clock[role] <= event]
        because = f"{use.name}: arrive.noComplete may be the last arrival of its phase"
        reached = join(_all_of(run, number, others), run.clock_at(role, event))
        run.fail("arrival-count", because, use.name, reached, (role, run.node_of(role, event)))


def _all_of(run: Progress, number: int, clocks: list[Clock]) -> Clock:
    """After these contributions to the current phase, its bytes landed where they can."""
    reached = [0] * run.plan.width
    for clock in clocks:
        reached = join(reached, clock)
    reached[run.roles + number] = run.state.barriers[number].stage + 1
    return reached
