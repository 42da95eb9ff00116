"""Flags, counters and turnstiles in memory, and what their .sem and .scope order. R21, R23."""

from __future__ import annotations

from sm90_verify import Pipeline, barrier, role, tile, word


class RaisesAFlag(Pipeline):
    """One CTA writes, raises a flag in global memory, and another one spins on it: CUTLASS's barriers in a workspace,
    and every split-K or all-reduce kernel. A relaxed flag orders nothing without fences on both sides.
    """

    cluster = "2x1"
    raised = "release"
    seen = "acquire"
    scope = "gpu"
    fence_before = False
    fence_after = False
    flag = word()
    data = tile(bytes=64, space="global")

    @role(warps=1, ctas=(0,))
    def writer(self):
        yield self.data.write(tag="result")
        if self.fence_before:
            for scope in self.scopes():
                yield self.fence_acq_rel(scope)
        yield self.flag.st(1, sem=self.raised, scope=self.scope)

    @role(warps=1, ctas=(1,))
    def reader(self):
        yield self.flag.spin(equals=1, sem=self.seen, scope=self.scope)
        if self.fence_after:
            for scope in self.scopes():
                yield self.fence_acq_rel(scope)
        yield self.data.read(tag="result")

    def scopes(self):
        return ("gpu",)


class RaisesAFlagFenced(RaisesAFlag):
    """The same with fences of other scopes, one after the other."""

    fences = "cta"

    def scopes(self):
        return self.fences.split()


class RelaxedArrival(Pipeline):
    """A barrier in shared memory, with .relaxed on one of its sides, or handed on by a third role that is relaxed."""

    arrives = "release"
    waits = "acquire"
    first = barrier(arrivals=1)
    second = barrier(arrivals=1)
    data = tile(bytes=64)

    @role(warps=1)
    def writer(self):
        yield self.data.write(tag=1)
        yield self.first.arrive()

    @role(warps=1)
    def between(self):
        yield self.first.wait(0, sem=self.waits)
        yield self.second.arrive(sem=self.arrives)

    @role(warps=1)
    def reader(self):
        yield self.second.wait(0)
        yield self.data.read(tag=1)


class WritesAfterItsArrival(Pipeline):
    """What is written between arrive.expect_tx and the copy is ordered by nothing: the copy's signal is for its own
    bytes (8.9.1.1).
    """

    late = False
    full = barrier(arrivals=1)
    a = tile(bytes=64)
    scale = tile(bytes=16)

    @role(warps=1)
    def producer(self):
        if not self.late:
            yield self.scale.write(tag=1)
        yield self.full.arrive_expect_tx(64)
        if self.late:
            yield self.scale.write(tag=1)
        yield self.a.load(signals=self.full)

    @role(warps=1)
    def consumer(self):
        yield self.full.wait(0)
        yield self.scale.read(tag=1)
        yield self.a.read()


class SplitK(Pipeline):
    """CTAs that work on parts of K add to one tile of the output in turn (CUTLASS's Semaphore)."""

    cluster = "4x1"
    waits = True
    passes = "release"
    twice = False
    turn = word(values=8)
    out = tile(bytes=64, space="global", holds=-1)

    @role(warps=1)
    def cta(self, me):
        if self.waits or me.cta < 2:
            yield self.turn.spin(equals=me.cta)
        yield self.out.read(tag=me.cta - 1)
        yield self.out.write(tag=me.cta)
        yield self.turn.red("add", 2 if self.twice and me.cta == 1 else 1, sem=self.passes)


class GridBarrier(Pipeline):
    """Every CTA adds to a counter and spins until all have; it is used again, so the counter goes on from there."""

    cluster = "3x1"
    resets = False
    missing = False
    count = word(values=8)
    part = tile(bytes=16, slots=3, space="global")

    @role(warps=1)
    def cta(self, me):
        for lap in range(2):
            yield self.part[me.cta].write(tag=lap)
            if not (self.missing and lap == 1 and me.cta == 1):
                yield self.count.red(sem="release")
            all_ctas = self.shape.size
            yield self.count.spin(at_least=all_ctas if self.resets else all_ctas * (lap + 1))
            yield self.part[(me.cta + 1) % all_ctas].read(tag=lap)
            yield self.cluster_arrive()
            yield self.cluster_wait()


