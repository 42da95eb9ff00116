"""Roles that do not agree on how often they go round, or on where a call leaves them: D06, D07, D08, D15, D25, R29."""

from __future__ import annotations

from sm90_verify import Pipeline, PipelineState, barrier, role, tile


class LoadsMoreThanItReads(Pipeline):
    """flashinfer-ai/flashinfer #673, #3578: producer and consumer derive different trip counts from one window."""

    reads = 1
    extra = 2
    tail = False
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self):
        at = PipelineState.start(self.stages, producer=True)
        for _ in range(self.reads + self.extra):
            yield self.empty[at].wait(at.phase)
            yield self.full[at].arrive_expect_tx(self.a.bytes)
            yield self.a[at].load(signals=self.full[at])
            at += 1
        for _ in range(self.stages if self.tail else 0):
            yield self.empty[at].wait(at.phase)
            at += 1

    @role(warpgroups=1)
    def consumer(self):
        at = PipelineState.start(self.stages)
        for _ in range(self.reads):
            yield self.full[at].wait(at.phase)
            yield self.a[at].read()
            yield self.empty[at].arrive()
            at += 1


class PeelsAnIterationThatIsNotThere(Pipeline):
    """NVIDIA/cutlass #2275 (a hang when K is one tile): the loop runs at least once, and the last tile is peeled
    besides.
    """

    guarded = False
    tiles = 1
    stages = 2
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self):
        at = PipelineState.start(self.stages, producer=True)
        for _ in range(self.tiles):
            yield self.empty[at].wait(at.phase)
            yield self.full[at].arrive_expect_tx(self.a.bytes)
            yield self.a[at].load(signals=self.full[at])
            at += 1

    @role(warpgroups=1)
    def consumer(self):
        at = PipelineState.start(self.stages)
        for _ in range(max(1, self.tiles - 1)):
            yield from self.step(at)
            at += 1
        if at.number < self.tiles or not self.guarded:
            yield from self.step(at)

    def step(self, at):
        yield self.full[at].wait(at.phase)
        yield self.a[at].read()
        yield self.empty[at].arrive()


class EmptyTileArrivesOnly(Pipeline):
    """Dao-AILab/flash-attention #2258: for an empty tile the producer arrives without the rest of the handshake."""

    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    buf = tile(bytes=1024)

    @role(warps=1)
    def producer(self):
        at = PipelineState.start(self.stages, producer=True)
        for t in range(self.trips):
            if (yield self.choose("tile", "has work", "is empty")) == "has work":
                yield self.empty[at].wait(at.phase)
                yield self.buf[at].write(tag=t)
                yield self.full[at].arrive()
                at += 1
            else:
                yield from self.skip(at)
                at += self.skips

    skips = 0

    def skip(self, at):
        yield self.full[at].arrive()

    @role(warpgroups=1)
    def consumer(self):
        at = PipelineState.start(self.stages)
        for t in range(self.trips):
            work = yield self.choose("tile", "has work", "is empty")
            yield self.full[at].wait(at.phase)
            if work == "has work":
                yield self.buf[at].read(tag=t)
            yield self.empty[at].arrive()
            at += 1


class EmptyTileShakesHands(EmptyTileArrivesOnly):
    """An empty tile does exactly one full handshake."""

    skips = 1

    def skip(self, at):
        yield self.empty[at].wait(at.phase)
        yield self.full[at].arrive()


class EmptyTileDoesNothing(EmptyTileArrivesOnly):
    """An empty tile does nothing on both sides."""

    @role(warps=1)
    def producer(self):
        at = PipelineState.start(self.stages, producer=True)
        for t in range(self.trips):
            if (yield self.choose("tile", "has work", "is empty")) == "has work":
                yield self.empty[at].wait(at.phase)
                yield self.buf[at].write(tag=t)
                yield self.full[at].arrive()
                at += 1

    @role(warpgroups=1)
    def consumer(self):
        at = PipelineState.start(self.stages)
        for t in range(self.trips):
            if (yield self.choose("tile", "has work", "is empty")) == "has work":
                yield self.full[at].wait(at.phase)
                yield self.buf[at].read(tag=t)
                yield self.empty[at].arrive()
                at += 1


class CalledAgainWithoutDraining(Pipeline):
    """jax-ml/jax ec59178d29: a second call starts over with releases of the first call unseen.

    The first loads of each call do not wait, as if the barriers were fresh. drain: wait for the last releases of a
    call.
    """

    drain = False
    stages = 1
    loads = 2
    calls = 2
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self):
        for call in range(self.calls):
            at, oldest = PipelineState.start(self.stages), PipelineState.start(self.stages)
            for k in range(self.loads):
                if k >= self.stages:
                    yield self.empty[oldest].wait(oldest.phase)
                    oldest += 1
                yield self.full[at].arrive_expect_tx(self.a.bytes)
                yield self.a[at].load(signals=self.full[at], tag=(call, k))
                at += 1
            for _ in range(min(self.stages, self.loads) if self.drain else 0):
                yield self.empty[oldest].wait(oldest.phase)
                oldest += 1

    @role(warpgroups=1)
    def consumer(self):
        for call in range(self.calls):
            at = PipelineState.start(self.stages)
            for k in range(self.loads):
                yield self.full[at].wait(at.phase)
                yield self.a[at].read(tag=(call, k))
                yield self.empty[at].arrive()
                at += 1


