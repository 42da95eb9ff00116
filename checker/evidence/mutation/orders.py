"""How two models compare by the orders of their accesses, read off happens-before: for models with too many states.

For one trip count a model has one run (engines.order), and what its schedules show are all the sequences of the starts
and ends of its accesses that respect happens-before. If the roles of two models access the same in the same order, a
sequence of one is a sequence of the other exactly if every order that the other demands holds in it. So the orders are
compared, for each trip count up to a bound. Starts are ordered by the program and by what their role has waited for;
the end of an asynchronous access may come at any time until somebody has waited for it, so that an end is before a
start or before nothing. Projections as in evidence.mutation.behaviour: "memory" and "contents".
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from sm90_verify.engines.order.clocks import NEVER, Clock
from sm90_verify.engines.order.landing import leave
from sm90_verify.engines.order.plan import Move, has_cycle
from sm90_verify.engines.order.planner import make_plan
from sm90_verify.engines.order.refusals import refusal
from sm90_verify.engines.order.run import Run
from sm90_verify.evidence.mutation.behaviour import CONTENTS, FEWER, MORE, OTHER, SAME, shown_of
from sm90_verify.spec.model.kernel import Kernel


@dataclass
class _Access:
    """An operation that shows something: a role's `event`. end: the event that waits for it, `event` if it is not
    asynchronous; lands: for a copy, (barrier, stage) of each destination.
    """

    role: int
    event: int
    label: Hashable
    end: int
    lands: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True)
class Orders:
    """One run. labels: by role, what its accesses show; before: by access, the starts and ends that are before its
    start, two bits for every access of the run.
    """

    labels: tuple[tuple[Hashable, ...], ...]
    before: tuple[int, ...]


def runs_of(kernel: Kernel, trips: int) -> tuple[Run, ...] | None:
    """The runs for trip counts 0 to `trips` + 1, or the only one if none is open; None where one run does not speak
    for all schedules, where anything but one trip count is open, or something is violated.
    """
    if refusal(kernel.programs):
        return None
    plan = make_plan(kernel)
    if plan.triggers:
        return None
    if has_cycle(kernel.programs) or len(plan.decisions) > 1 or not all(one.loop for one in plan.decisions):
        return None
    found = []
    for limit in range(trips + 2) if plan.decisions else (0,):
        run = Run(plan)
        for decision in run.state.decisions:
            decision.answers.extend((*(1,) * limit, 0))
        run.start()
        run.finish()
        if run.failures or run.diverged or run.unsure or run.halted:
            return None
        found.append(run)
    return tuple(found)


def orders(runs: tuple[Run, ...], projection: str) -> tuple[Orders, ...]:
    """The orders of the accesses of each run."""
    return tuple(_orders(run, projection) for run in runs)


def compare_orders(first: tuple[Orders, ...], second: tuple[Orders, ...]) -> str:
    """How the second model's sequences compare with the first's, for all trip counts together but the last, which is
    there because a model that iterates once more does what the other does one trip count later.
    """
    fewer = all(any(_demands(two, one) for one in first) for two in second[: len(second) - 1 or 1])
    more = all(any(_demands(one, two) for two in second) for one in first[: len(first) - 1 or 1])
    if fewer and more:
        return SAME
    return FEWER if fewer else MORE if more else OTHER


def _demands(one: Orders, other: Orders) -> bool:
    """The same accesses, in all orders that the other run demands."""
    return one.labels == other.labels and all(a & b == b for a, b in zip(one.before, other.before, strict=True))


def _orders(run: Run, projection: str) -> Orders:
    accesses = sorted(_accesses(run, projection), key=lambda one: (one.role, one.event))
    labels: list[list[Hashable]] = [[] for _ in range(run.roles)]
    for access in accesses:
        labels[access.role].append(access.label)
    before = []
    for access in accesses:
        clock = run.clock_at(access.role, access.event)
        bits = 0
        for number, other in enumerate(accesses):
            bits |= (clock[other.role] > other.event) << 2 * number | _is_over(run, other, clock) << 2 * number + 1
        before.append(bits)
    return Orders(tuple(map(tuple, labels)), tuple(before))


def _is_over(run: Run, access: _Access, clock: Clock) -> bool:
    """Whoever has this clock knows that the access has ended."""
    if access.lands:
        return all(clock[run.roles + barrier] > stage for barrier, stage in access.lands)
    return clock[access.role] > access.end


def _accesses(run: Run, projection: str) -> list[_Access]:
    """What the run shows, with the end of every role."""
    found: list[_Access] = []
    lasting: list[list[tuple[_Access, set[tuple[int, bool]]]]] = [[] for _ in range(run.roles)]
    holds = dict(run.plan.kernel.layout.holds)
    for who, node, thing, number in run.state.log:
        if who < 0:
            found[-1].lands += ((thing, number),)
            continue
        move = run.plan.moves[who][node]
        if move.over:
            for access, uses in lasting[who]:
                uses.difference_update(move.over)
                access.end = number if not uses and access.end == NEVER else access.end
            lasting[who] = [one for one in lasting[who] if one[1]]
        label = _written(move, holds) if projection == CONTENTS else _begun(run, who, move)
        if label is None:
            continue
        found.append(_Access(who, number, label, NEVER if move.lasting else number))
        if move.lasting:
            lasting[who].append((found[-1], {(use.bytes, use.write) for use in move.uses}))
    if projection != CONTENTS:
        found += [_Access(role, done, "ends", done) for role, done in enumerate(run.state.done)]
    return found


def _begun(run: Run, role: int, move: Move) -> Hashable:
    shown = shown_of(run.plan.programs[role].name, move.node.operation)
    return None if shown is None else (shown, move.pieces)


def _written(move: Move, holds: dict[str, Hashable]) -> Hashable:
    """What the operation writes into buffers; None for what they hold already, unless it is in flight for a while."""
    if move.kind != "load" and all(holds.get(buffer) == tag for buffer, tag, _ in move.leaves):
        return None
    leave(holds, *move.leaves)
    return move.leaves, move.pieces
