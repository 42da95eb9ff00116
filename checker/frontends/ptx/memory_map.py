"""The objects of a CTA's shared memory, found from what is accessed there: mbarriers, and buffers around them.

A buffer is what one copy fills or empties, or several that overlap; where no copy reaches, bytes that are accessed side
by side. An access of a buffer is given as ranges, and one of a swizzled matrix has hundreds of them. So the bytes of a
buffer change places: those that the same accesses touch come to lie together, within the bounds that copies and
barriers have, which keep their places. Which accesses have bytes in common, and so what can race, stays the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from sm90_verify.frontends.ptx.events import (
    Accessed,
    Arrived,
    AsyncCopied,
    BarrierAt,
    CopiedIn,
    CopiedOut,
    Expected,
    Initialised,
    Invalidated,
    Multiplied,
    StoredAsync,
    Triggered,
    Waited,
    What,
)
from sm90_verify.frontends.ptx.footprints import Ranges, merged
from sm90_verify.frontends.ptx.naming import Names
from sm90_verify.frontends.ptx.spaces import SHARED_BEGINS
from sm90_verify.spec.model.layout import Layout, Region, barriers_over
from sm90_verify.spec.ptx.limits import MATRIX_ALIGNMENT, MBARRIER_BYTES
from sm90_verify.spec.ptx.memory import Access


@dataclass(frozen=True)
class Buffer:
    """Bytes [start, stop) of a CTA. moved: by ranges within it that something accesses, where these bytes lie now."""

    name: str
    start: int
    stop: int
    moved: Mapping[Ranges, Ranges]


@dataclass(frozen=True)
class MemoryMap:
    """barriers: by rank and address, the name. buffers: by rank, in order."""

    barriers: Mapping[BarrierAt, str]
    buffers: tuple[tuple[Buffer, ...], ...]
    known: dict[tuple[int, Ranges], tuple[tuple[str, Ranges], ...]] = field(default_factory=dict, compare=False)

    def pieces(self, rank: int, ranges: Ranges, *, write: bool, asynchronous: bool) -> Iterator[Access]:
        """The accesses of these bytes of a CTA, which are among those that the map was made of."""
        found = self.known.get((rank, ranges))
        if found is None:
            split = _by_buffer(self.buffers[rank], ranges)
            found = tuple((buffer.name, buffer.moved[inside]) for buffer, inside in split)
            self.known[rank, ranges] = found
        for name, some in found:
            for start, stop in some:
                yield Access(name, "shared", start, stop, write, "async" if asynchronous else "generic", rank)

    def crowded(self, at: BarrierAt) -> Access | None:
        """The write of a barrier's bytes, where a buffer lies in them too."""
        stop = at.address + MBARRIER_BYTES
        if not any(one.start < stop and at.address < one.stop for one in self.buffers[at.rank]):
            return None
        return Access(self.barriers[at], "shared", at.address, stop, True, "generic", at.rank)

    def layout(self, registers: Iterable[Region] = ()) -> Layout:
        """As a layout, with these registers besides, in which nothing is initialised before the kernel begins."""
        regions = [
            Region(name, "shared", at.address, at.address + MBARRIER_BYTES, frozenset(), name, at.rank)
            for at, name in self.barriers.items()
        ]
        names = tuple(self.barriers.values())
        for rank, found in enumerate(self.buffers):
            for one in found:
                over = frozenset(
                    other
                    for at, other in self.barriers.items()
                    if at.rank == rank and at.address < one.stop and one.start < at.address + MBARRIER_BYTES
                )
                regions.append(Region(one.name, "shared", one.start, one.stop, over, one.name, rank))
        regions += registers
        slots = {region.declaration: 1 for region in regions}
        return Layout(tuple(regions), {}, names, slots, {}, {}, barriers_over(regions, names), begins=SHARED_BEGINS)


def memory_map(done: Iterable[tuple[int, What]], homes: Sequence[str], names: Names, base: int) -> MemoryMap:
    """The map of what was done: (rank of the CTA that did it, what). homes: by rank, what names begin with. base: the
    address that names of what has none count from.
    """
    copied: list[list[tuple[int, int]]] = [[] for _ in homes]
    touched: list[dict[Ranges, None]] = [{} for _ in homes]
    matrices: dict[Ranges, None] = {}
    seen: dict[BarrierAt, None] = {}
    for from_rank, what in dict.fromkeys(done):
        for at in barriers_of(what):
            seen[at] = None
        for rank, ranges in ranges_of(what, from_rank):
            if ranges:
                touched[rank][ranges] = None
                if isinstance(what, Multiplied):
                    matrices[ranges] = None
                if isinstance(what, CopiedIn | CopiedOut | StoredAsync | AsyncCopied):
                    copied[rank] += ranges
    barriers = {at: f"{homes[at.rank]}{names.barrier(at.address)}" for at in sorted(seen)}
    by_rank = [[at.address for at in barriers if at.rank == rank] for rank in range(len(homes))]
    buffers = tuple(
        tuple(_buffers(home, names, base, some, tuple(whole), matrices, held))
        for home, some, whole, held in zip(homes, copied, touched, by_rank, strict=True)
    )
    return MemoryMap(barriers, buffers)


# ---------------------------------------------------------------- buffers


