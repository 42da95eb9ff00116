"""Instructions at which threads meet, executed: named and cluster barriers, setmaxnreg, griddepcontrol."""

from __future__ import annotations

from typing import Literal

from sm90_verify.frontends.ptx.events import (
    ClusterArrived,
    ClusterWaited,
    Depended,
    LaneEvent,
    LanesMet,
    NamedMet,
    RegistersSet,
)
from sm90_verify.frontends.ptx.fragment import Fragment
from sm90_verify.frontends.ptx.handlers import Binding, Handler
from sm90_verify.frontends.ptx.instruction import Immediate
from sm90_verify.frontends.ptx.operands import Indices, Undetermined
from sm90_verify.frontends.ptx.state import ThreadsMet, Warp
from sm90_verify.frontends.ptx.values import Unknown
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.limits import NAMED_BARRIERS, WARP

EXITED = "lanes of its warp that have exited need not come to it"
"""PTX asks all threads of a warp to execute a barrier with .aligned, CUDA all that have not exited."""
NAMED_EXITED = "lanes in its membermask that have exited need not come to it"
"""PTX asks all threads in the membermask to execute bar.warp.sync (9.7.13.2), CUDA of __syncwarp() those that have not
exited; of shfl.sync and the like PTX says the latter.
"""


def on_bar(bound: Binding) -> Handler:
    """bar, barrier.cta, bar.warp.sync, barrier.cluster"""
    words = bound.one.modifiers
    if words[0] == "warp":
        return _warp_sync(bound)
    if words[0] == "cluster":
        return _cluster_arrive(bound) if words[1] == "arrive" else _cluster_wait(bound)
    return _named(bound)


def _named(bound: Binding) -> Handler:
    words = bound.one.modifiers
    given = bound.one.operands
    result = None
    if "red" in words:
        result, given = given[0], given[1:]
    if not given:
        raise bound.unknown_form()
    id = bound.reader.get(given[0])
    has_count = len(given) > (2 if "red" in words else 1)
    threads = bound.reader.get(given[1] if has_count else Immediate(0))
    blocks = "arrive" not in words
    everybody = bound.cluster.launch.threads
    whole = (1 << WARP) - 1
    unknown = Unknown(bound.one.line, f"what {bound.one.name} gives")

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        number = bound.reader.one_value(id(fragment), lanes, "the barrier")
        count = bound.reader.one_value(threads(fragment), lanes, "the number of threads")
        if not 0 <= number < NAMED_BARRIERS:
            raise SpecError(f"{bound.one.name} {number}: named barriers are 0 to 15", bound.reader.source)
        if count and warp.mask != whole and count != everybody:
            what = f"{warp.name} has {warp.mask.bit_count()} lanes, and counts as {WARP}: give it {WARP}, or no count"
            raise Undetermined(f"{bound.one.name}: {what}", bound.reader.source)
        if warp.mask & ~warp.alive:
            if count:
                what = f"lanes of {warp.name} have exited, and whole warps count: let all lanes come"
                raise Undetermined(f"{bound.one.name}: {what}", bound.reader.source)
            bound.assume(EXITED)
        state = warp.cta.named.setdefault(number, ThreadsMet())
        if fragment.entered < 0:
            state.arrived += WARP
            bound.note(warp, fragment, lanes, NamedMet(number, count, blocks))
            fragment.entered = state.number
        exited = 0 if count else everybody - warp.cta.threads
        if fragment.entered == state.number and state.arrived + exited >= (count or everybody):
            state.arrived = 0
            state.number += 1
        if blocks and fragment.entered == state.number:
            fragment.waits = True
            return False
        fragment.entered = -1
        if result is not None:
            bound.write(fragment, result, lanes, unknown)
        return True

    return run


def _warp_sync(bound: Binding) -> Handler:
    members = bound.reader.get(bound.one.operands[-1])

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        named = bound.reader.one_value(members(fragment), lanes, "its membermask")
        if named & warp.mask & ~warp.alive:
            bound.assume(NAMED_EXITED)
        bound.note(warp, fragment, lanes, LanesMet(True, fragment.met))
        fragment.met = 0
        return True

    return run


def _cluster_arrive(bound: Binding) -> Handler:
    release = "relaxed" not in bound.one.modifiers

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        if bound.has("aligned") and warp.mask & ~warp.alive:
            bound.assume(EXITED)
        meeting = bound.cluster.meeting
        for index in lanes:
            warp.arrived[fragment.lanes[index]] = meeting.number
        meeting.arrived += len(lanes)
        bound.note(warp, fragment, lanes, ClusterArrived(release))
        complete(bound)
        return True

    return run


def complete(bound: Binding) -> None:
    """Ends the generation of barrier.cluster if all threads that have not exited have arrived."""
    meeting = bound.cluster.meeting
    if meeting.arrived and meeting.arrived >= sum(cta.threads for cta in bound.cluster.ctas):
        meeting.arrived = 0
        meeting.number += 1


def _cluster_wait(bound: Binding) -> Handler:
    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        if bound.has("aligned") and warp.mask & ~warp.alive:
            bound.assume(EXITED)
        complete(bound)
        number = bound.cluster.meeting.number
        if any(warp.arrived.get(fragment.lanes[index], -1) >= number for index in lanes):
            fragment.waits = True
            fragment.stands_at = LaneEvent(bound.number, fragment.mask_at(lanes), ClusterWaited())
            return False
        bound.note(warp, fragment, lanes, ClusterWaited())
        return True

    return run


def on_setmaxnreg(bound: Binding) -> Handler:
    """setmaxnreg; that it may have to wait is left to the engines."""
    number = bound.one.operands[0]
    if not isinstance(number, Immediate):
        raise bound.unknown_form()
    kind: Literal["dec", "inc"] = "dec" if "dec" in bound.one.modifiers else "inc"
    what = RegistersSet(number.value, kind)

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        bound.note(warp, fragment, lanes, what)
        return True

    return run


def on_griddepcontrol(bound: Binding) -> Handler:
    """griddepcontrol: the kernel is looked at as launched alone, where both forms do nothing."""
    kind: Literal["launch_dependents", "wait"] = "wait" if bound.has("wait") else "launch_dependents"

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        bound.note(warp, fragment, lanes, Depended(kind))
        return True

    return run
