"""Barriers whose arrival count is not the number of threads that arrive: D01, D02, D03, D05, D09, D37, F08."""

from __future__ import annotations

from sm90_verify import Pipeline, PipelineState, barrier, role, tile


class ExpectTxWithoutArrival(Pipeline):
    """tile-ai/tilelang #2566: expect_tx announces the bytes, and nobody ever arrives."""

    full = barrier(arrivals=1)
    buf = tile(bytes=1024)

    @role(warps=1)
    def producer(self):
        yield self.full.expect_tx(self.buf.bytes)
        yield self.buf.load(signals=self.full, tag=0)

    @role(warpgroups=1)
    def consumer(self):
        yield self.full.wait(0)
        yield self.buf.read(tag=0)


class ArriveExpectTx(ExpectTxWithoutArrival):
    """The same with one arrival."""

    @role(warps=1)
    def producer(self):
        yield self.full.arrive_expect_tx(self.buf.bytes)
        yield self.buf.load(signals=self.full, tag=0)


class CountsWholeGroups(Pipeline):
    """NVIDIA/cutlass #2404: the barriers count all threads of a group of which only elected ones arrive."""

    full_arrivals = 32
    empty_arrivals = 128
    full = barrier(arrivals="full_arrivals")
    empty = barrier(arrivals="empty_arrivals")
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(self.a.bytes)  # by the elected lane
        yield self.a[at].load(signals=self.full[at])

    @role(warpgroups=1)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.a[at].read()
        yield self.empty[at].arrive(4)  # by one lane of each warp


