"""Waits with the wrong parity, or whose waiters are not counted: D11, D11c, D12, D13, D14, D17, R13."""

from __future__ import annotations

from sm90_verify import Pipeline, PipelineState, barrier, role, tile


class LeaderReleasesForItsWarps(Pipeline):
    """triton-lang/triton #10035: one warp releases the buffer before its sibling warps have observed the phase."""

    arrivals = 1
    full = barrier(arrivals=1)
    empty = barrier(arrivals="arrivals")
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(self.a.bytes)
        yield self.a[at].load(signals=self.full[at])

    @role(threads=128, split=(32, 96))
    def consumer(self, at, me):
        yield self.full[at].wait(at.phase)
        yield self.a[at].read()
        if me.leader:
            yield self.empty[at].arrive()


class LeaderReleasesAfterSync(LeaderReleasesForItsWarps):
    """The warpgroup synchronises before its leader arrives."""

    @role(threads=128, split=(32, 96))
    def consumer(self, at, me):
        yield self.full[at].wait(at.phase)
        yield self.a[at].read()
        yield self.named_sync(1, threads=128)
        if me.leader:
            yield self.empty[at].arrive()


class EveryWarpReleases(LeaderReleasesForItsWarps):
    """Every warp is counted."""

    arrivals = 4

    @role(threads=128, split=(32, 96))
    def consumer(self, at, me):
        yield self.full[at].wait(at.phase)
        yield self.a[at].read()
        yield self.empty[at].arrive(me.threads // 32)


class RendezvousOfPeers(Pipeline):
    """triton-lang/triton #10669: two CTAs meet at a barrier in each, which counts only the peer: it can be lapped."""

    stages = 1
    x = barrier(arrivals=1, slots=lambda self: 2 * self.stages)

    @role(warps=1, copies=2)
    def cta(self, at, me):
        yield self.x[(1 - me.copy) * self.stages + at.index].arrive()
        yield self.x[me.copy * self.stages + at.index].wait(at.phase)


class RendezvousOfAll(Pipeline):
    """Each CTA arrives on its own barrier as well."""

    x = barrier(arrivals=2, slots=2)

    @role(warps=1, copies=2)
    def cta(self, at, me):
        yield self.x[1 - me.copy].arrive()
        yield self.x[me.copy].arrive()
        yield self.x[me.copy].wait(at.phase)


class ParityRestartsEachTile(Pipeline):
    """tile-ai/tilelang #2674: the iteration number restarts with each tile, the barriers go on."""

    loads = 1
    carried = False
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self):
        at = PipelineState.start(self.stages, producer=True)
        for _ in self.loop("forever"):
            if not self.carried:
                at = PipelineState.start(self.stages, producer=True)
            for _ in range(self.loads):
                yield self.empty[at].wait(at.phase)
                yield self.full[at].arrive_expect_tx(self.a.bytes)
                yield self.a[at].load(signals=self.full[at])
                at += 1

    @role(warpgroups=1)
    def consumer(self):
        at = PipelineState.start(self.stages)
        for _ in self.loop("forever"):
            if not self.carried:
                at = PipelineState.start(self.stages)
            for _ in range(self.loads):
                yield self.full[at].wait(at.phase)
                yield self.a[at].read()
                yield self.empty[at].arrive()
                at += 1


