"""Tensormaps that the kernel writes: who uses one has acquired it after the release of whoever has written it last.

fence.proxy.tensormap is executed twice on the way (spec.ptx.needs, MAPPED): by the writer after its write, and by the
user after it knows of that, before it uses the tensormap. The clock of a role at its acquire says what it knew of then.
"""

from __future__ import annotations

from sm90_verify.engines.order.clocks import NEVER, join
from sm90_verify.engines.order.plan import Move, Use
from sm90_verify.engines.order.progress import Progress
from sm90_verify.engines.order.state import MapWrite
from sm90_verify.spec.ptx.needs import MAPPED


def written(run: Progress, role: int, use: Use) -> None:
    """A generic write over bytes that somebody uses as a tensormap."""
    if use.raw and use.write and use.bytes in run.plan.maps:
        run.state.edits[use.bytes, role] = MapWrite(run.state.done[role])


def shown(run: Progress, role: int, move: Move) -> None:
    """A release of all that the role has written, or an acquire of one tensormap."""
    state, event = run.state, run.state.done[role]
    if "maps" in move.shows:
        for key, edit in state.edits.items():
            if key[1] == role:
                there = event if edit.there == NEVER and "maps_to_ctas" in move.shows else edit.there
                state.edits[key] = MapWrite(edit.event, min(edit.here, event), there)
    region, wide = move.acquires
    if region >= 0:
        state.acquired[role, region, wide] = run.now(role)


def must_be_acquired(run: Progress, role: int, use: Use) -> None:
    """The role uses a tensormap: it has acquired what others, and it itself, have written and released."""
    if not use.map:
        return
    plan, programs = run.plan, run.plan.programs
    for (number, other), edit in run.state.edits.items():
        if number not in plan.near[use.bytes] or _is_over(run, role, other):
            continue
        here = programs[other].me.number == programs[role].me.number
        released = edit.here if here else edit.there
        knows = (
            clock[other]
            for (who, region, wide), clock in run.state.acquired.items()
            if who == role and number in plan.near[region] and (here or wide)
        )
        if all(known <= released for known in knows):
            because = MAPPED.said(role=programs[role].name, map=use.access.object, other=programs[other].name)
            reached = run.now(role)
            if reached[other] <= edit.event:
                reached = join(reached, run.clock_at(other, edit.event + 1))
            put_off = () if released == NEVER else run.not_before(other, released)
            step = (role, run.state.at[role])
            run.fail(MAPPED.property, because, use.access.object, reached, step, put_off=put_off)


def _is_over(run: Progress, role: int, other: int) -> bool:
    """The role comes after a wait for the end of the other one's grid, which shows all of that."""
    launch, programs = run.plan.kernel.launch, run.plan.programs
    if launch.grid_of(programs[other].me.number) >= launch.grid_of(programs[role].me.number):
        return False
    now = run.now(role)
    return any(now[who] > event for who, event in run.state.waited.items())
