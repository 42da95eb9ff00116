"""__syncthreads and bar.sync in a log's replay: who must have arrived for a warp to have gone on.

bar.sync is logged after the operation: when the first warp of a generation logs it, every participant's next entry
is this bar.sync. __syncthreads is logged before: when the first warp logs what follows, every other has logged its
__syncthreads or logs nothing more, as an exited thread does not hold up the others.
"""

from __future__ import annotations

from sm90_verify.frontends.log.clock import Clock, joined
from sm90_verify.frontends.log.state import Named, ReplayState
from sm90_verify.frontends.log.synclog import Record
from sm90_verify.frontends.log.unexplained import Unexplained
from sm90_verify.spec.ptx import numbers
from sm90_verify.spec.ptx.limits import NAMED_BARRIERS, WARP


class Meetings(ReplayState):
    """The barriers that all warps of a group meet at."""

    def _sync_all(self, warp: int, index: int) -> None:
        """__syncthreads: every warp that has not exited must have reached it."""
        generation = self.syncs[warp]
        behind = [v for v in self.warps if self.syncs[v] < generation and self._next(v) is not None]
        if behind:
            raise Unexplained(
                "named-barrier",
                f"warp {warp} leaves its __syncthreads number {generation}, which warp {behind[0]} has not reached",
                self._next(behind[0]) or index,
                (index,),
            )
        together = [v for v in self.warps if self.syncs[v] == generation and self.open[v] is not None]
        self.witness.append((self.now, "syncthreads", index, generation))
        self._join(together, [self.open[v] for v in together], None)
        for v in together:
            self.open[v] = None

    def _join(self, warps: list[int], indices: list[int | None], clock: Clock | None) -> None:
        for warp, index in zip(warps, indices, strict=True):
            stamp = self.clock[warp].copy()
            stamp[self.slot[warp]] = index if index is not None else -1
            clock = joined(clock, stamp)
        for warp in warps:
            assert clock is not None
            self.clock[warp] = clock.copy()

    def _check_named(self, index: int, threads: int, number: int) -> Named:
        limit = WARP * (self.warps[-1] + 1)
        if number >= NAMED_BARRIERS or threads % WARP or not 0 < threads <= max(limit, WARP):
            raise Unexplained(
                "named-barrier",
                f"barrier {number} for {threads} threads: ids are 0 to {NAMED_BARRIERS - 1}, thread counts are "
                f"multiples of {WARP} up to the {limit} threads of this CTA",
                index,
                (),
            )
        return self.named[number]

    def _named_arrive(self, index: int, record: Record) -> None:
        threads, number = record.values
        named = self._check_named(index, threads, number)
        stamp = self.clock[record.warp].copy()
        stamp[self.slot[record.warp]] = index
        named.clock = joined(named.clock, stamp)
        self._named_step(named, index, threads)

    def _named_step(self, named: Named, index: int, threads: int) -> None:
        met = numbers.meet(named.arrived, named.opened, WARP, None, threads)
        named.arrived, named.opened = met.arrived, met.opened
        self.witness.append((self.now, "named", index, threads))
        if met.violates:
            raise Unexplained(*met.violates[0], index, (named.last,) * (named.last >= 0))
        named.last = index

    def _named_sync(self, index: int, record: Record) -> None:
        """bar.sync has returned, so all its warps have arrived: the next entry of each is the same bar.sync."""
        threads, number = record.values
        named = self._check_named(index, threads, number)
        together = [
            (following, warp)
            for following, warp, other in self._following()
            if other.kind == "named_barrier_arrive_and_wait" and other.values[1] == number
        ][: max(1, (threads - named.arrived) // WARP)]
        if len(together) * WARP + named.arrived < threads:
            raise Unexplained(
                "named-barrier",
                f"warp {record.warp} has left bar.sync {number}, {threads}, but only "
                f"{len(together) * WARP + named.arrived} threads can have reached it",
                index,
                tuple(following for following, _ in together if following > index),
            )
        for _, warp in together:
            self._deadline(warp)
        for following, _ in together:
            self._named_step(named, following, self.records[following].values[0])
        warps = [warp for _, warp in together]
        self.accesses.meet(index, [(following, warp, self.clock[warp]) for following, warp in together])
        self._join(warps, [following for following, _ in together], named.clock)
        named.clock = None
        for warp in warps:
            self.early[warp] = True
