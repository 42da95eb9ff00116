"""Accesses that do not race although nothing orders them: reductions, and writes of one value; and reads that tell what
they find.
"""

from __future__ import annotations

from sm90_verify import Pipeline, barrier, role, tile


class ReduceOfTwoCtas(Pipeline):
    """cp.reduce.async.bulk of two CTAs to one place, as split-K epilogues have it; an ordinary store overwrites."""

    cluster = "2x1"
    reduces = True
    waits = True
    d = tile(bytes=64)
    out = tile(bytes=64, space="global")

    @role(warps=1)
    def storer(self):
        yield self.d.write()
        yield self.fence_proxy_async()
        if self.reduces:
            yield self.d.reduce(to=self.out)
        else:
            yield self.d.store(to=self.out)
        yield self.bulk_commit()
        if self.waits:
            yield self.bulk_wait(0)
        yield self.d.write()
        yield self.bulk_wait(0)


class CountsInGlobalMemory(Pipeline):
    """Two CTAs add to one counter; one that loads, adds and stores loses what the other has added."""

    cluster = "2x1"
    atomic = True
    scope = "gpu"
    counter = tile(bytes=16, space="global")

    @role(warps=1)
    def cta(self):
        if self.atomic:
            yield self.counter.red(scope=self.scope)
        else:
            yield self.counter.read()
            yield self.counter.write()


class ReadsWhatOthersAddTo(Pipeline):
    """The sum is read by an ordinary load, which must come after all additions."""

    meets = True
    total = tile(bytes=16)

    @role(warps=1, copies=2)
    def adder(self):
        yield self.total.red(scope="cta")
        yield self.cta_sync()

    @role(warps=1)
    def reader(self):
        if self.meets:
            yield self.cta_sync()
        yield self.total.read()
        if not self.meets:
            yield self.cta_sync()


class DispatchWord(Pipeline):
    """Several warps write the same word, each before it reads it; all is well while they all write one value."""

    same = True
    word = tile(bytes=16)

    @role(warps=1, split=(16, 16))
    def warp(self, me):
        yield self.word.write(value=7 if self.same or me.index else 8)
        yield self.word.read(value=7 if self.same or me.index else 8)


class DispatchWordOfAnother(Pipeline):
    """One warp writes the dispatch word, and the others read it: writer and readers do not race, since all of them have
    one value, but a reader may come first and find what was there before.

    meets: the readers wait for the writer.
    """

    meets = False
    word = tile(bytes=16, slots=1)

    @role(warps=1)
    def writer(self):
        yield self.word.write(value=7)
        yield self.named_arrive(1, 96)

    @role(warps=1, copies=2)
    def reader(self):
        if self.meets:
            yield self.named_sync(1, 96)
        yield self.word.read(value=7)
        if not self.meets:
            yield self.named_sync(1, 96)


class AddsInAnyOrder(Pipeline):
    """Two atomic exchanges do not race, but which of them is last, and what is found then, nobody knows.

    orders: the second one waits for the first.
    """

    orders = False
    first = barrier(arrivals=1)
    done = barrier(arrivals=2)
    word = tile(bytes=16, slots=1)

    @role(warps=1)
    def one(self):
        yield self.word.red(tag="one")
        yield self.first.arrive()
        yield self.done.arrive()

    @role(warps=1)
    def two(self):
        if self.orders:
            yield self.first.wait(0)
        yield self.word.red(tag="two")
        yield self.done.arrive()

    @role(warps=1)
    def reader(self):
        yield self.done.wait(0)
        yield self.word.read(tag="two")


class DispatchWordThatChanges(Pipeline):
    """The word is written again with another value, while another warp may still read the first."""

    meets = True
    word = tile(bytes=16)

    @role(warps=1, copies=2)
    def warp(self):
        for value in (1, 2):
            yield self.word.write(value=value)
            yield self.word.read(value=value)
            if self.meets:
                yield self.named_sync(1, threads=64)


class TileFromASlot(Pipeline):
    """A scheduler broadcasts the next tile through one slot; the worker that reads it before it is there, or after it
    is gone, works on another tile than its partner.
    """

    trips = 2
    waits = True
    releases = True
    full = barrier(arrivals=32)
    empty = barrier(arrivals=64)
    slot = tile(bytes=16)
    ready = barrier(arrivals=1)

    @role(warps=1)
    def scheduler(self, at):
        tile_of_all = yield self.choose("tile", "left", "right")
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.slot[at].write(tag=tile_of_all)
        yield self.full[at].arrive(32)

    @role(warps=1, copies=2)
    def worker(self, me, at):
        if self.waits or me.copy == 0:
            yield self.full[at].wait(at.phase)
        mine = yield self.slot[at].read(among=("left", "right"))
        if self.releases or me.copy == 0:
            yield self.empty[at].arrive(32)
        if mine == "left":
            yield self.named_sync(1, threads=64)
        else:
            yield self.named_sync(2, threads=64)
        if not self.releases and me.copy == 1:
            yield self.empty[at].arrive(32)


CASES = [
    ("split-k-store", ReduceOfTwoCtas(reduces=False), {"race": "out"}, (ReduceOfTwoCtas(),)),
    ("reduce-overwritten", ReduceOfTwoCtas(waits=False), {"race": "d"}, (ReduceOfTwoCtas(),)),
    ("counter-load-store", CountsInGlobalMemory(atomic=False), {"race": "counter"}, (CountsInGlobalMemory(),)),
    (
        "counter-cta-scope",
        CountsInGlobalMemory(scope="cta"),
        {"race": "counter"},
        (CountsInGlobalMemory(scope="cluster"),),
    ),
    ("sum-too-early", ReadsWhatOthersAddTo(meets=False), {"race": "total"}, (ReadsWhatOthersAddTo(),)),
    ("dispatch-differs", DispatchWord(same=False), {"race": "word", "stale-read": "word"}, (DispatchWord(),)),
    ("dispatch-read-early", DispatchWordOfAnother(), {"stale-read": "word"}, (DispatchWordOfAnother(meets=True),)),
    ("exchanges-in-any-order", AddsInAnyOrder(), {"stale-read": "word"}, (AddsInAnyOrder(orders=True),)),
    (
        "dispatch-changes",
        DispatchWordThatChanges(meets=False),
        {"race": "word", "stale-read": "word"},
        (DispatchWordThatChanges(),),
    ),
    (
        "tile-read-early",
        TileFromASlot(waits=False),
        {
            "race": "slot",
            "stale-read": "slot",
            "deadlock": "worker0",
            "unobserved-phase": "empty",
        },
        (TileFromASlot(),),
    ),
]
