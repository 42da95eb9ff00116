"""The state of a log's replay, and what each logged operation on an mbarrier does to it, through spec.ptx.mbarrier.

Which operation happens when is decided elsewhere (order); here an operation happens, is judged by the spec, and
moves the clocks: an arrival gives what its warp knows to its phase, a wait that passes takes what the phase knows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from sm90_verify.frontends.log import operations as does
from sm90_verify.frontends.log.access import Accesses
from sm90_verify.frontends.log.clock import Clock, joined
from sm90_verify.frontends.log.synclog import Record
from sm90_verify.frontends.log.table import BarrierTable
from sm90_verify.frontends.log.unexplained import Unexplained
from sm90_verify.frontends.log.usage import EXPECTS
from sm90_verify.spec.model.properties import NOTED
from sm90_verify.spec.ptx import numbers
from sm90_verify.spec.ptx.limits import NAMED_BARRIERS
from sm90_verify.spec.ptx.numbers import DEAD, Applied, apply


@dataclass
class ReplayedBarrier:
    """A barrier during the replay: `completed` phases so far, and what the current phase has seen."""

    address: int
    state: numbers.KnownBarrier = DEAD
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


class ReplayState(ABC):
    """Barriers, clocks and positions during the replay; every method raises Unexplained."""

    def __init__(self, records: Sequence[Record], table: BarrierTable) -> None:
        self.records = records
        self.table = table
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
        self.barriers = {address: ReplayedBarrier(address) for address in addresses}
        self.named = [Named() for _ in range(NAMED_BARRIERS)]
        self.syncs = dict.fromkeys(self.warps, 0)
        self.has_sync = any(record.kind == "syncthreads" for record in records)
        self.last_phase: dict[tuple[int, int], int] = {}
        self.passed_on: dict[int, int] = {}
        """By entry of a wait, the phase that it passed on."""
        self.forcing: list[int] = []
        self.noted: dict[str, tuple[int, str]] = {}
        self.now = 0
        self.witness: list[tuple[int, str, int, int]] = []
        """(position, effect, record or barrier address, amount): each effect and where it happened."""
        self.accesses = Accesses(records, table, self.program, slot, self.phase_slot)

    @abstractmethod
    def _force(self, barrier: ReplayedBarrier) -> bool:
        """Completes the current phase with what may already have happened; False if that is not enough."""

    @abstractmethod
    def _deadline(self, warp: int) -> None:
        """What the warp's last entry began must have happened by now."""

    def _next(self, warp: int) -> int | None:
        records, position = self.program[warp], self.position[warp]
        return records[position] if position < len(records) else None

    def _following(self) -> list[tuple[int, int, Record]]:
        """(entry, warp, record) of what each warp logs next and has not been taken early, in the order of the log."""
        entries = [(entry, warp) for warp in self.warps if (entry := self._next(warp)) is not None]
        return [(entry, warp, self.records[entry]) for entry, warp in sorted(entries) if not self.early[warp]]

    # ------------------------------------------------------------ operations on one barrier

    def _barrier(self, index: int, address: int) -> ReplayedBarrier:
        barrier = self.barriers.get(address)
        if barrier is None:
            raise Unexplained(
                "barrier-init", f"the barrier at {address} is used, but the log never initialises it", index, ()
            )
        return barrier

    def _take(self, barrier: ReplayedBarrier, applied: Applied, index: int | None) -> None:
        """Takes over what an operation does, or raises what it violates; what is only noted is kept once."""
        if index is not None:
            barrier.history.append(index)
        for property_id, because in applied.violates:
            at = index if index is not None else barrier.history[-1]
            if property_id in NOTED:
                self.noted.setdefault(property_id, (at, f"{self.table.name[barrier.address]}: {because}"))
                continue
            if property_id == "tx-count":
                wrong = self._wrong_expect(barrier)
                at = at if wrong is None else wrong
            raise Unexplained(
                property_id,
                f"{self.table.name[barrier.address]}, phase {barrier.completed}: {because}",
                at,
                tuple(barrier.history[-6:]),
            )
        barrier.state = applied.barrier
        if applied.completes:
            if barrier.landing and barrier.landing[0][2] <= barrier.completed:
                wrong = self._wrong_expect(barrier)
                raise Unexplained(
                    "tx-count",
                    f"phase {barrier.completed} of {self.table.name[barrier.address]} completes although a load "
                    "for it is under way: its bytes are not expected before the last arrival",
                    barrier.history[-1] if wrong is None else wrong,
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

    def _wrong_expect(self, barrier: ReplayedBarrier) -> int | None:
        """The last entry of the barrier that expects other bytes than the phases of its ring usually do."""
        usual = self.table.ring[barrier.address].bytes
        wrong = [i for i in barrier.history if self.records[i].kind in EXPECTS and self.records[i].values[1] != usual]
        return wrong[-1] if wrong else None

    def _init(self, index: int, record: Record) -> None:
        barrier = self.barriers[record.values[0]]
        array = self.table.array[barrier.address]
        self.witness.append((self.now, "init", index, record.values[1]))
        self._take(barrier, apply(barrier.state, does.init(record.values[1])), index)
        barrier.init = index
        used = array.arrivals is not None and bool(array.arrivers)
        if used and array.arrivals and record.values[1] != array.count:
            raise Unexplained(
                "arrival-count",
                f"{self.table.name[barrier.address]} is initialised with {record.values[1]} and the other stages "
                f"of the ring with {array.count}: the arrivals of a phase cannot be right for both",
                index,
                (),
            )
        if array.arrivals is None:
            raise Unexplained(
                "arrival-count",
                f"{self.table.name[barrier.address]} expects {array.count} arrivals, and no number of lanes per logged "
                "arrival adds up to that",
                index,
                (),
            )
        barrier.unseen = array.arrivals.unseen

    def _inval(self, index: int, record: Record) -> None:
        barrier = self._barrier(index, record.values[0])
        self._take(barrier, apply(barrier.state, does.INVAL), index)

    def _lanes(self, record: Record) -> int:
        """Threads of this CTA's barrier that the logged arrival stands for; 0 if it does not happen or goes
        elsewhere.
        """
        if record.kind.endswith("arrive_and_expect_tx"):
            return 1
        if len(record.values) >= 3 and (record.values[-2] or not record.values[-1]):
            return 0
        if record.kind.endswith("expect_tx_cluster"):
            return 1
        array = self.table.array.get(record.values[0])
        return array.arrivals.lanes if array and array.arrivals else 1

    def _once(self, barrier: ReplayedBarrier) -> bool:
        """Whether each warp arrives at most once per phase: there are enough of them."""
        array = self.table.array[barrier.address]
        return array.arrivals is not None and array.arrivals.logged + array.arrivals.leaders <= len(array.arrivers)

    def _arrive(self, index: int, record: Record) -> None:
        self.accesses.release(index, record, self.clock[record.warp])
        if not self._lanes(record):
            self.witness.append((self.now, "elsewhere", index, 0))
            return
        self._count_arrival(self._barrier(index, record.values[0]), index, record)

    def _count_arrival(self, barrier: ReplayedBarrier, index: int, record: Record) -> None:
        lanes, warp = self._lanes(record), record.warp
        self._check_visible(index, warp, barrier)
        again = warp in barrier.arrived and self._once(barrier)
        if again or barrier.state.pending < lanes:
            completed = self._force(barrier)
            if again and not completed:
                raise Unexplained(
                    "arrival-count",
                    f"warp {warp} arrives twice in phase {barrier.completed} of {self.table.name[barrier.address]}, "
                    f"which still lacks {barrier.state.pending} of {barrier.state.expected} arrivals",
                    index,
                    tuple(barrier.history[-6:]),
                )
        self.accesses.stages.release_phase(index, warp, barrier.address, barrier.completed)
        barrier.arrived[warp] = barrier.arrived.get(warp, 0) + 1
        stamp = self.clock[warp].copy()
        stamp[self.slot[warp]] = index
        barrier.clock = joined(barrier.clock, stamp)
        self.witness.append((self.now, "arrive", index, lanes))
        if "expect_tx" in record.kind:
            arrives = does.arrive_expect_tx(record.values[1])
        else:
            arrives = does.arrive(lanes)
        self._take(barrier, apply(barrier.state, arrives), index)

    def _arrive_later(self, index: int, record: Record) -> None:
        """cp.async.mbarrier.arrive: without .noinc, the phase waits for the copies besides its arrivals."""
        barrier = self._barrier(index, record.values[0])
        barrier.asynchronous.append(index)
        if barrier.address in self.table.delayed:
            self._check_visible(index, record.warp, barrier)
            lanes = self._lanes(record)
            self.witness.append((self.now, "delay", index, lanes))
            self._take(barrier, does.cp_async_arrive(barrier.state, lanes), index)

    def _copied(self, barrier: ReplayedBarrier) -> None:
        """The copies of the oldest open cp.async arrival are done."""
        index = barrier.asynchronous.pop(0)
        record = self.records[index]
        if barrier.address in self.table.delayed:
            lanes = self._lanes(record)
            self.witness.append((self.now, "copied", index, lanes))
            self._take(barrier, apply(barrier.state, does.arrive(lanes)), index)
        else:
            self._count_arrival(barrier, index, record)

    def _expect(self, index: int, record: Record) -> None:
        barrier = self._barrier(index, record.values[0])
        self._check_visible(index, record.warp, barrier)
        self.witness.append((self.now, "expect", index, record.values[1]))
        self._take(barrier, apply(barrier.state, does.expect_tx(record.values[1])), index)

    def _complete(self, index: int, record: Record) -> None:
        if record.values[3] and not record.values[1]:
            barrier = self._barrier(index, record.values[0])
            self.witness.append((self.now, "complete", index, record.values[2]))
            self._take(barrier, apply(barrier.state, does.complete_tx(record.values[2])), index)

    def _issue(self, index: int, record: Record) -> None:
        barrier = self._barrier(index, record.values[1])
        self._check_visible(index, record.warp, barrier)
        phase = self.accesses.filled[record.values[1], record.values[2]]
        barrier.landing.append((index, self.table.box_bytes.get(record.values[0], 0), phase))

    def _check_visible(self, index: int, warp: int, barrier: ReplayedBarrier) -> None:
        """The init must be ordered before the use, by the __syncthreads that the log shows."""
        if barrier.init < 0:
            raise Unexplained(
                "barrier-init",
                f"{self.table.name[barrier.address]} is used before it is initialised",
                index,
                tuple(barrier.history),
            )
        owner = self.records[barrier.init].warp
        if self.has_sync and owner != warp and self.clock[warp][self.slot[owner]] < barrier.init:
            raise Unexplained(
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

    def _pass_if_open(self, warp: int, barrier: ReplayedBarrier) -> None:
        index = self.open[warp]
        assert index is not None
        parity = self.records[index].values[1]
        if not barrier.state.alive or barrier.state.phase == parity:
            return
        self._check_visible(index, warp, barrier)
        phase = barrier.completed - 1
        key = (warp, barrier.address)
        last = self.last_phase.get(key, -1)
        if phase < last:
            raise Unexplained(
                "phase-lapped",
                f"the wait for {self.table.name[barrier.address]} with parity {parity} passes on phase {phase}, after "
                f"warp {warp} has already asked for phase {last}",
                index,
                tuple(barrier.history[-6:]),
            )
        applied = apply(barrier.state, does.wait(parity), True, phase - last, phase - last)
        self.last_phase[key] = phase
        self.witness.append((self.now, "wait", index, phase))
        self.passed_on[index] = phase
        self._take(barrier, applied, index)
        if phase >= 0:
            self.clock[warp] = joined(self.clock[warp], barrier.phase_clocks[phase])
            self.clock[warp][self.phase_slot[barrier.address]] = barrier.completed
        self.open[warp] = None
        barrier.waiting.remove(warp)
        self.accesses.stages.passed(index, warp, barrier.address, phase)