class RingParityOnOneSlot(Pipeline):
    """tile-ai/tilelang #3087: a single slot, waited for with the parity of a ring of three."""

    ring = 3
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self):
        for k in self.loop(period=12):
            yield self.empty.wait((k // self.ring & 1) ^ 1)
            yield self.full.arrive_expect_tx(self.a.bytes)
            yield self.a.load(signals=self.full, tag=k % 4)

    @role(warpgroups=1)
    def consumer(self):
        for k in self.loop(period=12):
            yield self.full.wait(k & 1)
            yield self.a.read(tag=k % 4)
            yield self.empty.arrive()


class SlotParityOnRing(Pipeline):
    """tile-ai/tilelang #2927: a ring, waited for with a parity that flips with each iteration."""

    stages = 2
    lap = 1
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(self.a.bytes)
        yield self.a[at].load(signals=self.full[at])

    @role(warpgroups=1)
    def consumer(self):
        for k in self.loop():
            s = k % self.stages
            yield self.full[s].wait(k // self.lap & 1)
            yield self.a[s].read(tag=k % 8)
            yield self.empty[s].arrive()


class ConstantPhaseOnGuard(Pipeline):
    """facebookexperimental/triton #1864: the guard of a staging buffer is always waited for with parity 1."""

    flips = False
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    buf = tile(bytes=1024)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1 if self.flips else 1)
        yield self.buf[at].write()
        yield self.full[at].arrive()

    @role(warpgroups=1)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.buf[at].read()
        yield self.empty[at].arrive()


class FewerBarriersThanLoads(Pipeline):
    """NVIDIA/Fuser #5862: more loads at once than barriers, so that two of them share one."""

    barriers = 3
    loads = 4
    x = barrier(arrivals=1, slots="barriers")
    b = tile(bytes=1024, slots="loads")

    @role(warps=1)
    def producer(self):
        for j in range(self.loads):
            yield self.x[j % self.barriers].arrive_expect_tx(self.b.bytes)
            yield self.b[j].load(signals=self.x[j % self.barriers], tag=j)

    @role(warps=4)
    def first(self):
        for j in range(self.loads // 2):
            yield self.x[j % self.barriers].wait(0)
            yield self.b[j].read(tag=j)

    @role(warps=4)
    def second(self):
        for j in range(self.loads // 2, self.loads):
            yield self.x[j % self.barriers].wait(0)
            yield self.b[j].read(tag=j)


class StagingGuardDegenerate(Pipeline):
    """facebookexperimental/triton #1853: the epilogue stages its output in the mainloop's buffer behind a constant
    phase.
    """

    flips = False
    full = barrier(arrivals=1)
    done = barrier(arrivals=1)
    v = tile(bytes=1024)
    staging = tile(bytes=1024, shares="v")

    @role(warps=1)
    def load(self, at):
        yield self.done[at].wait(at.phase ^ 1 if self.flips else 1)
        yield self.full[at].arrive_expect_tx(self.v.bytes)
        yield self.v[at].load(signals=self.full[at])

    @role(warpgroups=1)
    def epilogue(self, at):
        yield self.full[at].wait(at.phase)
        yield self.v[at].read()
        yield self.staging[at].write()
        yield self.staging[at].read()
        yield self.fence_proxy_async()
        yield self.done[at].arrive()


CASES = (
    (
        "D11",
        LeaderReleasesForItsWarps(trips=3),
        {"race": "a", "phase-lapped": "full", "stale-read": "a", "deadlock": "consumer.1"},
        (LeaderReleasesAfterSync(), EveryWarpReleases()),
    ),
    (
        "D11c",
        RendezvousOfPeers(trips=2),
        {"phase-lapped": "x", "unobserved-phase": "x", "deadlock": "cta"},
        (RendezvousOfPeers(stages=2),),
    ),
    (
        "D11c self",
        RendezvousOfAll(trips=2, strict=True),
        {"unobserved-phase": "x[1]"},
        (RendezvousOfPeers(stages=2, trips=4, strict=True),),
    ),
    (
        "D12",
        ParityRestartsEachTile(),
        {
            "arrival-count": "full",
            "phase-lapped": "empty",
            "unobserved-phase": "full",
            "race": "a",
            "deadlock": "producer",
        },
        (ParityRestartsEachTile(loads=2), ParityRestartsEachTile(loads=3, carried=True, stages=2)),
    ),
    (
        "D13 slot",
        RingParityOnOneSlot(trips=3),
        {
            "race": "a",
            "deadlock": "producer",
            "stale-read": "a",
            "arrival-count": "full",
            "phase-lapped": "empty",
            "unobserved-phase": "full",
        },
        (RingParityOnOneSlot(ring=1),),
    ),
    (
        "D13 ring",
        SlotParityOnRing(trips=3),
        {
            "race": "a[1]",
            "deadlock": "producer",
            "stale-read": "a[1]",
            "phase-lapped": "full[1] or empty[1]",
            "unobserved-phase": "empty[0]",
            "exit-hazard": "a",
        },
        (SlotParityOnRing(lap=2),),
    ),
    (
        "D14",
        ConstantPhaseOnGuard(trips=2),
        {
            "deadlock": "consumer",
            "race": "buf",
            "stale-read": "buf",
            "phase-lapped": "full",
            "unobserved-phase": "full",
        },
        (ConstantPhaseOnGuard(flips=True), ConstantPhaseOnGuard(trips=1)),
    ),
    (
        "D17",
        FewerBarriersThanLoads(barriers=1, loads=2),
        {
            "race": "b[1]",
            "deadlock": "second",
            "stale-read": "b[1]",
            "arrival-count": "x",
            "phase-lapped": "x",
            "unobserved-phase": "x",
            "exit-hazard": "b[1]",
        },
        (FewerBarriersThanLoads(barriers=4), FewerBarriersThanLoads(barriers=2, loads=2)),
    ),
    (
        "R13",
        StagingGuardDegenerate(trips=2),
        {
            "race": "v",
            "deadlock": "epilogue",
            "stale-read": "v",
            "arrival-count": "full",
            "phase-lapped": "full",
            "unobserved-phase": "full",
            "missing-fence": "v",
        },
        (StagingGuardDegenerate(flips=True), StagingGuardDegenerate(trips=1)),
    ),
)
NOTED = ((RendezvousOfAll(), ".arrive()"), (RendezvousOfAll(trips=2), ".arrive()"))
"""What is right and makes arrivals that nobody is known to have looked before, each with what stands in that line."""