class TailWithoutProduction(Pipeline):
    """flashinfer-ai/flashinfer #3581: the state is advanced past loads that were skipped, and the tail
    waits for them.
    """

    advances_anyway = True
    loads = 1
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self):
        at = PipelineState.start(self.stages, producer=True)
        work = (yield self.choose("tile", "is empty", "has work")) == "has work"
        if work:
            yield from self.load(at)
        if work or self.advances_anyway:
            at += self.loads
        for _ in range(self.stages):
            yield self.empty[at].wait(at.phase)
            at += 1

    def load(self, at):
        for _ in range(self.loads):
            yield self.empty[at].wait(at.phase)
            yield self.full[at].arrive_expect_tx(self.a.bytes)
            yield self.a[at].load(signals=self.full[at])
            at += 1

    @role(warpgroups=1)
    def consumer(self):
        at = PipelineState.start(self.stages)
        if (yield self.choose("tile", "is empty", "has work")) == "has work":
            for _ in range(self.loads):
                yield self.full[at].wait(at.phase)
                yield self.a[at].read()
                yield self.empty[at].arrive()
                at += 1


class PublishedByTheMainloopOnly(Pipeline):
    """NVIDIA/cutlass #2835: a value written before the loop is ordered by the loop's barriers, if there is an
    iteration.
    """

    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    x = tile(bytes=16, slots=1)
    synchronised = False

    @role(warps=1)
    def writer(self):
        at = PipelineState.start(self.stages, producer=True)
        yield self.x.write(tag="x")
        if self.synchronised:
            yield self.named_arrive(1, threads=64)
        for _ in self.loop():
            yield self.empty[at].wait(at.phase)
            yield self.full[at].arrive()
            at += 1

    @role(warps=1)
    def reader(self):
        at = PipelineState.start(self.stages)
        if self.synchronised:
            yield self.named_sync(1, threads=64)
        for _ in self.loop():
            yield self.full[at].wait(at.phase)
            yield self.empty[at].arrive()
            at += 1
        yield self.x.read(tag="x")


CASES = (
    (
        "D06",
        LoadsMoreThanItReads(),
        {"deadlock": "producer"},
        (LoadsMoreThanItReads(extra=0), LoadsMoreThanItReads(extra=0, reads=4, stages=2, tail=True)),
    ),
    (
        "D06 tail",
        LoadsMoreThanItReads(extra=1, tail=True),
        {"deadlock": "producer"},
        (LoadsMoreThanItReads(extra=0, tail=True),),
    ),
    ("D06 exit", LoadsMoreThanItReads(extra=1), {"exit-hazard": "a"}, (LoadsMoreThanItReads(extra=0, reads=2),)),
    (
        "D07",
        PeelsAnIterationThatIsNotThere(tiles=1),
        {"deadlock": "consumer"},
        (
            PeelsAnIterationThatIsNotThere(tiles=2),
            PeelsAnIterationThatIsNotThere(tiles=3),
            PeelsAnIterationThatIsNotThere(guarded=True, tiles=1),
            PeelsAnIterationThatIsNotThere(guarded=True, tiles=2),
            PeelsAnIterationThatIsNotThere(guarded=True, tiles=3),
        ),
    ),
    (
        "D08",
        EmptyTileArrivesOnly(trips=4),
        {
            "deadlock": "producer",
            "stale-read": "buf",
            "race": "buf",
            "phase-lapped": "full",
            "unobserved-phase": "full",
        },
        (EmptyTileShakesHands(trips=4), EmptyTileDoesNothing(trips=4)),
    ),
    (
        "D15",
        CalledAgainWithoutDraining(),
        {
            "arrival-count": "full",
            "phase-lapped": "full",
            "unobserved-phase": "full",
            "race": "a",
            "stale-read": "a",
            "deadlock": "consumer",
        },
        (CalledAgainWithoutDraining(drain=True), CalledAgainWithoutDraining(calls=1)),
    ),
    (
        "D15 drained",
        CalledAgainWithoutDraining(drain=True, loads=1),
        {
            "stale-read": "a",
            "phase-lapped": "full or empty",
            "unobserved-phase": "full or empty",
            "race": "a",
            "deadlock": "producer",
            "exit-hazard": "a",
        },
        (CalledAgainWithoutDraining(drain=True, loads=4, stages=2, calls=3),),
    ),
    (
        "D25",
        TailWithoutProduction(),
        {"deadlock": "producer"},
        (TailWithoutProduction(advances_anyway=False), TailWithoutProduction(advances_anyway=False, stages=2, loads=3)),
    ),
    (
        "R29",
        PublishedByTheMainloopOnly(),
        {"race": "x", "stale-read": "x"},
        (PublishedByTheMainloopOnly(synchronised=True), PublishedByTheMainloopOnly(trips=1)),
    ),
)
