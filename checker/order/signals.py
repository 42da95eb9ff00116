"""mbarriers: each contribution is counted in its phase in every schedule, and each wait meets the phase it is for.

The stage of a barrier counts its completions, inits and invals. A clock knows the stage of a barrier up to which
everything is before it. Then

  - a contribution (arrival, expect_tx, complete_tx, bytes of a copy) must know the current stage, else it can be
    counted in an earlier phase;
  - a phase must not complete before all its contributions have been made, in any order of them. It completes only with
    no arrival pending, so all arrivals are needed; if every expect_tx by itself is before some arrival, the tx-count is
    positive from then on until all bytes have landed. An expect_tx that no arrival follows is allowed only if the bytes
    that can land before it are less than those that have been announced for certain;
  - who stands at a wait, or has passed one and done nothing since that others can notice, must be before the completion
    of the next phase, else the wait can be lapped; who comes to a wait must know the stage before the one it waits for;
  - somebody must be known to have seen the last phase complete when an arrival is made (9.7.13.15.4).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from checker.order import ctas, memory, steps
from checker.order.plan import BarrierUse, Move
from checker.order.state import NEVER, BarrierState, Clock, join
from checker.order.steps import Effect
from spec import operations as op
from spec.hopper import COUNT_LIMIT

if TYPE_CHECKING:
    from checker.order.run import Run


def contribute(run: Run, role: int, move: Move) -> None:
    """An arrival, expect_tx or complete_tx."""
    state, number = run.state, move.thing
    barrier, use = state.barriers[number], run.plan.barriers[number]
    operation, clock, event = move.operation, state.clock[role], state.done[role]
    known = _knowledge(run, role, number)
    clock = state.clock[role]
    if move.far >= 0:
        ctas.reach(run, role, move.far, use.name)
        _must_be_visible(run, role, number)
    if not (isinstance(operation, op.Arrive) and operation.count == 0 and not use.tokens and known >= barrier.first):
        _must_know(run, role, number, known)
    observed, observe = True, run.plan.pipeline.observation
    arrival = isinstance(operation, op.Arrive)
    if arrival and observe and barrier.stage > barrier.first and known == barrier.stage:
        observed = _observed(barrier, use, role, clock)
    assert operation is not None
    effect = steps.signal(barrier.parts, operation, observe, observed)
    for property, because in effect.illegal:
        happened = property != "unobserved-phase"
        reached = within(run, role, number) if happened else run.now(role)
        run.fail(property, f"{use.name}: {because}", use.name, reached, (role, state.at[role]), happened=happened)
    if run.halted:
        return
    if use.invals:
        barrier.used[role] = event
    if arrival:
        barrier.arrived[role] = barrier.stage
    _add(barrier, operation, role, event, run.publish(role))
    _settle(run, number, effect)


def may_signal(run: Run, role: int, number: int) -> None:
    """A bulk copy is issued: its bytes may land at once."""
    state = run.state
    barrier, use = state.barriers[number], run.plan.barriers[number]
    step = (role, state.at[role])
    if not barrier.parts.alive:
        because = f"a copy signals {use.name} before its init"
        run.fail("barrier-init", because, use.name, within(run, role, number), step, happened=True)
        return
    _must_know(run, role, number, _knowledge(run, role, number))
    _must_be_fenced(run, role, number, step)


def _must_be_fenced(run: Run, role: int, number: int, step: tuple[int, int]) -> None:
    """A copy is after the fence that shows it the initialisation of the barrier that it signals."""
    state, use = run.state, run.plan.barriers[number]
    barrier, clock = state.barriers[number], state.clock[role]
    for other, fenced in barrier.unfenced.items():
        if (state.done[role] if other == role else clock[other]) <= fenced:
            name = run.plan.programs[other].name
            because = f"a copy signals {use.name}, whose initialisation is not visible to it: no fence by {name}"
            run.fail("barrier-init", because, use.name, run.now(role), step)


def land(run: Run, role: int, move: Move) -> None:
    """The copy lands, in this run as soon as it can; the event that issued it is the last one of the role."""
    for number, use, leaves in zip(move.things, move.uses, move.leaves, strict=True):
        stage = run.state.barriers[number].stage
        _land_one(run, role, move, number)
        if run.halted:
            return
        memory.landed(run, role, use, number, stage, run.state.done[role] - 1)
        memory.leave(run.state.content, leaves)


def _land_one(run: Run, role: int, move: Move, number: int) -> None:
    state = run.state
    barrier, use = state.barriers[number], run.plan.barriers[number]
    event = state.done[role] - 1
    node = state.log[-1][1]
    stage, clock = barrier.stage, run.now(role)
    load = move.node.operation
    assert isinstance(load, op.Load) and move.operation is not None
    if use.invals:
        barrier.used[role] = event
    for piece in range(load.pieces):
        if barrier.stage != stage:
            because = f"{use.name} completes a phase between two pieces of one copy"
            run.diverge("tx-count", because, use.name, within(run, role, number), None)
        effect = steps.signal(barrier.parts, move.operation, False, True)
        for property, because in effect.illegal:
            reached = within(run, role, number)
            run.fail(property, f"{use.name}: {because}", use.name, reached, (~role, node), happened=True)
        if run.halted:
            return
        barrier.copies = True
        if piece == 0:
            state.log.append((~role, node, number, stage))
        _add(barrier, move.operation, role, event, clock)
        _settle(run, number, effect)


def wait(run: Run, role: int, move: Move) -> bool:
    """Whether a wait by parity passes, and whether it could pass or block wrongly."""
    state, number = run.state, move.thing
    barrier, use = state.barriers[number], run.plan.barriers[number]
    operation = move.node.operation
    assert isinstance(operation, op.Wait) and not isinstance(operation.phase, op.Token)
    parity = int(operation.phase)
    distance = 1 - parity if role in barrier.fresh else move.node.distance
    known = _knowledge(run, role, number)
    passes, illegal = steps.wait(barrier.parts, parity, barrier.stage - barrier.seen[role], distance)
    if passes and operation.remote:
        for property, because in steps.remote_wait(operation.kind):
            step = (role, state.at[role])
            run.fail(property, f"{use.name}: {because}", use.name, run.now(role), step, happened=True)
    for property, because in illegal:
        run.fail(property, f"{use.name}: {because}", use.name, _behind(run, role, number), happened=True)
        run.diverged = run.diverged or because
    if illegal:
        return passes
    if known < barrier.first:
        not_initialised(run, role, number)
    elif distance > 1:
        _must_not_be_early(run, role, number, parity, distance)
    return passes


def passed(run: Run, role: int, move: Move, event: int) -> None:
    """What passing a wait by parity tells the role, and what nobody may do before the role is known to be past it."""
    state, number = run.state, move.thing
    barrier, use = state.barriers[number], run.plan.barriers[number]
    _learn(run, role, number)
    following = run.plan.moves[role][move.next]
    stage, watched = barrier.stage, number in following.watches
    if use.invals:
        barrier.used[role] = event
        barrier.fresh = tuple(other for other in barrier.fresh if other != role)
    barrier.required[role] = (stage, NEVER, event + 1) if watched else (stage, event, event)
    if use.tokens:
        barrier.witness[role] = (stage, event)
    elif barrier.seen[role] != stage:
        barrier.witness[role] = (stage, NEVER if number in following.watched else event)
    barrier.seen[role] = stage


def wait_token(run: Run, role: int, move: Move) -> bool:
    """A wait with the token of the role's last arrival."""
    state, number = run.state, move.thing
    barrier, use = state.barriers[number], run.plan.barriers[number]
    event = state.done[role]
    passes, illegal = steps.wait_with_token(barrier.parts, barrier.stage - barrier.arrived.get(role, barrier.stage))
    for property, because in illegal:
        run.fail(property, f"{use.name}: {because}", use.name, _behind(run, role, number), happened=True)
        run.diverged = run.diverged or because
    if not illegal and state.clock[role][run.roles + number] < barrier.first:
        not_initialised(run, role, number)
    if passes:
        _learn(run, role, number)
        barrier.required[~role] = (barrier.stage, event, event)
        barrier.witness[role] = (barrier.stage, event)
        if use.invals:
            barrier.used[role] = event
    return passes


