"""A warp-specialised ping-pong: two warpgroups take turns, one multiplies while the other writes its results.

One warp loads; warpgroup 0 takes the even output tiles, warpgroup 1 the odd ones, each K_TILES stages of every tile.
CUTLASS's OrderedSequenceBarrier lets one warpgroup at a time into its mainloop, so that the other is in its epilogue.
Each skips the stages of the other's tile; the second command forgets to.

$ verify spec examples/ping_pong.py
PROVED
$ verify spec examples/ping_pong.py --set skips=false
VIOLATED race
"""

from sm90_verify import Body, OrderedSequenceBarrier, Pipeline, PipelineTmaAsync, Threads, role, tile

K_TILES = 2
THREADS = 128


class PingPong(Pipeline):
    """Two math warpgroups behind one ring of stages."""

    stages = 4
    skips = True

    pipeline = PipelineTmaAsync(consumers=THREADS, bytes=16_384)  # a stage is read, and released, by one warpgroup
    order = OrderedSequenceBarrier(1, 2, group=THREADS)  # one stage (the mainloop), two groups
    a = tile(bytes=16_384)

    @role(threads=1)
    def producer(self) -> Body:
        write = self.pipeline.producer_start()
        for _ in self.loop():  # an iteration: a tile for each warpgroup
            for _ in range(2 * K_TILES):
                yield from self.pipeline.producer_acquire(write)
                yield self.a[write].load(signals=self.pipeline.full[write])
                write = write + 1
        yield from self.pipeline.producer_tail(write)

    @role(warpgroups=1, copies=2)
    def math(self, me: Threads) -> Body:
        turn = self.order.start(me.copy)
        read = self.pipeline.consumer_start()
        if self.skips:
            read = read.advance(me.copy * K_TILES)  # warpgroup 1 begins with the second tile
        for _ in self.loop():
            yield from self.order.wait(turn, me.copy)
            for _ in range(K_TILES):
                yield from self.pipeline.consumer_wait(read)
                yield self.a[read].mma()  # wrong with skips=false
                yield self.mma_wait(0)
                yield from self.pipeline.consumer_release(read, me)
                read = read + 1
            yield from self.order.arrive(turn, me.copy, me)  # the other may multiply; the epilogue would follow here
            turn = turn + 1
            if self.skips:
                read = read.advance(K_TILES)
