"""Arrivals in a phase although nobody has seen the phase before it complete: right where no wait can be lapped.

What is in NOTED is proved, with a note about such an arrival, and violates unobserved-phase with strict.
"""

from __future__ import annotations

from sm90_verify import Pipeline, PipelineState, barrier, role, tile


class MulticastByTheLeader(Pipeline):
    """DeepGEMM's SM90 kernel in a 2x1 cluster: the first CTA loads B for both, each loads its own A, and the consumers
    of both release both producers. The first CTA's consumer needs nothing of the second CTA's producer, which may not
    have looked at its barrier when the second release comes.
    """

    cluster = "2x1"
    full = barrier(arrivals=1)
    empty = barrier(arrivals=2)
    a = tile(bytes=512)
    b = tile(bytes=512)

    @role(warps=1)
    def producer(self, me):
        at = PipelineState.start(self.stages, producer=True)
        for _ in self.loop():
            yield self.empty[at].wait(at.phase)
            yield self.a[at].load(signals=self.full[at], tag=at.tag)
            if me.cta == 0:
                yield self.b[at].load(signals=self.full[at], tag=at.tag, multicast=(0, 1))
            yield self.full[at].arrive_expect_tx(self.a.bytes + self.b.bytes)
            at += 1
        for _ in range(self.stages):  # no CTA ends while the other may still reach into it
            yield self.empty[at].wait(at.phase)
            at += 1

    @role(warpgroups=1)
    def consumer(self, me):
        at = PipelineState.start(self.stages)
        for _ in self.loop():
            yield self.full[at].wait(at.phase)
            yield self.mma(self.a[at].of(at.tag), self.b[at].of(at.tag))
            yield self.mma_wait(0)
            yield self.empty[at].arrive()
            yield self.empty[at].on(1 - me.cta).arrive()
            at += 1


class LoadedByTheLeader(Pipeline):
    """DeepGEMM in a 2x1 cluster without A. asks: the second CTA's producer tells the first one that it has looked.

    own: the consumers release the producer of their own CTA alone, which counts one: B is loaded over what the peer
    still reads. at_once: one instruction releases both.
    """

    cluster = "2x1"
    at_once = False
    asks = False
    own = False
    full = barrier(arrivals=1)
    empty = barrier(arrivals=lambda self: 1 if self.own else 2)
    looked = barrier(arrivals=1)
    b = tile(bytes=512)

    @role(warps=1)
    def producer(self, me):
        at = PipelineState.start(self.stages, producer=True)
        for _ in self.loop():
            yield self.empty[at].wait(at.phase)
            if self.asks and me.cta == 1:
                yield self.looked[at].on(0).arrive()
            if self.asks and me.cta == 0:
                yield self.looked[at].wait(at.phase ^ 1)
            yield self.full[at].arrive_expect_tx(self.b.bytes)
            if me.cta == 0:
                yield self.b[at].load(signals=self.full[at], tag=at.tag, multicast=(0, 1))
            at += 1
        for _ in range(self.stages):  # no CTA ends while the other may still reach into it
            yield self.empty[at].wait(at.phase)
            at += 1

    @role(warpgroups=1)
    def consumer(self, me):
        at = PipelineState.start(self.stages)
        for _ in self.loop():
            yield self.full[at].wait(at.phase)
            yield self.b[at].mma(tag=at.tag)
            yield self.mma_wait(0)
            if self.at_once:
                yield self.empty[at].arrive(ctas=(0, 1))
            else:
                yield self.empty[at].arrive()
            if not self.own and not self.at_once:
                yield self.empty[at].on(1 - me.cta).arrive()
            at += 1


class HandsOnBeforeItLooks(Pipeline):
    """triton-lang/triton #10669 once more, with a barrier for each way: of two warps that meet at `done`, the second
    lets the first one go on before it has looked, and is counted itself.

    looks: it looks first. counted: it arrives at `done`; if it does not, the first warp can lap its wait.
    """

    looks = False
    counted = True
    done = barrier(arrivals=lambda self: 2 if self.counted else 1)
    turn = barrier(arrivals=2)

    @role(warps=1)
    def first(self, at):
        yield self.done[at].arrive()
        yield self.turn[at].arrive()
        yield self.turn[at].wait(at.phase)

    @role(warps=1)
    def second(self, at):
        if self.counted:
            yield self.done[at].arrive()
        if self.looks:
            yield self.done[at].wait(at.phase)
        yield self.turn[at].arrive()
        if not self.looks:
            yield self.done[at].wait(at.phase)
        yield self.turn[at].wait(at.phase)


CASES = (
    (
        "unobserved leader",
        LoadedByTheLeader(trips=2, strict=True),
        {"unobserved-phase": "cta1.empty"},
        (LoadedByTheLeader(trips=2, asks=True, strict=True), LoadedByTheLeader(asks=True, strict=True)),
    ),
    (
        "unobserved hand-on",
        HandsOnBeforeItLooks(strict=True),
        {"unobserved-phase": "done"},
        (HandsOnBeforeItLooks(looks=True, strict=True),),
    ),
    (
        "lapped hand-on",
        HandsOnBeforeItLooks(counted=False, trips=2),
        {"unobserved-phase": "done", "phase-lapped": "done", "deadlock": "second"},
        (HandsOnBeforeItLooks(counted=False, looks=True),),
    ),
    (
        "leader without the peer",
        LoadedByTheLeader(own=True, trips=2),
        {"race": "cta1.b", "stale-read": "cta1.b", "deadlock": "cta1.consumer"},
        (LoadedByTheLeader(asks=True, trips=2),),
    ),
)
NOTED = (
    (MulticastByTheLeader(), "on(1 - me.cta).arrive()"),
    (LoadedByTheLeader(), "on(1 - me.cta).arrive()"),
    (LoadedByTheLeader(trips=2), "on(1 - me.cta).arrive()"),
    (LoadedByTheLeader(at_once=True), "arrive(ctas=(0, 1))"),
    (HandsOnBeforeItLooks(), "done[at].arrive()"),
)
"""Each with what stands in the line of the arrival."""
