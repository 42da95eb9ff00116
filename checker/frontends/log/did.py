"""What the warps of a cluster did, by what block 0 logged of lane 0 of each: events of lanes, as of a kernel in PTX.

Every entry becomes an event of the lanes that take part. Which others do is inferred (docs/logs.md): from the arrivals
that a phase counts, from what is a matter of a whole warp by PTX, and from who loads. The other CTAs do the same, each
with its slice of what is multicast.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sm90_verify.frontends.log.clusters import CtaGrid
from sm90_verify.frontends.log.order import Replay
from sm90_verify.frontends.log.synclog import Record
from sm90_verify.frontends.log.table import RecoveredArray
from sm90_verify.frontends.log.touches import PlainAccess, Touches
from sm90_verify.frontends.log.unexplained import NotShown
from sm90_verify.frontends.log.usage import WAITS
from sm90_verify.frontends.ptx.events import (
    Accessed,
    Arrived,
    BarrierAt,
    ClusterArrived,
    ClusterWaited,
    CopiedIn,
    CopiedOut,
    Expected,
    Fenced,
    Grouped,
    Initialised,
    Invalidated,
    LaneEvent,
    LanesMet,
    Multiplied,
    NamedMet,
    Waited,
    What,
)
from sm90_verify.spec.ptx.limits import BULK_ALIGNMENT, WARP

ALL, LOGGING = (1 << WARP) - 1, 1
"""The lanes of a warp, and the one that logs."""
STARTS = ("cluster_barrier_init", "fence_barrier_init")
"""What comes before the barrier behind which the others may use the mbarriers."""


@dataclass(frozen=True)
class LoggedLanes:
    """Makes the events of a log. certain: accesses no more than those that are logged, and the lanes of a warp in
    step: what is violated then is so whatever is inferred of the rest.
    """

    replay: Replay
    touches: Touches
    grid: CtaGrid
    certain: bool
    ordinary: Mapping[int, Sequence[PlainAccess]] = field(default_factory=dict)

    def events(self, rank: int, warp: int) -> list[LaneEvent]:
        """What a warp of the CTA of this rank did. An event's number is that of its entry."""
        return list(self._events(rank, warp))

    def _events(self, rank: int, warp: int) -> Iterator[LaneEvent]:
        program, records = self.replay.program[warp], self.replay.records
        met = False
        last = program[0] if program else 0
        for index in program:
            record = records[index]
            if not met and record.kind not in STARTS:
                yield from self._start(last)
                met = True
            yield from self._plain(index, index, rank)
            for mask, what in self._of(index, record, rank):
                if self.certain:
                    yield LaneEvent(index, ALL, LanesMet(False))
                yield LaneEvent(index, mask, what)
            last = index
        if not met:
            yield from self._start(last)
        yield from self._plain(-1 - warp, last, rank)

    def _start(self, index: int) -> Iterator[LaneEvent]:
        """The barrier behind the initialisation that no entry shows."""
        if self.grid.size > 1:
            yield LaneEvent(index, ALL, ClusterArrived(False))
            yield LaneEvent(index, ALL, ClusterWaited())
        elif not self.replay.has_sync:
            yield LaneEvent(index, ALL, NamedMet(0, 0, True))

    def _plain(self, at: int, index: int, rank: int) -> Iterator[LaneEvent]:
        """The ordinary accesses in front of an entry."""
        for access in self.ordinary.get(at, ()):
            start, stop = access.span
            if access.whole:
                yield LaneEvent(index, ALL, Accessed(rank, (access.span,), access.writes))
                continue
            alone = len(self.grid.released(rank)) + 1
            for lane in range(alone):
                middle = min(start + BULK_ALIGNMENT, stop)
                yield LaneEvent(index, 1 << lane, Accessed(rank, ((start, middle),), access.writes))
                start = middle
            if start < stop:
                yield LaneEvent(index, ALL & ~((1 << alone) - 1), Accessed(rank, ((start, stop),), access.writes))

    # -- entries

    def _of(self, index: int, record: Record, rank: int) -> Iterator[tuple[int, What]]:
        """The events of an entry and the lanes of each."""
        kind, values = record.kind, record.values
        match kind:
            case "cluster_barrier_init":
                yield LOGGING, Initialised(BarrierAt(rank, values[0]), values[1])
            case "cluster_barrier_invalidate":
                yield LOGGING, Invalidated(BarrierAt(rank, values[0]))
            case "cluster_barrier_wait" | "cluster_barrier_try_wait" | "cluster_barrier_test_wait":
                yield from self._wait(index, record, rank)
            case "cluster_barrier_arrive" | "cluster_barrier_arrive_cluster":
                yield from self._arrive(record, rank)
            case "cluster_transaction_barrier_arrive_and_expect_tx":
                yield LOGGING, _arrival(BarrierAt(rank, values[0]), values[1])
            case "cluster_transaction_barrier_arrive_and_expect_tx_cluster":
                if values[3]:
                    yield LOGGING, _arrival(BarrierAt(self._own(record, values[2], rank), values[0]), values[1])
            case "cluster_transaction_barrier_expect_transaction":
                yield LOGGING, Expected(BarrierAt(rank, values[0]), values[1])
            case "cluster_transaction_barrier_complete_transaction":
                if values[3]:
                    yield LOGGING, Expected(BarrierAt(self._own(record, values[1], rank), values[0]), -values[2])
            case "tma_load" | "tma_store" | "wgmma_smem_smem" | "wgmma_reg_smem":
                yield from self._access(record, rank)
            case _:
                yield from self._alone(record)

    def _alone(self, record: Record) -> Iterator[tuple[int, What]]:
        """Entries on nothing in shared memory."""
        values = record.values
        match record.kind:
            case "syncthreads":
                yield ALL, NamedMet(0, 0, True)
            case "syncwarp":
                yield ALL, LanesMet(True)
            case "named_barrier_arrive_and_wait" | "named_barrier_arrive":
                yield ALL, NamedMet(values[1], values[0], record.kind.endswith("wait"))
            case "fence_barrier_init":
                yield ALL, Fenced("mbarrier_init")
            case "fence_view_async_shared":
                yield ALL, Fenced("proxy_async")
            case "warpgroup_arrive":
                yield ALL, Fenced("wgmma")
            case "warpgroup_commit_batch":
                yield ALL, Grouped("mma_commit", 0)
            case "warpgroup_wait":
                yield ALL, Grouped("mma_wait", values[0])
            case "tma_store_arrive":
                yield LOGGING, Grouped("bulk_commit", 0)
            case "tma_store_wait":
                yield LOGGING, Grouped("bulk_wait_read", values[0])
            case _:
                raise NotShown(f"where the cp.async of line {record.line} copies and which lanes do")

    def _wait(self, index: int, record: Record, rank: int) -> Iterator[tuple[int, What]]:
        phase = self.replay.passed_on.get(index)
        if phase is None or self._is_peek(index, record):
            return
        address, parity = record.values[:2]
        what = Waited(BarrierAt(rank, address), parity, phase, False, "acquire", "")
        yield (ALL if self.all_wait(record.warp, address) else LOGGING), what

    def _arrive(self, record: Record, rank: int) -> Iterator[tuple[int, What]]:
        address, *where = record.values
        if where and not where[1]:
            return
        array = self.replay.table.array[address]
        what = _arrival(BarrierAt(self._own(record, where[0] if where else 0, rank), address), None)
        lanes = self._lanes(record, array)
        yield ALL >> (WARP - lanes), what
        if array.arrivals is not None and array.arrivals.unseen:
            for place, other in enumerate(self.grid.released(rank)):
                yield 2 << place, _arrival(BarrierAt(other, address), None)

    def _lanes(self, record: Record, array: RecoveredArray) -> int:
        if array.arrivals is None:
            raise NotShown(f"how many lanes arrive at line {record.line}: no number adds up to what a phase counts")
        return array.arrivals.lanes

    def _own(self, record: Record, cta: int, rank: int) -> int:
        """The CTA that an entry names, which is block 0 itself wherever it can be told."""
        if cta:
            raise NotShown(f"which CTA the other blocks signal where block 0 signals CTA {cta}, line {record.line}")
        return rank

    def _access(self, record: Record, rank: int) -> Iterator[tuple[int, What]]:
        if record.kind == "tma_load":
            descriptor, full, _ = record.values
            ranks = self.grid.filled(descriptor, rank)
            start, stop = self.touches.load(record)
            size = (stop - start) // len(ranks)
            start += size * ranks.index(rank)
            barriers = tuple(BarrierAt(other, full) for other in ranks)
            yield LOGGING, CopiedIn(ranks, ((start, start + size),), barriers, size, (), descriptor, start)
        elif record.kind == "tma_store":
            span = self.touches.store(record, certain=self.certain)
            yield LOGGING, CopiedOut((span,), record.values[0], span[0])
        else:
            yield ALL, Multiplied(self.touches.operands(record, certain=self.certain))

    # -- which lanes

    def _is_peek(self, index: int, record: Record) -> bool:
        """A try_wait whose warp then waits for the same phase."""
        if record.kind == "cluster_barrier_wait":
            return False
        program, passed_on = self.replay.program[record.warp], self.replay.passed_on
        for after in program[bisect_right(program, index) :]:
            one = self.replay.records[after]
            if one.kind in WAITS and one.values[0] == record.values[0]:
                return passed_on.get(after) == passed_on[index]
        return False

    def all_wait(self, warp: int, address: int) -> bool:
        """Whether the whole warp waits, and not only its lane that logs: who fills stages waits with as many lanes as
        arrive for them.
        """
        ring = self.replay.table.ring[address]
        if ring.empty is None or address in ring.full.addresses:
            return True
        arrivals = ring.full.arrivals
        return arrivals is not None and bool(arrivals.logged) and arrivals.lanes > 1 and warp in ring.full.arrivers


def _arrival(at: BarrierAt, expect: int | None) -> Arrived:
    return Arrived(at, 1, expect, "arrive", "release", "")
