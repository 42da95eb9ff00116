"""Clusters: what reaches into another CTA, barrier.cluster, and how long a CTA must live.

D04, D22, D23, D38 once more as they are written, with CTAs, multicast copies and remote arrivals.
"""

from __future__ import annotations

from sm90_verify import Pipeline, PipelineState, barrier, role, tile


class HalvesOfB(Pipeline):
    """deepseek-ai/DeepGEMM #51: each CTA loads half of B for both; the consumers release both producers, or their own
    alone.

    trips_of_1: CTA 1's trip count, 0 for the same as CTA 0's. tail: a CTA stays until all releases that will still be
    sent to it have come.
    """

    cluster = "2x1"
    arrivals = 2
    remote = True
    tail = True
    armed = 2
    trips = 2
    trips_of_1 = 0
    full = barrier(arrivals=1, slots=1)
    empty = barrier(arrivals="arrivals", slots=1)
    b = tile(bytes=512, slots=2)

    @role(warps=1)
    def producer(self, me):
        at = PipelineState.start(1, producer=True)
        for _ in range(self.trips_of(me)):
            yield self.empty[0].wait(at.phase)
            if me.cta < self.armed:
                yield self.full[0].arrive_expect_tx(2 * self.b.bytes)
            yield self.b[me.cta].load(signals=self.full[0], tag=at, multicast=(0, 1))
            at += 1
        if self.tail:
            yield self.empty[0].wait(at.phase)

    @role(warpgroups=1)
    def consumer(self, me):
        at = PipelineState.start(1)
        for _ in range(self.trips_of(me)):
            yield self.full[0].wait(at.phase)
            yield self.b[0].read(tag=at)
            yield self.b[1].read(tag=at)
            yield from self.release(me)
            at += 1

    def trips_of(self, me):
        return self.trips_of_1 if me.cta == 1 and self.trips_of_1 else self.trips

    def release(self, me):
        yield self.empty[0].arrive()
        if self.remote:
            yield self.empty[0].on(1 - me.cta).arrive()


class LocalFormOfRemoteArrive(HalvesOfB):
    """apache/tvm #20074: CTA 1's arrive on CTA 0 is in its local form, and lands on CTA 1's own barrier."""

    def release(self, me):
        yield self.empty[0].arrive()
        yield self.empty[0].on(1).arrive()


class NobodyMeets(Pipeline):
    """triton-lang/triton #9456: barrier.cluster counts all threads, and one partition of each CTA executes it.

    everybody: the other partition does so too.
    """

    cluster = "2x1"
    everybody = False
    done = barrier(arrivals=128)
    x = tile(bytes=128)

    @role(warps=4)
    def partition_a(self):
        yield self.x.write()
        yield self.cluster_arrive()
        yield self.cluster_wait()
        yield self.done.arrive(128)

    @role(warps=4)
    def partition_b(self):
        if self.everybody:
            yield self.cluster_arrive()
            yield self.cluster_wait()
        yield self.done.wait(0)


class TwoKindsOfWait(Pipeline):
    """triton-lang/triton #10656: one CTA waits at an mbarrier, its peer at barrier.cluster.

    first: the peer arrives before it goes to barrier.cluster.
    """

    cluster = "2x1"
    first = False
    m = barrier(arrivals=1)

    @role(warps=1)
    def warp(self, me):
        if me.cta == 0:
            yield self.m.wait(0)
        elif self.first:
            yield self.m[0].on(0).arrive()
        yield self.cluster_arrive()
        yield self.cluster_wait()
        if me.cta == 1 and not self.first:
            yield self.m[0].on(0).arrive()