class SignalsFromAnotherWarpgroup(Pipeline):
    """NVIDIA/cutlass #2418: the thread chosen to signal the release is in the producer's warpgroup, so
    nobody signals.
    """

    signalling_thread = 0
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=1024)

    @role(warpgroups=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(self.a.bytes)
        yield self.a[at].load(signals=self.full[at])

    @role(warpgroups=1)
    def consumer(self, at):
        threads = range(128, 256)
        yield self.full[at].wait(at.phase)
        yield self.a[at].read()
        if self.signalling_thread in threads:
            yield self.empty[at].arrive()


class EveryLaneArrives(Pipeline):
    """deepseek-ai/DeepEP #293: all 32 lanes arrive on a barrier that expects one arrival."""

    arrivals = 1
    lanes = 32
    full = barrier(arrivals="arrivals")
    buf = tile(bytes=1024)

    @role(warps=1)
    def producer(self):
        yield self.buf.write(tag=0)
        yield self.full.arrive(self.lanes)

    @role(warpgroups=1)
    def consumer(self):
        yield self.full.wait(0)
        yield self.buf.read(tag=0)


class LanesArriveOneByOne(Pipeline):
    """The same, one lane after the other: an even number of arrivals leaves the parity as it was."""

    lanes = 2
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    buf = tile(bytes=1024)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.buf[at].write()
        for _ in range(self.lanes):
            yield self.full[at].arrive()

    @role(warpgroups=1)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.buf[at].read()
        yield self.empty[at].arrive()


class ArrivesOnOneBranch(Pipeline):
    """tile-ai/tilelang #374, #2002: only a block with work is signalled, but every block is waited for."""

    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    buf = tile(bytes=1024)

    @role(warps=1)
    def producer(self):
        at = PipelineState.start(self.stages, producer=True)
        for _ in self.loop():
            if (yield self.choose("block has work", True, False)):
                yield self.empty[at].wait(at.phase)
                yield self.buf[at].write()
                yield self.full[at].arrive()
                at += 1

    @role(warpgroups=1)
    def consumer(self):
        at = PipelineState.start(self.stages)
        for _ in self.loop():
            work = yield self.choose("block has work", True, False)
            yield self.full[at].wait(at.phase)
            if work:
                yield self.buf[at].read()
                yield self.empty[at].arrive()
            at += 1


class ArrivesAndWaitsOnOneBranch(ArrivesOnOneBranch):
    """Both sides ask for work, and count the blocks that had some."""

    @role(warpgroups=1)
    def consumer(self):
        at = PipelineState.start(self.stages)
        for _ in self.loop():
            if (yield self.choose("block has work", True, False)):
                yield self.full[at].wait(at.phase)
                yield self.buf[at].read()
                yield self.empty[at].arrive()
                at += 1


class ReturnsWithoutArriving(Pipeline):
    """NVIDIA/cutlass CHANGELOG, "hang caused by early return warp": a consumer without work returns, and is still
    counted.
    """

    full = barrier(arrivals=1)
    empty = barrier(arrivals=2)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(self.a.bytes)
        yield self.a[at].load(signals=self.full[at])

    @role(warpgroups=1)
    def busy(self, at):
        yield self.full[at].wait(at.phase)
        yield self.a[at].read()
        yield self.empty[at].arrive()

    @role(warpgroups=1)
    def idle(self):
        at = PipelineState.start(self.stages)
        if (yield self.choose("second consumer", "has work", "has none")) == "has none":
            return
        for _ in self.loop():
            yield self.full[at].wait(at.phase)
            yield self.a[at].read()
            yield self.empty[at].arrive()
            at += 1


class ArrivesBeforeItReturns(ReturnsWithoutArriving):
    """The consumer without work leaves the count with arrive_drop; its own arrival of every phase is gone with it."""

    @role(warpgroups=1)
    def idle(self):
        at = PipelineState.start(self.stages)
        if (yield self.choose("second consumer", "has work", "has none")) == "has none":
            yield self.empty[at].arrive_drop()
            return
        for _ in self.loop():
            yield self.full[at].wait(at.phase)
            yield self.a[at].read()
            yield self.empty[at].arrive()
            at += 1


class EveryConsumerThreadReleases(Pipeline):
    """sm90_pipeline.hpp:305-324, cluster of one: the empty barrier counts every consumer thread (flash-attention
    #1315).
    """

    stages = 2
    counted = 256
    full = barrier(arrivals=1)
    empty = barrier(arrivals="counted")
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(self.a.bytes)
        yield self.a[at].load(signals=self.full[at])

    @role(warpgroups=1, copies=2)
    def consumer(self, at, me):
        yield self.full[at].wait(at.phase)
        yield self.a[at].mma()
        yield self.mma_wait(0)
        yield self.empty[at].arrive(me.threads)


CASES = (
    ("D01", ExpectTxWithoutArrival(), {"deadlock": "consumer"}, (ArriveExpectTx(),)),
    (
        "D02 full",
        CountsWholeGroups(),
        {"deadlock": "consumer"},
        (CountsWholeGroups(full_arrivals=1, empty_arrivals=4),),
    ),
    (
        "D02 empty",
        CountsWholeGroups(full_arrivals=1),
        {"deadlock": "producer"},
        (CountsWholeGroups(full_arrivals=1, empty_arrivals=4, stages=3),),
    ),
    (
        "D03",
        SignalsFromAnotherWarpgroup(),
        {"deadlock": "producer"},
        (SignalsFromAnotherWarpgroup(signalling_thread=128), SignalsFromAnotherWarpgroup(stages=2, trips=2)),
    ),
    (
        "D05 at once",
        EveryLaneArrives(),
        {"arrival-count": "full"},
        (EveryLaneArrives(lanes=1), EveryLaneArrives(arrivals=32)),
    ),
    (
        "D05 one by one",
        LanesArriveOneByOne(trips=2),
        {
            "deadlock": "consumer",
            "phase-lapped": "full",
            "unobserved-phase": "full",
            "stale-read": "buf",
            "race": "buf",
        },
        (LanesArriveOneByOne(lanes=1),),
    ),
    ("D09", ArrivesOnOneBranch(trips=2), {"deadlock": "consumer"}, (ArrivesAndWaitsOnOneBranch(trips=4),)),
    ("D37", ReturnsWithoutArriving(), {"deadlock": "producer"}, (ArrivesBeforeItReturns(),)),
    (
        "F08",
        EveryConsumerThreadReleases(counted=2, stages=1, trips=1),
        {"arrival-count": "empty"},
        (EveryConsumerThreadReleases(),),
    ),
)
