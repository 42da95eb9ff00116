"""Two CTAs: how the initialisation of a barrier becomes visible, and who arms the barriers of a multicast copy; and two
output tiles in a row.
"""

from __future__ import annotations

from sm90_verify.spec.cutlass.classes import TmaAsync
from sm90_verify.spec.cutlass.mainloop import MainloopCollective
from sm90_verify.spec.cutlass.pipelines import WAIT_AGAIN, PipelineTmaAsync
from sm90_verify.spec.language.declarations import Body, barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.model.kernel import Threads
from sm90_verify.spec.ptx.limits import WARPGROUP


class ClusterInit(Pipeline):
    """Each CTA initialises its barrier, the cluster meets, and a copy of CTA 0 signals both barriers.

    fence: fence.mbarrier_init after the init. relaxed: the form of barrier.cluster.arrive.
    """

    _label = "cluster-init"
    cluster = "2x1"
    met = False
    fence = 1
    relaxed = 1
    full = barrier(initialised=False)
    a = tile()

    @role(threads=1)
    def producer(self, me: Threads) -> Body:
        yield self.full[0].init(1)
        if self.fence:
            yield self.fence_mbarrier_init()
        yield self.cluster_arrive_relaxed() if self.relaxed else self.cluster_arrive()
        yield self.cluster_wait()
        yield self.full[0].arrive_expect_tx(self.a[0].bytes)
        if me.cta == 0:
            yield self.a[0].load(signals=self.full[0], tag=0, multicast=(0, 1))
        yield self.full[0].wait(0)


class MulticastArrivals(TmaAsync):
    """The ring of a cluster. sends: the leader arms the full barrier of its "own" CTA only, or arrives on those of
    "all" the CTAs that receive its copies. count: arrivals that a full barrier expects.
    """

    _label = "multicast-arrivals"
    stages = 1
    cluster = "2x1"
    sends = "own"
    count = 1
    pipeline = PipelineTmaAsync(producers="count", consumers=WARPGROUP, bytes="bytes")

    @role(threads=1)
    def producer(self, me: Threads) -> Body:
        state = self.pipeline.producer_start()
        for _ in self.loop():
            yield from self.pipeline.producer_acquire(state, WAIT_AGAIN)
            if self.sends == "all":
                yield self.pipeline.full[state].on(1 - me.cta).arrive()
            yield from self.fill(state, me)
            state = state + 1
        yield from self.pipeline.producer_tail(state)


class TwoTiles(MainloopCollective):
    """A caller that runs load and mma for output tile after output tile. load_advances, mma_advances: it goes on with
    the state behind the tile, not with the one that it has handed over by value.
    """

    _label = "two-tiles"
    stages = 2
    k_tiles: int | str = 2
    load_advances = 1
    mma_advances = 1
    tiles = 2

    @property
    def mma_threads(self) -> int:
        return WARPGROUP

    @role(threads=1)
    def load_warp(self, me: Threads) -> Body:
        write: PipelineState = self.mainloop.producer_start()
        for _ in range(self.tiles):
            after = yield from self.mainloop_load(write, me)
            write = after if self.load_advances else self.mainloop.producer_start()
        yield from self.mainloop_load_tail(write)

    @role(warpgroups=1)
    def consumer(self, me: Threads) -> Body:
        read: PipelineState = self.mainloop.consumer_start()
        for _ in range(self.tiles):
            release, left = yield from self.mainloop_mma(read, me)
            after = yield from self.mainloop_mma_tail(release, left, me)
            read = after if self.mma_advances else self.mainloop.consumer_start()
