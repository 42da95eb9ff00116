"""Shared memory used twice: the bytes of a mainloop's barrier hold an epilogue's data after mbarrier.inval.

Nothing but mbarrier operations may touch a live mbarrier. To reuse its bytes: the last wait of every thread, a barrier
of all threads, mbarrier.inval by one of them, another barrier, and then the data. `shares` says that the overlap is
meant. The second command forgets the inval.

$ verify spec examples/reuse_smem.py
PROVED
$ verify spec examples/reuse_smem.py --set invalidated=false
VIOLATED barrier-init
"""

from sm90_verify import Body, Pipeline, Threads, barrier, role, tile


class ReuseSmem(Pipeline):
    """One stage is loaded and read; then the warpgroup writes its scratch where the barrier was."""

    stages = 1
    trips = 1
    invalidated = True

    full = barrier(arrivals=1)
    a = tile(bytes=4_096)
    scratch = tile(bytes=128, shares="full")

    @role(warps=4, split=(32, 96))
    def warpgroup(self, me: Threads) -> Body:
        if me.leader:
            yield self.full.arrive_expect_tx(self.a.bytes)
            yield self.a.load(signals=self.full, tag="A")
        yield self.full.wait(0)
        yield self.a.read(tag="A")
        yield self.cta_sync()  # nobody waits any more
        if me.leader:
            if self.invalidated:
                yield self.full.inval()
            yield self.scratch.write(tag="sums")  # wrong with invalidated=false
        yield self.cta_sync()
        yield self.scratch.read(tag="sums")
