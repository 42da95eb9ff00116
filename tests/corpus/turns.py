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


class OneWarpOfTheRoleStores(Pipeline):
    """The same with the math threads as one role, of which one warp syncs: 256 + 32 of 288."""

    by = 32
    counted = 288
    trips = "all"
    o = tile(bytes=1024, slots=1)

    @role(warpgroups=2)
    def math(self):
        for _ in self.loop():
            yield self.o[0].write(tag=0)
            yield self.fence_proxy_async()
            yield self.named_arrive(1, self.counted)
            yield self.named_sync(1, self.counted, by=self.by)
            yield self.o[0].store(tag=0)
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
    trips = "forever"
    tile_count = tile(bytes=4)

    @role(warps=1)
    def scheduler(self):
        for _ in self.loop():
            yield self.named_sync(1, threads=288)  # Empty
            yield self.tile_count.write()
            yield self.named_arrive(2, threads=288)  # Full

    @role(warpgroups=1, copies=2)
    def consumer(self):
        for _ in range(self.starts):
            yield self.named_arrive(1, threads=288)
        for _ in self.loop():
            yield self.named_sync(2, threads=288)
            yield self.tile_count.read()
            yield self.named_arrive(1, threads=288)


CASES = (
    (
        "turns, the first missing",
        WarpgroupsTakeTurns(from_itself=False),
        {"deadlock": "math0 and math1"},
        (
            WarpgroupsTakeTurns(),
            WarpgroupsTakeTurns(groups=3),
            WarpgroupsTakeTurns(trips="all"),
            WarpgroupsTakeTurns(from_itself=False, from_the_last=True),
            WarpgroupsTakeTurns(groups=3, from_itself=False, from_the_last=True, trips="all"),
        ),
    ),
    (
        "turns, the first twice",
        WarpgroupsTakeTurns(from_the_last=True),
        {"deadlock": "math0", "race": "scores", "stale-read": "scores"},
        (WarpgroupsTakeTurns(trips=3),),
    ),
    (
        "turns, ids swapped",
        WarpgroupsTakeTurns(gives=0, trips=3),
        {"deadlock": "math1"},
        (WarpgroupsTakeTurns(gives=1),),
    ),
    (
        "turns, two counts",
        WarpgroupsTakeTurns(counted=384),
        {"named-barrier": "different thread counts", "deadlock": "math0"},
        (WarpgroupsTakeTurns(counted=256),),
    ),
    (
        "turns, more than are counted",
        WarpgroupsTakeTurns(counted=192, threads=192),
        {"named-barrier": "more threads arrive than the 192"},
        (WarpgroupsTakeTurns(counted=256, threads=256),),
    ),
    (
        "turns of all, too many counted",
        WarpgroupsWaitForAllOthers(more=128),
        {"deadlock": "math0, math1 and math2"},
        (
            WarpgroupsWaitForAllOthers(),
            WarpgroupsWaitForAllOthers(groups=2),
            WarpgroupsWaitForAllOthers(trips="all"),
        ),
    ),
    (
        "turns of all, the first missing",
        WarpgroupsWaitForAllOthers(starts=False),
        {"deadlock": "math0, math1 and math2"},
        (WarpgroupsWaitForAllOthers(trips=2),),
    ),
    (
        "one stores, counted without its sync",
        OneWarpStoresForAll(threads=256),
        {"named-barrier": "more threads arrive than the 256", "deadlock": "math.0"},
        (OneWarpStoresForAll(),),
    ),
    (
        "one stores, and does not arrive",
        OneWarpStoresForAll(arrives=False),
        {"deadlock": "math.0"},
        (OneWarpStoresForAll(arrives=False, threads=256),),
    ),
    (
        "one warp of a role stores, and two sync",
        OneWarpOfTheRoleStores(by=64),
        {"named-barrier": "more threads arrive than the 288"},
        (OneWarpOfTheRoleStores(), OneWarpOfTheRoleStores(by=64, counted=320)),
    ),
    (
        "one warp of a role stores, and all sync",
        OneWarpOfTheRoleStores(by=0),
        {"named-barrier": "more threads arrive than the 288"},
        (OneWarpOfTheRoleStores(by=0, counted=512),),
    ),
    (
        "one warp of a role stores, and two are counted",
        OneWarpOfTheRoleStores(counted=320),
        {"deadlock": "math"},
        (OneWarpOfTheRoleStores(trips=1),),
    ),
    (
        "one stores, the next tile too early",
        OneWarpStoresEveryTile(),
        {"named-barrier": "bar1", "race": "o[1]", "missing-fence": "o[1]"},
        (OneWarpStoresEveryTile(waits=True), OneWarpStoresEveryTile(waits=True, trips="all")),
    ),
    (
        "one stores, the next generation too early",
        OneWarpStoresEveryTile(first=0),
        {"named-barrier": "more threads arrive than the 288", "race": "o[1]", "missing-fence": "o[1]"},
        (OneWarpStoresEveryTile(first=0, waits=True),),
    ),
    (
        "scheduler, Empty missing",
        TileSchedulerWithTwoConsumers(starts=0),
        {"deadlock": "scheduler"},
        (TileSchedulerWithTwoConsumers(), TileSchedulerWithTwoConsumers(trips="all")),
    ),
    (
        "scheduler, Empty twice",
        TileSchedulerWithTwoConsumers(starts=2),
        {"named-barrier": "288", "deadlock": "scheduler", "race": "tile_count"},
        (TileSchedulerWithTwoConsumers(trips=3),),
    ),
)
