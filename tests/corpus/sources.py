"""What a bulk copy reads: global memory, or shared memory of its own CTA, until it has landed."""

from __future__ import annotations

from sm90_verify import Pipeline, barrier, role, tile


class SendsToItsPeer(Pipeline):
    """cp.async.bulk.shared::cluster.shared::cta: its source is overwritten while it may still be read, and it was
    written by ordinary stores without a proxy fence.

    waits: until the peer has the bytes. fences: the stores before the copy.
    """

    cluster = "2x1"
    waits = False
    fences = True
    full = barrier(arrivals=1)
    taken = barrier(arrivals=1)
    source = tile(bytes=64)
    inbox = tile(bytes=64)

    @role(warps=1)
    def one(self, me):
        if me.cta == 0:
            yield self.source.write(tag="first")
            if self.fences:
                yield self.fence_proxy_async()
            yield self.inbox[0].on(1).load(signals=self.full[0].on(1), source=self.source, tag="first")
            if self.waits:
                yield self.taken.wait(0)
            yield self.source.write(tag="second")
        else:
            yield self.full.arrive_expect_tx(64)
            yield self.full.wait(0)
            yield self.inbox.read(tag="first")
            yield self.taken[0].on(0).arrive()
        yield self.cluster_arrive()
        yield self.cluster_wait()


class LoadsWhatOthersWrite(Pipeline):
    """A TMA load reads global memory that another role writes with ordinary stores.

    orders: the load is after the stores. fence: by the "writer" or by the "loader", on the way between the two.
    """

    orders = True
    fence = ""
    flag = barrier(arrivals=1)
    full = barrier(arrivals=1)
    memory = tile(bytes=64, space="global")
    a = tile(bytes=64)

    @role(warps=1)
    def writer(self):
        yield self.memory.write(tag="x")
        if self.fence == "writer":
            yield self.fence_proxy_async()
        yield self.flag.arrive()

    @role(warps=1)
    def loader(self):
        if self.orders:
            yield self.flag.wait(0)
        if self.fence == "loader":
            yield self.fence_proxy_async()
        yield self.full.arrive_expect_tx(64)
        yield self.a.load(signals=self.full, source=self.memory, tag="x")
        yield self.full.wait(0)
        yield self.a.read(tag="x")
        if not self.orders:
            yield self.flag.wait(0)


class OverwritesTheSourceOfAMulticast(Pipeline):
    """One source for both CTAs, which is written again when the bytes are in the first one.

    asks: the other one, too.
    """

    cluster = "2x1"
    asks = False
    full = barrier(arrivals=1)
    there = barrier(arrivals=1)
    memory = tile(bytes=64, space="global")
    a = tile(bytes=64)

    @role(warps=1)
    def one(self, me):
        yield self.full.arrive_expect_tx(64)
        yield self.cluster_arrive()
        yield self.cluster_wait()
        if me.cta == 0:
            yield self.a.load(signals=self.full, source=self.memory, multicast=(0, 1))
        yield self.full.wait(0)
        if me.cta == 1:
            yield self.there[0].on(0).arrive()
        else:
            if self.asks:
                yield self.there.wait(0)
            yield self.memory.write()
        yield self.cluster_arrive()
        yield self.cluster_wait()


class SendsOtherData(Pipeline):
    """A copy inside the cluster brings what its source holds, which is the data of another round."""

    cluster = "2x1"
    late = True
    full = barrier(arrivals=1)
    source = tile(bytes=64, holds="old")
    inbox = tile(bytes=64)

    @role(warps=1)
    def one(self, me):
        if me.cta == 0:
            if not self.late:
                yield self.source.write(tag="new")
                yield self.fence_proxy_async()
            yield self.inbox[0].on(1).load(signals=self.full[0].on(1), source=self.source, tag="new")
        else:
            yield self.full.arrive_expect_tx(64)
            yield self.full.wait(0)
            yield self.inbox.read(tag="new")
        yield self.cluster_arrive()
        yield self.cluster_wait()


CASES = (
    ("source overwritten", SendsToItsPeer(), {"race": "source"}, (SendsToItsPeer(waits=True),)),
    (
        "source unfenced",
        SendsToItsPeer(waits=True, fences=False),
        {"missing-fence": "source"},
        (SendsToItsPeer(waits=True),),
    ),
    (
        "load unordered",
        LoadsWhatOthersWrite(orders=False, fence="writer"),
        {"race": "memory", "missing-fence": "memory"},
        (LoadsWhatOthersWrite(fence="writer"),),
    ),
    (
        "load unfenced",
        LoadsWhatOthersWrite(),
        {"missing-fence": "memory"},
        (LoadsWhatOthersWrite(fence="writer"), LoadsWhatOthersWrite(fence="loader")),
    ),
    (
        "source of a multicast",
        OverwritesTheSourceOfAMulticast(),
        {"race": "memory"},
        (OverwritesTheSourceOfAMulticast(asks=True),),
    ),
    ("source of other data", SendsOtherData(), {"stale-read": "source"}, (SendsOtherData(late=False),)),
)
