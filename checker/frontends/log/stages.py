"""Who holds which stage of a ring, in a log: acquired and released, waited for and given away, turn by turn.

consumer_wait and consumer_release, producer_acquire and producer_commit come in pairs in every thread
(sm90_pipeline.hpp:505-642): a warp releases a phase that it has itself waited for, and fills a stage whose last
release it has itself seen.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from sm90_verify.frontends.log.synclog import Record
from sm90_verify.frontends.log.table import BarrierTable
from sm90_verify.frontends.log.unexplained import Unexplained
from sm90_verify.frontends.log.usage import WAITS, WGMMA


def operands_of_copies(records: Sequence[Record], table: BarrierTable) -> dict[int, int]:
    """Address of a wgmma operand -> full barrier of its stage, for rings that cp.async fills.

    Such copies are not logged: the stage is the one that the warp has last waited for, in most of the operand's uses.
    """
    fulls = {a for a, ring in table.ring.items() if ring.copied and a in ring.full.addresses}
    last: dict[int, int] = {}
    votes: dict[int, Counter[int]] = defaultdict(Counter)
    for record in records if fulls else ():
        if record.kind in WAITS and record.values[0] in fulls:
            last[record.warp] = record.values[0]
        elif record.kind in WGMMA and record.warp in last:
            for address in record.values:
                votes[address][last[record.warp]] += 1
    return {address: counts.most_common(1)[0][0] for address, counts in votes.items()}


class Stages:
    """What each warp has waited for and released so far; every method raises Unexplained."""

    def __init__(self, records: Sequence[Record], table: BarrierTable) -> None:
        self.records, self.table = records, table
        self.observed: Counter[tuple[int, int]] = Counter()
        """(warp, full barrier) -> phases that the warp has waited for."""
        self.direct: dict[tuple[int, int], int] = {}
        """(warp, barrier) -> the last phase that the warp has waited for."""
        self.waited_at: dict[tuple[int, int], int] = {}
        """(warp, full barrier) -> the entry of that wait."""
        self.seen: dict[int, dict[int, list[tuple[int, int]]]] = defaultdict(lambda: defaultdict(list))
        """Barrier of an ordered sequence -> warp -> (phase, entry) of its waits."""
        self.released: Counter[tuple[int, int]] = Counter()
        """(warp, empty barrier) -> arrivals of the warp."""

    def passed(self, index: int, warp: int, address: int, phase: int) -> None:
        """A wait passed on a phase; -1 is the phase before the first of a fresh barrier."""
        ring = self.table.ring[address]
        key = (warp, address)
        blocking = self.records[index].kind == "cluster_barrier_wait"
        if ring.empty is None:
            self.direct[key] = phase
            if blocking and ring.pipeline == "OrderedSequenceBarrier":
                before = self.seen[address][warp]
                if before and before[-1][0] == phase:
                    raise self._again(index, warp, address, phase, before[-1][1])
                before.append((phase, index))
            return
        if address in ring.full.addresses:
            if phase < 0:
                raise Unexplained(
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

    def _again(self, index: int, warp: int, address: int, phase: int, earlier: int) -> Unexplained:
        return Unexplained(
            "phase-lapped",
            f"the wait for {self.table.name[address]} passes on phase {phase}, which warp {warp} has already "
            "waited for and used: it is meant for a later one",
            index,
            (earlier,) * (earlier >= 0),
        )

    def holds(self, warp: int, full: int) -> bool:
        """Whether the warp has waited for the stage more often than it has released it; True if the ring has no
        empty.
        """
        empty = self.table.partner.get(full)
        return empty is None or self.released[warp, empty] < self.observed[warp, full]

    def release(self, index: int, warp: int, full: int, empty: int) -> None:
        """The warp arrives at the empty barrier of a stage."""
        waits = warp in self.table.array[full].waiters
        if waits and not self.holds(warp, full):
            raise Unexplained(
                "stale-read",
                f"warp {warp} releases the stage of {self.table.name[full]} for the "
                f"{self.released[warp, empty] + 1}. time and has waited for it {self.observed[warp, full]} times",
                index,
                (),
            )
        self.released[warp, empty] += 1

    def release_phase(self, index: int, warp: int, empty: int, phase: int) -> None:
        """The arrival counts in `phase` of an empty barrier: the warp must have waited for the same phase of the full
        one.
        """
        ring = self.table.ring[empty]
        if ring.empty is None:
            return
        if empty in ring.full.addresses:
            self._produce_phase(index, warp, empty, phase)
        if empty not in ring.empty.addresses or warp not in ring.full.waiters:
            return
        full = self.table.partner[empty]
        if self.direct.get((warp, full), -1) != phase:
            raise Unexplained(
                "stale-read",
                f"warp {warp} releases phase {phase} of the stage of {self.table.name[full]}, but the phase that "
                f"it waited for is {self.direct.get((warp, full), -1)}",
                index,
                tuple(i for i in (self.waited_at.get((warp, full)),) if i is not None),
            )

    def _produce_phase(self, index: int, warp: int, full: int, phase: int) -> None:
        """A warp that acquires a stage before it fills it does so each time."""
        empty = self.table.partner[full]
        acquired = self.direct.get((warp, empty), -1)
        plain = "expect_tx" not in self.records[index].kind
        if plain and phase and warp in self.table.array[empty].waiters and acquired < phase - 1:
            raise Unexplained(
                "race",
                f"warp {warp} arrives in phase {phase} of {self.table.name[full]}, but the last release of the "
                f"stage that it has waited for is that of phase {acquired}",
                index,
                (),
            )

    def held_at_exit(self) -> str:
        """A stage that some warp has waited for and not released, by name; such a log may have been cut off.

        Who fills the stages itself need not release the last ones: nobody waits for that.
        """
        for ring in self.table.rings:
            if ring.empty is not None and not (ring.empty.waiters and {*ring.empty.waiters} <= {*ring.full.waiters}):
                for full, empty in zip(ring.full.addresses, ring.empty.addresses, strict=True):
                    for warp in ring.full.waiters:
                        releases = warp in ring.empty.arrivers or not ring.empty.arrivers
                        if releases and self.observed[warp, full] > self.released[warp, empty]:
                            return f"warp {warp} holds the stage of {self.table.name[full]}"
        return ""
