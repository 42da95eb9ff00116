"""Which bytes of shared memory the entries of a log access, and the ordinary accesses between them that it leaves out.

Logged are where loads, stores and wgmma operands begin. Inferred is how far they reach: a load as far as the bytes of
its phase say, a wgmma over the loads in which its operands begin, a store up to the next place that its tensor map is
stored from, or over the load that begins where it does. Inferred as well is what is not logged at all: a stage that is
loaded and no wgmma's is read after the wait for it, and what is stored is written before the fence.proxy.async that
its warp executes in front of the bar.sync before the store.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from sm90_verify.frontends.log.clock import LoadedRegion
from sm90_verify.frontends.log.order import Replay
from sm90_verify.frontends.log.synclog import Record
from sm90_verify.frontends.log.unexplained import NotShown
from sm90_verify.frontends.log.usage import WAITS, WGMMA
from sm90_verify.spec.ptx.limits import BULK_ALIGNMENT

Span = tuple[int, int]
"""Bytes of shared memory: [start, stop)."""
PUBLISHES = ("fence_view_async_shared", "named_barrier_arrive_and_wait", "named_barrier_arrive", "syncthreads")


class PlainAccess(NamedTuple):
    """An ordinary access that is not logged. span: of the warp; whole: its lanes access all of it, each."""

    span: Span
    writes: bool
    whole: bool


class Touches:
    """The bytes of a log's accesses. Raises NotShown where the log does not let them be inferred."""

    def __init__(self, replay: Replay) -> None:
        self.records, self.replay, self.where = replay.records, replay, replay.accesses.where
        self.program = replay.program
        self.meetings = dict(replay.accesses.store_meetings)
        self.boxes = dict(self._boxes())
        self.read = frozenset(self._plainly_read())

    def load(self, record: Record) -> Span:
        """The bytes of a load, in all the CTAs that fill its stage together."""
        _, full, start = record.values
        return start, start + self.where.size[full, start]

    def store(self, record: Record, *, certain: bool) -> Span:
        """The bytes of a store; certain: those that it reads at least."""
        start = record.values[1]
        if certain:
            return start, start + BULK_ALIGNMENT
        return start, start + self.boxes[record.values[0], start]

    def operands(self, record: Record, *, certain: bool) -> tuple[Span, ...]:
        """What a wgmma reads; certain: at least."""
        if certain:
            return tuple((start, start + BULK_ALIGNMENT) for start in sorted(set(record.values)))
        found: dict[Span, None] = {}
        for start in record.values:
            regions = self.where.covering(start)
            if not regions:
                raise NotShown(f"which bytes the wgmma of line {record.line} reads: no load goes to {start}")
            for region in regions:
                found[region[1], region[1] + self.where.size[region]] = None
        return tuple(sorted(found))

    def ordinary(self) -> dict[int, list[PlainAccess]]:
        """By entry, the accesses in front of it; -1 - warp: behind a warp's last entry."""
        self._must_divide()
        found: dict[int, list[PlainAccess]] = defaultdict(list)
        for at, access in (*self._reads(), *self._writes()):
            if access not in found[at]:
                found[at].append(access)
        for index, record in enumerate(self.records):
            if record.kind == "fence_view_async_shared" and index not in found:
                raise NotShown(f"which bytes the fence.proxy.async of line {record.line} is for")
        return found

    def _must_divide(self) -> None:
        """The bytes of a phase divide among its loads in one way: each is as long as the step to the next stage."""
        starts: dict[int, set[int]] = defaultdict(set)
        beside: dict[int, set[int]] = defaultdict(set)
        for record in self.records:
            if record.kind == "tma_load":
                descriptor, full, start = record.values
                starts[descriptor].add(start)
                beside[full].add(descriptor)
        for full, some in beside.items():
            for descriptor in some if len(some) > 1 else ():
                step = min((b - a for a, b in pairwise(sorted(starts[descriptor]))), default=0)
                if self.replay.table.box_bytes[descriptor] != step:
                    name = self.replay.table.name[full]
                    raise NotShown(f"how the bytes of a phase of {name} divide among its {len(some)} loads")

    # -- what stores read

    def _boxes(self) -> Iterator[tuple[tuple[int, int], int]]:
        """By tensor map and place, the bytes of a store."""
        starts: dict[int, set[int]] = defaultdict(set)
        for record in self.records:
            if record.kind == "tma_store":
                starts[record.values[0]].add(record.values[1])
        for descriptor, places in starts.items():
            step = min((b - a for a, b in pairwise(sorted(places))), default=0)
            for place in places:
                loads = [size for (_, start), size in self.where.size.items() if start == place]
                sizes = [size for size in (*loads, step) if size]
                if not sizes:
                    raise NotShown(f"how many bytes are stored from {place}: it is the only place of its tensor map")
                yield (descriptor, place), min(sizes)

    # -- what is read of loads, and written for stores

    def _plainly_read(self) -> Iterator[LoadedRegion]:
        """The places that loads fill and no wgmma reads."""
        operands = {value for record in self.records if record.kind in WGMMA for value in record.values}
        for region, size in self.where.size.items():
            if not any(region[1] <= one < region[1] + size for one in operands):
                yield region

    def _reads(self) -> Iterator[tuple[int, PlainAccess]]:
        for index, phase in self.replay.passed_on.items():
            record = self.records[index]
            full = record.values[0]
            for region in self.where.places.get(full, ()) if phase >= 0 else ():
                if region not in self.read:
                    continue
                span = region[1], region[1] + self.where.size[region]
                group = self._writers_of(span, record.warp)
                at = self._last(index, record.warp, full, written=bool(group))
                yield at, PlainAccess(self._part(span, group, record.warp), False, not group)

    def _last(self, index: int, warp: int, full: int, *, written: bool) -> int:
        """The entry in front of which a stage is read, at the latest: its release, or the first entry that shows others
        that it was read, if there is no release, or if the warp writes there itself.
        """
        empty, first = self.replay.table.partner.get(full, -1), -1 - warp
        program = self.program[warp]
        for after in program[bisect_right(program, index) :]:
            one = self.records[after]
            if one.kind in PUBLISHES and first < 0:
                first = after
            if "_barrier_arrive" in one.kind and one.values[0] == empty and not (written and first >= 0):
                return after
            if first >= 0 and (written or (one.kind in WAITS and one.values[0] == full)):
                break
        return first

    def _writes(self) -> Iterator[tuple[int, PlainAccess]]:
        for index, record in enumerate(self.records):
            if record.kind != "tma_store":
                continue
            span = self.store(record, certain=False)
            meeting = self.meetings.get(index)
            if meeting is None:
                raise NotShown(f"who writes what the store of line {record.line} reads: no bar.sync is in front of it")
            group = tuple(sorted(warp for _, warp, _, _ in meeting.entries))
            for (own, warp, fenced, _), fence in zip(meeting.entries, meeting.fences, strict=True):
                yield fence if fenced else own, PlainAccess(self._part(span, group, warp), True, False)

    def _writers_of(self, span: Span, warp: int) -> tuple[int, ...]:
        """The warps that write these bytes for a store, this one among them; none if they are not stored from."""
        for index, meeting in self.meetings.items():
            warps = tuple(sorted(other for _, other, _, _ in meeting.entries))
            start, stop = self.store(self.records[index], certain=False)
            if warp in warps and start < span[1] and span[0] < stop:
                return warps
        return ()

    def _part(self, span: Span, group: Sequence[int], warp: int) -> Span:
        """A warp's part of the bytes that a group shares."""
        if not group:
            return span
        units = (span[1] - span[0]) // BULK_ALIGNMENT
        place = list(group).index(warp)
        first, last = units * place // len(group), units * (place + 1) // len(group)
        return span[0] + first * BULK_ALIGNMENT, span[0] + last * BULK_ALIGNMENT
