"""Instructions at which threads meet: named and cluster barriers, executed; and which lanes have to meet where."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from sm90_verify.frontends.ptx.code import Code
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
from sm90_verify.frontends.ptx.operands import Indices
from sm90_verify.frontends.ptx.state import ThreadsMet, Warp
from sm90_verify.frontends.ptx.values import Unknown, lane
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.limits import NAMED_BARRIERS, WARP


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
    unknown = Unknown(bound.one.line, f"what {bound.one.name} gives")

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        number = bound.reader.one_value(id(fragment), lanes, "the barrier")
        count = bound.reader.one_value(threads(fragment), lanes, "the number of threads")
        if not 0 <= number < NAMED_BARRIERS:
            raise SpecError(f"{bound.one.name} {number}: named barriers are 0 to 15", bound.reader.source)
        state = warp.cta.named.setdefault(number, ThreadsMet())
        if fragment.entered < 0:
            state.arrived += WARP
            bound.note(warp, fragment, lanes, NamedMet(number, count if count != everybody else 0, blocks))
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
    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        bound.note(warp, fragment, lanes, LanesMet(True, fragment.met))
        fragment.met = 0
        return True

    return run


def _cluster_arrive(bound: Binding) -> Handler:
    release = "relaxed" not in bound.one.modifiers

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
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


def members(bound: Binding) -> Callable[[Warp, Fragment], int]:
    """The lanes that must meet at the instruction: of its membermask, or all of the warp; those that have exited are
    not waited for.
    """
    one = bound.one
    if one.opcode in ("shfl", "vote", "match", "redux", "elect") or one.modifiers[:1] == ("warp",):
        mask = bound.reader.get(one.operands[-1])

        def named(warp: Warp, fragment: Fragment) -> int:
            found = mask(fragment)
            given = lane(found, 0)
            if isinstance(given, Unknown):
                raise SpecError(f"{one.name}: its members depend on {given.why}", bound.reader.source)
            return given & warp.alive

        return named
    return lambda warp, fragment: warp.alive


def met_elsewhere(code: Code, warp: Warp, members: int) -> bool:
    """Whether all of these lanes stand at a bar.warp.sync of theirs, be it one instruction or several: compilers make
    copies of one, and from sm_70 on lanes that have parted may meet at different ones with the same membermask (PTX ISA
    9.7.13.2). Then all are told.
    """
    missing, standing = members, list[Fragment]()
    for one in warp.fragments:
        event = one.stands_at
        if one.met or event is None or event.what != LanesMet(False, members):
            continue
        if code.function.code[event.number].modifiers[:1] == ("warp",):
            missing &= ~event.mask
            standing.append(one)
    if missing:
        return False
    for one in standing:
        one.met = members
    return True


def must_meet(words: tuple[str, ...], opcode: str) -> bool:
    """Lanes meet at the instruction before it is executed."""
    if opcode in ("shfl", "vote", "match", "redux"):
        return "sync" in words
    if opcode in ("elect", "wgmma", "setmaxnreg", "ldmatrix", "stmatrix", "bar"):
        return True
    return "aligned" in words
