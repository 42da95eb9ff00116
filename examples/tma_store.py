"""A TMA store epilogue: ordinary stores to shared memory, a proxy fence, a named barrier, one thread stores.

Every thread that wrote with ordinary stores executes fence.proxy.async itself, before the barrier: TMA reads shared
memory through the async proxy. Before a slot is written again, the thread that committed its store waits until the
store has read it, and all threads meet. The second command leaves the fence out, the third waits for one store too few.

$ verify spec examples/tma_store.py
PROVED
$ verify spec examples/tma_store.py --set fenced=false
VIOLATED missing-fence
$ verify spec examples/tma_store.py --set unread=2
VIOLATED race
"""

from sm90_verify import Body, Pipeline, PipelineTmaStore, Threads, role, tile

BARRIER = 1  # one of the 16 named barriers of a CTA
WARP_BYTES = 2_048


class Epilogue(Pipeline):
    """One warpgroup writes D, subtile by subtile, through two slots in shared memory; its first warp stores them."""

    stages = 2
    fenced = True
    unread = 1  # stores that may still be reading their slot when the next slot is written

    pipeline = PipelineTmaStore()
    first = tile(bytes=WARP_BYTES, stride=4 * WARP_BYTES)  # what the first warp writes of a slot, and the others
    rest = tile(bytes=3 * WARP_BYTES, shares="first", offset=WARP_BYTES, stride=4 * WARP_BYTES)

    @role(warps=4, split=(32, 96))
    def epilogue(self, me: Threads) -> Body:
        mine = self.first if me.leader else self.rest
        write = self.pipeline.producer_start()
        for _ in self.loop():
            yield mine[write].write()  # wrong with fenced=false: nothing shows it to the store
            if self.fenced:
                yield self.fence_proxy_async()
            yield self.named_sync(BARRIER, 128)
            if me.leader:
                yield self.store(self.first[write], self.rest[write])
                yield from self.pipeline.producer_commit(write)
                yield self.bulk_wait_read(self.unread)
            yield self.named_sync(BARRIER, 128)  # wrong with unread=2: a store may still read the next slot
            write = write + 1
        if me.leader:
            yield from self.pipeline.producer_tail(write)
