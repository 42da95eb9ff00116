"""A TMA mainloop whose warpgroup is written warp by warp: four programs that issue each wgmma together.

Where the warps of a warpgroup do different things, each of them is a part of the role (`split`), and `joint=True` says
that a commit or a wait is of the whole warpgroup: a group of wgmmas is complete when all four have issued it, and over
for all as soon as one of them has waited for it. Here every warp waits for the stage by itself, and one thread, of the
first warp, gives it back: what it knows of the reads of the other three it knows from wgmma.wait_group alone.

The second command gives the stage back before that wait.

$ verify spec examples/warpgroup_parts.py
PROVED
$ verify spec examples/warpgroup_parts.py --set early=True
VIOLATED race
"""

from sm90_verify import Body, Pipeline, PipelineState, Threads, barrier, role, tile

WARP = 32


class WarpgroupParts(Pipeline):
    """One warp issues TMA for A and B; the warps of one warpgroup multiply."""

    stages = 4
    early = False

    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=16_384)
    b = tile(bytes=16_384)
    acc = tile(bytes=16_384, slots=1, space="registers")

    @role(warps=1)
    def producer(self, at: PipelineState) -> Body:
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(self.a.bytes + self.b.bytes)
        yield self.a[at].load(signals=self.full[at])
        yield self.b[at].load(signals=self.full[at])

    @role(warpgroups=1, split=(WARP, WARP, WARP, WARP))
    def math(self, at: PipelineState, me: Threads) -> Body:
        yield self.full[at].wait(at.phase)
        yield self.wgmma_fence()
        yield self.mma(self.a[at], self.b[at], into=self.acc, commit=False)
        yield self.mma_commit(joint=True)
        if self.early and me.warp == 0:
            yield self.empty[at].arrive()  # wrong with early=True
        yield self.mma_wait(0, joint=True)
        if not self.early and me.warp == 0:
            yield self.empty[at].arrive()
