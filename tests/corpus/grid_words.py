"""Clusters and grids that wait for each other through words in global memory: which may be waited for, and in which
scope what was done before is seen.
"""

from __future__ import annotations

from sm90_verify import Pipeline, role, tile, word


class GridBarrier(Pipeline):
    """A barrier of the whole grid: every cluster adds to a counter and waits for all. It needs all of them on the GPU:
    a cooperative launch, or no more CTAs than have room.
    """

    clusters = 2
    scope = "gpu"
    count = word(values=3)
    out = tile(bytes=16, slots=2, space="global")

    @role(warps=1)
    def everyone(self, me):
        yield self.out[me.cluster].write()
        yield self.count[0].red("add", 1, sem="release", scope=self.scope)
        yield self.count[0].spin(at_least=self.clusters, sem="acquire", scope=self.scope)
        yield self.out[1 - me.cluster].read()


class SplitKTurnstile(Pipeline):
    """Split-K: a cluster adds to the tile when those of lower numbers have. In the order of their numbers clusters are
    started in, so that this needs no room for all; the other way round it hangs on a GPU that has none.
    """

    clusters = 2
    resident = False
    upwards = True
    turn = word(values=3)
    d = tile(bytes=16, slots=1, space="global")

    @role(warps=1)
    def adder(self, me):
        mine = me.cluster if self.upwards else self.clusters - 1 - me.cluster
        yield self.turn[0].spin(equals=mine, sem="acquire")
        yield self.d[0].read()
        yield self.d[0].write()
        yield self.turn[0].st(mine + 1, sem="release")


class FlagBetweenGrids(Pipeline):
    """The first grid tells the second through a flag that its data is there, or waits for a flag of the second."""

    back = False
    sem = "release"
    flag = word()
    out = tile(bytes=16, slots=1, space="global")

    @role(warps=1)
    def first(self):
        yield self.launch_dependents()
        if self.back:
            yield self.flag[0].spin(equals=1, sem="acquire")
        else:
            yield self.out[0].write()
            yield self.flag[0].st(1, sem=self.sem)

    @role(warps=1, grid=1)
    def second(self):
        if self.back:
            yield self.flag[0].st(1, sem="release")
        else:
            yield self.flag[0].spin(equals=1, sem="acquire")
            yield self.out[0].read()


class HandedOnBesideTheWait(Pipeline):
    """The second grid waits for the first in one role, and tells the other with a relaxed flag: what the first grid has
    done is before the wait, and nothing makes it come before what the other role does.
    """

    sem = "release"
    flag = word()
    out = tile(bytes=16, slots=1, space="global")

    @role(warps=1)
    def first(self):
        yield self.out[0].write()

    @role(warps=1, grid=1)
    def waits(self):
        yield self.grid_wait()
        yield self.flag[0].st(1, sem=self.sem)

    @role(warps=1, grid=1)
    def reads(self):
        yield self.flag[0].spin(equals=1, sem="acquire")
        yield self.out[0].read()


CASES = [
    (
        "G21 a grid barrier in waves",
        GridBarrier(resident=False),
        {"deadlock": "cluster0.everyone"},
        (GridBarrier(),),
    ),
    (
        "G22 a grid barrier in the scope of a cluster",
        GridBarrier(scope="cluster"),
        {"race": "count or out"},
        (GridBarrier(),),
    ),
    (
        "G23 a turnstile against the order of the CTAs",
        SplitKTurnstile(upwards=False),
        {"deadlock": "cluster0.adder"},
        (SplitKTurnstile(), SplitKTurnstile(upwards=False, resident=True)),
    ),
    (
        "G24 a grid waits for its dependent",
        FlagBetweenGrids(back=True),
        {"deadlock": "grid0.first"},
        (FlagBetweenGrids(),),
    ),
    ("G25 a relaxed flag between grids", FlagBetweenGrids(sem="relaxed"), {"race": "out"}, (FlagBetweenGrids(),)),
    (
        "G26 griddepcontrol.wait behind a relaxed flag",
        HandedOnBesideTheWait(sem="relaxed"),
        {"race": "out"},
        (HandedOnBesideTheWait(),),
    ),
]
