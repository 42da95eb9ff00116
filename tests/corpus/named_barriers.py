"""Named barriers, __syncthreads() and __syncwarp(): who takes part, and how often. D19, D27, D28, R06, R10, R24, R27,
F09, F15.
"""

from __future__ import annotations

from sm90_verify import Pipeline, PipelineState, barrier, role, tile


class SyncOfAllReachedBySome(Pipeline):
    """flashinfer-ai/flashinfer #2996: 384 threads are counted, and only the 128 of the compute role get there."""

    id = 0
    threads = 384
    x = tile(bytes=128)

    @role(warpgroups=1)
    def compute(self):
        yield self.x.write(tag=0)
        yield self.named_sync(self.id, threads=self.threads)
        yield self.x.read(tag=0)

    @role(warpgroups=2)
    def others(self):
        yield from ()


class SyncOfAllReachedByAll(SyncOfAllReachedBySome):
    """Everybody gets there."""

    @role(warpgroups=2)
    def others(self):
        yield self.named_sync(self.id, threads=self.threads)


class SyncthreadsSkipped(Pipeline):
    """flashinfer-ai/flashinfer #2996 with __syncthreads(): threads that skip it and wait for its result, not exited."""

    skips = True
    done = barrier(arrivals=1)
    x = tile(bytes=128)

    @role(warpgroups=1)
    def compute(self):
        yield self.x.write(tag=0)
        yield self.cta_sync()
        yield self.x.read(tag=0)
        yield self.done.arrive()

    @role(warpgroups=2)
    def others(self):
        if not self.skips:
            yield self.cta_sync()
        yield self.done.wait(0)


class SyncthreadsAfterReturn(Pipeline):
    """__syncthreads() counts the threads that have not exited: a role that returns is not waited for."""

    @role(warpgroups=1)
    def compute(self):
        yield self.cta_sync()

    @role(warpgroups=2)
    def others(self):
        yield from ()


class CountsTwoWarpsOfFive(Pipeline):
    """Dao-AILab/quack #146: the count is hard coded to 64, but four load warps and one epilogue warp take part."""

    threads = 64
    x = tile(bytes=128, slots=4)

    @role(warps=1, copies=4)
    def load(self, me):
        yield self.x[me.copy].write(tag=0)
        yield self.named_arrive(1, threads=self.threads)

    @role(warps=1)
    def epilogue(self):
        yield self.named_sync(1, threads=self.threads)
        for warp in range(4):
            yield self.x[warp].read(tag=0)


class ArrivesTwiceBeforeTheSync(Pipeline):
    """vLLM #26026: one side only arrives, so that its second arrival stands in for the other side."""

    trips = 2
    ids = 1
    blocks = False

    @role(warps=1)
    def first(self):
        for k in range(self.trips):
            if self.blocks:
                yield self.named_sync(1 + k % self.ids, threads=64)
            else:
                yield self.named_arrive(1 + k % self.ids, threads=64)

    @role(warps=1)
    def second(self):
        for k in range(self.trips):
            yield self.named_sync(1 + k % self.ids, threads=64)


class OneLaneArrivesForItsWarp(Pipeline):
    """NVIDIA/cudnn-frontend #426: all lanes write, one elected lane arrives, and no __syncwarp() lies in between."""

    arrivals = 1
    full = barrier(arrivals="arrivals")
    x = tile(bytes=4, slots=2)

    @role(threads=32, split=(1, 31))
    def warp(self, me):
        yield self.x[me.index].write(tag=0)
        if me.leader:
            yield self.full.arrive()

    @role(warps=1)
    def reader(self):
        yield self.full.wait(0)
        yield self.x[0].read(tag=0)
        yield self.x[1].read(tag=0)


class OneLaneArrivesAfterSyncwarp(OneLaneArrivesForItsWarp):
    """With __syncwarp() before the arrival."""

    @role(threads=32, split=(1, 31))
    def warp(self, me):
        yield self.x[me.index].write(tag=0)
        yield self.warp_sync()
        if me.leader:
            yield self.full.arrive()


class EveryLaneArrivesForItself(OneLaneArrivesForItsWarp):
    """Every lane is counted, and arrives."""

    arrivals = 32

    @role(threads=32, split=(1, 31))
    def warp(self, me):
        yield self.x[me.index].write(tag=0)
        yield self.full.arrive(me.threads)


class NoSyncAtTheEndOfTheLoop(Pipeline):
    """tile-ai/tilelang #2613: both warpgroups multiply what both have written, then write again without a barrier."""

    trips = "forever"
    syncs = False
    a = tile(bytes=1024, slots=2)

    @role(warpgroups=1, copies=2)
    def math(self, me):
        for k in self.loop():
            yield self.a[me.copy].write(tag=k % 4)
            yield self.fence_proxy_async()
            yield self.named_sync(1, threads=256)
            for w in range(2):
                yield self.a[w].mma(tag=k % 4, commit=False)
            yield self.mma_commit()
            yield self.mma_wait(0)
            if self.syncs:
                yield self.named_sync(2, threads=256)