# ---------------------------------------------------------------- phases


def _add(barrier: BarrierState, operation: op.Operation, role: int, event: int, clock: Clock) -> None:
    """One more contribution to the current phase."""
    bytes = 0
    match operation:
        case op.Arrive(count=0):
            return
        case op.Arrive():
            barrier.expected += (operation.expect or 0) * operation.count
            if barrier.open_expects:
                barrier.open_expects = [one for one in barrier.open_expects if clock[one[1]] <= one[2]]
        case op.Transaction():
            bytes = max(0, -operation.bytes)
            barrier.expected += max(0, operation.bytes)
            barrier.landed += bytes
    if barrier.open_arrivals:
        barrier.open_arrivals = [one for one in barrier.open_arrivals if clock[one[0]] <= one[1]]
    if isinstance(operation, op.Arrive) and operation.kind == "no_complete":
        barrier.open_arrivals.append((role, event))
    elif isinstance(operation, op.Transaction) and operation.bytes > 0:
        barrier.open_expects.append((operation.bytes, role, event))
    barrier.contributions.append((bytes, clock))
    barrier.shared = join(barrier.shared, clock)


def _settle(run: Run, number: int, effect: Effect) -> None:
    """A contribution has been made. With no arrival pending, could another order have completed the phase before?"""
    barrier = run.state.barriers[number]
    barrier.parts = effect.parts
    if effect.completes or barrier.parts.pending == 0:
        _any_order(run, number)
    if effect.completes:
        _not_last(run, number)
        _complete(run, number)
    elif barrier.parts.pending == 0 and barrier.parts.negative:
        _too_many_bytes(run, number)


