"""Bytes expected and bytes delivered, and what a full barrier covers: D20, D35, R22, F05, F06, F10."""

from __future__ import annotations

from sm90_verify import Pipeline, barrier, role, tile


class ExpectsOtherBytesThanItLoads(Pipeline):
    """mirage-project/mirage #705: the bytes that the barrier expects are not those that the copy delivers."""

    expected = 2048
    delivered = 1024
    pieces = 1
    full = barrier(arrivals=1)
    a = tile(bytes="delivered")

    @role(warps=1)
    def producer(self):
        yield self.full.arrive_expect_tx(self.expected)
        yield self.a.load(signals=self.full, tag=0, pieces=self.pieces)

    @role(warpgroups=1)
    def consumer(self):
        yield self.full.wait(0)
        yield self.a.read(tag=0)


class ExpectsTheFirstOfTwoLoads(Pipeline):
    """tile-ai/tilelang #2644: A and B signal the same barrier, which expects the bytes of A alone."""

    expected = 1024
    full = barrier(arrivals=1)
    a = tile(bytes=1024)
    b = tile(bytes=1024)

    @role(warps=1)
    def producer(self):
        yield self.full.arrive_expect_tx(self.expected)
        yield self.a.load(signals=self.full, tag=0)
        yield self.b.load(signals=self.full, tag=0)

    @role(warpgroups=1)
    def consumer(self):
        yield self.full.wait(0)
        yield self.a.read(tag=0)
        yield self.b.read(tag=0)


class ExpectsBothLoads(Pipeline):
    """triton-lang/triton #9046: one barrier and one arrive.expect_tx for A and B (F05), which a checker
    once refused.
    """

    stages = 2
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=1024)
    b = tile(bytes=2048)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(self.a.bytes + self.b.bytes)
        yield self.a[at].load(signals=self.full[at])
        yield self.b[at].load(signals=self.full[at])

    @role(warpgroups=1)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.mma(self.a[at], self.b[at])
        yield self.mma_wait(0)
        yield self.empty[at].arrive()


class LoadsBeforeItExpects(Pipeline):
    """sm90_epilogue_tma_warpspecialized.hpp:481-525 (F06): the bytes may land first, the tx-count is negative
    meanwhile.
    """

    lanes = 32
    arrives_first = False
    full = barrier(arrivals=32)
    empty = barrier(arrivals=128)
    c = tile(bytes=1024)

    @role(threads=32, split=(1, 31))
    def producer(self, at, me):
        yield self.empty[at].wait(at.phase ^ 1)
        if me.leader:
            yield self.c[at].load(signals=self.full[at], pieces=2)
            if self.arrives_first:
                yield self.full[at].arrive()
                yield self.full[at].expect_tx(self.c.bytes)
            else:
                yield self.full[at].expect_tx(self.c.bytes)
                yield self.full[at].arrive()
        else:
            yield self.full[at].arrive(me.threads)

    @role(warpgroups=1)
    def consumer(self, at, me):
        yield self.full[at].wait(at.phase)
        yield self.c[at].read()
        yield self.empty[at].arrive(me.threads)


class LoadsWithoutExpecting(Pipeline):
    """NVIDIA/cutlass CHANGELOG and its like: a copy signals a barrier on which nobody arrives."""

    expects = False
    full = barrier(arrivals=1)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self):
        if self.expects:
            yield self.full.arrive_expect_tx(self.a.bytes)
        yield self.a.load(signals=self.full, tag=0)

    @role(warpgroups=1)
    def consumer(self):
        yield self.full.wait(0)
        yield self.a.read(tag=0)


class ReadsBeforeItWaits(Pipeline):
    """tile-ai/tilelang #2166: a buffer of another producer is read before the barrier that covers it is waited for."""

    waits_first = False
    full = barrier(arrivals=2)
    a = tile(bytes=1024)
    s = tile(bytes=128)

    @role(warps=1)
    def tma(self):
        yield self.full.arrive_expect_tx(self.a.bytes)
        yield self.a.load(signals=self.full, tag=0)

    @role(warps=1)
    def simt(self):
        yield self.s.write(tag=0)
        yield self.full.arrive()

    @role(warpgroups=1)
    def consumer(self):
        if self.waits_first:
            yield self.full.wait(0)
        yield self.s.read(tag=0)
        if not self.waits_first:
            yield self.full.wait(0)
        yield self.a.read(tag=0)


