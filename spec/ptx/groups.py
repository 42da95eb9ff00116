"""What one thread (or one warpgroup) has in flight: groups of wgmmas, bulk copies and cp.asyncs, and what it has not
fenced.

All of it belongs to the thread that executes the operations and changes only by that thread's own operations, so it
is a function of where the thread is, and no state variable. An access counts as in progress from the instruction that
starts it until the instruction that waits for its group: that it may be over earlier helps nobody who cannot know it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import dropwhile
from typing import NamedTuple, assert_never

from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effect_parts import Ends, Groups, TriggeredArrivals
from sm90_verify.spec.ptx.effects import Effects, effects_of
from sm90_verify.spec.ptx.limits import BULK_GROUPS, CP_GROUPS, MMA_GROUPS
from sm90_verify.spec.ptx.memory import Access


class Held(NamedTuple):
    """mma: wgmma groups that are committed and not waited for (PTX ISA 9.7.15.7); bulk_reads and bulk_writes: the
    accesses of bulk groups (9.7.9.25.6), oldest first, () once waited for; cp: groups of cp.asyncs (9.7.9.25.3);
    tracked: arrivals that follow cp.asyncs, oldest first, with the accesses that these had in progress and that nobody
    has waited for or begun again since, the first with some; fresh_*: not yet committed; unfenced: generic accesses
    since the last fence.proxy.async, or in progress at it; unfenced_inits, hidden_inits: barriers initialised since the
    last fence.mbarrier_init, and not made visible to other CTAs by a releasing barrier.cluster.arrive either; recent,
    unordered: generic accesses, and those of groups that have been waited for, since the last release, and those that
    an arrival without a release has left without one (kept only where `tracks`, in programs that have such an arrival);
    within: all such arrivals are meetings of lanes of a warp; registers: those of each thread since its last
    setmaxnreg, 0 before any; touched: accesses to registers since the last wgmma.fence; fenced: there was one.
    """

    mma: tuple[tuple[Access, ...], ...] = ()
    fresh_mma: tuple[Access, ...] = ()
    cp: tuple[tuple[Access, ...], ...] = ()
    fresh_cp: tuple[Access, ...] = ()
    tracked: tuple[tuple[TriggeredArrivals, tuple[Access, ...]], ...] = ()
    bulk_reads: tuple[tuple[Access, ...], ...] = ()
    bulk_writes: tuple[tuple[Access, ...], ...] = ()
    fresh_reads: tuple[Access, ...] = ()
    fresh_writes: tuple[Access, ...] = ()
    unfenced: tuple[Access, ...] = ()
    unfenced_inits: tuple[str, ...] = ()
    hidden_inits: tuple[str, ...] = ()
    registers: int = 0
    tracks: bool = False
    within: bool = False
    recent: tuple[Access, ...] = ()
    unordered: tuple[Access, ...] = ()
    touched: tuple[Access, ...] = ()
    fenced: bool = False

    def in_progress(self) -> tuple[Access, ...]:
        """All asynchronous accesses that nobody may assume to be over, but for those of which an arrival tells."""
        groups = (*self.mma, *self.bulk_reads, *self.bulk_writes)
        loose = (*self.fresh_mma, *self.fresh_reads, *self.fresh_writes)
        copying = self.untracked() if self.cp or self.fresh_cp else ()
        return _unique((*(access for group in groups for access in group), *loose, *copying))

    def wgmmas(self) -> tuple[Access, ...]:
        """Those of wgmmas, committed or not."""
        return _unique((*(access for group in self.mma for access in group), *self.fresh_mma))

    def without_wgmmas(self) -> Held:
        """As if it had executed none."""
        return self._replace(mma=(), fresh_mma=())

    def untracked(self) -> tuple[Access, ...]:
        """Accesses of cp.asyncs that are in progress, and after which no arrival follows yet."""
        flying = [access for _, some in self.tracked for access in some]
        return tuple(access for access in self._copying() if access not in flying)

    def _copying(self) -> tuple[Access, ...]:
        return _unique((*(access for group in self.cp for access in group), *self.fresh_cp))

    def copied_by(self, operation: op.Operation | None) -> tuple[Access, ...]:
        """Writes of cp.asyncs that the operation has waited for: made by then, whatever time they took."""
        if operation is None or not (self.cp or self.fresh_cp):
            return ()
        still = self.after(operation)._copying()
        return tuple(access for access in self._copying() if access.write and access not in still)

    def stores(self) -> tuple[Access, ...]:
        """Reads of shared memory by bulk stores that are in progress."""
        reads = (*(access for group in self.bulk_reads for access in group), *self.fresh_reads)
        return _unique(tuple(access for access in reads if access.space == "shared"))

    def after(self, operation: op.Operation) -> Held:
        """What is held after the thread has executed the operation. The last answer is remembered with the operation,
        for whoever goes the same way again.
        """
        led: tuple[Held, Held] | None = operation._led
        if led is None or led[0] is not self:
            led = self, self._after(effects_of(operation))
            object.__setattr__(operation, "_led", led)
        return led[1]

    def released_by(self, operation: op.Operation | None) -> bool:
        """The operation releases accesses that an arrival has left without a release."""
        return operation is not None and not set(self.unordered) <= set(self.after(operation).unordered)

    def _after(self, effects: Effects) -> Held:
        held = self._shown(effects) if effects.shows else self
        held = held._begun(effects) if effects.begins else held
        held = held._committed(effects.commits) if effects.commits is not None else held
        held = held._ended(effects.ends) if effects.ends is not None else held
        if isinstance(effects.signal, op.Init):
            held = held._initialised(effects.signal.barrier)
        if effects.triggers is not None:
            held = held._triggered(effects.triggers)
        if effects.registers is not None:
            held = held._replace(registers=effects.registers.registers)
        return held._ordered(effects, self) if self.tracks else held

    def _begun(self, effects: Effects) -> Held:
        held, bulk, mma = self, effects.lasting("bulk_group"), effects.lasting("mma_group")
        raw = tuple(one.access for one in effects.begins if one.raw)
        if mma:
            held = held._replace(fresh_mma=_unique((*self.fresh_mma, *mma)))
        if copied := effects.lasting("cp_group"):
            held = held._replace(fresh_cp=_unique((*self.fresh_cp, *copied)))._tracking(lambda one: one not in copied)
        if bulk:
            reads = (*self.fresh_reads, *(access for access in bulk if not access.write))
            writes = (*self.fresh_writes, *(access for access in bulk if access.write))
            held = held._replace(fresh_reads=_unique(reads), fresh_writes=_unique(writes))
        touched = tuple(one.access for one in effects.begins if one.access.space == "registers")
        if touched:
            held = held._replace(touched=_unique((*held.touched, *touched)))
        return held._replace(unfenced=_unique((*self.unfenced, *raw))) if raw else held

    def _tracking(self, still: Callable[[Access], bool]) -> Held:
        """Only these are tracked still."""
        if not self.tracked:
            return self
        return self._replace(tracked=_telling((one, tuple(filter(still, some))) for one, some in self.tracked))

    def _triggered(self, arrivals: TriggeredArrivals) -> Held:
        tracks = self.untracked()
        arrivals = arrivals._replace(tracks=tracks)
        others = tuple(pair for pair in self.tracked if pair[0] != arrivals)
        return self._replace(tracked=_telling((*others, (arrivals, tracks))))

    def _initialised(self, barrier: str) -> Held:
        return self._replace(
            unfenced_inits=tuple(dict.fromkeys((*self.unfenced_inits, barrier))),
            hidden_inits=tuple(dict.fromkeys((*self.hidden_inits, barrier))),
        )

    def _committed(self, groups: Groups) -> Held:
        match groups:
            case "mma":
                return self._replace(mma=_at_most((*self.mma, self.fresh_mma), MMA_GROUPS), fresh_mma=())
            case "cp":
                return self._replace(cp=_at_most((*self.cp, self.fresh_cp), CP_GROUPS), fresh_cp=())
            case "bulk":
                return self._replace(
                    bulk_reads=_at_most((*self.bulk_reads, self.fresh_reads), BULK_GROUPS),
                    bulk_writes=_at_most((*self.bulk_writes, self.fresh_writes), BULK_GROUPS),
                    fresh_reads=(),
                    fresh_writes=(),
                )
            case _:
                assert_never(groups)

    def _ended(self, ends: Ends) -> Held:
        match ends.groups:
            case "mma":
                return self._replace(mma=_newest(self.mma, ends.pending))
            case "cp":
                held = self._replace(cp=_newest(self.cp, ends.pending))
                return held._tracking(lambda one: one in held._copying())
            case "bulk" if ends.reads:
                done = max(0, len(self.bulk_reads) - ends.pending)
                return self._replace(bulk_reads=((),) * done + self.bulk_reads[done:])._without_finished_groups()
            case "bulk":
                reads, writes = _newest(self.bulk_reads, ends.pending), _newest(self.bulk_writes, ends.pending)
                return self._replace(bulk_reads=reads, bulk_writes=writes)._without_finished_groups()
            case _:
                assert_never(ends.groups)

    def _shown(self, effects: Effects) -> Held:
        return self._replace(
            unfenced=self._unfenced_still() if "accesses" in effects.shows else self.unfenced,
            unfenced_inits=() if "inits_to_copies" in effects.shows else self.unfenced_inits,
            hidden_inits=() if "inits_to_ctas" in effects.shows else self.hidden_inits,
            touched=() if "registers" in effects.shows else self.touched,
            fenced=self.fenced or "registers" in effects.shows,
        )

    def _unfenced_still(self) -> tuple[Access, ...]:
        """Those that a fence.proxy.async does not cover, for they are still in progress."""
        copying = self._copying() if self.cp or self.fresh_cp else ()
        return tuple(one for one in self.unfenced if one in copying)

    def _ordered(self, effects: Effects, before: Held) -> Held:
        """Keeps account of what a release orders: generic accesses, and those of groups that were in progress before
        the operation and are over. Arrivals on mbarriers and bar.sync release at CTA scope at least, and are taken to
        do so for the cluster: PTX does not say that a barrier.cluster.arrive.relaxed after bar.sync shows other CTAs
        what came before it. Where only lanes of a warp meet without a release, __syncwarp of all of them is one for
        whoever can learn of it so.
        """
        meets = effects.meets
        shows = self.within and isinstance(meets, op.WarpSync) and meets.orders and not meets.lanes
        match "release" if shows else effects.orders:
            case "release":
                return self._replace(recent=(), unordered=())
            case "relaxed":
                return self._replace(recent=(), unordered=_unique((*self.unordered, *self.recent)))
            case None:
                recent = effects.lasting("done")
                if effects.ends is not None or effects.triggers is not None:
                    now = self.in_progress()
                    recent += tuple(access for access in before.in_progress() if access not in now)
                return self._replace(recent=_unique((*self.recent, *recent))) if recent else self
            case _:
                assert_never(effects.orders)

    def _without_finished_groups(self) -> Held:
        """Leading groups of which nothing is in progress any more; the rest keeps its order and number."""
        pairs = list(zip(self.bulk_reads, self.bulk_writes, strict=True))
        while pairs and pairs[0] == ((), ()):
            pairs.pop(0)
        return self._replace(bulk_reads=tuple(p[0] for p in pairs), bulk_writes=tuple(p[1] for p in pairs))


IDLE = Held()


def _telling(
    tracked: Iterable[tuple[TriggeredArrivals, tuple[Access, ...]]],
) -> tuple[tuple[TriggeredArrivals, tuple[Access, ...]], ...]:
    """Without those that no tracked access is before: an arrival that tracks none itself tells of all before it."""
    return tuple(dropwhile(lambda pair: not pair[1], tracked))


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
