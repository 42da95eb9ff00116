"""Decides whether a log is a behaviour that the spec allows, by building one order of all effects that explains it.

What is known (semantics of the log): entry i of a warp is appended at position i. A wait, a fence, a TMA or wgmma issue,
a commit and __syncthreads are appended before the operation, so they take effect between the warp's own entry and its next
one; an arrival, an init, an expect, bar.sync and tma_store_wait are appended after it, so they take effect between the
warp's previous entry and its own. Bytes of a load land at any time after its issue, arrivals of other CTAs at any time.
The log is allowed iff every effect can be given a time in its window such that each operation, as spec.hopper defines it,
is legal and able to run at that time.

The procedure is lazy. A wait passes at the first moment at which its barrier lets it pass. Everything else happens at its
deadline - an arrival at its own entry - unless a wait reaches its deadline unpassed; then the phase that it waits for is
forced: as many open arrivals as the phase lacks are taken early, those with the earliest deadline first, then arrivals of
other CTAs, then landed bytes.

Why that is exact. Accepted is exact: the order is constructed, and `Replay.witness` holds it. Rejected: let S be any legal
order. By induction over positions every barrier has taken at most as many arrivals as in S, and every wait that S has
passed by its deadline has passed here: an arrival at its deadline has happened in S too; a forced one was needed for a
wait whose deadline is now, so S has taken at least as many by now, and exchanging arrivals of equal weight for ones with
an earlier deadline leaves the counts unchanged. Passing a wait early only sets `observed` and keeps it from being lapped.
The exchange needs arrivals of equal weight within a phase, which is how CUTLASS counts; with unequal weights (one leader
beside whole warps) the procedure can reject an order in which a late arrival is taken for an early one. A wait that could
pass on the phase before the one that S gives it is passed too early here: S then has no synchronisation that keeps the
wait from doing so, and the program is wrong although this run of it may not be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from checker.logaccess import Accesses, Clock, joined
from checker.logspec import DEAD, Evaluator, Outcome, State, signed
from checker.logtable import WAITS, Table
from checker.logviolation import Violation
from checker.synclog import WARP, Record
from spec.hopper import NAMED_BARRIERS


@dataclass
class Barrier:
    """A barrier during the replay: `completed` phases so far, and what the current phase has seen."""

    address: int
    state: State = DEAD
    completed: int = 0
    arrived: dict[int, int] = field(default_factory=dict)
    unseen: int = 0
    landing: list[tuple[int, int, int]] = field(default_factory=list)
    """(record, bytes, phase) of issued loads that have not landed."""
    asynchronous: list[int] = field(default_factory=list)
    """Records of cp.async arrivals that have not triggered."""
    waiting: list[int] = field(default_factory=list)
    clock: Clock | None = None
    phase_clocks: list[Clock] = field(default_factory=list)
    init: int = -1
    history: list[int] = field(default_factory=list)


@dataclass
class Named:
    """A named barrier during the replay."""

    arrived: int = 0
    opened: int = 0
    clock: Clock | None = None
    last: int = -1


class Replay:
    """One pass over the records. `run` raises Violation at the first entry that no order explains."""

    def __init__(self, records: Sequence[Record], table: Table, evaluator: Evaluator) -> None:
        self.records = records
        self.table = table
        self.spec = evaluator
        self.warps = sorted({record.warp for record in records})
        self.program: dict[int, list[int]] = {warp: [] for warp in self.warps}
        for index, record in enumerate(records):
            self.program[record.warp].append(index)
        self.position = dict.fromkeys(self.warps, 0)
        self.open: dict[int, int | None] = dict.fromkeys(self.warps)
        self.early = dict.fromkeys(self.warps, False)
        addresses = sorted(table.array)
        slot = {warp: n for n, warp in enumerate(self.warps)}
        self.slot = slot
        self.phase_slot = {address: len(slot) + n for n, address in enumerate(addresses)}
        width = len(slot) + len(addresses)
        self.clock: dict[int, Clock] = {warp: [-1] * len(slot) + [0] * len(addresses) for warp in self.warps}
        self.no_clock: Clock = [-1] * len(slot) + [0] * (width - len(slot))
        self.barriers = {address: Barrier(address) for address in addresses}
        self.named = [Named() for _ in range(NAMED_BARRIERS)]
        self.syncs = dict.fromkeys(self.warps, 0)
        self.has_sync = any(record.kind == "syncthreads" for record in records)
        self.last_phase: dict[tuple[int, int], int] = {}
        self.forcing: list[int] = []
        self.now = 0
        self.witness: list[tuple[int, str, int, int]] = []
        """(position, effect, record or barrier address, amount): each effect and where it happened."""
        self.accesses = Accesses(records, table, self.program, slot, self.phase_slot)
        self.after: dict[str, Callable[[int, Record], None]] = {
            "cluster_barrier_init": self._init,
            "cluster_barrier_invalidate": self._inval,
            "cluster_barrier_arrive": self._arrive,
            "cluster_barrier_arrive_cluster": self._arrive,
            "cpasync_barrier_arrive": self._arrive_later,
            "cluster_transaction_barrier_arrive_and_expect_tx": self._arrive,
            "cluster_transaction_barrier_arrive_and_expect_tx_cluster": self._arrive,
            "cluster_transaction_barrier_expect_transaction": self._expect,
            "cluster_transaction_barrier_complete_transaction": self._complete,
            "named_barrier_arrive_and_wait": self._named_sync,
        }
        self.relied = self._relied_on()

    # ------------------------------------------------------------ the pass

    def run(self) -> None:
        """Replays every entry; raises Violation."""
        for index, record in enumerate(self.records):
            warp = record.warp
            self.now = index
            self._deadline(warp)
            effect = self.after.get(record.kind)
            if effect is not None:
                if not self.early[warp]:
                    effect(index, record)
                self.early[warp] = False
            self.position[warp] += 1
            self.now = index + 1
            if record.kind in WAITS:
                self._open_wait(index, record)
            elif record.kind == "syncthreads":
                self.open[warp] = index
                self.syncs[warp] += 1
            elif record.kind == "named_barrier_arrive":
                self._named_arrive(index, record)
            elif effect is None:
                if record.kind == "tma_load":
                    self._issue(index, record)
                self.accesses.entry(index, record, self.clock[warp])
        for warp in self.warps:
            self._deadline(warp)
        self._finish()

    def unfinished(self) -> str:
        """Why a log without a violation still shows nothing, or may lack its end; empty if neither."""
        if self.barriers and not any(barrier.completed for barrier in self.barriers.values()):
            return "no barrier of this log completes a phase"
        if not self.barriers and not any(effect in ("named", "syncthreads") for _, effect, _, _ in self.witness):
            return "no barrier of this log completes a phase"
        held = self.accesses.held_at_exit()
        return f"the log may lack its end: {held}" if held else ""

    def _relied_on(self) -> set[int]:
        """try_waits that must have returned true: what comes next on the barrier is not the wait that a failed one needs."""
        relied = set()
        for records in self.program.values():
            following: dict[int, Record] = {}
            for index in reversed(records):
                record = self.records[index]
                address = record.values[0] if record.values else -1
                if record.kind in WAITS:
                    after = following.get(address)
                    if after and not (after.kind in WAITS and after.values[1] == record.values[1]):
                        relied.add(index)
                    following[address] = record
                elif "_arrive" in record.kind and address in self.table.partner:
                    following[self.table.partner[address]] = record
        return relied

    def _next(self, warp: int) -> int | None:
        records, position = self.program[warp], self.position[warp]
        return records[position] if position < len(records) else None

    # ------------------------------------------------------------ deadlines

    def _deadline(self, warp: int) -> None:
        """What the warp's last entry began must have happened before its next entry."""
        index = self.open[warp]
        if index is None:
            return
        record = self.records[index]
        if record.kind == "syncthreads":
            self._sync_all(warp, index)
        elif record.kind == "cluster_barrier_wait" or index in self.relied:
            if not self._passes(warp):
                raise self._stuck(index, record)
        else:
            self._give_up(warp, index, record)

    def _give_up(self, warp: int, index: int, record: Record) -> None:
        """A try_wait returned false: it was for the phase that is current."""
        barrier = self.barriers[record.values[0]]
        barrier.waiting.remove(warp)
        self.open[warp] = None
        key = (warp, barrier.address)
        self.last_phase[key] = max(self.last_phase.get(key, -2), barrier.completed)

    def _stuck(self, index: int, record: Record) -> Violation:
        barrier = self.barriers[record.values[0]]
        array = self.table.array[barrier.address]
        _, _, expected, pending, tx, _ = barrier.state
        name = self.table.name[barrier.address]
        if not barrier.state[0]:
            return Violation("barrier-init", f"{name} is waited for before it is initialised", index, ())
        lacks = f"{pending} of {expected} arrivals are missing"
        if not pending and barrier.state[4]:
            lacks = f"its {expected} arrivals are there, but {signed(tx)} bytes are missing"
        property_id = "tx-count" if not pending else "deadlock"
        if array.arrivals is None:
            property_id, lacks = "arrival-count", "no number of lanes per arrival adds up to its count"
        return Violation(
            property_id,
            f"the wait for {name} with parity {record.values[1]} cannot have returned by the warp's next entry: "
            f"phase {barrier.completed} is not complete, {lacks}",
            index,
            tuple(barrier.history[-6:]),
        )

    def _passes(self, warp: int) -> bool:
        """Makes the warp's open wait pass, completing phases if it must."""
        index = self.open[warp]
        while index is not None and self.open[warp] == index:
            if self.records[index].kind == "syncthreads":
                return False
            if not self._force(self.barriers[self.records[index].values[0]]):
                return False
        return True

    def _force(self, barrier: Barrier) -> bool:
        """Completes the current phase with what may already have happened; False if that is not enough."""
        if barrier.address in self.forcing or not barrier.state[0]:
            return False
        self.forcing.append(barrier.address)
        target = barrier.completed + 1
        while barrier.completed < target:
            pending, tx = barrier.state[3], barrier.state[4]
            if pending > barrier.unseen:
                if not self._arrive_early(barrier):
                    break
            elif pending:
                self.witness.append((self.now, "unseen", barrier.address, barrier.unseen))
                amount, barrier.unseen = barrier.unseen, 0
                self._apply(barrier, self.spec.arrive(barrier.state, amount), None)
            elif barrier.landing:
                self._land(barrier)
            elif self.table.cluster and signed(tx) > 0 and not self.accesses.has_loads(barrier.address):
                self.witness.append((self.now, "unseen bytes", barrier.address, tx))
                self._apply(barrier, self.spec.complete_tx(barrier.state, tx), None)
            else:
                break
        self.forcing.pop()
        return barrier.completed >= target

    def _land(self, barrier: Barrier) -> None:
        index, size, _ = barrier.landing.pop(0)
        self.witness.append((self.now, "land", index, size))
        self._apply(barrier, self.spec.complete_tx(barrier.state, size), index)

    def _arrive_early(self, barrier: Barrier) -> bool:
        """One arrival whose window is open is taken now, the one with the earliest deadline."""
        if barrier.asynchronous:
            index = barrier.asynchronous.pop(0)
            self._count_arrival(barrier, index, self.records[index])
            return True
        ready = []
        for warp in self.warps:
            index_or_none = self._next(warp)
            if index_or_none is None or self.early[warp]:
                continue
            record = self.records[index_or_none]
            if self.after.get(record.kind) == self._arrive and record.values[0] == barrier.address:
                ready.append((index_or_none, warp, record))
        for index, warp, record in sorted(ready, key=lambda entry: entry[0]):
            if not self._lanes(record) or (warp in barrier.arrived and self._once(barrier)):
                continue
            opened = self.open[warp]
            if opened is not None and not self._passes(warp):
                if self.records[opened].kind in ("cluster_barrier_wait", "syncthreads") or opened in self.relied:
                    continue
                self._give_up(warp, opened, self.records[opened])
            self.early[warp] = True
            self._arrive(index, record)
            return True
        return False

    # ------------------------------------------------------------ operations on one barrier

    def _barrier(self, index: int, address: int) -> Barrier:
        barrier = self.barriers.get(address)
        if barrier is None:
            raise Violation(
                "barrier-init", f"the barrier at {address} is used, but the log never initialises it", index, ()
            )
        return barrier

    def _apply(self, barrier: Barrier, outcome: Outcome, index: int | None) -> None:
        """Takes over an outcome of the spec, or raises what it violates."""
        if index is not None:
            barrier.history.append(index)
        if outcome.violates:
            property_id, because = outcome.violates[0]
            at = index if index is not None else barrier.history[-1]
            raise Violation(
                property_id,
                f"{self.table.name[barrier.address]}, phase {barrier.completed}: {because}",
                at,
                tuple(barrier.history[-6:]),
            )
        barrier.state = outcome.state
        if outcome.completes:
            if barrier.landing and barrier.landing[0][2] <= barrier.completed:
                raise Violation(
                    "tx-count",
                    f"phase {barrier.completed} of {self.table.name[barrier.address]} completes although a load for it is "
                    "under way: its bytes are not expected before the last arrival",
                    barrier.history[-1],
                    (barrier.landing[0][0],),
                )
            barrier.completed += 1
            barrier.phase_clocks.append(barrier.clock or self.no_clock)
            barrier.clock = None
            barrier.arrived = {}
            arrivals = self.table.array[barrier.address].arrivals
            barrier.unseen = arrivals.unseen if arrivals else 0
            for warp in list(barrier.waiting):
                self._pass_if_open(warp, barrier)

    def _init(self, index: int, record: Record) -> None:
        barrier = self.barriers[record.values[0]]
        array = self.table.array[barrier.address]
        self.witness.append((self.now, "init", index, record.values[1]))
        self._apply(barrier, self.spec.init(barrier.state, record.values[1]), index)
        barrier.init = index
        used = array.arrivals is not None and bool(array.arrivers)
        if used and array.arrivals and record.values[1] != array.count:
            raise Violation(
                "arrival-count",
                f"{self.table.name[barrier.address]} is initialised with {record.values[1]} and the other stages of the "
                f"ring with {array.count}: the arrivals of a phase cannot be right for both",
                index,
                (),
            )
        if array.arrivals is None:
            raise Violation(
                "arrival-count",
                f"{self.table.name[barrier.address]} expects {array.count} arrivals, and no number of lanes per logged "
                "arrival adds up to that",
                index,
                (),
            )
        barrier.unseen = array.arrivals.unseen

    def _inval(self, index: int, record: Record) -> None:
        barrier = self._barrier(index, record.values[0])
        self._apply(barrier, self.spec.inval(barrier.state), index)

    def _lanes(self, record: Record) -> int:
        """Threads of this CTA's barrier that the logged arrival stands for; 0 if it does not happen or goes elsewhere."""
        if record.kind.endswith("arrive_and_expect_tx"):
            return 1
        if len(record.values) >= 3 and (record.values[-2] or not record.values[-1]):
            return 0
        if record.kind.endswith("expect_tx_cluster"):
            return 1
        array = self.table.array.get(record.values[0])
        return array.arrivals.lanes if array and array.arrivals else 1

    def _once(self, barrier: Barrier) -> bool:
        """Whether each warp arrives at most once per phase: there are enough of them."""
        array = self.table.array[barrier.address]
        return array.arrivals is not None and array.arrivals.logged + array.arrivals.leaders <= len(array.arrivers)

    def _arrive(self, index: int, record: Record) -> None:
        self.accesses.release(index, record, self.clock[record.warp])
        if not self._lanes(record):
            self.witness.append((self.now, "elsewhere", index, 0))
            return
        self._count_arrival(self._barrier(index, record.values[0]), index, record)

    def _count_arrival(self, barrier: Barrier, index: int, record: Record) -> None:
        lanes, warp = self._lanes(record), record.warp
        self._check_visible(index, warp, barrier)
        again = warp in barrier.arrived and self._once(barrier)
        if again or barrier.state[3] < lanes:
            completed = self._force(barrier)
            if again and not completed:
                raise Violation(
                    "arrival-count",
                    f"warp {warp} arrives twice in phase {barrier.completed} of {self.table.name[barrier.address]}, "
                    f"which still lacks {barrier.state[3]} of {barrier.state[2]} arrivals",
                    index,
                    tuple(barrier.history[-6:]),
                )
        self.accesses.release_phase(index, warp, barrier.address, barrier.completed)
        barrier.arrived[warp] = barrier.arrived.get(warp, 0) + 1
        stamp = self.clock[warp].copy()
        stamp[self.slot[warp]] = index
        barrier.clock = joined(barrier.clock, stamp)
        self.witness.append((self.now, "arrive", index, lanes))
        if "expect_tx" in record.kind:
            outcome = self.spec.arrive_expect_tx(barrier.state, record.values[1])
        else:
            outcome = self.spec.arrive(barrier.state, lanes)
        self._apply(barrier, outcome, index)

    def _arrive_later(self, index: int, record: Record) -> None:
        self._barrier(index, record.values[0]).asynchronous.append(index)

    def _expect(self, index: int, record: Record) -> None:
        barrier = self._barrier(index, record.values[0])
        self._check_visible(index, record.warp, barrier)
        self.witness.append((self.now, "expect", index, record.values[1]))
        self._apply(barrier, self.spec.expect_tx(barrier.state, record.values[1]), index)

    def _complete(self, index: int, record: Record) -> None:
        if record.values[3] and not record.values[1]:
            barrier = self._barrier(index, record.values[0])
            self.witness.append((self.now, "complete", index, record.values[2]))
            self._apply(barrier, self.spec.complete_tx(barrier.state, record.values[2]), index)

    def _issue(self, index: int, record: Record) -> None:
        barrier = self._barrier(index, record.values[1])
        self._check_visible(index, record.warp, barrier)
        phase = self.accesses.filled[record.values[1], record.values[2]]
        barrier.landing.append((index, self.table.box_bytes.get(record.values[0], 0), phase))

    def _check_visible(self, index: int, warp: int, barrier: Barrier) -> None:
        """The init must be ordered before the use, by the __syncthreads that the log shows."""
        if barrier.init < 0:
            raise Violation(
                "barrier-init",
                f"{self.table.name[barrier.address]} is used before it is initialised",
                index,
                tuple(barrier.history),
            )
        owner = self.records[barrier.init].warp
        if self.has_sync and owner != warp and self.clock[warp][self.slot[owner]] < barrier.init:
            raise Violation(
                "barrier-init",
                f"nothing orders the initialisation of {self.table.name[barrier.address]} before this use: "
                "no __syncthreads lies between them",
                index,
                (barrier.init,),
            )

    # ------------------------------------------------------------ waits

    def _open_wait(self, index: int, record: Record) -> None:
        if record.kind == "cluster_barrier_test_wait" and not record.values[2]:
            return
        barrier = self._barrier(index, record.values[0])
        self.open[record.warp] = index
        barrier.waiting.append(record.warp)
        self._pass_if_open(record.warp, barrier)

    def _pass_if_open(self, warp: int, barrier: Barrier) -> None:
        index = self.open[warp]
        assert index is not None
        parity = self.records[index].values[1]
        if not barrier.state[0] or barrier.state[1] == parity:
            return
        self._check_visible(index, warp, barrier)
        phase = barrier.completed - 1
        key = (warp, barrier.address)
        last = self.last_phase.get(key, -1)
        if phase < last:
            raise Violation(
                "phase-lapped",
                f"the wait for {self.table.name[barrier.address]} with parity {parity} passes on phase {phase}, after "
                f"warp {warp} has already asked for phase {last}",
                index,
                tuple(barrier.history[-6:]),
            )
        outcome = self.spec.wait_parity(barrier.state, parity, phase - last, phase - last)
        self.last_phase[key] = phase
        self.witness.append((self.now, "wait", index, phase))
        self._apply(barrier, outcome, index)
        if phase >= 0:
            self.clock[warp] = joined(self.clock[warp], barrier.phase_clocks[phase])
            self.clock[warp][self.phase_slot[barrier.address]] = barrier.completed
        self.open[warp] = None
        barrier.waiting.remove(warp)
        self.accesses.passed(index, warp, barrier.address, phase)

    # ------------------------------------------------------------ barriers of the CTA

    def _sync_all(self, warp: int, index: int) -> None:
        """__syncthreads: every warp that has not exited must have reached it."""
        generation = self.syncs[warp]
        behind = [v for v in self.warps if self.syncs[v] < generation and self._next(v) is not None]
        if behind:
            raise Violation(
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
            raise Violation(
                "named-barrier",
                f"barrier {number} for {threads} threads: ids are 0 to {NAMED_BARRIERS - 1}, thread counts are multiples "
                f"of {WARP} up to the {limit} threads of this CTA",
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
        named.arrived, named.opened, outcome = self.spec.named_arrive(named.arrived, named.opened, threads, False)
        self.witness.append((self.now, "named", index, threads))
        if outcome.violates:
            raise Violation(outcome.violates[0][0], outcome.violates[0][1], index, (named.last,) * (named.last >= 0))
        named.last = index

    def _named_sync(self, index: int, record: Record) -> None:
        """bar.sync has returned, so all its warps have arrived: the next entry of each is the same bar.sync."""
        threads, number = record.values
        named = self._check_named(index, threads, number)
        together = []
        for warp in self.warps:
            following = self._next(warp)
            if following is None or self.early[warp]:
                continue
            other = self.records[following]
            if other.kind == "named_barrier_arrive_and_wait" and other.values[1] == number:
                together.append((following, warp))
        together = sorted(together)[: max(1, (threads - named.arrived) // WARP)]
        if len(together) * WARP + named.arrived < threads:
            raise Violation(
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

    # ------------------------------------------------------------ the end of the log

    def _finish(self) -> None:
        """The kernel has ended: every phase that began is complete, and nothing is under way."""
        for barrier in self.barriers.values():
            while barrier.state[0] and (barrier.state[3] != barrier.state[2] or barrier.state[4] or barrier.landing):
                if barrier.landing and barrier.state[3] == barrier.state[2] and not barrier.state[4]:
                    break
                if self._force(barrier):
                    continue
                _, _, expected, pending, tx, _ = barrier.state
                property_id = "arrival-count" if pending else "tx-count"
                lacks = f"{pending} of {expected} arrivals" if pending else f"{signed(tx)} bytes"
                raise Violation(
                    property_id,
                    f"the log ends while phase {barrier.completed} of {self.table.name[barrier.address]} lacks {lacks}",
                    barrier.history[-1],
                    tuple(barrier.history[-6:-1]),
                )
            if barrier.landing:
                raise Violation(
                    "tx-count",
                    f"the load signals {self.table.name[barrier.address]}, which expects none of its bytes",
                    barrier.landing[0][0],
                    (),
                )
        for number, named in enumerate(self.named):
            if named.arrived:
                raise Violation(
                    "named-barrier",
                    f"the log ends with {named.arrived} of {named.opened} threads arrived at barrier {number}",
                    named.last,
                    (),
                )
        self.accesses.finish({address: barrier.completed for address, barrier in self.barriers.items()})
