"""Named barriers as FlashAttention-3 uses them: bar.arrive, and later bar.sync or bar.arrive of the same warps, in one
generation. hopper/mainloop_fwd_sm90_tma_gmma_ws.hpp (mma_init, warp_scheduler_barrier_sync and _arrive),
hopper/epilogue_fwd.hpp (store), hopper/tile_scheduler.hpp.
"""

from __future__ import annotations

from sm90_verify import Pipeline, role, tile


class WarpgroupsTakeTurns(Pipeline):
    """UseSchedulerBarrier: each warpgroup has a barrier for its turn, and gives the turn to the next one. The first one
    gives itself the first turn.
    """

    groups = 2
    from_itself = True
    from_the_last = False
    gives = 1
    threads = 256
    counted = 256
    trips = "forever"
    scores = tile(bytes=1024)

    @role(warpgroups=1, copies=lambda self: self.groups)
    def math(self, me):
        mine, following = 1 + me.copy, 1 + (me.copy + self.gives) % self.groups
        if self.from_itself and me.copy == 0:
            yield self.named_arrive(mine, self.counted)
        if self.from_the_last and me.copy == self.groups - 1:
            yield self.named_arrive(1, self.counted)
        for _ in self.loop():
            yield self.named_sync(mine, self.threads)
            yield self.scores.write(tag=me.copy)
            yield self.scores.read(tag=me.copy)
            yield self.named_arrive(following, self.counted)


class WarpgroupsWaitForAllOthers(Pipeline):
    """The same in the first release: all warpgroups are counted at each barrier, and each arrives at those of the
    others. Before that, the later ones arrive for the first turns of the earlier ones.
    """

    groups = 3
    starts = True
    trips = "forever"
    more = 0
    scores = tile(bytes=1024)

    @role(warpgroups=1, copies=lambda self: self.groups)
    def math(self, me):
        threads = 128 * self.groups + self.more
        if self.starts:
            for earlier in range(me.copy):
                yield self.named_arrive(1 + earlier, threads)
        for _ in self.loop():
            yield self.named_sync(1 + me.copy, threads)
            yield self.scores.write(tag=me.copy)
            yield self.scores.read(tag=me.copy)
            for ahead in range(1, self.groups):
                yield self.named_arrive(1 + (me.copy + ahead) % self.groups, threads)


class OneWarpStoresForAll(Pipeline):
    """The epilogue: all 256 threads of the MMAs arrive, and the last of their warps, which stores, syncs as well."""

    threads = 288
    arrives = True
    o = tile(bytes=1024, slots=2)

    @role(warpgroups=2, split=(32, 224))
    def math(self, me):
        yield self.o[me.index].write(tag=0)
        yield self.fence_proxy_async()
        if self.arrives or not me.leader:
            yield self.named_arrive(1, self.threads)
        if me.leader:
            yield self.named_sync(1, self.threads)
            for part in range(2):
                yield self.o[part].store(tag=0)
            yield self.bulk_commit()
            yield self.bulk_wait_read(0)


class OneWarpStoresEveryTile(Pipeline):
    """The epilogue of a persistent kernel: the same barrier counts 256 when all have read V, then 288. Only what keeps
    the others from the next tile keeps the two apart.
    """

    waits = False
    first = 256
    trips = "forever"
    o = tile(bytes=1024, slots=2)

    @role(warpgroups=2, split=(32, 224))
    def math(self, me):
        for _ in self.loop():
            if self.waits:
                yield self.named_sync(2, 256)
            if self.first:
                yield self.named_sync(1, self.first)
            yield self.o[me.index].write(tag=0)
            yield self.fence_proxy_async()
            yield self.named_arrive(1, 288)
            if me.leader:
                yield self.named_sync(1, 288)
                for part in range(2):
                    yield self.o[part].store(tag=0)
                yield self.bulk_commit()
                yield self.bulk_wait_read(0)


class TileSchedulerWithTwoConsumers(Pipeline):
    """DynamicPersistentTileScheduler: both warpgroups arrive at Empty before they begin, once and not twice."""

    starts = 1
    empties = True
    full, empty = 2, 1
    trips = "forever"
    tile_count = tile(bytes=4)

    @role(warps=1)
    def scheduler(self):
        for k in self.loop():
            if self.empties:
                yield self.named_sync(1, threads=288)
            yield self.tile_count.write(tag=k % 4)
            yield self.named_arrive(2, threads=288)

    @role(warpgroups=1, copies=2)
    def consumer(self):
        for _ in range(self.starts):
            yield self.named_arrive(1, threads=288)
        for k in self.loop():
            yield self.named_sync(self.full, threads=288)
            yield self.tile_count.read(tag=k % 4)
            yield self.named_arrive(self.empty, threads=288)


CASES = ()
