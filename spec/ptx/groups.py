"""What one thread (or one warpgroup) has in flight: wgmma groups, bulk groups, and what it has not fenced.

All of it belongs to the thread that executes the operations and changes only by that thread's own operations, so it
is a function of where the thread is, and no state variable. An access counts as in progress from the instruction that
starts it until the instruction that waits for its group: that it may be over earlier helps nobody who cannot know it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.limits import BULK_GROUPS, MMA_GROUPS
from sm90_verify.spec.ptx.memory import Access


@dataclass(frozen=True)
class Held:
    """mma: wgmma groups that are committed and not waited for (PTX ISA 9.7.15); bulk_reads and bulk_writes: the
    accesses of bulk groups (9.7.9.25.6), oldest first, () once waited for; fresh_*: not yet committed; unfenced:
    generic accesses since the last fence.proxy.async; unfenced_inits, hidden_inits: barriers initialised since the last
    fence.mbarrier_init, and not made visible to other CTAs by a releasing barrier.cluster.arrive either; recent,
    unordered: generic accesses since the last release, and those that a barrier.cluster.arrive.relaxed has left
    without one (kept only where `tracks`).
    """

    mma: tuple[tuple[Access, ...], ...] = ()
    fresh_mma: tuple[Access, ...] = ()
    bulk_reads: tuple[tuple[Access, ...], ...] = ()
    bulk_writes: tuple[tuple[Access, ...], ...] = ()
    fresh_reads: tuple[Access, ...] = ()
    fresh_writes: tuple[Access, ...] = ()
    unfenced: tuple[Access, ...] = ()
    unfenced_inits: tuple[str, ...] = ()
    hidden_inits: tuple[str, ...] = ()
    registers: int = 0
    tracks: bool = False
    recent: tuple[Access, ...] = ()
    unordered: tuple[Access, ...] = ()

    def in_progress(self) -> tuple[Access, ...]:
        """All asynchronous accesses that nobody may assume to be over."""
        groups = (*self.mma, *self.bulk_reads, *self.bulk_writes)
        loose = (*self.fresh_mma, *self.fresh_reads, *self.fresh_writes)
        return _unique((*(access for group in groups for access in group), *loose))

    def stores(self) -> tuple[Access, ...]:
        """Reads of shared memory by bulk stores that are in progress."""
        reads = (*(access for group in self.bulk_reads for access in group), *self.fresh_reads)
        return _unique(tuple(access for access in reads if access.space == "shared"))

    def after(self, operation: op.Operation) -> Held:
        """What is held after the thread has executed the operation."""
        held = self._next(operation)
        return held._released(operation) if self.tracks else held

    def _released(self, operation: op.Operation) -> Held:
        """Keeps account of what a release orders: arrivals of any kind release at least at CTA scope, and are taken to
        do so for the cluster.
        """
        match operation:
            case op.Touch(kind="read" | "write"):
                return replace(self, recent=_unique((*self.recent, *operation.accesses)))
            case op.Init(write=write) | op.Inval(write=write):
                return self if write is None else replace(self, recent=_unique((*self.recent, write)))
            case op.ClusterArrive(release=False):
                return replace(self, recent=(), unordered=_unique((*self.unordered, *self.recent)))
            case op.Arrive() | op.NamedSync() | op.CtaSync() | op.ClusterArrive():
                return replace(self, recent=(), unordered=())
            case op.Wait() | op.Transaction() | op.Load() | op.Touch() | op.Store():
                return self
            case op.Group() | op.Fence() | op.ClusterWait() | op.WarpSync() | op.Choose() | op.Setmaxnreg():
                return self
            case _:
                assert_never(operation)

    def _next(self, operation: op.Operation) -> Held:
        match operation:
            case op.Touch():
                return self._touched(operation)
            case op.Store():
                writes = () if operation.destination is None else (operation.destination,)
                return replace(
                    self,
                    fresh_reads=_unique((*self.fresh_reads, *operation.reads)),
                    fresh_writes=_unique((*self.fresh_writes, *writes)),
                )
            case op.Group():
                return self._grouped(operation)
            case op.Fence():
                return self._fenced(operation)
            case op.ClusterArrive():
                return replace(self, hidden_inits=()) if operation.release else self
            case op.Init():
                return replace(
                    self,
                    unfenced_inits=tuple(dict.fromkeys((*self.unfenced_inits, operation.barrier))),
                    hidden_inits=tuple(dict.fromkeys((*self.hidden_inits, operation.barrier))),
                )
            case op.Setmaxnreg():
                return replace(self, registers=operation.registers)
            case op.Inval(write=write):
                return self if write is None else replace(self, unfenced=_unique((*self.unfenced, write)))
            case op.Wait() | op.Arrive() | op.Transaction() | op.Load() | op.NamedSync() | op.CtaSync():
                return self
            case op.ClusterWait() | op.WarpSync() | op.Choose():
                return self
            case _:
                assert_never(operation)

    def _touched(self, touch: op.Touch) -> Held:
        match touch.kind:
            case "mma":
                held = replace(self, fresh_mma=_unique((*self.fresh_mma, *touch.accesses)))
                return held.after(op.Group("mma_commit")) if touch.commit else held
            case "read" | "write":
                return replace(self, unfenced=_unique((*self.unfenced, *touch.accesses)))
            case _:
                assert_never(touch.kind)

    def _grouped(self, group: op.Group) -> Held:
        match group.kind:
            case "mma_commit":
                return replace(self, mma=_at_most((*self.mma, self.fresh_mma), MMA_GROUPS), fresh_mma=())
            case "mma_wait":
                return replace(self, mma=_newest(self.mma, group.pending))
            case "bulk_commit":
                return replace(
                    self,
                    bulk_reads=_at_most((*self.bulk_reads, self.fresh_reads), BULK_GROUPS),
                    bulk_writes=_at_most((*self.bulk_writes, self.fresh_writes), BULK_GROUPS),
                    fresh_reads=(),
                    fresh_writes=(),
                )
            case "bulk_wait_read":
                done = max(0, len(self.bulk_reads) - group.pending)
                return replace(self, bulk_reads=((),) * done + self.bulk_reads[done:])._without_finished_groups()
            case "bulk_wait":
                reads, writes = _newest(self.bulk_reads, group.pending), _newest(self.bulk_writes, group.pending)
                return replace(self, bulk_reads=reads, bulk_writes=writes)._without_finished_groups()
            case _:
                assert_never(group.kind)

    def _fenced(self, fence: op.Fence) -> Held:
        match fence.kind:
            case "proxy_async":
                return replace(self, unfenced=(), unfenced_inits=(), hidden_inits=())
            case "mbarrier_init":
                return replace(self, unfenced_inits=(), hidden_inits=())
            case _:
                assert_never(fence.kind)

    def _without_finished_groups(self) -> Held:
        """Leading groups of which nothing is in progress any more; the rest keeps its order and number."""
        pairs = list(zip(self.bulk_reads, self.bulk_writes, strict=True))
        while pairs and pairs[0] == ((), ()):
            pairs.pop(0)
        return replace(self, bulk_reads=tuple(p[0] for p in pairs), bulk_writes=tuple(p[1] for p in pairs))


IDLE = Held()


def _newest(groups: tuple[tuple[Access, ...], ...], pending: int) -> tuple[tuple[Access, ...], ...]:
    return groups[max(0, len(groups) - pending) :]


def _at_most(groups: tuple[tuple[Access, ...], ...], most: int) -> tuple[tuple[Access, ...], ...]:
    """The same groups with the oldest merged, so that a loop that never waits still comes back to where it was."""
    extra = len(groups) - most
    if extra <= 0:
        return groups
    oldest = _unique(tuple(access for group in groups[: extra + 1] for access in group))
    return (oldest, *groups[extra + 1 :])


def _unique(accesses: tuple[Access, ...]) -> tuple[Access, ...]:
    return tuple(dict.fromkeys(accesses))