class Polls(Pipeline):
    """A consumer polls a flag that the producer takes back too early: it may never see it."""

    takes_back = False
    flag = word(values=3)

    @role(warps=1)
    def producer(self):
        yield self.flag.st(1, sem="release")
        yield self.flag.st(2 if not self.takes_back else 0, sem="release")

    @role(warps=1)
    def consumer(self):
        for _ in self.forever():
            if (yield self.flag.ld(sem="acquire")) >= 1:
                break


class Tickets(Pipeline):
    """A dynamic scheduler: every CTA takes the next tile from a counter; load and store give a tile twice."""

    cluster = "2x1"
    atomic = True
    next = word(values=8)
    done = tile(bytes=16, slots=8, space="global")

    @role(warps=1)
    def cta(self):
        for _ in range(3):
            if self.atomic:
                mine = yield self.next.atom("add", 1)
            else:
                mine = yield self.next.ld()
                yield self.next.st(min(mine + 1, 7))
            if mine >= 4:
                break
            yield self.done[mine].write(tag="done")


class PassedOn(Pipeline):
    """A flag is raised twice before it is read: by who has raised it, or counted on by another role (8.8, 8.9.2).

    again: how it is raised the second time. scope: of who does that in the reader's CTA, itself ordered after the first
    time; too narrow for the first one, it does not pass its release on.
    """

    cluster = "2x1"
    again = "its own"
    scope = "gpu"
    flag = word(values=3)
    data = tile(bytes=64, space="global")

    @role(warps=1, ctas=(0,))
    def writer(self):
        yield self.data.write(tag="result")
        yield self.flag.st(1, sem="release")
        if self.again == "its own":
            yield self.flag.st(2)

    @role(warps=1, ctas=(1,))
    def between(self):
        if self.again != "its own":
            yield self.flag.spin(equals=1)
            yield self.flag.red(scope=self.scope) if self.again == "counted" else self.flag.st(2, scope=self.scope)

    @role(warps=1, ctas=(1,))
    def reader(self):
        yield self.flag.spin(equals=2)
        yield self.data.read(tag="result")


class ReadAgain(Pipeline):
    """A flag is found raised by a relaxed read, and then read again by one that acquires. That may find what another
    role has written since; it acquires what the first read has found all the same (8.8, acquire patterns).

    again: which word is read. sem: how.
    """

    cluster = "2x1"
    again = 0
    sem = "acquire"
    flag = word(values=3, slots=2)
    data = tile(bytes=64, space="global")

    @role(warps=1, ctas=(0,))
    def writer(self):
        yield self.data.write(tag="result")
        yield self.flag[0].st(1, sem="release")

    @role(warps=1, ctas=(0,))
    def other(self):
        yield self.flag[1].spin(equals=1)
        yield self.flag[0].st(2)

    @role(warps=1, ctas=(1,))
    def reader(self):
        yield self.flag[0].spin(equals=1, sem="relaxed")
        yield self.flag[1].st(1)
        yield self.flag[self.again].ld(sem=self.sem)
        yield self.data.read(tag="result")


class FailingSwap(Pipeline):
    """A compare-and-swap that fails writes nothing, so that it releases nothing either."""

    cluster = "2x1"
    compare = 1
    flag = word(values=3)
    told = barrier(arrivals=1)
    data = tile(bytes=64, slots=1, space="global")

    @role(warps=1, ctas=(0,))
    def writer(self):
        yield self.data.write(tag=1)
        yield self.flag.atom("cas", 2, compare=self.compare, sem="release", scope="gpu")
        yield self.told[0].on(1).arrive(sem="relaxed", scope="cluster")

    @role(warps=1, ctas=(1,))
    def reader(self):
        yield self.told[0].wait(0)
        yield self.flag.ld(sem="acquire", scope="gpu")
        yield self.data.read(tag=1)