class PeerNotReady(Pipeline):
    """facebookexperimental/triton #2292: a copy for both CTAs before it is known that the peer has initialised its
    barrier, or runs at all.

    meets: barrier.cluster comes first.
    """

    cluster = "2x1"
    met = False
    meets = False
    full = barrier(arrivals=1, initialised=False)
    buf = tile(bytes=512)

    @role(warps=1)
    def warp(self, me):
        yield self.full.init(1)
        yield self.fence_mbarrier_init()
        yield self.cluster_arrive_relaxed()
        if self.meets:
            yield self.cluster_wait()
        yield self.full.arrive_expect_tx(self.buf.bytes)
        if me.cta == 0:
            yield self.buf.load(signals=self.full[0], tag=1, multicast=(0, 1))
        yield self.full.wait(0)
        yield self.buf.read(tag=1)
        if not self.meets:
            yield self.cluster_wait()


class RelaxedArrive(Pipeline):
    """NVIDIA/cutlass #3324: data for the peer is published with a relaxed barrier.cluster arrive, which orders
    nothing.
    """

    cluster = "2x1"
    release = False
    x = tile(bytes=128)

    @role(warps=1)
    def warp(self, me):
        if me.cta == 0:
            yield self.x[0].on(1).write(tag=1)
        yield self.cluster_arrive() if self.release else self.cluster_arrive_relaxed()
        yield self.cluster_wait()
        if me.cta == 1:
            yield self.x.read(tag=1)


class EarlyReturn(Pipeline):
    """sgl-project/sglang #25575 (F19): a CTA without work returns, which is right while nobody reaches into it.

    reached: its peer still arrives there.
    """

    cluster = "2x1"
    reached = True
    done = barrier(arrivals=1)
    x = tile(bytes=128)

    @role(warps=1)
    def warp(self, me):
        if me.cta == 1:
            return
        yield self.x.write()
        if self.reached:
            yield self.done[0].on(1).arrive()
        yield self.cluster_arrive()
        yield self.cluster_wait()


class DivergentBarrier(Pipeline):
    """deepseek-ai/DeepEP 1d3963d (D30): the two halves of a warp execute bar.sync at two places; it is .aligned."""

    together = False

    @role(threads=32, split=(16, 16))
    def warp(self, me):
        if me.leader and not self.together:
            yield self.named_sync(1, 64)
        else:
            yield self.named_sync(1, 64)
        yield self.named_sync(1, 64)

    @role(warps=1)
    def other(self):
        yield self.named_sync(1, 64)
        yield self.named_sync(1, 64)


CASES = (
    ("D04 own release, both counted", HalvesOfB(remote=False), {"deadlock": "cta0.producer"}, (HalvesOfB(),)),
    (
        "D04 own release, one counted",
        HalvesOfB(remote=False, arrivals=1),
        {"race": "b", "stale-read": "b"},
        (HalvesOfB(),),
    ),
    ("D22 multicast", HalvesOfB(armed=1), {"deadlock": "cta1.consumer"}, (HalvesOfB(),)),
    (
        "D23 unequal",
        HalvesOfB(trips=0, trips_of_1=1),
        {"deadlock": "cta1.consumer", "exit-hazard": "cta0"},
        (HalvesOfB(trips=1),),
    ),
    (
        "D38 local form",
        LocalFormOfRemoteArrive(),
        {"deadlock": "cta0.producer", "race": "b", "stale-read": "b", "unobserved-phase": "cta1.empty"},
        (HalvesOfB(),),
    ),
    ("D32 one partition", NobodyMeets(), {"deadlock": "partition_a"}, (NobodyMeets(everybody=True),)),
    ("D32 two kinds of wait", TwoKindsOfWait(), {"deadlock": "cta0.warp"}, (TwoKindsOfWait(first=True),)),
    ("R19", PeerNotReady(), {"barrier-init": "full", "exit-hazard": "CTA 1"}, (PeerNotReady(meets=True),)),
    ("R20", HalvesOfB(tail=False, trips=1), {"exit-hazard": "cta"}, (HalvesOfB(trips=1), HalvesOfB(trips=0))),
    ("R21", RelaxedArrive(), {"race": "x"}, (RelaxedArrive(release=True),)),
    ("F19", EarlyReturn(), {"exit-hazard": "done"}, (EarlyReturn(reached=False),)),
    ("D30", DivergentBarrier(), {"named-barrier": "bar1"}, (DivergentBarrier(together=True),)),
)