def _buffers(
    home: str,
    names: Names,
    base: int,
    copied: Sequence[tuple[int, int]],
    touched: Sequence[Ranges],
    matrices: Collection[Ranges],
    barriers: Sequence[int],
) -> Iterator[Buffer]:
    bounds = _overlapping(copied)
    rest = _without(merged(piece for ranges in touched for piece in ranges), bounds)
    plain = [Buffer("", start, stop, {}) for start, stop in sorted((*bounds, *rest))]
    inside: dict[tuple[int, int], dict[Ranges, None]] = {}
    multiplied: dict[Ranges, None] = {}
    for ranges in touched:
        for buffer, cut in _by_buffer(plain, ranges):
            inside.setdefault((buffer.start, buffer.stop), {})[cut] = None
            if ranges in matrices:
                multiplied[cut] = None
    ends = {edge for at in barriers for edge in (at, at + MBARRIER_BYTES)}
    edges = sorted({edge for one in copied for edge in one} | ends)
    for one in plain:
        some = tuple(inside[one.start, one.stop])
        kept = [edge for edge in edges if one.start < edge < one.stop]
        name = names.buffers.get((one.start, one.stop)) or unnamed(one.start, base)
        moved = _moved(one.start, one.stop, some, kept, 1)
        if any(start % MATRIX_ALIGNMENT for matrix in multiplied if matrix in moved for start, _ in moved[matrix]):
            moved = _moved(one.start, one.stop, some, kept, MATRIX_ALIGNMENT)
        yield Buffer(f"{home}{name}", one.start, one.stop, moved)


def unnamed(start: int, base: int) -> str:
    """The name of bytes that nothing else names: by their place in dynamic shared memory, or the address before it."""
    return f"smem_{start - base:#x}" if start >= base else f"static_{start:#x}"


def _overlapping(pieces: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Pieces that overlap as one; those that only touch stay apart."""
    found: list[tuple[int, int]] = []
    for start, stop in sorted(set(pieces)):
        if found and start < found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], stop))
        else:
            found.append((start, stop))
    return found


def _without(ranges: Ranges, holes: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges outside the holes, which are in order."""
    found = []
    for start, stop in ranges:
        for hole_start, hole_stop in holes:
            if hole_stop <= start or hole_start >= stop:
                continue
            if start < hole_start:
                found.append((start, hole_start))
            start = max(start, hole_stop)
        if start < stop:
            found.append((start, stop))
    return found


def _by_buffer(buffers: Sequence[Buffer], ranges: Ranges) -> Iterator[tuple[Buffer, Ranges]]:
    """The ranges, cut at the bounds of buffers."""
    found: dict[int, list[tuple[int, int]]] = {}
    starts = [one.start for one in buffers]
    for start, stop in ranges:
        at = bisect_right(starts, start) - 1
        while start < stop:
            end = min(stop, buffers[at].stop)
            found.setdefault(at, []).append((start, end))
            start, at = end, at + 1
    return ((buffers[at], tuple(some)) for at, some in found.items())


def _moved(start: int, stop: int, touched: Sequence[Ranges], kept: Sequence[int], unit: int) -> dict[Ranges, Ranges]:
    """Where the bytes of each access lie when those that the same accesses touch lie together. kept: places across
    which no byte moves. unit: so many bytes that lie together stay together.
    """
    if all(len(one) == 1 for one in touched):
        return {one: one for one in touched}
    edges = sorted({start, stop, *kept, *(edge for one in touched for piece in one for edge in piece)})
    place = {edge: number for number, edge in enumerate(edges)}
    who: list[list[int]] = [[] for _ in edges]
    for number, one in enumerate(touched):
        for begin, end in one:
            for segment in range(place[begin], place[end]):
                who[segment].append(number)
    order: list[int] = []
    for first, last in pairwise([start, *kept, stop]):
        groups: dict[tuple[tuple[int, ...], ...], list[int]] = {}
        whole: list[int] = []
        for segment in range(place[first], place[last]):
            whole.append(segment)
            if edges[segment + 1] % unit == 0 or edges[segment + 1] == last:
                groups.setdefault(tuple(tuple(who[one]) for one in whole), []).extend(whole)
                whole = []
        order += [segment for _, some in sorted(groups.items()) for segment in some]
    at, now = start, [0] * len(edges)
    for segment in order:
        now[segment] = at
        at += edges[segment + 1] - edges[segment]
    return {
        one: merged(
            (now[segment], now[segment] + edges[segment + 1] - edges[segment])
            for begin, end in one
            for segment in range(place[begin], place[end])
        )
        for one in touched
    }


# ---------------------------------------------------------------- what events are on


def barriers_of(what: What) -> tuple[BarrierAt, ...]:
    """The mbarriers that an event is on."""
    match what:
        case Initialised() | Invalidated() | Arrived() | Expected() | Waited() | Triggered() | StoredAsync():
            return (what.barrier,)
        case CopiedIn():
            return what.barriers
        case _:
            return ()


def ranges_of(what: What, rank: int) -> Iterable[tuple[int, Ranges]]:
    """The bytes of shared memory that an event accesses, by the rank of the CTA. rank: of the CTA that does it."""
    match what:
        case CopiedIn():
            return [*((other, what.ranges or ()) for other in what.ranks), (rank, what.source)]
        case CopiedOut() | AsyncCopied() | Multiplied():
            return [(rank, what.ranges or ())]
        case StoredAsync() | Accessed():
            return [(what.rank, what.ranges or ())]
        case _:
            return []
