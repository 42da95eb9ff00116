"""Decides whether a log is a behaviour that the spec allows, by building one order of all effects that explains it.

What is known (semantics of the log): entry i of a warp is appended at position i. A wait, a fence, a TMA or wgmma
issue, a commit and __syncthreads are appended before the operation, so they take effect between the warp's own
entry and its next one; an arrival, an init, an expect, bar.sync and tma_store_wait are appended after it, so they
take effect between the warp's previous entry and its own. Bytes of a load land at any time after its issue,
arrivals of other CTAs at any time. The log is allowed iff every effect can be given a time in its window such that
each operation, as spec.ptx.mbarrier defines it, is legal and able to run at that time.

The procedure is lazy. A wait passes at the first moment at which its barrier lets it pass. Everything else happens
at its deadline - an arrival at its own entry - unless a wait reaches its deadline unpassed; then the phase that it
waits for is forced: as many open arrivals as the phase lacks are taken early, those with the earliest deadline
first, then arrivals of other CTAs, then landed bytes.

Why that is exact. Accepted is exact: the order is constructed, and `Replay.witness` holds it. Rejected: let S be
any legal order. By induction over positions every barrier has taken at most as many arrivals as in S, and every
wait that S has passed by its deadline has passed here: an arrival at its deadline has happened in S too; a forced
one was needed for a wait whose deadline is now, so S has taken at least as many by now, and exchanging arrivals of
equal weight for ones with an earlier deadline leaves the counts unchanged. Passing a wait early only sets
`observed` and keeps it from being lapped. The exchange needs arrivals of equal weight within a phase, which is how
CUTLASS counts; with unequal weights (one leader beside whole warps) the procedure can reject an order in which a
late arrival is taken for an early one. A wait that could pass on the phase before the one that S gives it is passed
too early here: S then has no synchronisation that keeps the wait from doing so, and the program is wrong although
this run of it may not be.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from sm90_verify.frontends.log import operations as does
from sm90_verify.frontends.log.exit import check_exit
from sm90_verify.frontends.log.meet import Meetings
from sm90_verify.frontends.log.state import ReplayedBarrier
from sm90_verify.frontends.log.synclog import Record
from sm90_verify.frontends.log.table import BarrierTable
from sm90_verify.frontends.log.unexplained import Unexplained
from sm90_verify.frontends.log.usage import WAITS
from sm90_verify.spec.ptx.numbers import apply


class Replay(Meetings):
    """One pass over the records. `run` raises Unexplained at the first entry that no order explains."""

    def __init__(self, records: Sequence[Record], table: BarrierTable) -> None:
        super().__init__(records, table)
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
        """Replays every entry; raises Unexplained."""
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
        held = self.accesses.stages.held_at_exit()
        return f"the log may lack its end: {held}" if held else ""

    def _relied_on(self) -> set[int]:
        """try_waits that must have returned true: what comes next on the barrier is not the wait that a failed one
        needs.
        """
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

    def _stuck(self, index: int, record: Record) -> Unexplained:
        barrier = self.barriers[record.values[0]]
        array = self.table.array[barrier.address]
        expected, pending, tx = barrier.state.expected, barrier.state.pending, barrier.state.tx
        name = self.table.name[barrier.address]
        if not barrier.state.alive:
            return Unexplained("barrier-init", f"{name} is waited for before it is initialised", index, ())
        lacks = f"{pending} of {expected} arrivals are missing"
        if not pending and tx:
            lacks = f"its {expected} arrivals are there, but {tx} bytes are missing"
        property_id = "tx-count" if not pending else "deadlock"
        if array.arrivals is None:
            property_id, lacks = "arrival-count", "no number of lanes per arrival adds up to its count"
        wrong = self._wrong_expect(barrier)
        if property_id == "tx-count" and wrong is not None:
            return Unexplained(property_id, f"{name}: {lacks}", wrong, (*barrier.history[-6:], index))
        return Unexplained(
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

    def _force(self, barrier: ReplayedBarrier) -> bool:
        """Completes the current phase with what may already have happened; False if that is not enough."""
        if barrier.address in self.forcing or not barrier.state.alive:
            return False
        self.forcing.append(barrier.address)
        target = barrier.completed + 1
        while barrier.completed < target:
            pending, tx = barrier.state.pending, barrier.state.tx
            if pending > barrier.unseen:
                if not self._arrive_early(barrier):
                    break
            elif pending:
                self.witness.append((self.now, "unseen", barrier.address, barrier.unseen))
                amount, barrier.unseen = barrier.unseen, 0
                self._take(barrier, apply(barrier.state, does.arrive(amount)), None)
            elif barrier.landing:
                self._land(barrier)
            elif self.table.cluster and tx > 0 and not self.accesses.where.has_loads(barrier.address):
                self.witness.append((self.now, "unseen bytes", barrier.address, tx))
                self._take(barrier, apply(barrier.state, does.complete_tx(tx)), None)
            else:
                break
        self.forcing.pop()
        return barrier.completed >= target

    def _land(self, barrier: ReplayedBarrier) -> None:
        index, size, _ = barrier.landing.pop(0)
        self.witness.append((self.now, "land", index, size))
        self._take(barrier, apply(barrier.state, does.complete_tx(size)), index)

    def _arrive_early(self, barrier: ReplayedBarrier) -> bool:
        """One arrival whose window is open is taken now, the one with the earliest deadline."""
        if barrier.asynchronous:
            self._copied(barrier)
            return True
        for index, warp, record in self._following():
            if self.after.get(record.kind) != self._arrive or record.values[0] != barrier.address:
                continue
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

    # ------------------------------------------------------------ the end of the log

    def _finish(self) -> None:
        """The kernel has ended: every phase that began is complete, and nothing is under way."""
        for barrier in self.barriers.values():
            while barrier.state.alive and (barrier.landing or not barrier.state.fresh):
                if barrier.landing and barrier.state.fresh:
                    break
                if self._force(barrier):
                    continue
                expected, pending, tx = barrier.state.expected, barrier.state.pending, barrier.state.tx
                property_id = "arrival-count" if pending else "tx-count"
                lacks = f"{pending} of {expected} arrivals" if pending else f"{tx} bytes"
                raise Unexplained(
                    property_id,
                    f"the log ends while phase {barrier.completed} of {self.table.name[barrier.address]} lacks {lacks}",
                    barrier.history[-1],
                    tuple(barrier.history[-6:-1]),
                )
            if barrier.landing:
                raise Unexplained(
                    "tx-count",
                    f"the load signals {self.table.name[barrier.address]}, which expects none of its bytes",
                    barrier.landing[0][0],
                    (),
                )
        check_exit(self.accesses, {address: barrier.completed for address, barrier in self.barriers.items()})
