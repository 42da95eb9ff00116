"""The initialisation of barriers, and the bytes that they lie in: D35, D36, R18."""

from __future__ import annotations

from sm90_verify import Pipeline, barrier, role, tile


class InitialisedWithZero(Pipeline):
    """NVIDIA/cutlass CHANGELOG, "mbarriers initialised with zero arrival count"."""

    consumers = 0
    full = barrier(arrivals=1)
    empty = barrier(arrivals="consumers")
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(self.a.bytes)
        yield self.a[at].load(signals=self.full[at])

    @role(warpgroups=1)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.a[at].read()
        yield self.empty[at].arrive()


class EveryLaneInitialises(Pipeline):
    """NVIDIA/cutlass CHANGELOG, "missing elect for barrier init": every lane initialises the same barrier."""

    elected = False
    full = barrier(initialised=False)
    buf = tile(bytes=1024)

    @role(threads=32, split=(1, 31))
    def producer(self, me):
        if me.leader or not self.elected:
            yield self.full.init(1)
        yield self.fence_mbarrier_init()
        yield self.cta_sync()
        if me.leader:
            yield self.full.arrive_expect_tx(self.buf.bytes)
            yield self.buf.load(signals=self.full, tag=0)

    @role(warpgroups=1)
    def consumer(self):
        yield self.cta_sync()
        yield self.full.wait(0)
        yield self.buf.read(tag=0)


class InitialisesInTheLoop(Pipeline):
    """Reports of kernels that initialise a barrier in each iteration: its phase is lost, the wait counts on."""

    once = False
    trips = 2
    full = barrier(initialised=False)
    a = tile(bytes=1024)

    @role(warps=1)
    def warp(self):
        if self.once:
            yield self.full.init(1)
            yield self.fence_mbarrier_init()
        for k in range(self.trips):
            if not self.once:
                yield self.full.init(1)
                yield self.fence_mbarrier_init()
            yield self.full.arrive_expect_tx(self.a.bytes)
            yield self.a.load(signals=self.full, tag=k)
            yield self.full.wait(k & 1)
            yield self.a.read(tag=k)


class InvalidatesInTheLoop(Pipeline):
    """The same with mbarrier.inval, which makes the second init legal and the parity of the wait wrong all the same."""

    counts_on = True
    trips = 2
    full = barrier(initialised=False)
    a = tile(bytes=1024)

    @role(warps=1)
    def warp(self):
        for k in range(self.trips):
            yield self.full.init(1)
            yield self.fence_mbarrier_init()
            yield self.full.arrive_expect_tx(self.a.bytes)
            yield self.a.load(signals=self.full, tag=k)
            yield self.full.wait(k & 1 if self.counts_on else 0)
            yield self.a.read(tag=k)
            yield self.full.inval()


class InitialisationNotSynchronised(Pipeline):
    """jax-ml/jax cf6f0aa00d, NVIDIA/Fuser #1552: nothing orders the first use of a barrier after its initialisation."""

    sync = False
    fence = True
    full = barrier(initialised=False)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self):
        yield self.full.init(1)
        if self.fence:
            yield self.fence_mbarrier_init()
        if self.sync:
            yield self.cta_sync()
        yield self.full.arrive_expect_tx(self.a.bytes)
        yield self.a.load(signals=self.full, tag=0)

    @role(warpgroups=1)
    def consumer(self):
        if self.sync:
            yield self.cta_sync()
        yield self.full.wait(0)
        yield self.a.read(tag=0)


class InitialisedForGenericUse(Pipeline):
    """A barrier that no bulk copy signals needs no fence: __syncthreads() orders its initialisation."""

    sync = True
    full = barrier(initialised=False)
    x = tile(bytes=16)

    @role(warps=1)
    def writer(self):
        yield self.full.init(1)
        if self.sync:
            yield self.cta_sync()
        yield self.x.write(tag=0)
        yield self.full.arrive()

    @role(warps=1)
    def reader(self):
        if self.sync:
            yield self.cta_sync()
        yield self.full.wait(0)
        yield self.x.read(tag=0)


class CopyRunsIntoBarrier(Pipeline):
    """deepseek-ai/DeepEP #399: the barrier lies at buf + hidden, and the copy writes the hidden vector
    and its scales.
    """

    scales = 16
    hidden = 1024
    buf = tile(bytes=1024, address=0)
    full = barrier(address=1024)

    @role(warps=1)
    def producer(self):
        yield self.full.arrive_expect_tx(self.hidden + self.scales)
        yield self.buf.load(signals=self.full, bytes=self.hidden + self.scales, tag=0)

    @role(warpgroups=1)
    def consumer(self):
        yield self.full.wait(0)
        yield self.buf.read(tag=0)


class RoomForScales(CopyRunsIntoBarrier):
    """The barrier lies behind the scales."""

    buf = tile(bytes=1040, address=0)
    full = barrier(address=1040)


class BarrierRegionTooSmall(Pipeline):
    """deepseek-ai/DeepGEMM 3fc6728: the region for the barriers holds fewer of them than there are."""

    stages = 2
    region = 8
    full = barrier(arrivals=1, address=0)
    empty = barrier(arrivals=1, address=24)
    a = tile(bytes=128, address=32)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(self.a.bytes)
        yield self.a[at].load(signals=self.full[at])

    @role(warpgroups=1)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.a[at].read()
        yield self.empty[at].arrive()


class BarrierRegionLargeEnough(BarrierRegionTooSmall):
    """The buffers start behind the last barrier."""

    a = tile(bytes=128, address=48)


CASES = (
    ("D35 i", InitialisedWithZero(), {"barrier-init": "empty"}, (InitialisedWithZero(consumers=1),)),
    ("D35 ii", EveryLaneInitialises(), {"barrier-init": "full"}, (EveryLaneInitialises(elected=True),)),
    ("D35 iii", InitialisesInTheLoop(), {"barrier-init": "full"}, (InitialisesInTheLoop(once=True),)),
    (
        "D35 iii inval",
        InvalidatesInTheLoop(),
        {
            "race": "a",
            "stale-read": "a",
            "phase-lapped": "full",
            "deadlock": "warp",
            "exit-hazard": "a",
            "barrier-init": "full",
        },
        (InvalidatesInTheLoop(counts_on=False),),
    ),
    ("D36", CopyRunsIntoBarrier(), {"smem-overlap": "full"}, (RoomForScales(), CopyRunsIntoBarrier(scales=0))),
    (
        "D36 region",
        BarrierRegionTooSmall(),
        {"smem-overlap": "empty[1]", "barrier-init": "empty[1]"},
        (BarrierRegionLargeEnough(),),
    ),
    (
        "R18 sync",
        InitialisationNotSynchronised(),
        {"barrier-init": "full"},
        (InitialisationNotSynchronised(sync=True),),
    ),
    (
        "R18 fence",
        InitialisationNotSynchronised(sync=True, fence=False),
        {"barrier-init": "full"},
        (InitialisationNotSynchronised(sync=True),),
    ),
    ("R18 generic", InitialisedForGenericUse(sync=False), {"barrier-init": "full"}, (InitialisedForGenericUse(),)),
)
