"""Who may touch which shared memory when, in a log: stages, wgmma operands, TMA loads and stores.

The replay of the log (order) gives every warp a vector clock: the last entry of each warp, and the completed
phases of each barrier, that are ordered before it. Two accesses race unless the completion of one is ordered before
the other. Only what the log shows is judged: TMA loads and stores and wgmma operands carry addresses, ordinary
loads and stores do not, so their place is bounded by the waits, releases, fences and bar.syncs around them.

wgmma reads count once per warpgroup: the instruction is collective, so its completion in one warp is its
completion.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from sm90_verify.frontends.log.clock import AsyncGroups, Clock, Fill, Generation, LoadedRegion
from sm90_verify.frontends.log.regions import Regions
from sm90_verify.frontends.log.stages import Stages
from sm90_verify.frontends.log.synclog import Record
from sm90_verify.frontends.log.table import BarrierTable
from sm90_verify.frontends.log.unexplained import Unexplained
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import Effects, effects_of


def operation_of(record: Record) -> op.Operation | None:
    """What an entry says that its warp does for itself alone: groups and fences."""
    match record.kind:
        case "warpgroup_commit_batch":
            return op.Group("mma_commit")
        case "warpgroup_wait":
            return op.Group("mma_wait", record.values[0])
        case "fence_view_async_shared":
            return op.Fence("proxy_async")
        case "tma_store_arrive":
            return op.Group("bulk_commit")
        case "tma_store_wait":
            return op.Group("bulk_wait_read", record.values[0])
        case _:
            return None


class Accesses:
    """Follows the accesses of a log in the order of the replay; every method raises Unexplained."""

    def __init__(
        self,
        records: Sequence[Record],
        table: BarrierTable,
        program: dict[int, list[int]],
        slot: dict[int, int],
        phase_slot: dict[int, int],
    ) -> None:
        self.records, self.table, self.program = records, table, program
        self.slot, self.phase_slot = slot, phase_slot
        self.where = Regions(records, table)
        self.stages = Stages(records, table)
        self.fills: dict[LoadedRegion, Fill] = {}
        self.filled: Counter[LoadedRegion] = Counter()
        self.reads: dict[LoadedRegion, dict[int, int]] = defaultdict(dict)
        self.checked: dict[tuple[int, LoadedRegion], int] = {}
        self.math = {warp: AsyncGroups() for warp in slot}
        self.bulk = {warp: AsyncGroups() for warp in slot}
        self.stores: dict[int, tuple[int, int, int]] = {}
        self.every_store: list[tuple[int, int, int]] = []
        self.fenced = dict.fromkeys(slot, -1)
        self.fence_clock: dict[int, Clock] = {}
        self.met = dict.fromkeys(slot, -1)
        self.meeting: dict[int, Generation] = {}
        self.meetings: dict[tuple[int, ...], dict[tuple[int, ...], list[Generation]]] = defaultdict(
            lambda: defaultdict(list)
        )
        self.store_meetings: list[tuple[int, Generation]] = []
        self.staged: dict[int, list[tuple[int, Fill | None]]] = defaultdict(list)

    # ------------------------------------------------------------ in program order

    def entry(self, index: int, record: Record, clock: Clock) -> None:
        """An entry that touches no barrier, when it is appended."""
        kind, warp = record.kind, record.warp
        if kind in {"wgmma_smem_smem", "wgmma_reg_smem"}:
            self._wgmma(index, record, clock)
        elif kind == "tma_load":
            self._load(index, record, clock)
        elif kind == "tma_store":
            self._store(index, record, clock)
        else:
            self._groups_and_fences(index, warp, effects_of(operation_of(record)), clock)

    def _groups_and_fences(self, index: int, warp: int, effects: Effects, clock: Clock) -> None:
        groups = {"mma": self.math[warp], "bulk": self.bulk[warp]}
        if effects.commits is not None:
            groups[effects.commits].commit()
        if effects.ends is not None:
            groups[effects.ends.groups].wait(effects.ends.pending, index)
        if "accesses" in effects.shows:
            self.fenced[warp] = index
            self.fence_clock[warp] = clock

    def meet(self, index: int, entries: list[tuple[int, int, Clock]]) -> None:
        """A bar.sync completes: (entry, warp, clock before it) of each warp."""
        found = []
        for own, warp, clock in entries:
            fenced = self.fenced[warp] > self.met[warp]
            found.append((own, warp, fenced, self.fence_clock[warp] if fenced else clock))
        meeting = Generation(tuple(found), tuple(self.fenced[warp] for _, warp, _ in entries))
        for own, warp, _ in entries:
            self.met[warp] = own
            self.meeting[warp] = meeting
        warps = tuple(sorted(warp for _, warp, _ in entries))
        self.meetings[self.records[index].values][warps].append(meeting)

    # ------------------------------------------------------------ TMA loads

    def _load(self, index: int, record: Record, clock: Clock) -> None:
        _, full, start = record.values
        region = (full, start)
        name, ring = self.table.name[full], self.table.ring[full]
        empty = self.table.partner.get(full)
        phase = self.filled[region]
        self.filled[region] += 1
        if empty is not None and clock[self.phase_slot[empty]] < phase:
            raise Unexplained(
                "race",
                f"the load overwrites the stage of {name} for phase {phase}, but its warp has seen only "
                f"{clock[self.phase_slot[empty]]} of the {phase} releases that this needs",
                index,
                tuple(f.record for f in (self.fills.get(region),) if f),
            )
        for other in self.where.overlapping(region):
            fill = self.fills.get(other)
            if fill is not None:
                if fill.full != full and ring is self.table.ring[fill.full]:
                    raise Unexplained(
                        "smem-overlap",
                        f"the load for {name} writes bytes of the stage of {self.table.name[fill.full]}",
                        index,
                        (fill.record,),
                    )
                if clock[self.phase_slot[fill.full]] <= fill.phase:
                    raise Unexplained(
                        "race",
                        f"the load for {name} writes bytes that an earlier load may still be writing: its warp has not "
                        f"seen phase {fill.phase} of {self.table.name[fill.full]} complete",
                        index,
                        (fill.record,),
                    )
            for group, ordinal in self.reads[other].items():
                if not self._known(self.math, range(4 * group, 4 * group + 4), ordinal, clock):
                    raise Unexplained(
                        "race",
                        f"the load for {name} overwrites an operand that wgmma of warpgroup {group} may still be "
                        f"reading",
                        index,
                        (),
                    )
        for source in self.where.stored_from(region):
            if source in self.stores:
                store, warp, ordinal = self.stores[source]
                if not self._known(self.bulk, (warp,), ordinal, clock):
                    raise Unexplained(
                        "race",
                        f"the load for {name} overwrites bytes that a TMA store may still be reading",
                        index,
                        (store,),
                    )
        self.reads[region] = {}
        self.fills[region] = Fill(index, full, phase)

    def _known(self, groups: dict[int, AsyncGroups], warps: Sequence[int], ordinal: int, clock: Clock) -> bool:
        """Whether the clock knows that some of the warps has waited for its group number `ordinal`."""
        for warp in warps:
            done = groups[warp].done if warp in groups else []
            if len(done) > ordinal and clock[self.slot[warp]] >= done[ordinal]:
                return True
        return False

    # ------------------------------------------------------------ readers

    def _holds(self, index: int, warp: int, region: LoadedRegion, clock: Clock, what: str) -> None:
        """The warp must have waited for the load that last wrote the region, and not have released it yet."""
        fill = self.fills.get(region)
        if fill is None:
            raise Unexplained(
                "stale-read", f"{what} reads bytes at {region[1]} that no load has written yet", index, ()
            )
        name = self.table.name[fill.full]
        waits_itself = warp in self.table.array[fill.full].waiters
        direct = self.stages.direct.get((warp, fill.full), -1)
        if clock[self.phase_slot[fill.full]] <= fill.phase or (waits_itself and direct < fill.phase):
            raise Unexplained(
                "stale-read",
                f"{what} reads the stage of {name}, but warp {warp} has not waited for phase {fill.phase}, whose load "
                "may still be writing it",
                index,
                (fill.record,),
            )
        if waits_itself and direct > fill.phase:
            raise Unexplained(
                "stale-read",
                f"{what} reads bytes that phase {direct} of {name} should have delivered, but its load went elsewhere: "
                f"they are those of phase {fill.phase}",
                index,
                (fill.record,),
            )
        if waits_itself and not self.stages.holds(warp, fill.full):
            raise Unexplained(
                "race", f"{what} reads the stage of {name} after warp {warp} has released it", index, (fill.record,)
            )

    def _wgmma(self, index: int, record: Record, clock: Clock) -> None:
        warp = record.warp
        groups = self.math[warp]
        groups.begun = index
        for position, address in enumerate(reversed(record.values)):
            regions = self.where.covering(address)
            full = self.where.copied.get(address)
            if not regions and full is not None:
                if not self.stages.holds(warp, full):
                    raise Unexplained(
                        "race",
                        f"wgmma operand {'ba'[position]} reads the stage of {self.table.name[full]}, which warp {warp} "
                        "does not hold",
                        index,
                        (),
                    )
                self.reads[full, address][warp // 4] = groups.committed
                continue
            if not regions:
                if self.where.inside[position]:
                    raise Unexplained(
                        "stale-read",
                        f"wgmma reads operand {'ba'[position]} at {address}, where no load of this log writes",
                        index,
                        (),
                    )
                continue
            region = regions[0]
            if len(regions) > 1:
                region = max(regions, key=lambda r: self.fills[r].record if r in self.fills else -1)
            fill = self.fills.get(region)
            if fill is None or self.checked.get((warp, region)) != fill.record:
                self._holds(index, warp, region, clock, f"wgmma operand {'ba'[position]}")
                self.checked[warp, region] = self.fills[region].record
            self.reads[region][warp // 4] = groups.committed

    def release(self, index: int, record: Record, clock: Clock) -> None:
        """An arrival: on an empty barrier it gives the stage away, so the warp must have had it and be done with it."""
        empty, warp = record.values[0], record.warp
        ring = self.table.ring.get(empty)
        if ring is None or ring.empty is None or empty not in ring.empty.addresses:
            return
        full = self.table.partner[empty]
        name = self.table.name[full]
        self.stages.release(index, warp, full, empty)
        for region in self.where.places.get(full, ()):
            self.checked.pop((warp, region), None)
            if len(self.math[warp].done) <= self.reads[region].get(warp // 4, -1):
                raise Unexplained(
                    "race", f"warp {warp} releases the stage of {name} while its wgmma may still read it", index, ()
                )
            for source in self.where.stored_from(region):
                store = self.stores.get(source)
                if store is not None and store[1] == warp and len(self.bulk[warp].done) <= store[2]:
                    raise Unexplained(
                        "race",
                        f"warp {warp} releases the stage of {name} while its TMA store may still read it",
                        index,
                        (store[0],),
                    )

    # ------------------------------------------------------------ TMA stores

    def _store(self, index: int, record: Record, clock: Clock) -> None:
        warp, source = record.warp, record.values[1]
        meeting = self.meeting.get(warp)
        held = None
        for region in self.where.covering(source):
            fill = self.fills.get(region)
            if fill is None:
                continue
            if clock[self.phase_slot[fill.full]] <= fill.phase:
                raise Unexplained(
                    "race",
                    f"the TMA store reads bytes that a load for {self.table.name[fill.full]} may still be writing",
                    index,
                    (fill.record,),
                )
            if fill.full in self.table.partner and self.stages.holds(warp, fill.full):
                held = fill
        if held is None:
            self._slot_is_free(index, warp, source, meeting, clock)
        elif meeting:
            for (own, writer, fenced, _), fence in zip(meeting.entries, meeting.fences, strict=True):
                waited = self.stages.waited_at.get((writer, held.full), -1)
                if fenced and fence < waited and self.stages.direct[writer, held.full] == held.phase:
                    raise Unexplained(
                        "missing-fence",
                        f"warp {writer} executes fence.proxy.async before it waits for the stage that it then "
                        "writes and the TMA store reads: its writes may not be visible to the store",
                        own,
                        (fence, waited),
                    )
        self.staged[record.values[0]].append((index, held))
        if meeting:
            self.store_meetings.append((index, meeting))
        self.bulk[warp].begun = index
        self.stores[source] = (index, warp, self.bulk[warp].committed)
        self.every_store.append(self.stores[source])

    def _slot_is_free(self, index: int, warp: int, source: int, meeting: Generation | None, clock: Clock) -> None:
        """The bytes of a store were written since the last store from there, which must have read them by then."""
        if source not in self.stores:
            return
        store, owner, ordinal = self.stores[source]
        if owner == warp and len(self.bulk[owner].done) <= ordinal:
            raise Unexplained(
                "race",
                f"{source} is stored again although nothing has waited until the earlier TMA store had read it",
                index,
                (store,),
            )
        for own, writer, _, knows in meeting.entries if meeting else ((index, warp, False, clock),):
            if writer != owner and not self._known(self.bulk, (owner,), ordinal, knows):
                raise Unexplained(
                    "race",
                    f"warp {writer} may write {source} again by this bar.sync, before it knows that the earlier TMA "
                    "store has read it",
                    own,
                    (store,),
                )
