"""Two CTAs as far as their mbarriers go: D04, D22, D23, D38, F07, F17.

The CTAs of a cluster are copies of a role, with a barrier and a buffer each; a multicast copy is one copy for each CTA
that it writes to, which is what its destinations see of it. That a CTA must live as long as others reach into it is not
told.
"""

from __future__ import annotations

from sm90_verify import Pipeline, PipelineState, barrier, role, tile

CTAS = 2


class MulticastReleasedLocally(Pipeline):
    """deepseek-ai/DeepGEMM #51: each CTA loads half of B for both, and its consumer releases its own producer alone."""

    arrivals = 1
    remote = False
    trips_of_0 = 2
    trips_of_1 = 2
    full = barrier(arrivals=1, slots=CTAS)
    empty = barrier(arrivals="arrivals", slots=CTAS)
    b = tile(bytes=512, slots=2 * CTAS)

    @role(warps=1, copies=CTAS)
    def producer(self, me):
        cta, at = me.copy, PipelineState.start(1, producer=True)
        for _ in range((self.trips_of_0, self.trips_of_1)[cta]):
            yield self.empty[cta].wait(at.phase)
            yield self.full[cta].arrive_expect_tx(2 * self.b.bytes)
            for other in range(CTAS):
                yield self.b[2 * other + cta].load(signals=self.full[other], tag=at)
            at += 1

    @role(warpgroups=1, copies=CTAS)
    def consumer(self, me):
        cta, at = me.copy, PipelineState.start(1)
        for _ in range((self.trips_of_0, self.trips_of_1)[cta]):
            yield self.full[cta].wait(at.phase)
            yield self.b[2 * cta].read(tag=at)
            yield self.b[2 * cta + 1].read(tag=at)
            yield from self.release(cta)
            at += 1

    def release(self, cta):
        yield self.empty[cta].arrive()
        if self.remote:
            yield self.empty[1 - cta].arrive()


class LocalFormOfRemoteArrive(MulticastReleasedLocally):
    """apache/tvm #20074: the arrive of CTA 1 on CTA 0 is in its local form, and lands on the barrier of CTA 1."""

    arrivals = 2

    def release(self, cta):
        yield self.empty[cta].arrive()
        yield self.empty[1].arrive()


class ReceiverNeverArmed(Pipeline):
    """facebookexperimental/triton #908: a multicast copy signals a barrier in the other CTA on which nobody arrives."""

    armed = 1
    full = barrier(arrivals=1, slots=CTAS)
    buf = tile(bytes=512, slots=CTAS)

    @role(warps=1, copies=CTAS)
    def producer(self, me):
        if me.copy < self.armed:
            yield self.full[me.copy].arrive_expect_tx(self.buf.bytes)
        if me.copy == 0:
            for other in range(CTAS):
                yield self.buf[other].load(signals=self.full[other], tag=0)

    @role(warpgroups=1, copies=CTAS)
    def consumer(self, me):
        yield self.full[me.copy].wait(0)
        yield self.buf[me.copy].read(tag=0)


class BytesBeforeTheReceiverIsArmed(Pipeline):
    """NVIDIA/cutlass #851 (F07): the bytes of a multicast copy may land before the receiver arms its barrier.

    arrives_first: it arrives in one step and expects the bytes in another, and then they may not.
    """

    arrives_first = False
    full = barrier(arrivals=1)
    buf = tile(bytes=512)

    @role(warps=1)
    def sender(self):
        yield self.buf.load(signals=self.full, tag=0)

    @role(warps=1)
    def receiver(self):
        if self.arrives_first:
            yield self.full.arrive()
            yield self.full.expect_tx(self.buf.bytes)
        else:
            yield self.full.arrive_expect_tx(self.buf.bytes)
        yield self.full.wait(0)
        yield self.buf.read(tag=0)


class UnpairedTile(Pipeline):
    """deepseek-ai/DeepGEMM is_peer_cta_alive (F17): without a peer the second release goes to the CTA itself.

    One CTA is left, which loads both halves; its empty barrier still counts two.
    """

    retargeted = True
    trips = 2
    empty = barrier(arrivals=2, slots=CTAS)
    full = barrier(arrivals=1)
    b = tile(bytes=512, slots=2)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[1].wait(at.phase ^ 1)
        yield self.full.arrive_expect_tx(2 * self.b.bytes)
        for half in range(2):
            yield self.b[half].load(signals=self.full, tag=at)

    @role(warpgroups=1)
    def consumer(self, at):
        yield self.full.wait(at.phase)
        for half in range(2):
            yield self.b[half].read(tag=at)
        yield self.empty[1].arrive()
        yield self.empty[1 if self.retargeted else 0].arrive()


CASES = (
    (
        "D04 both counted",
        MulticastReleasedLocally(arrivals=2),
        {"deadlock": "producer0"},
        (MulticastReleasedLocally(arrivals=2, remote=True),),
    ),
    (
        "D04 one counted",
        MulticastReleasedLocally(),
        {"race": "b", "stale-read": "b"},
        (MulticastReleasedLocally(arrivals=2, remote=True),),
    ),
    ("D22", ReceiverNeverArmed(), {"deadlock": "consumer1"}, (ReceiverNeverArmed(armed=2),)),
    (
        "D23",
        MulticastReleasedLocally(arrivals=2, remote=True, trips_of_0=0, trips_of_1=1),
        {"deadlock": "consumer1"},
        (MulticastReleasedLocally(arrivals=2, remote=True),),
    ),
    (
        "D38",
        LocalFormOfRemoteArrive(),
        {"race": "b", "stale-read": "b", "unobserved-phase": "empty[1]", "deadlock": "producer0"},
        (MulticastReleasedLocally(arrivals=2, remote=True),),
    ),
    (
        "F07",
        BytesBeforeTheReceiverIsArmed(arrives_first=True),
        {"tx-count": "full", "race": "buf", "stale-read": "buf", "exit-hazard": "buf"},
        (BytesBeforeTheReceiverIsArmed(),),
    ),
    ("F17", UnpairedTile(retargeted=False), {"deadlock": "producer"}, (UnpairedTile(), UnpairedTile(trips="all"))),
)
