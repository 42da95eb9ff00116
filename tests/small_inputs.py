"""Small pipelines, each with a right answer that is easy to get wrong: they are asked with everything at its default.

A comment "the line" stands where a report of the wrong ones points.
"""

from __future__ import annotations

from sm90_verify import Pipeline, PipelineState, barrier, role, tile, word


class AccumulatorReadEarly(Pipeline):
    """Wrong: wgmma is asynchronous, and its accumulator is read before its group is waited for."""

    a = tile(bytes=1024)
    acc = tile(bytes=64, space="registers")

    @role(warpgroups=1)
    def math(self):
        yield self.wgmma_fence()
        yield self.a.mma(into=self.acc)
        yield self.acc.read()  # the line
        yield self.mma_wait(0)


class AccumulatorAlone(Pipeline):
    """Wrong in the same way, where nothing but the accumulator is written down."""

    acc = tile(bytes=64, space="registers")

    @role(warpgroups=1)
    def math(self):
        yield self.acc.mma()
        yield self.acc.read()  # the line
        yield self.mma_wait(0)


class AccumulatorInTime(Pipeline):
    """Right."""

    a = tile(bytes=1024)
    acc = tile(bytes=64, space="registers")

    @role(warpgroups=1)
    def math(self):
        yield self.wgmma_fence()
        yield self.a.mma(into=self.acc)
        yield self.mma_wait(0)
        yield self.acc.read()


class Poll(Pipeline):
    """Right: a loop of try_wait is a wait."""

    full = barrier(arrivals=1)

    @role(warps=1)
    def producer(self):
        yield self.full.arrive()

    @role(warps=1)
    def consumer(self):
        while not (yield self.full.try_wait(0)):
            pass


class PollsForEver(Pipeline):
    """Wrong: what it polls for never comes."""

    stages = 1
    full = barrier(arrivals=2)

    @role(warps=1)
    def producer(self):
        yield self.full.arrive()

    @role(warps=4)
    def consumer(self):
        for _ in self.forever():
            if (yield self.full.try_wait(0)):  # the line
                break


class SometimesWaits(Pipeline):
    """Wrong: one that skips waits is lapped, or hangs."""

    full = barrier(arrivals=1)

    @role(warps=1)
    def producer(self, at):
        yield self.full[at].arrive()

    @role(warps=1)
    def consumer(self, at):
        if (yield self.choose("looks", True, False)):
            yield self.full[at].wait(at.phase)  # the line


class CopiedByThreads(Pipeline):
    """Wrong: cp.async writes through the generic proxy, and wgmma reads through the async proxy.

    fenced: right.
    """

    fenced = False
    full = barrier(arrivals=32)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self, me):
        yield self.a.cp_async()
        yield self.cp_commit()
        yield self.cp_wait(0)
        if self.fenced:
            yield self.fence_proxy_async()
        yield self.full.arrive(me.threads)

    @role(warpgroups=1)
    def consumer(self):
        yield self.full.wait(0)
        yield self.a.mma()  # the line
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


class Stuck(Pipeline):
    """Wrong: the line to blame is the wait for what never comes, not the last step that was taken."""

    trips = 1
    go = barrier(arrivals=1)
    never = barrier(arrivals=1)

    @role(warps=1)
    def first(self, at):
        yield self.go.arrive()

    @role(warps=1)
    def second(self, at):
        yield self.go.wait(0)
        yield self.never.wait(0)  # the line


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


class DataOverADeadBarrier(Pipeline):
    """Right: data over the bytes of a barrier after mbarrier.inval."""

    bar = barrier(initialised=False, address=0)
    x = tile(bytes=64, address=0)

    @role(warps=1)
    def one(self):
        yield self.bar.init(1)
        yield self.bar.inval()
        yield self.x.write()


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


class BothSkip(Pipeline):
    """Right: two roles skip tiles by one decision, and nothing makes one wait for the other meanwhile."""

    @role(warps=1, copies=2)
    def one(self):
        for _ in self.loop():
            yield self.choose("skip", True, False)


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
        yield self.memory.write()
        if self.fenced:
            yield self.fence_proxy_async()
        yield self.flag.arrive()

    @role(warps=1)
    def loader(self):
        yield self.flag.wait(0)
        yield self.full.arrive_expect_tx(64)
        yield self.a.load(signals=self.full, source=self.memory)  # the line
        yield self.full.wait(0)
        yield self.a.read()


class OneBarrierOfTwo(Pipeline):
    """Wrong: the producer arrives on stage 0 alone, and the consumer waits on both in turn."""

    q_full = barrier(arrivals=1, slots=1)
    k_full = barrier(arrivals=1, slots=2)

    @role(warps=1)
    def producer(self):
        for _ in self.loop():
            yield self.q_full.arrive()
            for _ in range((yield self.choose("blocks", 1, 2))):
                yield self.k_full[0].arrive()

    @role(warps=1)
    def consumer(self):
        q, k = PipelineState.start(1), PipelineState.start(2)
        for _ in self.loop():
            yield self.q_full[q].wait(q.phase)
            q += 1
            for _ in range((yield self.choose("blocks", 1, 2))):
                yield self.k_full[k].wait(k.phase)  # the line
                k += 1


