"""A second opinion on an order of effects that the checker found: a barrier model written from the PTX text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from sm90_verify.frontends.log.check import judge
from sm90_verify.frontends.log.order import Replay
from sm90_verify.frontends.log.synclog import Record
from sm90_verify.frontends.log.table import recover

AFTER = {
    "cluster_barrier_init",
    "cluster_barrier_arrive",
    "cluster_barrier_arrive_cluster",
    "cluster_transaction_barrier_arrive_and_expect_tx",
    "cluster_transaction_barrier_expect_transaction",
    "cpasync_barrier_arrive",
    "named_barrier_arrive_and_wait",
    "tma_store_wait",
}
"""Kinds that are appended after the operation; the others are appended before it."""


# ---------------------------------------------------------------- an order that explains the log


@dataclass
class Counted:
    """An mbarrier by the PTX text: phase, count, pending arrivals, bytes."""

    count: int
    pending: int
    tx: int = 0
    phase: int = 0

    def step(self, arrivals: int, bytes_expected: int) -> None:
        self.pending -= arrivals
        self.tx += bytes_expected
        assert self.pending >= 0, "underflow"
        if self.pending == 0 and self.tx == 0:
            self.phase, self.pending = self.phase + 1, self.count


def explains(records: Sequence[Record]) -> bool:
    """Whether the checker's order puts each effect into its window and is legal for the barriers of this file."""
    replay = Replay(records, recover(records))
    judge(replay)
    before: dict[int, int] = {}
    after: dict[int, int] = {}
    last: dict[int, int] = {}
    for index, record in enumerate(records):
        before[index] = last.get(record.warp, -1)
        if record.warp in last:
            after[last[record.warp]] = index
        last[record.warp] = index
    barriers: dict[int, Counted] = {}
    happened: Counter[int] = Counter()
    held: list[int] = []
    now = 0
    for position, effect, what, amount in replay.witness:
        assert position >= now, "the order goes back in time"
        now = position
        if effect == "unseen":
            barriers[what].step(amount, 0)
            continue
        record = records[what]
        if effect == "copied":
            assert happened[what] == 1 and position > what, "copies are done before they are made"
            barriers[record.values[0]].step(amount, 0)
            held.remove(what)
            continue
        happened[what] += 1
        if effect == "arrive" and record.kind == "cpasync_barrier_arrive":
            assert position > what, "copies are done before they are made"
        elif record.kind in AFTER:
            assert before[what] < position <= what, (effect, record)
        elif effect != "land":
            assert what < position <= after.get(what, len(records)), (effect, record)
        if effect == "init":
            assert record.values[0] not in barriers
            barriers[record.values[0]] = Counted(amount, amount)
        elif effect == "arrive":
            expected = record.values[1] if record.kind.endswith("expect_tx") else 0
            barriers[record.values[0]].step(amount, 0) if not expected else None
            if expected:
                barriers[record.values[0]].tx += expected
                barriers[record.values[0]].step(amount, 0)
        elif effect == "delay":
            barriers[record.values[0]].pending += amount
            held.append(what)
        elif effect == "expect":
            assert barriers[record.values[0]].pending
            barriers[record.values[0]].tx += amount
        elif effect == "land":
            assert position > what
            barriers[record.values[1]].step(0, -amount)
        elif effect == "wait":
            assert barriers[record.values[0]].phase == amount + 1
            assert amount % 2 == record.values[1]
    arrivals = [
        i for i, r in enumerate(records) if (r.kind in AFTER and "wait" not in r.kind) or r.kind.endswith("er_wait")
    ]
    assert all(happened[i] == 1 for i in arrivals), "an effect is missing or doubled"
    assert all(b.pending == b.count and b.tx == 0 for b in barriers.values()), "a phase is left incomplete"
    assert not held, "copies are never done"
    return True
