"""mbarriers: each contribution is counted in its phase in every schedule, and each wait meets the phase it is for.

The stage of a barrier counts its completions, inits and invals. A clock knows the stage of a barrier up to which
everything is before it. Then

  - a contribution (arrival, expect_tx, complete_tx, bytes of a copy) must know the current stage, else it can be
    counted in an earlier phase;
  - a phase must not complete before all its contributions have been made, in any order of them (phases);
  - who stands at a wait, or has passed one and done nothing since that others can notice, must be before the completion
    of the next phase, else the wait can be lapped; who comes to a wait must know the stage before the one it waits for;
  - somebody must be known to have seen the last phase complete when an arrival is made (9.7.13.15.4).
"""

from __future__ import annotations

from operator import ge, lt

from sm90_verify.engines.order import ctas, phases
from sm90_verify.engines.order.clocks import NEVER, Clock, handed_on, join
from sm90_verify.engines.order.plan import BarrierUse, Move, Use
from sm90_verify.engines.order.progress import Progress
from sm90_verify.engines.order.state import BarrierState
from sm90_verify.spec.model.lags import TOO_OLD
from sm90_verify.spec.model.words import words_of
from sm90_verify.spec.ptx import mbarrier
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.needs import INITIALISED, SHOWN_TO_COPIES, SHOWN_TO_CTAS
from sm90_verify.spec.ptx.numbers import apply
from sm90_verify.spec.ptx.step import Step

OLD = 3
"""Tokens of so many phases ago, whose waits are not defined, are not told apart from older ones."""


def contribute(run: Progress, role: int, move: Move) -> None:
    """An arrival, expect_tx or complete_tx."""
    state, number = run.state, move.thing
    barrier, use = state.barriers[number], run.plan.barriers[number]
    operation, clock, event = move.operation, state.clock[role], state.done[role]
    known = _knowledge(run, role, number)
    clock = state.clock[role]
    if move.far >= 0:
        ctas.reach(run, role, move.far, use.name)
        _must_be_visible(run, role, number)
    if known < barrier.first or not phases.changes_nothing(operation, use):
        _must_know(run, role, number, known)
    arrival, observe = isinstance(operation, op.Arrive), False
    demanded = use.name not in run.plan.kernel.rules.unobserved
    if arrival and demanded and barrier.parts.alive and barrier.first < barrier.stage == known:
        observe = not _observed(barrier, use, role, clock)
    assert operation is not None
    applied = apply(barrier.parts, operation, observe)
    for property, because in applied.violates:
        happened = property != "unobserved-phase"
        reached = within(run, role, number) if happened else run.now(role)
        because = f"{use.name}: {because}"
        run.fail(property, because, use.name, reached, (role, state.at[role]), happened=happened)
    if run.halted:
        return
    if use.invals:
        barrier.used[role] = event
    if arrival:
        barrier.arrived[role] = barrier.stage
    phases.contribute(run, number, operation, applied, role, event)


def may_signal(run: Progress, role: int, use: Use) -> None:
    """A copy is issued: its bytes may land at once."""
    number = use.lands
    state = run.state
    barrier, name = state.barriers[number], run.plan.barriers[number].name
    step = (role, state.at[role])
    if not barrier.parts.alive:
        because = f"{_thing(run, role)}: {INITIALISED.said(barrier=name)}"
        run.fail(INITIALISED.property, because, name, within(run, role, number), step, happened=True)
        return
    _must_know(run, role, number, _knowledge(run, role, number))
    if use.access.proxy == "async":
        _must_be_fenced(run, role, number, step)
    elif use.far >= 0:
        _must_be_visible(run, role, number)


def may_trigger(run: Progress, role: int, move: Move) -> bool:
    """An arrival may follow from here on. Whether it may be made before anybody has seen the phase before complete."""
    (number,) = move.things
    barrier, use = run.state.barriers[number], run.plan.barriers[number]
    known = _knowledge(run, role, number)
    _must_know(run, role, number, known)
    if use.name in run.plan.kernel.rules.unobserved or not barrier.first < barrier.stage == known:
        return False
    return not _observed(barrier, use, role, run.state.clock[role])


def _thing(run: Progress, role: int) -> str:
    """What the role's operation is about."""
    return words_of(run.plan.moves[role][run.state.at[role]].node)[1]


def _must_be_fenced(run: Progress, role: int, number: int, step: tuple[int, int]) -> None:
    """A copy is after the fence that shows it the initialisation of the barrier that it signals."""
    state, use = run.state, run.plan.barriers[number]
    barrier, clock = state.barriers[number], state.clock[role]
    for other, fenced in barrier.unfenced.items():
        if (state.done[role] if other == role else clock[other]) <= fenced:
            names = run.plan.programs
            said = SHOWN_TO_COPIES.said(role=names[role].name, barrier=use.name, other=names[other].name)
            because = f"{_thing(run, role)}: {said}"
            run.fail(SHOWN_TO_COPIES.property, because, use.name, run.now(role), step)