def _too_many_bytes(run: Run, number: int) -> None:
    """All arrivals have been made, and more bytes have landed than were expected: the phase could end before."""
    barrier, use = run.state.barriers[number], run.plan.barriers[number]
    reached = run.everything()
    reached[run.roles + number] = barrier.stage
    because = f"{use.name}: more bytes are delivered than were expected"
    run.diverge("tx-count", because, use.name, reached, None)


def _complete(run: Run, number: int) -> None:
    """The phase completes, in this run by its last contribution."""
    barrier = run.state.barriers[number]
    stage = barrier.stage
    assert barrier.shared is not None
    clock = next_stage(run, number, barrier.shared)
    _must_have_passed(run, number, stage, clock)


def _must_have_passed(run: Run, number: int, stage: int, clock: Clock) -> None:
    """Whoever waited for the phase before is before the completion of this one."""
    barrier = run.state.barriers[number]
    for who, (seen, event, stand) in barrier.required.items():
        role = ~who if who < 0 else who
        if seen == stage and clock[role] <= event:
            name, waiter = run.plan.barriers[number].name, run.plan.programs[role].name
            because = f"{name}: it completes another phase although {waiter} may not have seen the last one: lapped"
            reached = join(clock, run.clock_at(role, stand))
            run.fail("phase-lapped", because, name, reached)
            run.diverged = run.diverged or because


def next_stage(run: Run, number: int, clock: Clock) -> Clock:
    barrier = run.state.barriers[number]
    clock = clock.copy()
    barrier.stage += 1
    barrier.copied = barrier.copies
    barrier.copies = False
    clock[run.roles + number] = barrier.stage
    barrier.completions.append(clock)
    barrier.shared = None
    barrier.expected = barrier.landed = 0
    barrier.contributions, barrier.open_expects, barrier.open_arrivals = [], [], []
    return clock


def _any_order(run: Run, number: int) -> None:
    """Whether the contributions of the current phase fill it in every order of them, and only all together."""
    barrier, use = run.state.barriers[number], run.plan.barriers[number]
    certain = barrier.expected - sum(bytes for bytes, _, _ in barrier.open_expects)
    for _, role, event in barrier.open_expects:
        others = [one for one in barrier.contributions if one[1][role] <= event]
        if sum(bytes for bytes, _ in others) >= certain:
            because = f"{use.name}: nothing orders an expect_tx before the last arrival of its phase"
            reached = _all_of(run, number, [clock for _, clock in others])
            run.diverge("tx-count", because, use.name, reached, (role, run.node_of(role, event)))
    if barrier.expected > COUNT_LIMIT or barrier.landed > COUNT_LIMIT:
        because = f"{use.name}: the tx-count can leave its range of +-(2^20-1) bytes"
        reached = _all_of(run, number, [clock for bytes, clock in barrier.contributions if not bytes])
        reached[run.roles + number] = barrier.stage
        run.diverge("tx-count", because, use.name, reached, None)


def _not_last(run: Run, number: int) -> None:
    """Whether each arrive.noComplete is before some other contribution, now that all of them are known."""
    barrier, use = run.state.barriers[number], run.plan.barriers[number]
    for role, event in barrier.open_arrivals:
        others = [one for one in barrier.contributions if one[1][role] <= event]
        because = f"{use.name}: arrive.noComplete may be the last arrival of its phase"
        reached = join(_all_of(run, number, [clock for _, clock in others]), run.clock_at(role, event))
        run.fail("arrival-count", because, use.name, reached, (role, run.node_of(role, event)))


