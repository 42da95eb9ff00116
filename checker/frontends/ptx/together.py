"""Instructions that threads execute together: which lanes of a warp must meet where, and which never do.

With .aligned all threads of a warp execute the same instruction, and those of a warpgroup with wgmma and setmaxnreg.
Lanes that have exited are not waited for: at a barrier of threads that is taken for right (CUDA asks all threads that
have not exited to come to __syncthreads()); at what multiplies or moves matrices or registers it is not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, TypeAlias

from sm90_verify.frontends.ptx.code import Code
from sm90_verify.frontends.ptx.events import (
    Fenced,
    LaneEvent,
    LanesMet,
    LanesParted,
    RegistersSet,
    What,
    is_of_wgmma,
)
from sm90_verify.frontends.ptx.fragment import Fragment, mask_of
from sm90_verify.frontends.ptx.handlers import Binding
from sm90_verify.frontends.ptx.instruction import PtxInstruction
from sm90_verify.frontends.ptx.operands import Indices, Undetermined
from sm90_verify.frontends.ptx.state import CtaState, Warp
from sm90_verify.frontends.ptx.values import lane
from sm90_verify.spec.ptx.limits import WARPGROUP


class MeetingLanes(NamedTuple):
    """members: the lanes that must come, of those that have not exited. whole: lanes that have exited are missing.
    itself: each lane is one of those that it names.
    """

    members: int
    whole: bool = False
    itself: bool = True


Members: TypeAlias = Callable[[Warp, Fragment, Indices], MeetingLanes]

WITH_MASK = ("shfl", "vote", "match", "redux", "elect")
"""Instructions whose last operand says which lanes execute them."""
OF_ALL = ("wgmma", "setmaxnreg", "ldmatrix", "stmatrix", "mma")
"""Instructions that are wrong if a lane of the warp has exited."""


def must_meet(one: PtxInstruction) -> bool:
    """Lanes meet at the instruction before it is executed."""
    if one.opcode in ("shfl", "vote", "match", "redux"):
        return "sync" in one.modifiers
    if one.opcode in ("elect", "bar", *OF_ALL):
        return True
    return "aligned" in one.modifiers or is_loose(one)


def is_loose(one: PtxInstruction) -> bool:
    """A barrier of the CTA without .aligned: it counts whole warps, whatever lanes execute it."""
    return one.opcode == "barrier" and one.modifiers[:1] != ("cluster",) and "aligned" not in one.modifiers


def is_aligned(one: PtxInstruction) -> bool:
    """All lanes of a warp execute it, or none."""
    if one.opcode == "bar":
        return one.modifiers[:1] != ("warp",)
    return one.opcode in OF_ALL or "aligned" in one.modifiers


def members(bound: Binding) -> Members:
    """The lanes that must meet at the instruction: of its membermask, or all of the warp."""
    one = bound.one
    if one.opcode in WITH_MASK or one.modifiers[:1] == ("warp",):
        mask = bound.reader.get(one.operands[-1])

        def named(warp: Warp, fragment: Fragment, lanes: Indices) -> MeetingLanes:
            try:
                given = bound.reader.one_value(mask(fragment), lanes, "its membermask")
            except Undetermined as error:
                found = mask(fragment)
                outside = [
                    index
                    for index in lanes
                    if isinstance(each := lane(found, index), int) and not each >> fragment.lanes[index] & 1
                ]
                if not outside:
                    raise error
                return MeetingLanes(0, itself=False)
            mine = mask_of([fragment.lanes[index] for index in lanes])
            return MeetingLanes(given & warp.alive, itself=not mine & ~given)

        return named
    whole = one.opcode in OF_ALL
    return lambda warp, fragment, lanes: MeetingLanes(warp.alive, whole=whole)


def waits_for(meeting: MeetingLanes, warp: Warp, mask: int) -> What | None:
    """What lanes do that have come to such an instruction and cannot execute it; None if they can."""
    if not meeting.itself:
        return LanesParted("its membermask leaves some of these out")
    if meeting.members & ~mask:
        return LanesMet(False, meeting.members)
    return LanesParted("others have exited") if meeting.whole and warp.mask & ~warp.alive else None


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


def never_together(code: Code, warp: Warp) -> bool:
    """Says of lanes that wait for each other at different instructions in the end that they have parted: of the first
    of them, at an instruction with .aligned. Whether any have parted. Raises Undetermined where it is not for certain.
    """
    if any(one is not None and isinstance(one.what, LanesParted) for _, one in warp.left):
        return True
    stuck = [one for _, one in warp.left if one is not None and isinstance(one.what, LanesMet)]
    if len(stuck) < 2:
        loose = [one for one in stuck if is_loose(code.function.code[one.number])]
        if loose and len(warp.left) > 1:
            raise _open(code, warp, loose[0], next(one for _, one in warp.left if one is not loose[0]))
        return False
    some = [code.function.code[one.number] for one in stuck]
    first = next((at for at, one in enumerate(some) if is_aligned(one)), -1)
    if first < 0 or any(is_loose(one) for one in some):
        raise _open(code, warp, stuck[0], stuck[1])
    other = some[1 if first == 0 else 0]
    parted = stuck[first]._replace(what=LanesParted(f"others wait at {other.name} in line {other.line}"))
    waiting = {id(one) for one in stuck}
    left = ((mask, None if one is not None and id(one) in waiting else one) for mask, one in warp.left)
    warp.left = (*left, (parted.mask, parted))
    return True


def _open(code: Code, warp: Warp, one: LaneEvent, other: LaneEvent | None) -> Undetermined:
    name = code.function.code[one.number].name
    what = f"lanes of {warp.name} wait at {name} for others"
    if other is not None:
        second = code.function.code[other.number]
        what = f"{what}, which wait in line {second.line} at {second.name}"
    return Undetermined(f"{what}: let all lanes come to one of them", code.source(one.number))


def unlike_warps(code: Code, cta: CtaState, *, parted: bool) -> bool:
    """Says of a warp that it has parted where it executes a wgmma or a setmaxnreg that another one of its warpgroup
    does not execute, be it that there is none. Whether any does. parted: some have parted already, and it is only left
    out what not all execute. Raises Undetermined where one has come to its first
    wgmma.fence, and another one never can: who waits for whom begins at the wgmma.
    """
    found = False
    for start in range(0, len(cta.warps), 4):
        group = cta.warps[start : start + 4]
        for kinds, told in ((is_of_wgmma, "the wgmmas"), (_of_registers, "the setmaxnreg")):
            each = [[(at, event) for at, event in enumerate(warp.events) if kinds(event.what)] for warp in group]
            short = kinds is is_of_wgmma and sum(warp.mask.bit_count() for warp in group) < WARPGROUP
            for place in range(max(map(len, each))):
                here = [some[place] if place < len(some) else None for some in each]
                names = {None if one is None else _same(code, one[1]) for one in here}
                gone = all(one is not None or not warp.fragments for one, warp in zip(here, group, strict=True))
                if (len(names) > 1 and (gone or parted)) or short:
                    others = f"{told} of other warps of its warpgroup are not the same"
                    others = f"its warpgroup has fewer than {WARPGROUP} threads" if short else others
                    _part(group, here, kinds, "" if parted else others)
                    found = True
                    break
                fences = any(some and all(isinstance(one.what, Fenced) for _, one in some) for some in each)
                if kinds is is_of_wgmma and fences and not all(each):
                    raise _never_there(code, group, here)
            if found:
                return True
    return found


def _never_there(code: Code, group: Sequence[Warp], here: Sequence[tuple[int, LaneEvent] | None]) -> Undetermined:
    event = next(one[1] for one in here if one is not None)
    absent = next(warp.name for warp, one in zip(group, here, strict=True) if one is None and warp.fragments)
    name = code.function.code[event.number].name
    what = f"{name} is for all warps of a warpgroup, and {absent} cannot go on before it"
    return Undetermined(f"{what}: what the others do there is not known", code.source(event.number))


def _part(
    group: Sequence[Warp], here: Sequence[tuple[int, LaneEvent] | None], kinds: Callable[[What], bool], others: str
) -> None:
    """Leaves out what warps of a warpgroup do not do together, from there on: what comes of it is undefined. others:
    why the first of them has parted, "" if that is said elsewhere.
    """
    for warp, first in zip(group, here, strict=True):
        if first is not None:
            begun = first[0]
            warp.events[begun:] = [event for event in warp.events[begun:] if not kinds(event.what)]
    number, one = next((number, one) for number, one in enumerate(here) if one is not None)
    if others:
        group[number].events.insert(one[0], one[1]._replace(what=LanesParted(others)))


def _same(code: Code, event: LaneEvent) -> tuple[str, What]:
    """What is the same in all warps: the instruction, by its name, and what it does. Code may hold it twice."""
    return code.function.code[event.number].name, event.what


def _of_registers(what: What) -> bool:
    return isinstance(what, RegistersSet)