def wait(run: Progress, role: int, move: Move) -> bool:
    """Whether a wait by parity passes, and whether it could pass or block wrongly."""
    state, number = run.state, move.thing
    barrier, use = state.barriers[number], run.plan.barriers[number]
    written, operation = move.node.operation, move.operation
    assert isinstance(written, op.Wait) and isinstance(operation, op.Wait) and isinstance(operation.phase, int)
    distance = 1 - operation.phase if role in barrier.fresh else move.node.distance
    known = _knowledge(run, role, number)
    applied = apply(barrier.parts, operation, False, _completed_since(barrier, barrier.seen[role]), distance)
    if applied.runs and written.remote:
        for part in mbarrier.remote(written.kind, Step()).illegal:
            step = (role, state.at[role])
            run.fail(part.property, f"{use.name}: {part.because}", use.name, run.now(role), step, happened=True)
    for property, because in applied.violates:
        run.fail(property, f"{use.name}: {because}", use.name, behind(run, role, number), happened=True)
        run.diverged = run.diverged or because
    if applied.violates:
        return applied.runs
    if known < barrier.first:
        not_initialised(run, role, number)
    elif distance > 1:
        _must_not_be_early(run, role, number, operation, distance)
    return applied.runs


def passed(run: Progress, role: int, move: Move, event: int) -> None:
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


def wait_token(run: Progress, role: int, move: Move) -> bool:
    """A wait with the token of the role's last arrival."""
    state, number = run.state, move.thing
    barrier, use = state.barriers[number], run.plan.barriers[number]
    event = state.done[role]
    arrived = barrier.arrived.get(role, barrier.stage)
    age = _completed_since(barrier, arrived) if arrived >= barrier.first else TOO_OLD
    assert move.operation is not None
    applied = apply(barrier.parts, move.operation, False, 0, 1, min(age, OLD))
    for property, because in applied.violates:
        run.fail(property, f"{use.name}: {because}", use.name, behind(run, role, number), happened=True)
        run.diverged = run.diverged or because
    if not applied.violates and state.clock[role][run.roles + number] < barrier.first:
        not_initialised(run, role, number)
    if applied.runs:
        _learn(run, role, number)
        barrier.required[~role] = (barrier.stage, event, event)
        barrier.witness[role] = (barrier.stage, event)
        if use.invals:
            barrier.used[role] = event
    return applied.runs


# ---------------------------------------------------------------- who knows what


def _must_be_visible(run: Progress, role: int, number: int) -> None:
    """An arrival from another CTA is after what makes the initialisation visible there."""
    barrier, use, clock = run.state.barriers[number], run.plan.barriers[number], run.state.clock[role]
    for other, shown in barrier.hidden.items():
        if other != role and clock[other] <= shown:
            said = SHOWN_TO_CTAS.said(barrier=use.name, other=run.plan.programs[other].name)
            because = f"{use.name}: {said}"
            run.fail(SHOWN_TO_CTAS.property, because, use.name, run.now(role), (role, run.state.at[role]))


def _must_know(run: Progress, role: int, number: int, known: int) -> None:
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


def _must_not_be_early(run: Progress, role: int, number: int, wait: op.Wait, distance: int) -> None:
    """A wait that skips phases is for one whose predecessor is known to be complete."""
    barrier, name = run.state.barriers[number], run.plan.barriers[number].name
    known = run.state.clock[role][run.roles + number] - barrier.seen[role]
    for property, because in apply(barrier.parts, wait, False, known, distance).violates:
        run.fail(property, f"{name}: {because}", name, run.now(role))
        run.diverged = run.diverged or because


def not_initialised(run: Progress, role: int, number: int, step: tuple[int, int] | None = None) -> None:
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


def _knowledge(run: Progress, role: int, number: int) -> int:
    """The stage of the barrier that is before the role's next event.

    A phase of which the role knows all arrivals is complete, whether or not it has waited for it, unless bytes of a
    copy could still be missing.
    """
    state, barrier = run.state, run.state.barriers[number]
    known = state.clock[role][run.roles + number]
    if known == barrier.stage or barrier.copied:
        return known
    last, here = barrier.completions[-1], run.now(role)
    if all(map(ge, here, last[: run.roles])):
        _learn(run, role, number, by_others=True)
        return barrier.stage
    return known


def _completed_since(barrier: BarrierState, stage: int) -> int:
    """Phases that have completed since; an inval completes none."""
    return max(0, barrier.stage - stage - (not barrier.parts.alive))


def _learn(run: Progress, role: int, number: int, *, by_others: bool = False) -> None:
    """The last phase is known to be complete, by a wait or by what others have told the role of its arrivals."""
    clock, barrier = run.state.clock, run.state.barriers[number]
    if clock[role][run.roles + number - run.width] < barrier.stage:
        last = barrier.completions[-1]
        if by_others and any(map(lt, run.now(role)[-run.width :], last[-run.width :][: run.roles])):
            last = handed_on(last, run.width)
        clock[role] = join(clock[role], last)


def within(run: Progress, role: int, number: int) -> Clock:
    """Where the role stands, after all contributions so far to the current phase of the barrier."""
    barrier = run.state.barriers[number]
    reached = behind(run, role, number)
    if barrier.shared is not None:
        reached = join(reached, barrier.shared)
        reached[run.roles + number] = barrier.stage + 1
    return reached


def behind(run: Progress, role: int, number: int) -> Clock:
    """Where the role stands, after the last completion of the barrier."""
    completions = run.state.barriers[number].completions
    return join(completions[-1] if completions else None, run.now(role))
