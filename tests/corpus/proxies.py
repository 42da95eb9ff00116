"""Where a proxy fence has to be: on the way from the ordinary store to the copy or wgmma, whoever executes it."""

from __future__ import annotations

from sm90_verify import Pipeline, barrier, role, tile, word


class FencesBeforeItWaits(Pipeline):
    """The reader fences, but before it waits for the writer: the store is not before the fence (PTX 8.9.5).

    fence: "before" or "after" the reader's wait, or by the "writer"; "" for none.
    """

    fence = "before"
    trips = 2
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=64)

    @role(warps=1)
    def writer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.a[at].write(tag=at.count)
        if self.fence == "writer":
            yield self.fence_proxy_async()
        yield self.full[at].arrive()

    @role(warpgroups=1)
    def reader(self, at):
        if self.fence == "before":
            yield self.fence_proxy_async()
        yield self.full[at].wait(at.phase)
        if self.fence == "after":
            yield self.fence_proxy_async()
        yield self.a[at].mma(tag=at.count)
        yield self.mma_wait(0)
        yield self.empty[at].arrive()


class FencesBesideTheWay(Pipeline):
    """A third role fences after the store, and nothing orders the reader after that fence."""

    on_the_way = False
    written = barrier(arrivals=1)
    ready = barrier(arrivals=1)
    a = tile(bytes=64)

    @role(warps=1)
    def writer(self):
        yield self.a.write(tag="a")
        yield self.written.arrive()
        if not self.on_the_way:
            yield self.ready.arrive()

    @role(warps=1)
    def fencing(self):
        yield self.written.wait(0)
        yield self.fence_proxy_async()
        if self.on_the_way:
            yield self.ready.arrive()

    @role(warps=1)
    def storing(self):
        yield self.ready.wait(0)
        yield self.a.store(tag="a")
        yield self.bulk_commit()
        yield self.bulk_wait_read(0)


class FencesTheFirstOfTwo(Pipeline):
    """The reader fences once, between two waits: what was written for the second comes after the fence."""

    again = False
    first = barrier(arrivals=1)
    second = barrier(arrivals=1)
    a = tile(bytes=64)
    b = tile(bytes=64)

    @role(warps=1)
    def writer(self):
        yield self.a.write(tag="a")
        yield self.first.arrive()
        yield self.b.write(tag="b")
        yield self.second.arrive()

    @role(warpgroups=1)
    def reader(self):
        yield self.first.wait(0)
        yield self.fence_proxy_async()
        yield self.second.wait(0)
        if self.again:
            yield self.fence_proxy_async()
        yield self.a.mma(tag="a")
        yield self.b.mma(tag="b")
        yield self.mma_wait(0)


class AsksAnotherToFence(Pipeline):
    """The writer stores its own bytes, and has another role fence for it: it must wait until that is done."""

    waits = False
    asked = barrier(arrivals=1)
    done = barrier(arrivals=1)
    a = tile(bytes=64)

    @role(warps=1)
    def writer(self):
        yield self.a.write(tag="a")
        yield self.asked.arrive()
        if self.waits:
            yield self.done.wait(0)
        yield self.a.store(tag="a")
        yield self.bulk_commit()
        yield self.bulk_wait_read(0)

    @role(warps=1)
    def fencing(self):
        yield self.asked.wait(0)
        yield self.fence_proxy_async()
        yield self.done.arrive()


class FencesAfterARelaxedFlag(Pipeline):
    """A third role fences once it has seen a flag of the writer that is relaxed: the store is not before that fence."""

    sem = "relaxed"
    flag = word()
    written = barrier(arrivals=1)
    fenced = barrier(arrivals=1)
    a = tile(bytes=64)

    @role(warps=1)
    def writer(self):
        yield self.a.write(tag="a")
        yield self.flag.st(1, sem=self.sem, scope="gpu")
        yield self.written.arrive()

    @role(warps=1)
    def fencing(self):
        yield self.flag.spin(equals=1, sem="acquire", scope="gpu")
        yield self.fence_proxy_async()
        yield self.fenced.arrive()

    @role(warps=1)
    def storing(self):
        yield self.written.wait(0)
        yield self.fenced.wait(0)
        yield self.a.store(tag="a")
        yield self.bulk_commit()
        yield self.bulk_wait_read(0)


CASES = (
    (
        "fence before the wait",
        FencesBeforeItWaits(),
        {"missing-fence": "a"},
        (FencesBeforeItWaits(fence="after", trips="all"), FencesBeforeItWaits(fence="writer", strict=True)),
    ),
    (
        "fence by the reader, strict",
        FencesBeforeItWaits(fence="after", strict=True),
        {"missing-fence": "a"},
        (FencesBeforeItWaits(fence="writer", strict=True, trips="all"),),
    ),
    ("fence beside the way", FencesBesideTheWay(), {"missing-fence": "a"}, (FencesBesideTheWay(on_the_way=True),)),
    ("fence of the first of two", FencesTheFirstOfTwo(), {"missing-fence": "b"}, (FencesTheFirstOfTwo(again=True),)),
    (
        "fence after a relaxed flag",
        FencesAfterARelaxedFlag(),
        {"missing-fence": "a"},
        (FencesAfterARelaxedFlag(sem="release"),),
    ),
    ("fence by another", AsksAnotherToFence(), {"missing-fence": "a"}, (AsksAnotherToFence(waits=True),)),
)