class TwoRings(Pipeline):
    """Right: a ring that goes 1 or 2 steps for each step of another one."""

    q_full = barrier(arrivals=1, slots=1)
    q_empty = barrier(arrivals=1, slots=1)
    k_full = barrier(arrivals=1, slots=2)
    k_empty = barrier(arrivals=1, slots=2)

    @role(warps=1)
    def producer(self):
        q, k = PipelineState.start(1, producer=True), PipelineState.start(2, producer=True)
        for _ in self.loop():
            yield self.q_empty[q].wait(q.phase)
            yield self.q_full[q].arrive()
            q += 1
            for _ in range((yield self.choose("blocks", 1, 2))):
                yield self.k_empty[k].wait(k.phase)
                yield self.k_full[k].arrive()
                k += 1

    @role(warps=1)
    def consumer(self):
        q, k = PipelineState.start(1), PipelineState.start(2)
        for _ in self.loop():
            yield self.q_full[q].wait(q.phase)
            yield self.q_empty[q].arrive()
            q += 1
            for _ in range((yield self.choose("blocks", 1, 2))):
                yield self.k_full[k].wait(k.phase)
                yield self.k_empty[k].arrive()
                k += 1


class NobodyArrives(Pipeline):
    """Wrong: waits alone, of one ring that goes a step further now and then."""

    k_full = barrier(arrivals=1, slots=2)

    @role(warps=1)
    def consumer(self):
        k = PipelineState.start(2)
        for _ in self.loop():
            if (yield self.choose("two", True, False)):
                yield self.k_full[k].wait(k.phase)  # the line
                k += 1
            yield self.k_full[k].wait(k.phase)  # the line
            k += 1


class BytesBeforeTheirArrival(Pipeline):
    """Wrong: if the expectation of r1 comes last, nobody completes its bytes."""

    b0 = barrier(arrivals=1)

    @role(warps=1)
    def r0(self):
        yield self.b0.wait(1)
        yield self.b0.complete_tx(16)
        yield self.b0.expect_tx(16)
        yield self.b0.wait(0)  # the line

    @role(warps=1)
    def r1(self):
        yield self.b0.arrive_expect_tx(16)


class BytesThatBalance(Pipeline):
    """Wrong in the same way, where the bytes are as many in the end, and some copy elsewhere is right."""

    b = barrier(arrivals=1)
    z = barrier(arrivals=1)
    x = tile(bytes=16)

    @role(warps=1)
    def r0(self):
        yield self.b.expect_tx(16)
        yield self.b.wait(1)
        yield self.b.complete_tx(32)
        yield self.b.expect_tx(16)
        yield self.b.wait(0)  # the line
        yield self.b.complete_tx(32)
        yield self.b.wait(1)

    @role(warps=1)
    def r1(self):
        yield self.b.arrive_expect_tx(16)
        yield self.b.wait(0)  # the line
        yield self.b.arrive_expect_tx(16)

    @role(warps=1)
    def r2(self):
        yield self.z.arrive_expect_tx(16)
        yield self.x.load(signals=self.z)
        yield self.z.wait(0)


class BytesThatBalanceForEver(Pipeline):
    """Wrong in the same way, without end."""

    trips = "forever"
    b = barrier(arrivals=1)

    @role(warps=1)
    def r0(self):
        at = PipelineState.start(1)
        yield self.b.expect_tx(16)
        for _ in self.loop():
            yield self.b.wait(at.phase ^ 1)  # the line
            yield self.b.complete_tx(32)
            yield self.b.expect_tx(16)
            at = at + 1

    @role(warps=1)
    def r1(self):
        at = PipelineState.start(1)
        for _ in self.loop():
            yield self.b.wait(at.phase ^ 1)  # the line
            yield self.b.arrive_expect_tx(16)
            at = at + 1


class TooManyBytesForAMoment(Pipeline):
    """Wrong: if r1 comes between, the tx-count reaches 2^20."""

    full = barrier(arrivals=2)

    @role(warps=1)
    def r0(self):
        yield self.full.expect_tx((1 << 20) - 16)  # the line
        yield self.full.complete_tx(16)

    @role(warps=1)
    def r1(self):
        yield self.full.expect_tx(16)  # the line
        yield self.full.arrive()


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


class ChosenByValue(Pipeline):
    """Wrong: whenever the tile is "b" c waits for an arrival that p makes only for "a"."""

    full = barrier(arrivals=1)

    @role(warps=1)
    def p(self):
        if (yield self.choose("tile", "a", "b")) == "a":
            yield self.full.arrive()

    @role(warps=1)
    def c(self):
        if (yield self.choose("tile", "b", "a")) == "b":
            yield self.full.wait(0)  # the line


class BytesThatNeverCome(Pipeline):
    """Wrong: 64 bytes are expected, nothing delivers them, and nobody waits. copies: somewhere else there is a copy."""

    copies = False
    full = barrier(arrivals=1)
    other = barrier(arrivals=1)
    a = tile(bytes=64)

    @role(warps=1)
    def r(self):
        yield self.full.arrive_expect_tx(64)  # the line
        if self.copies:
            yield self.other.arrive_expect_tx(64)
            yield self.a.load(signals=self.other)
            yield self.other.wait(0)


class ARoleCalledArrived(Pipeline):
    """Right, whatever the roles are called."""

    a = tile(bytes=64)

    @role(warps=1)
    def arrived(self):
        yield self.a.write(tag=1)
        yield self.cta_sync()

    @role(warps=1)
    def other(self):
        yield self.cta_sync()
        yield self.a.read(tag=1)
