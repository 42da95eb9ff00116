"""Two stages in shared memory, with the fault that is made most often: a stage is released while wgmma still reads it.

$ verify spec examples/double_buffer.py
VIOLATED race
"""

from sm90_verify import Pipeline, barrier, role, tile


class DoubleBuffer(Pipeline):
    """TMA fills two shared-memory stages while one warpgroup drains them."""

    stages = 2
    full = barrier(arrivals=1)  # TMA -> consumer: the bytes have landed
    empty = barrier(arrivals=1)  # consumer -> TMA: the tile may be overwritten
    a = tile(bytes=16_384)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)  # the first lap passes at once
        yield self.full[at].arrive_expect_tx(self.a.bytes)
        yield self.a[at].load(signals=self.full[at])

    @role(warps=4)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.a[at].mma()
        yield self.empty[at].arrive()  # wrong: wgmma still reads it
        yield self.mma_wait(0)
