"""wgmma groups: what is still being read, and when it may be given away. R08, R11, R26, F03, F12."""

from __future__ import annotations

from sm90_verify import Pipeline, PipelineState, barrier, role, tile


class ReleasesBeforeTheMmaIsDone(Pipeline):
    """NVIDIA/Fuser #3863, NVIDIA/cutlass #2508: a stage is released although a wgmma may still be reading it.

    pending: what wgmma.wait_group leaves in flight (-1: no wait). lag: how many stages the release is behind the mma.
    """

    stages = 2
    pending = -1
    lag = 0
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    b = tile(bytes=1024)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(self.b.bytes)
        yield self.b[at].load(signals=self.full[at])

    @role(warpgroups=1)
    def consumer(self):
        read, release = PipelineState.start(self.stages), PipelineState.start(self.stages)
        for _ in self.loop():
            yield self.full[read].wait(read.phase)
            yield self.b[read].mma()
            read += 1
            if self.pending >= 0:
                yield self.mma_wait(self.pending)
            if read.count > self.lag:
                yield self.empty[release].arrive()
                release += 1
        yield self.mma_wait(0)


class LaggingRelease(Pipeline):
    """NVIDIA/cutlass K_PIPE_MMAS, #1438 (F03): the release lags `lag` mma groups behind, the rest
    follows at the end.
    """

    stages = 2
    lag = 1
    trips = 3
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    b = tile(bytes=1024)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(self.b.bytes)
        yield self.b[at].load(signals=self.full[at])

    @role(warpgroups=1)
    def consumer(self):
        read, release = PipelineState.start(self.stages), PipelineState.start(self.stages)
        for k in range(self.trips):
            yield self.full[read].wait(read.phase)
            yield self.b[read].mma()
            read += 1
            if k >= self.lag:
                yield self.mma_wait(self.lag)
                yield self.empty[release].arrive()
                release += 1
        yield self.mma_wait(0)
        for _ in range(min(self.lag, self.trips)):
            yield self.empty[release].arrive()
            release += 1


class RegistersWrittenUnderTheMma(Pipeline):
    """triton-lang/triton #9433, #9514: the registers of A are rewritten before the wgmma that reads them is waited
    for.
    """

    waits_first = False
    a = tile(bytes=64, space="registers")
    b = tile(bytes=1024)

    @role(warpgroups=1)
    def math(self):
        yield self.a.write(tag=0)
        yield self.wgmma_fence()
        yield self.mma(self.a.of(0), self.b[0])
        if self.waits_first:
            yield self.mma_wait(0)
        yield self.a.write(tag=1)
        if not self.waits_first:
            yield self.mma_wait(0)


class LoadsOverItsOwnMma(Pipeline):
    """facebookexperimental/triton #1831: the guard is dropped since one role does both, although the mma is
    asynchronous.
    """

    waits = False
    trips = "forever"
    full = barrier(arrivals=1)
    b = tile(bytes=1024)

    @role(warpgroups=1)
    def both(self, at):
        yield self.full[at].arrive_expect_tx(self.b.bytes)
        yield self.b[at].load(signals=self.full[at])
        yield self.full[at].wait(at.phase)
        yield self.b[at].mma()
        if self.waits:
            yield self.mma_wait(0)


class GuardedByAnotherBuffer(Pipeline):
    """facebookexperimental/triton 4f797b6db (F12): the empty barrier of x is dropped, since that of b orders the reuse.

    reads_late: then it does not.
    """

    reads_late = False
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    b = tile(bytes=1024)
    x = tile(bytes=128)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(self.b.bytes + self.x.bytes)
        yield self.b[at].load(signals=self.full[at])
        yield self.x[at].load(signals=self.full[at])

    @role(warpgroups=1)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        if not self.reads_late:
            yield self.x[at].read()
        yield self.b[at].mma()
        yield self.mma_wait(0)
        yield self.empty[at].arrive()
        if self.reads_late:
            yield self.x[at].read()


CASES = (
    (
        "R08 no wait",
        ReleasesBeforeTheMmaIsDone(stages=1, trips=2),
        {"race": "b"},
        (ReleasesBeforeTheMmaIsDone(pending=0),),
    ),
    (
        "R08 same stage",
        ReleasesBeforeTheMmaIsDone(stages=1, trips=2, pending=1),
        {"race": "b"},
        (ReleasesBeforeTheMmaIsDone(pending=1, lag=1),),
    ),
    (
        "F03",
        LaggingRelease(stages=1, trips=2),
        {"deadlock": "producer"},
        (LaggingRelease(), LaggingRelease(stages=3, lag=2, trips=4), LaggingRelease(stages=1, trips=1)),
    ),
    ("R11", RegistersWrittenUnderTheMma(), {"register-hazard": "a"}, (RegistersWrittenUnderTheMma(waits_first=True),)),
    ("R26", LoadsOverItsOwnMma(), {"race": "b"}, (LoadsOverItsOwnMma(waits=True),)),
    (
        "F12",
        GuardedByAnotherBuffer(reads_late=True, trips=2),
        {"race": "x", "stale-read": "x"},
        (GuardedByAnotherBuffer(),),
    ),
)
