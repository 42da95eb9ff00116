"""From the events of a warp to those of each thread class: lanes that do the same throughout.

Lanes that are elected, or that alone arrive somewhere, do other things than their neighbours, and each class is a
sequence of its own. Where lanes meet (elect.sync, shfl.sync, __syncwarp) classes wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sm90_verify.frontends.ptx.events import (
    LaneEvent,
    LanesAccessed,
    LanesCopied,
    LanesMet,
    Peeked,
    PeriodMarked,
    RegistersTouched,
)
from sm90_verify.frontends.ptx.footprints import Ranges, accessed, cp_async, matrices, merged, of_lane

WHOLE_WARP = (1 << 32) - 1


def footprint_of(what: LanesAccessed, mask: int) -> Ranges | None:
    """The bytes that lanes of a mask access; None if that is not known."""
    if not what.matrices:
        return accessed((at for lane, at in enumerate(what.addresses) if at >= 0 and mask >> lane & 1), what.size)
    if mask == WHOLE_WARP:
        return matrices(what.addresses, what.matrices)
    pieces: list[tuple[int, int]] = []
    for lane in range(32):
        if mask >> lane & 1:
            found = of_lane(what.addresses, lane, what.matrices, transposed=what.transposed)
            if found is None:
                return None
            pieces += found
    return merged(pieces)


def copied_by(what: LanesCopied, mask: int) -> Ranges | None:
    """The bytes that cp.asyncs of lanes of a mask write; None if that is not known."""
    pieces: list[tuple[int, int]] = []
    for lane, at in enumerate(what.addresses):
        if at >= 0 and mask >> lane & 1:
            found = cp_async(at, what.size)
            if found is None:
                return None
            pieces += found
    return merged(pieces)


class Class(NamedTuple):
    """mask: its lanes; events: those in which they take part, in order, with the places of them among all events."""

    mask: int
    events: tuple[tuple[int, LaneEvent], ...]

    @property
    def threads(self) -> int:
        return self.mask.bit_count()


def classes_of(events: Sequence[LaneEvent], alive: int) -> tuple[Class, ...]:
    """The classes of a warp that do anything, the one with the lowest lane first. alive: the lanes that there are.

    Meetings are kept where classes have something to wait for: a class has done something since the last one.
    """
    parts = _parts(events, alive)
    if len(parts) == 1:
        own = tuple((at, one) for at, one in enumerate(events) if not _is_idle_meeting(one))
        acts = any(_acts(one) or isinstance(one.what, Peeked) for _, one in own)
        return (Class(parts[0], own),) if acts else ()
    acting = [part for part in parts if any(one.mask & part and _acts(one) for one in events)]
    kept = _meetings(events, sum(acting))
    return tuple(
        Class(
            part,
            tuple(
                (at, one)
                for at, one in enumerate(events)
                if one.mask & part and (at in kept or not isinstance(one.what, LanesMet))
            ),
        )
        for part in acting
    )


def _acts(one: LaneEvent) -> bool:
    """It is more than a peek, a touch of registers, a mark, or a meeting to which all have come."""
    return not isinstance(one.what, Peeked | RegistersTouched | PeriodMarked) and not _is_idle_meeting(one)


def _is_idle_meeting(one: LaneEvent) -> bool:
    return isinstance(one.what, LanesMet) and one.what.members == 0


def _parts(events: Sequence[LaneEvent], alive: int) -> list[int]:
    """Lanes that take part in the same events."""
    parts = [alive]
    for mask in dict.fromkeys(one.mask for one in events if _acts(one)):
        found: list[int] = []
        for part in parts:
            found += [half for half in (part & mask, part & ~mask) if half]
        parts = found
    return sorted(parts, key=lambda part: part & -part)


def _meetings(events: Sequence[LaneEvent], acting: int) -> frozenset[int]:
    """The meetings of several classes before which one of these has acted since they met last; of those that order
    memory, since such a one.
    """
    kept: list[int] = []
    acted = {True: False, False: False}
    for at, one in enumerate(events):
        if isinstance(one.what, LanesMet):
            if one.what.members:
                kept.append(at)
            elif acted[one.what.orders] and one.mask & acting == acting:
                kept.append(at)
                acted[False] = False
                acted[True] &= not one.what.orders
            elif acted[one.what.orders] and one.mask & acting:
                kept.append(at)
        elif _acts(one) or isinstance(one.what, PeriodMarked):
            acted = {True: True, False: True}  # at a mark: all periods keep the same meetings
    return frozenset(kept)
