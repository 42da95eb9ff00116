"""Several clusters of one grid: what each writes to global memory is its own, or another one's."""

from __future__ import annotations

from sm90_verify import Pipeline, barrier, role, tile


class TilesOfClusters(Pipeline):
    """A persistent GEMM whose tile index is computed from blockIdx or from the rank in the cluster: with the rank
    alone, the CTAs of two clusters store to one tile of D. (CUTLASS's static schedulers take both.)
    """

    cluster = "2x1"
    clusters = 2
    by_rank = False
    d = tile(bytes=1024, slots=4, space="global")

    @role(warps=1)
    def epilogue(self, me):
        yield self.d[me.cta if self.by_rank else me.cluster * 2 + me.cta].write()


class SplitK(Pipeline):
    """Split-K without a workspace for each split: both clusters read, add and write one tile of D."""

    clusters = 2
    workspaces = 1
    full = barrier(arrivals=1)
    a = tile(bytes=1024)
    d = tile(bytes=1024, slots="workspaces", space="global")

    @role(warps=1)
    def producer(self):
        yield self.full[0].arrive_expect_tx(1024)
        yield self.a[0].load(signals=self.full[0])

    @role(warpgroups=1)
    def consumer(self, me):
        yield self.full[0].wait(0)
        yield self.a[0].read()
        own = self.d[me.cluster % self.workspaces]
        yield own.read()
        yield own.write()


class TicketOfOneCluster(Pipeline):
    """A table in global memory that one cluster fills and all read: barrier.cluster is one for each cluster alone, and
    shows the other clusters nothing.
    """

    cluster = "2x1"
    clusters = 2
    everywhere = True
    table = tile(bytes=64, slots=2, space="global")

    @role(warps=1)
    def reader(self, me):
        own = me.cluster if self.everywhere else 0
        if me.cta == 0 and me.cluster == own:
            yield self.table[own].write()
        yield self.cluster_arrive()
        yield self.cluster_wait()
        yield self.table[own].read()


CASES = [
    ("G01 tiles by rank", TilesOfClusters(by_rank=True), {"race": "d[0] or d[1]"}, (TilesOfClusters(),)),
    ("G02 split-k in place", SplitK(), {"race": "d"}, (SplitK(workspaces=2),)),
    ("G03 barrier.cluster", TicketOfOneCluster(everywhere=False), {"race": "table[0]"}, (TicketOfOneCluster(),)),
]
