"""st.async: registers into the shared memory of a CTA of the cluster, signalled there (PTX ISA 9.7.9.12)."""

from __future__ import annotations

from sm90_verify import Pipeline, barrier, role, tile


class Exchange(Pipeline):
    """Each CTA hands its partial sums to the next one, a stage at a time.

    expects: bytes that the receiver announces. late: it reads after it has waited.
    """

    cluster = "2x1"
    trips = 2
    expects = 256
    late = True
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    sums = tile(bytes=256)

    @role(warps=1)
    def sender(self, me):
        other = 1 - me.cta
        for k in range(self.trips):
            yield self.empty.wait((k & 1) ^ 1)
            yield self.sums.on(other).store_async(signals=self.full.on(other), tag=k)
        yield self.empty.wait((self.trips & 1) ^ 1)

    @role(warps=1)
    def receiver(self, me):
        for k in range(self.trips):
            yield self.full.arrive_expect_tx(self.expects)
            if self.late:
                yield self.full.wait(k & 1)
            yield self.sums.read(tag=k)
            if not self.late:
                yield self.full.wait(k & 1)
            yield self.empty.on(1 - me.cta).arrive()


class OnePlaceForTwo(Pipeline):
    """Both CTAs store to the first one, in one place. adds: with red.async. reads_first: before they are done."""

    cluster = "2x1"
    apart = False
    adds = False
    reads_first = False
    full = barrier(arrivals=1)
    sums = tile(bytes=256, slots=2)

    @role(warps=1)
    def sender(self, me):
        sums = self.sums[me.cta if self.apart else 0].on(0)
        if self.adds:
            yield sums.reduce_async(signals=self.full.on(0))
        else:
            yield sums.store_async(signals=self.full.on(0))

    @role(warps=1, ctas=(0,))
    def receiver(self):
        yield self.full.arrive_expect_tx(512)
        if not self.reads_first:
            yield self.full.wait(0)
        yield self.sums[0].read()
        yield self.full.wait(0)


class LeavesEarly(Pipeline):
    """The CTA that receives exits while the bytes may still come."""

    cluster = "2x1"
    waits = False
    full = barrier(arrivals=1)
    sums = tile(bytes=256)

    @role(warps=1, ctas=(0,))
    def sender(self):
        yield self.sums.on(1).store_async(signals=self.full.on(1))

    @role(warps=1, ctas=(1,))
    def receiver(self):
        yield self.full.arrive_expect_tx(256)
        if self.waits:
            yield self.full.wait(0)


GOOD = Exchange()
CASES = [
    ("st.async, read before the wait", Exchange(late=False, trips=1), {"race": "sums", "stale-read": "sums"}, (GOOD,)),
    (
        "st.async, one place for two",
        OnePlaceForTwo(),
        {"race": "sums"},
        (OnePlaceForTwo(apart=True), OnePlaceForTwo(adds=True)),
    ),
    (
        "red.async, read before the wait",
        OnePlaceForTwo(adds=True, reads_first=True),
        {"race": "sums"},
        (OnePlaceForTwo(adds=True),),
    ),
    ("st.async, bytes not expected", Exchange(trips=1, expects=512), {"deadlock": "receiver"}, (GOOD,)),
    ("st.async, exited", LeavesEarly(), {"exit-hazard": "sums"}, (LeavesEarly(waits=True),)),
]
