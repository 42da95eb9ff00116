"""cp.async, not bulk: groups of the thread that copies, and the generic proxy (PTX ISA 9.7.9.25.2, .3)."""

from __future__ import annotations

from sm90_verify import Pipeline, barrier, role, tile


class CopiedForTheMma(Pipeline):
    """A multistage mainloop of sm_80 with wgmma: the bytes come through the generic proxy.

    waits, fences: the producer waits for its copies, and then fences. late: after it has waited.
    """

    waits = True
    fences = False
    late = True
    full = barrier(arrivals=32)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self, me):
        yield self.a.cp_async(tag=1)
        if self.fences and not self.late:
            yield self.fence_proxy_async()
        yield self.cp_commit()
        if self.waits:
            yield self.cp_wait(0)
        if self.fences and self.late:
            yield self.fence_proxy_async()
        yield self.full.arrive(me.threads)

    @role(warpgroups=1)
    def consumer(self):
        yield self.full.wait(0)
        yield self.a.mma(tag=1)
        yield self.mma_wait(0)


class OneGroupTooFew(Pipeline):
    """A stage is given away while the newest group, which fills it, may still be in flight.

    pending: groups that the wait leaves. commits: each stage is a group.
    """

    stages = 2
    trips = 3
    pending = 1
    commits = True
    full = barrier(arrivals=32)
    empty = barrier(arrivals=128)
    a = tile(bytes=1024)
    source = tile(bytes=1024, slots=1, space="global")

    @role(warps=1)
    def producer(self, at, me):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.a[at].cp_async(source=self.source)
        if self.commits:
            yield self.cp_commit()
        yield self.cp_wait(self.pending)
        yield self.full[at].arrive(me.threads)

    @role(warpgroups=1)
    def consumer(self, at, me):
        yield self.full[at].wait(at.phase)
        yield self.a[at].read()
        yield self.empty[at].arrive(me.threads)


class SourceOverwritten(Pipeline):
    """The next values are written over the source of a cp.async that may still read it."""

    waits = False
    a = tile(bytes=1024)
    source = tile(bytes=1024, space="global")

    @role(warps=1)
    def producer(self):
        yield self.a.cp_async(source=self.source)
        if self.waits:
            yield self.cp_wait_all()
        yield self.source.write(tag=1)


class ArrivesForItself(Pipeline):
    """NVIDIA/cutlass PipelineAsync filled by cp.async: cp.async.mbarrier.arrive tells the consumer.

    noinc: the barrier counts these arrivals. ordinary: the threads arrive, too. count: of the barrier. late: the
    copies come after the arrival that should tell of them.
    """

    stages = 2
    noinc = True
    ordinary = False
    late = False
    count = 32
    full = barrier(arrivals="count")
    empty = barrier(arrivals=128)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self, at, me):
        yield self.empty[at].wait(at.phase ^ 1)
        if not self.late:
            yield self.a[at].cp_async()
        yield self.full[at].cp_async_arrive(me.threads, noinc=self.noinc)
        if self.late:
            yield self.a[at].cp_async()
        if self.ordinary:
            yield self.full[at].arrive(me.threads)

    @role(warpgroups=1)
    def consumer(self, at, me):
        yield self.full[at].wait(at.phase)
        yield self.a[at].read()
        yield self.empty[at].arrive(me.threads)


class FencedByOthers(Pipeline):
    """The arrival that follows the copies tells the consumer, and somebody else than the producer fences.

    by_the_consumer: or by a helper that gives the stage on. early: before the fencing role has waited for the copies.
    """

    by_the_consumer = True
    early = False
    full = barrier(arrivals=32)
    go = barrier(arrivals=32)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self, me):
        yield self.a.cp_async(tag=1)
        yield self.full.cp_async_arrive(me.threads, noinc=True)

    @role(warps=1)
    def helper(self, me):
        if not self.early:
            yield self.full.wait(0)
        if not self.by_the_consumer:
            yield self.fence_proxy_async()
        yield self.go.arrive(me.threads)

    @role(warpgroups=1)
    def consumer(self):
        if self.by_the_consumer and self.early:
            yield self.fence_proxy_async()
        yield self.go.wait(0)
        yield self.full.wait(0)
        if self.by_the_consumer and not self.early:
            yield self.fence_proxy_async()
        yield self.a.mma(tag=1)
        yield self.mma_wait(0)