class BulkCopyLoop(Pipeline):
    """Dao-AILab/flash-attention AI/RACECHECK_TMA_HAZARD.md (F10): a bulk copy and an mbarrier, reported
    by racecheck.
    """

    full = barrier(arrivals=1)
    a = tile(bytes=1024)
    waits = True

    @role(threads=128, split=(1, 127))
    def block(self, at, me):
        if me.leader:
            yield self.full[at].arrive_expect_tx(self.a.bytes)
            yield self.a[at].load(signals=self.full[at])
        if self.waits:
            yield self.full[at].wait(at.phase)
        yield self.a[at].read()
        yield self.named_sync(1, threads=128)


class HalfACopy(Pipeline):
    """Half of a tile is loaded, as many bytes are expected, and all of it is read: the rest is old data."""

    half = True
    trips = 2
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self, at):
        bytes = 512 if self.half else 1024
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(bytes)
        yield self.a[at].load(signals=self.full[at], bytes=bytes)

    @role(warps=4)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.a[at].mma()
        yield self.mma_wait(0)
        yield self.empty[at].arrive()


class ExpectedOfNobody(Pipeline):
    """Bytes are expected that no copy brings, and nobody waits for them."""

    expects = True
    full = barrier(arrivals=1)

    @role(warps=1)
    def only(self):
        if self.expects:
            yield self.full.arrive_expect_tx(64)
        else:
            yield self.full.arrive()


class ChoiceInAnotherOrder(Pipeline):
    """Two roles name the options of one choice in another order; it is the value that they share, not its place."""

    both = False
    full = barrier(arrivals=1)

    @role(warps=1)
    def producer(self):
        if (yield self.choose("tile", "a", "b")) == "a" or self.both:
            yield self.full.arrive()

    @role(warps=1)
    def consumer(self):
        if (yield self.choose("tile", "b", "a")) == "b":
            yield self.full.wait(0)


CASES = (
    (
        "D20 more",
        ExpectsOtherBytesThanItLoads(),
        {"deadlock": "consumer"},
        (ExpectsOtherBytesThanItLoads(expected=1024), ExpectsOtherBytesThanItLoads(expected=1024, pieces=2)),
    ),
    (
        "D20 fewer",
        ExpectsOtherBytesThanItLoads(expected=512),
        {"tx-count": "full"},
        (ExpectsOtherBytesThanItLoads(expected=1024),),
    ),
    (
        "D20 pieces",
        ExpectsOtherBytesThanItLoads(expected=512, pieces=2),
        {"race": "a", "stale-read": "a", "exit-hazard": "a", "tx-count": "full"},
        (ExpectsOtherBytesThanItLoads(expected=1024, pieces=2),),
    ),
    (
        "D20 two copies",
        ExpectsTheFirstOfTwoLoads(),
        {"race": "b", "stale-read": "a", "exit-hazard": "b", "tx-count": "full"},
        (ExpectsTheFirstOfTwoLoads(expected=2048),),
    ),
    ("F05", ExpectsTheFirstOfTwoLoads(expected=3072), {"deadlock": "consumer"}, (ExpectsBothLoads(),)),
    (
        "F06",
        LoadsBeforeItExpects(arrives_first=True, trips=2),
        {"tx-count": "full", "race": "c", "stale-read": "c", "exit-hazard": "c"},
        (LoadsBeforeItExpects(),),
    ),
    ("D35 iv", LoadsWithoutExpecting(), {"deadlock": "consumer"}, (LoadsWithoutExpecting(expects=True),)),
    ("R22", ReadsBeforeItWaits(), {"race": "s", "stale-read": "s"}, (ReadsBeforeItWaits(waits_first=True),)),
    (
        "F10",
        BulkCopyLoop(waits=False, trips=1),
        {"race": "a", "stale-read": "a", "exit-hazard": "a"},
        (BulkCopyLoop(),),
    ),
    ("half a copy", HalfACopy(), {"stale-read": "a"}, (HalfACopy(half=False, trips="all"),)),
    ("expected of nobody", ExpectedOfNobody(), {"tx-count": "full"}, (ExpectedOfNobody(expects=False),)),
    (
        "choice by value",
        ChoiceInAnotherOrder(),
        {"deadlock": "full or consumer"},
        (ChoiceInAnotherOrder(both=True),),
    ),
)