def _all_of(run: Run, number: int, clocks: list[Clock]) -> Clock:
    """After these contributions to the current phase, its bytes landed where they can."""
    reached = [0] * run.plan.width
    for clock in clocks:
        reached = list(map(max, reached, clock))
    reached[run.roles + number] = run.state.barriers[number].stage + 1
    return reached


# ---------------------------------------------------------------- who knows what


def _must_be_visible(run: Run, role: int, number: int) -> None:
    """An arrival from another CTA is after what makes the initialisation visible there."""
    barrier, use, clock = run.state.barriers[number], run.plan.barriers[number], run.state.clock[role]
    for other, shown in barrier.hidden.items():
        if other != role and clock[other] <= shown:
            name = run.plan.programs[other].name
            because = f"{use.name} is initialised by {name} and nothing makes that visible to other CTAs"
            run.fail("barrier-init", because, use.name, run.now(role), (role, run.state.at[role]))


def _must_know(run: Run, role: int, number: int, known: int) -> None:
    """A contribution is after the completion of the phase before."""
    barrier, use = run.state.barriers[number], run.plan.barriers[number]
    if known >= barrier.stage or use.careless:
        return
    step = (role, run.state.at[role])
    if known < barrier.first:
        not_initialised(run, role, number, step)
        return
    name = run.plan.programs[role].name
    because = f"{use.name}: what {name} contributes can be counted in an earlier phase: nothing orders it after that"
    run.diverge("phase-lapped", because, use.name, run.now(role), step, beyond=barrier.completions[known])


def _must_not_be_early(run: Run, role: int, number: int, parity: int, distance: int) -> None:
    """A wait that skips phases is for one whose predecessor is known to be complete."""
    barrier, name = run.state.barriers[number], run.plan.barriers[number].name
    known = run.state.clock[role][run.roles + number] - barrier.seen[role]
    for property, because in steps.wait(barrier.parts, parity, known, distance)[1]:
        run.fail(property, f"{name}: {because}", name, run.now(role))
        run.diverged = run.diverged or because


def not_initialised(run: Run, role: int, number: int, step: tuple[int, int] | None = None) -> None:
    """The role does not know of the last init: where it stands, the barrier can still be dead."""
    barrier, name = run.state.barriers[number], run.plan.barriers[number].name
    known = run.state.clock[role][run.roles + number]
    dead = next(stage for stage in barrier.dead if stage >= known)
    reached = run.now(role) if dead == known else join(run.now(role), barrier.completions[dead - 1])
    run.fail("barrier-init", f"{name}: it is used before its initialisation", name, reached, step)
    run.diverged = run.diverged or f"{name} is used before its initialisation"


def _observed(barrier: BarrierState, use: BarrierUse, role: int, clock: Clock) -> bool:
    """In every schedule some waiter has seen the last phase complete, and has done something since that shows it. The
    arriving role itself need not have; without any waiter nobody can be lapped."""
    if not use.distance and not use.tokens:
        return True
    return any(
        stage == barrier.stage and (clock[other] > event or (other == role))
        for other, (stage, event) in barrier.witness.items()
    )


def _knowledge(run: Run, role: int, number: int) -> int:
    """The stage of the barrier that is before the role's next event.

    A phase of which the role knows all arrivals is complete, whether or not it has waited for it, unless bytes of a
    copy could still be missing.
    """
    state, barrier = run.state, run.state.barriers[number]
    known = state.clock[role][run.roles + number]
    if known == barrier.stage or barrier.copied:
        return known
    last, here = barrier.completions[-1], run.now(role)
    if all(here[other] >= last[other] for other in range(run.roles)):
        _learn(run, role, number)
        return barrier.stage
    return known


def _learn(run: Run, role: int, number: int) -> None:
    clock, barrier = run.state.clock, run.state.barriers[number]
    if clock[role][run.roles + number] < barrier.stage:
        clock[role] = join(clock[role], barrier.completions[-1])


def within(run: Run, role: int, number: int) -> Clock:
    """Where the role stands, after all contributions so far to the current phase of the barrier."""
    barrier = run.state.barriers[number]
    reached = _behind(run, role, number)
    if barrier.shared is not None:
        reached = join(reached, barrier.shared)
        reached[run.roles + number] = barrier.stage + 1
    return reached


def _behind(run: Run, role: int, number: int) -> Clock:
    """Where the role stands, after the last completion of the barrier."""
    completions = run.state.barriers[number].completions
    return join(completions[-1] if completions else None, run.now(role))