class ReadByTheGridBefore(Pipeline):
    """The grid before may still copy from where this one writes, until it has been waited for."""

    waits = True
    memory = tile(bytes=64, slots=1, space="global")
    a = tile(bytes=64, slots=1)
    full = barrier(arrivals=32, slots=1)

    @role(warps=1)
    def first(self, me):
        yield self.a.cp_async(source=self.memory)
        yield self.full.cp_async_arrive(me.threads, noinc=True)

    @role(warps=1, grid=1)
    def second(self):
        if self.waits:
            yield self.grid_wait()
        yield self.memory.write()


class OverwrittenInFlight(Pipeline):
    """A bulk copy goes over bytes that a cp.async of the thread may still write: the fence before it does not cover
    what is not complete.

    waits: for the cp.async, before the fence.
    """

    waits = False
    full = barrier(arrivals=1)
    a = tile(bytes=16)

    @role(warps=1)
    def producer(self):
        yield self.a.cp_async()
        yield self.cp_commit()
        if self.waits:
            yield self.cp_wait(0)
        yield self.fence_proxy_async()
        yield self.full.arrive_expect_tx(16)
        yield self.a.load(signals=self.full)
        yield self.full.wait(0)


GOOD = CopiedForTheMma(fences=True)
FENCED = (FencedByOthers(), FencedByOthers(by_the_consumer=False))
RINGS = (ArrivesForItself(), ArrivesForItself(noinc=False, ordinary=True), ArrivesForItself(ordinary=True, count=64))
CASES = [
    (
        "cp.async, arrival not counted",
        ArrivesForItself(noinc=False),
        {"deadlock": "consumer"},
        RINGS,
    ),
    (
        "cp.async, noinc not counted",
        ArrivesForItself(count=64),
        {"deadlock": "consumer"},
        RINGS,
    ),
    ("cp.async, arrival too early", ArrivesForItself(late=True), {"race": "a[", "stale-read": "a["}, RINGS),
    ("cp.async, no fence", CopiedForTheMma(), {"missing-fence": "a"}, (GOOD,)),
    ("cp.async, fenced in flight", CopiedForTheMma(fences=True, late=False), {"missing-fence": "a"}, (GOOD,)),
    ("cp.async, not waited for", CopiedForTheMma(waits=False), {"race": "a", "missing-fence": "a"}, (GOOD,)),
    ("cp.async, one group too few", OneGroupTooFew(), {"race": "a["}, (OneGroupTooFew(pending=0),)),
    ("cp.async, not committed", OneGroupTooFew(pending=0, commits=False), {"race": "a["}, (OneGroupTooFew(pending=0),)),
    ("cp.async, fenced before the wait", FencedByOthers(early=True), {"missing-fence": "a"}, FENCED),
    (
        "cp.async, fenced by a helper that does not wait",
        FencedByOthers(early=True, by_the_consumer=False),
        {"missing-fence": "a"},
        FENCED,
    ),
    (
        "cp.async, grid not waited for",
        ReadByTheGridBefore(waits=False),
        {"race": "memory"},
        (ReadByTheGridBefore(),),
    ),
    (
        "cp.async, overwritten in flight",
        OverwrittenInFlight(),
        {"race": "a", "missing-fence": "a"},
        (OverwrittenInFlight(waits=True),),
    ),
    ("cp.async, source overwritten", SourceOverwritten(), {"race": "source"}, (SourceOverwritten(waits=True),)),
]
