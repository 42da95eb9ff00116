"""A cluster of two CTAs that share what they load: each loads half of B, and multicasts it to both.

Every CTA of a cluster has its own roles, barriers and shared memory. A multicast copy writes its bytes, and signals
them, at the same place in each CTA of the mask: each CTA expects the bytes of both halves, and a stage may be loaded
again only when the consumers of both CTAs have released it. The second command releases only the own CTA's stage.

$ verify spec examples/multicast.py
PROVED
$ verify spec examples/multicast.py --set everywhere=false
VIOLATED race
"""

from sm90_verify import Body, Pipeline, PipelineState, Threads, barrier, role, tile

CTAS = 2
HALF = 8_192


class Multicast(Pipeline):
    """Two halves of B, one loaded by each CTA, both read by both."""

    cluster = "2x1"
    stages = 2
    everywhere = True

    full = barrier(arrivals=1)
    empty = barrier(arrivals=lambda self: CTAS if self.everywhere else 1)
    b = tile(bytes=HALF, slots=lambda self: self.stages * CTAS)

    @role(threads=1)
    def producer(self, me: Threads) -> Body:
        write = PipelineState.start(self.stages, producer=True)
        for _ in self.loop():
            yield self.empty[write].wait(write.phase)
            yield self.full[write].arrive_expect_tx(CTAS * HALF)  # from both CTAs
            half = self.b[write.index * CTAS + me.cta]
            yield half.load(signals=self.full[write], tag=write.tag, multicast=range(CTAS))
            write = write + 1
        for _ in range(self.stages):  # the tail: no CTA ends while the other may still signal its barriers
            yield self.empty[write].wait(write.phase)
            write = write + 1

    @role(warpgroups=1)
    def consumer(self) -> Body:
        read = PipelineState.start(self.stages)
        for _ in self.loop():
            yield self.full[read].wait(read.phase)
            yield self.mma(*(self.b[read.index * CTAS + half].of(read.tag) for half in range(CTAS)))
            yield self.mma_wait(0)
            for cta in range(CTAS) if self.everywhere else ():
                yield self.empty[read].on(cta).arrive()
            if not self.everywhere:
                yield self.empty[read].arrive()  # wrong with everywhere=false
            read = read + 1