class DispatchWordAndAFlag(Pipeline):
    """One role writes the dispatch word and raises a flag; or both write it, and only then look at each other's flag.

    A read that is made after a write and is not ordered after it need not find its value, though it is the only one.
    """

    cluster = "2x1"
    raised = "relaxed"
    own = False
    at = tile(bytes=16, slots=1, space="global")
    flag = word(values=2)

    @role(warps=1, ctas=(0,))
    def writer(self):
        yield self.at.write(value=7)
        yield self.flag.st(1, sem=self.raised, scope="gpu")

    @role(warps=1, ctas=(1,))
    def reader(self):
        yield self.flag.spin(equals=1, scope="gpu")
        if self.own:
            yield self.at.write(value=7)
        yield self.at.read(value=7)


CASES = [
    (
        "R21 flag relaxed",
        RaisesAFlag(raised="relaxed"),
        {"race": "data"},
        (RaisesAFlag(), RaisesAFlag(raised="relaxed", fence_before=True)),
    ),
    (
        "R21 flag read relaxed",
        RaisesAFlag(seen="relaxed"),
        {"race": "data"},
        (RaisesAFlag(seen="relaxed", fence_after=True),),
    ),
    (
        "R21 one fence of two",
        RaisesAFlag(raised="relaxed", seen="relaxed", fence_before=True),
        {"race": "data"},
        (RaisesAFlag(raised="relaxed", seen="relaxed", fence_before=True, fence_after=True),),
    ),
    (
        "fence before it too near",
        RaisesAFlagFenced(raised="relaxed", fence_before=True, fences="cta"),
        {"race": "data"},
        (
            RaisesAFlagFenced(raised="relaxed", fence_before=True, fences="cta gpu"),
            RaisesAFlagFenced(raised="relaxed", fence_before=True, fences="gpu cta"),
        ),
    ),
    (
        "fence after it too near",
        RaisesAFlagFenced(seen="relaxed", fence_after=True, fences="cta"),
        {"race": "data"},
        (RaisesAFlagFenced(seen="relaxed", fence_after=True, fences="cta cluster"),),
    ),
    ("R21 scope", RaisesAFlag(scope="cta"), {"race": "flag"}, (RaisesAFlag(scope="cluster"),)),
    ("R21 weak flag", RaisesAFlag(raised="weak"), {"race": "flag"}, (RaisesAFlag(),)),
    ("relaxed arrive", RelaxedArrival(arrives="relaxed"), {"race": "data"}, (RelaxedArrival(),)),
    ("relaxed wait", RelaxedArrival(waits="relaxed"), {"race": "data"}, (RelaxedArrival(),)),
    ("after its arrival", WritesAfterItsArrival(late=True), {"race": "scale"}, (WritesAfterItsArrival(),)),
    ("turnstile open", SplitK(waits=False), {"race": "out", "stale-read": "out", "deadlock": "cta"}, (SplitK(),)),
    ("turnstile relaxed", SplitK(passes="relaxed"), {"race": "out"}, (SplitK(),)),
    ("turnstile skips", SplitK(twice=True), {"stale-read": "out", "deadlock": "cta"}, (SplitK(),)),
    ("grid barrier passed early", GridBarrier(resets=True), {"race": "part", "stale-read": "part"}, (GridBarrier(),)),
    ("grid barrier short", GridBarrier(missing=True, cluster="2x1"), {"deadlock": "cta"}, (GridBarrier(),)),
    ("flag taken back", Polls(takes_back=True), {"deadlock": "consumer"}, (Polls(),)),
    ("passed on too near", PassedOn(again="counted", scope="cta"), {"race": "data"}, (PassedOn(again="counted"),)),
    ("passed on by a store", PassedOn(again="stored"), {"race": "data"}, (PassedOn(), PassedOn(again="counted"))),
    ("read again without acquiring", ReadAgain(sem="relaxed"), {"race": "data"}, (ReadAgain(),)),
    ("another word read again", ReadAgain(again=1), {"race": "data"}, (ReadAgain(),)),
    ("swap that fails", FailingSwap(), {"race": "data"}, (FailingSwap(compare=0),)),
    (
        "dispatch word behind a relaxed flag",
        DispatchWordAndAFlag(),
        {"race": "at"},
        (DispatchWordAndAFlag(raised="release"), DispatchWordAndAFlag(own=True)),
    ),
    ("tickets", Tickets(atomic=False), {"race": "done"}, (Tickets(),)),
]
