"""Producer and consumer with CUTLASS's PipelineTmaAsync, its verbs and its states, as a mainloop has them.

A class of CUTLASS is declared like a barrier, and its verbs are called with `yield from`. One k-tile stays in flight:
a stage is released when the wgmma after the one that reads it has been issued (K_PIPE_MMAS = 1). A role without `at` is
the whole program of its threads; `self.loop()` stands for a loop over any number of k-tiles.

The second command leaves one wgmma too many in flight.

$ verify spec examples/tma_async.py --stages 4
PROVED
$ verify spec examples/tma_async.py --set in_flight=2
VIOLATED race
"""

from sm90_verify import Body, Pipeline, PipelineTmaAsync, Threads, role, tile

THREADS = 128


class Mainloop(Pipeline):
    """One thread issues TMA for A and B; one warpgroup multiplies."""

    stages = 3
    in_flight = 1

    pipeline = PipelineTmaAsync(consumers=THREADS, bytes=16_384 + 8_192)
    a = tile(bytes=16_384)
    b = tile(bytes=8_192)

    @role(threads=1)
    def producer(self) -> Body:
        write = self.pipeline.producer_start()  # phase 1: the first lap passes on the fresh barriers
        for _ in self.loop():
            yield from self.pipeline.producer_acquire(write)  # waits, then expects the bytes of both copies
            yield self.a[write].load(signals=self.pipeline.full[write])
            yield self.b[write].load(signals=self.pipeline.full[write])
            write = write + 1
        yield from self.pipeline.producer_tail(write)

    @role(warpgroups=1)
    def consumer(self, me: Threads) -> Body:
        read = self.pipeline.consumer_start()
        behind = None  # the stage that the wgmma before this one reads
        for _ in self.loop():
            yield from self.pipeline.consumer_wait(read)
            yield self.mma(self.a[read], self.b[read])
            yield self.mma_wait(self.in_flight)
            if behind is not None:
                yield from self.pipeline.consumer_release(behind, me)  # wrong with in_flight=2
            behind, read = read, read + 1
        yield self.mma_wait(0)
        if behind is not None:
            yield from self.pipeline.consumer_release(behind, me)
