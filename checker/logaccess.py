"""Who may touch which shared memory when, in a log: stages, wgmma operands, TMA loads and stores.

The replay of the log (logorder) gives every warp a vector clock: the last entry of each warp, and the completed phases of
each barrier, that are ordered before it. Two accesses race unless the completion of one is ordered before the other. Only
what the log shows is judged: TMA loads and stores and wgmma operands carry addresses, ordinary loads and stores do not,
so their place is bounded by the waits, releases, fences and bar.syncs around them.

wgmma reads count once per warpgroup: the instruction is collective, so its completion in one warp is its completion.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from checker.logtable import Ring, Table
from checker.logviolation import Violation
from checker.synclog import Record

RARE = 3
"""A group of warps at a bar.sync that meets this many times less often than one it overlaps with is not a group."""
Clock = list[int]
Region = tuple[int, int]
"""A place that TMA loads fill: the full barrier that they signal, and the address."""


def joined(one: Clock | None, other: Clock) -> Clock:
    """The least clock that knows what both know."""
    if one is None:
        return other.copy()
    return [a if a > b else b for a, b in zip(one, other, strict=True)]


@dataclass(frozen=True, slots=True)
class Fill:
    """The load that last wrote a region: its entry, the barrier that it signals, the phase of that barrier."""

    record: int
    full: int
    phase: int


@dataclass
class Groups:
    """Asynchronous groups of a warp, of wgmma or of bulk stores: how many were committed, and where each was waited for."""

    committed: int = 0
    begun: int = -1
    """Entry of the last operation that no commit has closed, or -1."""
    done: list[int] = field(default_factory=list)

    def commit(self) -> None:
        """Closes a group, perhaps an empty one."""
        self.committed += 1
        self.begun = -1

    def wait(self, allowed: int, record: int) -> None:
        """All but the last `allowed` groups are complete at this entry (9.7.9.25.5.2, 9.7.15.7)."""
        while len(self.done) < self.committed - allowed:
            self.done.append(record)


@dataclass(frozen=True)
class Meeting:
    """One generation of bar.sync: for each warp its entry, whether it has fenced since its last, what it knew before."""

    entries: tuple[tuple[int, int, bool, Clock], ...]
    fences: tuple[int, ...]
    """Entry of the last fence of each warp, or -1."""


class Accesses:
    """Follows the accesses of a log in the order of the replay; every method raises Violation."""

    def __init__(
        self,
        records: Sequence[Record],
        table: Table,
        program: dict[int, list[int]],
        slot: dict[int, int],
        phase_slot: dict[int, int],
    ) -> None:
        self.records, self.table, self.program = records, table, program
        self.slot, self.phase_slot = slot, phase_slot
        self.size: dict[Region, int] = {}
        self.places: dict[int, list[Region]] = defaultdict(list)
        for record in records:
            if record.kind == "tma_load":
                descriptor, full, start = record.values
                region = (full, start)
                if region not in self.size:
                    self.places[full].append(region)
                self.size[region] = max(self.size.get(region, 16), table.box_bytes.get(descriptor, 16))
        self.sources = list(dict.fromkeys(r.values[1] for r in records if r.kind == "tma_store"))
        self.covering: dict[int, tuple[Region, ...]] = {}
        self.overlapping: dict[Region, tuple[Region, ...]] = {}
        self.stored_from: dict[Region, tuple[int, ...]] = {}
        self.fills: dict[Region, Fill] = {}
        self.filled: Counter[Region] = Counter()
        self.reads: dict[Region, dict[int, int]] = defaultdict(dict)
        self.checked: dict[tuple[int, Region], int] = {}
        self.math = {warp: Groups() for warp in slot}
        self.bulk = {warp: Groups() for warp in slot}
        self.observed: Counter[tuple[int, int]] = Counter()
        self.direct: dict[tuple[int, int], int] = {}
        self.waited_at: dict[tuple[int, int], int] = {}
        self.seen: dict[int, dict[int, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
        self.released: Counter[tuple[int, int]] = Counter()
        self.stores: dict[int, tuple[int, int, int]] = {}
        self.every_store: list[tuple[int, int, int]] = []
        self.fenced = dict.fromkeys(slot, -1)
        self.met = dict.fromkeys(slot, -1)
        self.meeting: dict[int, Meeting] = {}
        self.meetings: dict[tuple[int, ...], dict[tuple[int, ...], list[Meeting]]] = defaultdict(lambda: defaultdict(list))
        self.store_meetings: list[tuple[int, Meeting]] = []
        self.staged: dict[int, list[tuple[int, Fill | None]]] = defaultdict(list)
        self.inside = self._operands_from_tma()

    def _operands_from_tma(self) -> dict[int, bool]:
        """Per operand position of wgmma: whether its matrices come from TMA loads, which is the case if most do."""
        votes: Counter[int] = Counter()
        operands: Counter[tuple[int, int]] = Counter()
        for record in self.records:
            if record.kind in ("wgmma_smem_smem", "wgmma_reg_smem"):
                for position, address in enumerate(reversed(record.values)):
                    operands[position, address] += 1
        for (position, address), times in operands.items():
            votes[position] += times if self._regions(address) else -times
        return {position: votes[position] > 0 for position in (0, 1)}

    def _regions(self, address: int) -> tuple[Region, ...]:
        found = self.covering.get(address)
        if found is None:
            found = tuple(region for region, size in self.size.items() if region[1] <= address < region[1] + size)
            self.covering[address] = found
        return found

    def has_loads(self, full: int) -> bool:
        """Whether any load of this log signals a stage of the ring that `full` belongs to."""
        ring = self.table.ring[full]
        return any(self.places.get(address) for address in ring.full.addresses)

    # ------------------------------------------------------------ in program order

    def entry(self, index: int, record: Record, clock: Clock) -> None:
        """An entry that touches no barrier, when it is appended."""
        kind, warp = record.kind, record.warp
        if kind == "wgmma_smem_smem" or kind == "wgmma_reg_smem":
            self._wgmma(index, record, clock)
        elif kind == "tma_load":
            self._load(index, record, clock)
        elif kind == "warpgroup_commit_batch":
            self.math[warp].commit()
        elif kind == "warpgroup_wait":
            self.math[warp].wait(record.values[0], index)
        elif kind == "fence_view_async_shared":
            self.fenced[warp] = index
        elif kind == "tma_store":
            self._store(index, record, clock)
        elif kind == "tma_store_arrive":
            self.bulk[warp].commit()
        elif kind == "tma_store_wait":
            self.bulk[warp].wait(record.values[0], index)

    def passed(self, index: int, warp: int, address: int, phase: int) -> None:
        """A wait passed on a phase; -1 is the phase before the first of a fresh barrier."""
        ring = self.table.ring[address]
        key = (warp, address)
        blocking = self.records[index].kind == "cluster_barrier_wait"
        if ring.empty is None:
            if blocking:
                before = self.seen[address][warp]
                if before and before[-1][0] == phase:
                    raise self._again(index, warp, address, phase, before[-1][1])
                before.append((phase, index))
            return
        if address in ring.full.addresses:
            if phase < 0:
                raise Violation(
                    "phase-lapped",
                    f"the wait for {self.table.name[address]} passes on the fresh barrier, before anything was loaded",
                    index,
                    (),
                )
            released = self.released[warp, self.table.partner[address]]
            if self.direct.get(key) == phase:
                if released >= self.observed[key]:
                    raise self._again(index, warp, address, phase, -1)
                return
            self.observed[key] += 1
            self.waited_at[key] = index
        self.direct[key] = phase

    def _again(self, index: int, warp: int, address: int, phase: int, earlier: int) -> Violation:
        return Violation(
            "phase-lapped",
            f"the wait for {self.table.name[address]} passes on phase {phase}, which warp {warp} has already waited for "
            "and used: it is meant for a later one",
            index,
            (earlier,) * (earlier >= 0),
        )

    def meet(self, index: int, entries: list[tuple[int, int, Clock]]) -> None:
        """A bar.sync completes: (entry, warp, clock before it) of each warp."""
        meeting = Meeting(
            tuple((own, warp, self.fenced[warp] > self.met[warp], clock) for own, warp, clock in entries),
            tuple(self.fenced[warp] for _, warp, _ in entries),
        )
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
            raise Violation(
                "race",
                f"the load overwrites the stage of {name} for phase {phase}, but its warp has seen only "
                f"{clock[self.phase_slot[empty]]} of the {phase} releases that this needs",
                index,
                tuple(f.record for f in (self.fills.get(region),) if f),
            )
        for other in self._overlaps(region):
            fill = self.fills.get(other)
            if fill is not None:
                if fill.full != full and ring is self.table.ring[fill.full]:
                    raise Violation(
                        "smem-overlap",
                        f"the load for {name} writes bytes of the stage of {self.table.name[fill.full]}",
                        index,
                        (fill.record,),
                    )
                if clock[self.phase_slot[fill.full]] <= fill.phase:
                    raise Violation(
                        "race",
                        f"the load for {name} writes bytes that an earlier load may still be writing: its warp has not "
                        f"seen phase {fill.phase} of {self.table.name[fill.full]} complete",
                        index,
                        (fill.record,),
                    )
            for group, ordinal in self.reads[other].items():
                if not self._known(self.math, range(4 * group, 4 * group + 4), ordinal, clock):
                    raise Violation(
                        "race",
                        f"the load for {name} overwrites an operand that wgmma of warpgroup {group} may still be reading",
                        index,
                        (),
                    )
        for source in self._stores_in(region):
            if source in self.stores:
                store, warp, ordinal = self.stores[source]
                if not self._known(self.bulk, (warp,), ordinal, clock):
                    raise Violation(
                        "race",
                        f"the load for {name} overwrites bytes that a TMA store may still be reading",
                        index,
                        (store,),
                    )
        self.reads[region] = {}
        self.fills[region] = Fill(index, full, phase)

    def _overlaps(self, region: Region) -> tuple[Region, ...]:
        found = self.overlapping.get(region)
        if found is None:
            start, end = region[1], region[1] + self.size[region]
            found = tuple(other for other, size in self.size.items() if other[1] < end and start < other[1] + size)
            self.overlapping[region] = found
        return found

    def _stores_in(self, region: Region) -> tuple[int, ...]:
        found = self.stored_from.get(region)
        if found is None:
            found = tuple(s for s in self.sources if region[1] <= s < region[1] + self.size[region])
            self.stored_from[region] = found
        return found

    def _known(self, groups: dict[int, Groups], warps: Sequence[int], ordinal: int, clock: Clock) -> bool:
        """Whether the clock knows that some of the warps has waited for its group number `ordinal`."""
        for warp in warps:
            done = groups[warp].done if warp in groups else []
            if len(done) > ordinal and clock[self.slot[warp]] >= done[ordinal]:
                return True
        return False

    # ------------------------------------------------------------ readers

    def _holds(self, index: int, warp: int, region: Region, clock: Clock, what: str) -> None:
        """The warp must have waited for the load that last wrote the region, and not have released it yet."""
        fill = self.fills.get(region)
        if fill is None:
            raise Violation("stale-read", f"{what} reads bytes at {region[1]} that no load has written yet", index, ())
        name = self.table.name[fill.full]
        waits_itself = warp in self.table.array[fill.full].waiters
        direct = self.direct.get((warp, fill.full), -1)
        if clock[self.phase_slot[fill.full]] <= fill.phase or (waits_itself and direct < fill.phase):
            raise Violation(
                "stale-read",
                f"{what} reads the stage of {name}, but warp {warp} has not waited for phase {fill.phase}, whose load "
                "may still be writing it",
                index,
                (fill.record,),
            )
        if waits_itself and direct > fill.phase:
            raise Violation(
                "stale-read",
                f"{what} reads bytes that phase {direct} of {name} should have delivered, but its load went elsewhere: "
                f"they are those of phase {fill.phase}",
                index,
                (fill.record,),
            )
        empty = self.table.partner.get(fill.full)
        if waits_itself and empty is not None:
            if self.released[warp, empty] >= self.observed[warp, fill.full]:
                raise Violation(
                    "race", f"{what} reads the stage of {name} after warp {warp} has released it", index, (fill.record,)
                )

    def _wgmma(self, index: int, record: Record, clock: Clock) -> None:
        warp = record.warp
        groups = self.math[warp]
        groups.begun = index
        for position, address in enumerate(reversed(record.values)):
            regions = self._regions(address)
            if not regions:
                if self.inside[position]:
                    raise Violation(
                        "stale-read",
                        f"wgmma reads operand {'ba'[position]} at {address}, where no load of this log writes",
                        index,
                        (),
                    )
                continue
            region = regions[0]
            if len(regions) > 1:
                region = max(regions, key=self._age)
            fill = self.fills.get(region)
            if fill is None or self.checked.get((warp, region)) != fill.record:
                self._holds(index, warp, region, clock, f"wgmma operand {'ba'[position]}")
                self.checked[warp, region] = self.fills[region].record
            self.reads[region][warp // 4] = groups.committed

    def _age(self, region: Region) -> int:
        return self.fills[region].record if region in self.fills else -1

    def release(self, index: int, record: Record, clock: Clock) -> None:
        """An arrival: on an empty barrier it gives the stage away, so the warp must have had it and be done with it."""
        empty, warp = record.values[0], record.warp
        ring = self.table.ring.get(empty)
        if ring is None or ring.empty is None or empty not in ring.empty.addresses:
            return
        full = self.table.partner[empty]
        name = self.table.name[full]
        if warp in ring.full.waiters and self.released[warp, empty] >= self.observed[warp, full]:
            raise Violation(
                "stale-read",
                f"warp {warp} releases the stage of {name} for the {self.released[warp, empty] + 1}. time and has waited "
                f"for it {self.observed[warp, full]} times",
                index,
                (),
            )
        self.released[warp, empty] += 1
        for region in self.places.get(full, ()):
            self.checked.pop((warp, region), None)
            if len(self.math[warp].done) <= self.reads[region].get(warp // 4, -1):
                raise Violation(
                    "race", f"warp {warp} releases the stage of {name} while its wgmma may still read it", index, ()
                )
            for source in self._stores_in(region):
                store = self.stores.get(source)
                if store is not None and store[1] == warp and len(self.bulk[warp].done) <= store[2]:
                    raise Violation(
                        "race",
                        f"warp {warp} releases the stage of {name} while its TMA store may still read it",
                        index,
                        (store[0],),
                    )

    def release_phase(self, index: int, warp: int, empty: int, phase: int) -> None:
        """The arrival counts in `phase` of an empty barrier: the warp must have waited for the same phase of the full one."""
        ring = self.table.ring[empty]
        if ring.empty is None:
            return
        if empty in ring.full.addresses:
            self._produce_phase(index, warp, empty, phase)
        if empty not in ring.empty.addresses or warp not in ring.full.waiters:
            return
        full = self.table.partner[empty]
        if self.direct.get((warp, full), -1) != phase:
            raise Violation(
                "stale-read",
                f"warp {warp} releases phase {phase} of the stage of {self.table.name[full]}, but the phase that it waited "
                f"for is {self.direct.get((warp, full), -1)}",
                index,
                tuple(i for i in (self.waited_at.get((warp, full)),) if i is not None),
            )

    def _produce_phase(self, index: int, warp: int, full: int, phase: int) -> None:
        """A warp that acquires a stage before it fills it does so each time."""
        empty = self.table.partner[full]
        acquired = self.direct.get((warp, empty), -1)
        plain = "expect_tx" not in self.records[index].kind
        if plain and phase and warp in self.table.array[empty].waiters and acquired < phase - 1:
            raise Violation(
                "race",
                f"warp {warp} arrives in phase {phase} of {self.table.name[full]}, but the last release of the stage that it "
                f"has waited for is that of phase {acquired}",
                index,
                (),
            )

    def held_at_exit(self) -> str:
        """A stage that some warp has waited for and not released, by name; such a log may have been cut off."""
        for ring in self.table.rings:
            if ring.empty is not None:
                for full, empty in zip(ring.full.addresses, ring.empty.addresses, strict=True):
                    for warp in ring.full.waiters:
                        releases = warp in ring.empty.arrivers or not ring.empty.arrivers
                        if releases and self.observed[warp, full] > self.released[warp, empty]:
                            return f"warp {warp} holds the stage of {self.table.name[full]}"
        return ""

    # ------------------------------------------------------------ TMA stores

    def _store(self, index: int, record: Record, clock: Clock) -> None:
        warp, source = record.warp, record.values[1]
        meeting = self.meeting.get(warp)
        held = None
        for region in self._regions(source):
            fill = self.fills.get(region)
            if fill is None:
                continue
            if clock[self.phase_slot[fill.full]] <= fill.phase:
                raise Violation(
                    "race",
                    f"the TMA store reads bytes that a load for {self.table.name[fill.full]} may still be writing",
                    index,
                    (fill.record,),
                )
            empty = self.table.partner.get(fill.full)
            if empty is not None and self.released[warp, empty] < self.observed[warp, fill.full]:
                held = fill
        if held is None:
            self._slot_is_free(index, warp, source, meeting, clock)
        elif meeting:
            for (own, writer, fenced, _), fence in zip(meeting.entries, meeting.fences, strict=True):
                waited = self.waited_at.get((writer, held.full), -1)
                if fenced and fence < waited and self.direct[writer, held.full] == held.phase:
                    raise Violation(
                        "missing-fence",
                        f"warp {writer} executes fence.proxy.async before it waits for the stage that it then writes and "
                        "the TMA store reads: its writes may not be visible to the store",
                        own,
                        (fence, waited),
                    )
        self.staged[record.values[0]].append((index, held))
        if meeting:
            self.store_meetings.append((index, meeting))
        self.bulk[warp].begun = index
        self.stores[source] = (index, warp, self.bulk[warp].committed)
        self.every_store.append(self.stores[source])

    def _slot_is_free(self, index: int, warp: int, source: int, meeting: Meeting | None, clock: Clock) -> None:
        """The bytes of a store were written since the last store from there, which must have read them by then."""
        if source not in self.stores:
            return
        store, owner, ordinal = self.stores[source]
        if owner == warp and len(self.bulk[owner].done) <= ordinal:
            raise Violation(
                "race",
                f"{source} is stored again although nothing has waited until the earlier TMA store had read it",
                index,
                (store,),
            )
        for own, writer, _, knows in meeting.entries if meeting else ((index, warp, False, clock),):
            if writer != owner and not self._known(self.bulk, (owner,), ordinal, knows):
                raise Violation(
                    "race",
                    f"warp {writer} may write {source} again by this bar.sync, before it knows that the earlier TMA "
                    "store has read it",
                    own,
                    (store,),
                )

    # ------------------------------------------------------------ the end

    def finish(self, completed: dict[int, int]) -> None:
        """The CTA exits: nothing of its own may be under way."""
        for index, warp, ordinal in self.every_store:
            if len(self.bulk[warp].done) <= ordinal:
                raise Violation(
                    "exit-hazard",
                    "the warp exits without having waited until this TMA store had read its bytes",
                    index,
                    (),
                )
        for warp, groups in self.math.items():
            if groups.begun >= 0 or len(groups.done) < groups.committed:
                at = groups.begun if groups.begun >= 0 else self.program[warp][-1]
                raise Violation("exit-hazard", f"warp {warp} exits without having waited for its wgmma", at, ())
        latest: dict[int, int] = {}
        for (_, address), phase in self.direct.items():
            latest[address] = max(latest.get(address, -1), phase)
        for fill in self.fills.values():
            if latest.get(fill.full, -1) < fill.phase and self.table.ring[fill.full].empty is not None:
                raise Violation(
                    "exit-hazard",
                    f"no warp waits for phase {fill.phase} of {self.table.name[fill.full]}: the CTA can exit while this "
                    "load is under way",
                    fill.record,
                    (),
                )
        self._staged_stores()
        self._releases()
        self._members()
        self._fences()
        self._orders(completed)

    def _staged_stores(self) -> None:
        """If a tensor is stored from stages that the warp holds (ReuseSmemC), each store reads one, and each once."""
        for stores in self.staged.values():
            if all(held is None for _, held in stores):
                continue
            times = Counter(held for _, held in stores)
            usual = Counter(times.values()).most_common(1)[0][0]
            seen: Counter[Fill | None] = Counter()
            for index, held in stores:
                seen[held] += 1
                if held is None or seen[held] > usual:
                    raise Violation(
                        "stale-read",
                        "the TMA store reads a stage that its warp does not hold, unlike the other stores of this tensor"
                        if held is None
                        else f"the TMA store reads the stage of {self.table.name[held.full]} again in phase {held.phase}",
                        index,
                        (),
                    )

    def _releases(self) -> None:
        """The warps that release a stage release it as often as they wait for it, or all equally less often."""
        for ring in self.table.rings:
            if ring.empty is None:
                continue
            warps = [warp for warp in ring.empty.arrivers if warp in ring.full.waiters]
            for full, empty in zip(ring.full.addresses, ring.empty.addresses, strict=True):
                kept = {warp: self.observed[warp, full] - self.released[warp, empty] for warp in warps}
                usual = Counter(kept.values()).most_common(1)[0][0] if kept else 0
                for warp, count in kept.items():
                    if count != usual:
                        raise Violation(
                            "arrival-count",
                            f"warp {warp} waits for {self.table.name[full]} {self.observed[warp, full]} times and releases "
                            f"it {self.released[warp, empty]} times, unlike the other warps",
                            self.waited_at[warp, full],
                            (),
                        )

    def _members(self) -> None:
        """The warps that meet at one bar.sync are fixed groups: a warp is not replaced by another in a few generations."""
        for (threads, number), groups in self.meetings.items():
            for warps, few in groups.items():
                for others, many in groups.items():
                    strangers = [warp for warp in warps if warp not in others]
                    if strangers and len(strangers) < len(warps) and len(few) * RARE <= len(many):
                        raise Violation(
                            "named-barrier",
                            f"warp {strangers[0]} takes part in bar.sync {number}, {threads} {len(few)} times in the place of "
                            f"another warp: the same others meet without it {len(many)} times",
                            next(own for own, warp, _, _ in few[0].entries if warp == strangers[0]),
                            (),
                        )

    def _fences(self) -> None:
        """A warp that fences before some TMA stores writes the bytes of all of them, and must fence before each."""
        fences: Counter[int] = Counter()
        for _, meeting in self.store_meetings:
            fences.update(warp for _, warp, fenced, _ in meeting.entries if fenced)
        for index, meeting in self.store_meetings:
            for own, warp, fenced, _ in meeting.entries:
                if not fenced and fences[warp]:
                    raise Violation(
                        "missing-fence",
                        f"warp {warp} comes to the bar.sync before a TMA store without fence.proxy.async, with which it "
                        "comes to the others: its writes may not be visible to the store",
                        own,
                        (index,),
                    )

    def _orders(self, completed: dict[int, int]) -> None:
        """Warps that wait for one barrier of an OrderedSequenceBarrier are one group and wait for the same phases."""
        for ring in self.table.rings:
            if ring.empty is not None or ring.pipeline != "OrderedSequenceBarrier":
                continue
            self._order_groups(ring)
            ordered = False
            first: int | None = None
            for address in ring.full.addresses:
                phases = self.seen[address]
                votes = Counter(tuple(phase for phase, _ in waits) for waits in phases.values())
                for waits in phases.values():
                    mine = tuple(phase for phase, _ in waits)
                    if mine != votes.most_common(1)[0][0]:
                        raise Violation(
                            "phase-lapped",
                            f"the warps that wait for {self.table.name[address]} do not wait for the same phases",
                            waits[0][1],
                            (),
                        )
                    ordered = ordered or any(phase >= 0 for phase in mine)
                    first = waits[0][1] if first is None else first
            if first is not None and not ordered and any(completed[a] for a in ring.full.addresses):
                raise Violation(
                    "phase-lapped",
                    f"every wait on {ring.name} passes on the fresh barrier: the arrivals order nothing",
                    first,
                    (),
                )

    def _order_groups(self, ring: Ring) -> None:
        """A group of warps waits as a whole: the waiters of two barriers are the same warps, or have none in common."""
        for one in ring.full.addresses:
            for other in ring.full.addresses:
                missing = [warp for warp in self.seen[one] if warp not in self.seen[other]]
                if missing and len(missing) < len(self.seen[one]) and self.seen[other]:
                    raise Violation(
                        "phase-lapped",
                        f"warp {missing[0]} does not wait for {self.table.name[other]}, as the other warps of its group do",
                        self.seen[one][missing[0]][-1][1],
                        (),
                    )
