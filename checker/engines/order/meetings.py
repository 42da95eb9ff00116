"""Named barriers, __syncthreads(), __syncwarp(), barrier.cluster: every arrival is counted in its generation.

An arrival must be after the completion of the generation before. Then the threads of a generation add up to its count
only with all of them, in every order, whoever brings them and how often; where an exit counts as an arrival, it is that
of a role that arrives no more.
"""

from __future__ import annotations

from typing import assert_never

from sm90_verify.engines.order.clocks import NEVER, Clock, handed_on, join
from sm90_verify.engines.order.plan import MeetingUse, Move
from sm90_verify.engines.order.progress import Progress
from sm90_verify.engines.order.state import MeetingState
from sm90_verify.spec.model.flow import blocks_inside, share_a_warp
from sm90_verify.spec.ptx import numbers
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.needs import ALIGNED
from sm90_verify.spec.ptx.numbers import Met


def meet(run: Progress, role: int, move: Move) -> None:
    """A role arrives; it waits inside if the operation blocks and the barrier is not full."""
    state, number = run.state, move.thing
    meeting, use = state.meetings[number], run.plan.meetings[number]
    operation, step = move.node.operation, (role, state.at[role])
    assert isinstance(operation, op.Meeting)
    _must_know(run, role, number, step)
    if isinstance(operation, op.NamedSync):
        _must_be_together(run, role, move, operation)
    met = _arrive(run, role, operation, meeting, use)
    for property, because in met.violates:
        reached = join(meeting.shared, run.now(role))
        run.fail(property, f"{use.name}: {because}", use.name, reached, step, happened=True)
        run.diverged = run.diverged or because
    meeting.leaving.pop(role, None)
    meeting.arrived, meeting.count = met.arrived, met.opened
    meeting.shared = join(meeting.shared, _shares(run, role, operation))
    meeting.members = (*meeting.members, role)
    if "inits_to_ctas" in move.shows:
        for barrier in state.barriers:
            if barrier.hidden.get(role) == NEVER:
                barrier.hidden[role] = state.done[role]
    if blocks_inside(operation):
        state.inside[role] = number
    if met.completes:
        _release(run, number, role)


def _shares(run: Progress, role: int, operation: op.Meeting) -> Clock:
    """What the role tells those that it meets; where it releases nothing, no more than when that was."""
    clock = run.publish(role)
    return handed_on(clock, run.width) if effects_of(operation).orders == "relaxed" else clock


def _must_know(run: Progress, role: int, number: int, step: tuple[int, int]) -> None:
    """An arrival is after the completion of the generation before, or after all arrivals that complete it."""
    state, meeting, use = run.state, run.state.meetings[number], run.plan.meetings[number]
    known, here = state.clock[role][_component(run, number)], run.now(role)
    last = meeting.completions[-1] if meeting.completions else here
    if known < meeting.stage and any(here[other] < last[other] for other in range(run.roles)):
        because = f"{use.name}: {run.plan.programs[role].name} can arrive before the last generation is complete"
        beyond = meeting.completions[known]
        run.diverge("named-barrier", because, use.name, run.now(role), step, beyond=beyond)


def _must_be_together(run: Progress, role: int, move: Move, sync: op.NamedSync) -> None:
    """bar.sync is .aligned (PTX ISA 9.7.13.1): while a part of a warp is inside, no other part of it may arrive at
    another line. It is inside until the generation is complete.
    """
    state, program = run.state, run.plan.programs[role]
    meeting, name = state.meetings[move.thing], run.plan.meetings[move.thing].name
    if program.me.threads % 32 == 0:
        return
    here = str(move.node.source)
    because = f"{name}: {ALIGNED.said(role=program.role)}"
    for (other, place), (event, blocks) in meeting.places.items():
        if other == role or not share_a_warp(run.plan.programs[other], program) or place == here:
            continue
        if blocks:
            reached = join(run.now(role), run.clock_at(other, event + 1))
            run.fail(ALIGNED.property, because, name, reached, (role, state.at[role]))
        elif sync.blocks and state.clock[role][other] <= event:
            run.diverge(ALIGNED.property, because, name, run.now(role), (role, state.at[role]))
    meeting.places[role, here] = (state.done[role], sync.blocks)


def _arrive(run: Progress, role: int, operation: op.Meeting, meeting: MeetingState, use: MeetingUse) -> Met:
    threads = run.plan.programs[role].me.threads
    match operation:
        case op.NamedSync():
            brings = operation.brings(threads)
            return numbers.meet(meeting.arrived, meeting.count, brings, operation.id, operation.threads)
        case op.CtaSync():
            return numbers.meet_cta(meeting.arrived, threads, _exited(run, use), use.total)
        case op.ClusterArrive():
            again = role in meeting.members or role in meeting.leaving
            return numbers.meet_cluster(meeting.arrived, threads, _exited(run, use), use.total, again)
        case op.WarpSync():
            return numbers.meet(meeting.arrived, meeting.count, threads, None, use.total)
        case op.ClusterWait():
            raise AssertionError("barrier.cluster.wait is no arrival")
        case _:
            assert_never(operation)


def leave(run: Progress, role: int, move: Move) -> bool:
    """barrier.cluster.wait: whether the generation in which the role has arrived is complete."""
    state, meeting = run.state, run.state.meetings[move.thing]
    if role in meeting.leaving:
        state.clock[role] = join(state.clock[role], meeting.completions[meeting.leaving.pop(role)])
        return True
    if role in meeting.members:
        return False
    for property, because in numbers.leave_cluster_alone():
        name = run.plan.meetings[move.thing].name
        run.fail(property, f"{name}: {because}", name, run.now(role), (role, state.at[role]), happened=True)
    return True


def role_ends(run: Progress, role: int) -> None:
    """A role has ended: barriers that count exits no longer wait for its threads."""
    for number, use in enumerate(run.plan.meetings):
        if role not in use.roles:
            continue
        meeting = run.state.meetings[number]
        known = run.state.clock[role][_component(run, number)]
        if role in meeting.members or meeting.leaving.get(role, -1) >= known:
            run.unsure = f"{run.plan.programs[role].name} ends between barrier.cluster.arrive and its wait"
            run.halted = run.unsure
        if meeting.arrived and meeting.arrived + _exited(run, use) == use.total:
            _release(run, number, -1)


def _release(run: Progress, number: int, last: int) -> None:
    """The barrier is full: who waits inside goes on, after everything that the others did before they arrived."""
    state, meeting, use = run.state, run.state.meetings[number], run.plan.meetings[number]
    clock: Clock = [0] * run.plan.width if meeting.shared is None else meeting.shared.copy()
    for role in use.roles:
        if run.ended(role):
            clock = join(clock, run.now(role))
    for role in meeting.members:
        if state.inside[role] != number:
            meeting.leaving[role] = meeting.stage
    meeting.stage += 1
    clock[_component(run, number)] = clock[_component(run, number) - run.width] = meeting.stage
    meeting.completions.append(clock)
    meeting.arrived = meeting.count = 0
    meeting.shared, meeting.members = None, ()
    meeting.places = {}
    for role in range(run.roles):
        if state.inside[role] == number:
            state.inside[role] = -1
            state.clock[role] = join(state.clock[role], clock)
            if role != last:
                run.may_end(role)


def _component(run: Progress, number: int) -> int:
    return run.roles + len(run.plan.barriers) + number


def _exited(run: Progress, use: MeetingUse) -> int:
    return sum(run.plan.programs[role].me.threads for role in use.roles if run.ended(role))
