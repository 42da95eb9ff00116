"""Small pipelines whose answers are easy to get wrong: who touches what when.

A comment "the line" stands where a report of the wrong ones points.
"""

from __future__ import annotations

from sm90_verify import Pipeline, barrier, role, tile, word


class Accumulator(Pipeline):
    """Wrong: wgmma is asynchronous, and its accumulator is read before its group is waited for. waits: right."""

    waits = False
    a = tile(bytes=1024)
    acc = tile(bytes=64, space="registers")

    @role(warpgroups=1)
    def math(self):
        yield self.wgmma_fence()
        yield self.a.mma(into=self.acc)
        if self.waits:
            yield self.mma_wait(0)
        yield self.acc.read()  # the line
        yield self.mma_wait(0)


class CopiedByThreads(Pipeline):
    """Wrong: cp.async writes through the generic proxy, and wgmma reads through the async proxy.

    fenced: right.
    """

    fenced = False
    full = barrier(arrivals=32)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self, me):
        yield self.a.cp_async()  # the line
        yield self.cp_commit()
        yield self.cp_wait(0)
        if self.fenced:
            yield self.fence_proxy_async()
        yield self.full.arrive(me.threads)

    @role(warpgroups=1)
    def consumer(self):
        yield self.full.wait(0)
        yield self.a.mma()
        yield self.mma_wait(0)


class WaitsOnTheWrongStage(Pipeline):
    """Wrong: it waits on the barrier of stage 0, and reads stage 1."""

    full = barrier(arrivals=1, slots=2)
    a = tile(bytes=1024, slots=2)

    @role(warps=1)
    def producer(self):
        for s in range(2):
            yield self.full[s].arrive_expect_tx(self.a.bytes)
            yield self.a[s].load(signals=self.full[s], tag=s)

    @role(warps=1)
    def consumer(self):
        yield self.full[0].wait(0)  # the line
        yield self.a[1].read(tag=1)


class ReaderFences(Pipeline):
    """Right: the proxy fence is on the path, in the thread that starts the read through the async proxy."""

    full = barrier(arrivals=128)
    a = tile(bytes=1024)

    @role(warpgroups=1)
    def producer(self):
        yield self.a.write()
        yield self.full.arrive(128)

    @role(warpgroups=1)
    def consumer(self):
        yield self.full.wait(0)
        yield self.fence_proxy_async()
        yield self.a.mma()
        yield self.mma_wait(0)


class DataOverALiveBarrier(Pipeline):
    """Wrong: the same without inval, while another role waits."""

    bar = barrier(initialised=False)
    x = tile(bytes=64, shares="bar")

    @role(warps=1)
    def one(self):
        yield self.bar.init(1)
        yield self.cta_sync()
        yield self.x.write()  # the line
        yield self.bar.arrive()

    @role(warps=1)
    def other(self):
        yield self.cta_sync()
        yield self.bar.wait(0)


class ReducedByTwo(Pipeline):
    """Right: cp.reduce.async.bulk of two CTAs to one place. plain: wrong, they store."""

    plain = False
    cluster = "2x1"
    d = tile(bytes=64)
    out = tile(bytes=64, space="global")

    @role(warps=1)
    def storer(self):
        yield self.d.store(to=self.out) if self.plain else self.d.reduce(to=self.out)  # the line
        yield self.bulk_commit()
        yield self.bulk_wait(0)


class CountedByTwo(Pipeline):
    """Right: atomics of two CTAs to one counter. plain: wrong, they write different values."""

    plain = False
    counter = tile(bytes=16, space="global")

    @role(warps=1, copies=2)
    def cta(self):
        yield self.counter.write() if self.plain else self.counter.red()  # the line


class SourceOverwritten(Pipeline):
    """Wrong: the source of a copy to the peer is written while the copy may still read it."""

    cluster = "2x1"
    full = barrier(arrivals=1, slots=1)
    source = tile(bytes=64, slots=1)
    inbox = tile(bytes=64, slots=1)

    @role(warps=1)
    def one(self, me):
        yield self.cluster_arrive()
        yield self.cluster_wait()
        if me.cta == 0:
            yield self.source.write()
            yield self.fence_proxy_async()
            yield self.inbox.on(1).load(signals=self.full.on(1), source=self.source)
            yield self.source.write()  # the line
        else:
            yield self.full.arrive_expect_tx(64)
            yield self.full.wait(0)
        yield self.cluster_arrive()
        yield self.cluster_wait()


class RelaxedFlag(Pipeline):
    """Wrong: a flag is raised by a relaxed store, and nothing orders what was written before it. fenced: right."""

    fenced = False
    flag = word()
    x = tile(bytes=16, space="global")

    @role(warps=1)
    def writer(self):
        yield self.x.write(tag=1)
        if self.fenced:
            yield self.fence_acq_rel()
        yield self.flag.st(1, sem="relaxed")  # the line

    @role(warps=1)
    def reader(self):
        yield self.flag.spin(equals=1)
        yield self.x.read(tag=1)


class RelaxedArrival(Pipeline):
    """Wrong in the same way, with an mbarrier."""

    flag = barrier(arrivals=1)
    x = tile(bytes=16, space="global")

    @role(warps=1)
    def writer(self):
        yield self.x.write(tag=1)
        yield self.flag.arrive(sem="relaxed")  # the line

    @role(warps=1)
    def reader(self):
        yield self.flag.wait(0)
        yield self.x.read(tag=1)


class SourceNotReady(Pipeline):
    """Wrong: a TMA load reads what another role writes, with nothing between them."""

    full = barrier(arrivals=1)
    memory = tile(bytes=64, space="global")
    a = tile(bytes=64)

    @role(warps=1)
    def writer(self):
        yield self.memory.write()  # the line

    @role(warps=1)
    def loader(self):
        yield self.full.arrive_expect_tx(64)
        yield self.a.load(signals=self.full, source=self.memory)  # the line
        yield self.full.wait(0)
        yield self.a.read()


class SourceNotFenced(Pipeline):
    """Wrong: ordinary stores, a flag, and a TMA load of them without a proxy fence. fenced: right."""

    fenced = False
    full = barrier(arrivals=1)
    flag = barrier(arrivals=1)
    memory = tile(bytes=64, space="global")
    a = tile(bytes=64)

    @role(warps=1)
    def writer(self):
        yield self.memory.write()  # the line
        if self.fenced:
            yield self.fence_proxy_async()
        yield self.flag.arrive()

    @role(warps=1)
    def loader(self):
        yield self.flag.wait(0)
        yield self.full.arrive_expect_tx(64)
        yield self.a.load(signals=self.full, source=self.memory)
        yield self.full.wait(0)
        yield self.a.read()


class HalfACopy(Pipeline):
    """Wrong: half of a tile is loaded, and all of it is read."""

    stages = 2
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=16_384)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(8192)
        yield self.a[at].load(signals=self.full[at], bytes=8192)

    @role(warpgroups=1)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.a[at].mma()  # the line
        yield self.mma_wait(0)
        yield self.empty[at].arrive()