class ReadsWhatAnotherWarpWrote(Pipeline):
    """deepseek-ai/FlashMLA 01a2772: an array is initialised by one warp and read by another with nothing in between."""

    syncs = False
    m = tile(bytes=256)

    @role(warps=1)
    def first(self):
        yield self.m.write(tag="maximum")
        if self.syncs:
            yield self.named_sync(1, threads=64)

    @role(warps=1)
    def second(self):
        if self.syncs:
            yield self.named_sync(1, threads=64)
        yield self.m.read(tag="maximum")


class LoadsOverWhatOthersRead(Pipeline):
    """jax-ml/jax acd84d123b: one thread starts the next bulk copy while others still read the last one."""

    trips = 2
    syncs = False
    full = barrier(arrivals=1)
    x = tile(bytes=1024)

    @role(threads=128, split=(1, 127))
    def warpgroup(self, me):
        at = PipelineState.start(1)
        for k in range(self.trips):
            if me.leader:
                yield self.full.arrive_expect_tx(self.x.bytes)
                yield self.x.load(signals=self.full, tag=k)
            yield self.full.wait(at.phase)
            yield self.x.read(tag=k)
            if self.syncs:
                yield self.named_sync(1, threads=128)
            at += 1


class SyncsWhereItShouldArrive(Pipeline):
    """deepseek-ai/FlashMLA #41, #57 (F09): bar.arrive by one warpgroup and bar.sync by another count 256 together."""

    threads = 256
    x = tile(bytes=128)

    @role(warpgroups=1)
    def writer(self):
        yield self.x.write(tag=0)
        yield self.named_arrive(1, threads=self.threads)

    @role(warpgroups=1)
    def reader(self):
        yield self.named_sync(1, threads=self.threads)
        yield self.x.read(tag=0)


class TileSchedulerWithoutFirstArrival(Pipeline):
    """Dao-AILab/flash-attention hopper/tile_scheduler.hpp (F15): Full and Empty are named barriers, Empty starts
    taken.
    """

    arrives_first = False
    trips = "forever"
    tile_index = tile(bytes=16)

    @role(warps=1)
    def scheduler(self):
        for k in self.loop():
            yield self.named_sync(1, threads=160)  # Empty
            yield self.tile_index.write(tag=k % 4)
            yield self.named_arrive(2, threads=160)  # Full

    @role(warpgroups=1)
    def consumer(self):
        if self.arrives_first:
            yield self.named_arrive(1, threads=160)
        for k in self.loop():
            yield self.named_sync(2, threads=160)
            yield self.tile_index.read(tag=k % 4)
            yield self.named_arrive(1, threads=160)


CASES = (
    (
        "D19",
        SyncOfAllReachedBySome(),
        {"deadlock": "compute"},
        (SyncOfAllReachedByAll(), SyncOfAllReachedBySome(id=1, threads=128)),
    ),
    (
        "D19 skip",
        SyncthreadsSkipped(),
        {"deadlock": "compute"},
        (SyncthreadsSkipped(skips=False), SyncthreadsAfterReturn()),
    ),
    (
        "D27",
        CountsTwoWarpsOfFive(),
        {"deadlock": "epilogue", "race": "x[1]", "stale-read": "x"},
        (CountsTwoWarpsOfFive(threads=160),),
    ),
    (
        "D28",
        ArrivesTwiceBeforeTheSync(),
        {"deadlock": "second"},
        (ArrivesTwiceBeforeTheSync(blocks=True), ArrivesTwiceBeforeTheSync(blocks=True, trips=4)),
    ),
    (
        "D28 two ids",
        ArrivesTwiceBeforeTheSync(ids=2, trips=4),
        {"deadlock": "second"},
        (ArrivesTwiceBeforeTheSync(ids=2, trips=2), ArrivesTwiceBeforeTheSync(ids=2, trips=4, blocks=True)),
    ),
    (
        "R06",
        OneLaneArrivesForItsWarp(),
        {"race": "x[1]", "stale-read": "x[1]"},
        (OneLaneArrivesAfterSyncwarp(), EveryLaneArrivesForItself()),
    ),
    (
        "R10",
        NoSyncAtTheEndOfTheLoop(),
        {"race": "a[0]", "stale-read": "a[0]", "missing-fence": "a[0]"},
        (NoSyncAtTheEndOfTheLoop(syncs=True),),
    ),
    ("R24", ReadsWhatAnotherWarpWrote(), {"race": "m", "stale-read": "m"}, (ReadsWhatAnotherWarpWrote(syncs=True),)),
    (
        "R27",
        LoadsOverWhatOthersRead(),
        {"race": "x", "stale-read": "x", "phase-lapped": "full", "deadlock": "warpgroup.1"},
        (LoadsOverWhatOthersRead(syncs=True),),
    ),
    ("F09", SyncsWhereItShouldArrive(threads=128), {"race": "x", "stale-read": "x"}, (SyncsWhereItShouldArrive(),)),
    (
        "F15",
        TileSchedulerWithoutFirstArrival(),
        {"deadlock": "scheduler"},
        (TileSchedulerWithoutFirstArrival(arrives_first=True),),
    ),
)
