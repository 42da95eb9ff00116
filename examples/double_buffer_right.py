"""The double buffer as it should be: a stage is released after the wait for the wgmma group that reads it.

A role that takes `at` is one iteration of the loop over the k-tiles; `at` is the PipelineState of that iteration, and
its number is what the buffer must hold: a proof says that every iteration reads its own data, for every trip count.

$ verify spec examples/double_buffer_right.py --stages 4
PROVED
$ verify spec examples/double_buffer_right.py --engine search+order
PROVED
"""

from sm90_verify import Body, Pipeline, PipelineState, barrier, role, tile


class DoubleBuffer(Pipeline):
    """TMA fills the stages while one warpgroup drains them."""

    stages = 2
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)  # one elected thread of the warpgroup arrives
    a = tile(bytes=16_384)

    @role(warps=1)
    def producer(self, at: PipelineState) -> Body:
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(self.a.bytes)
        yield self.a[at].load(signals=self.full[at])

    @role(warps=4)
    def consumer(self, at: PipelineState) -> Body:
        yield self.full[at].wait(at.phase)
        yield self.a[at].mma()
        yield self.mma_wait(0)  # the tensor cores have read the tile
        yield self.empty[at].arrive()
