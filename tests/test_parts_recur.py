"""Situations of parts of a warpgroup that are alike but for what a part has committed, or who has waited for it: the
mistake shows only after the second of two choices, and only some choices later.
"""

from __future__ import annotations

import pytest

from sm90_verify.engines.order import order
from sm90_verify.engines.search.explore import explore
from sm90_verify.result import PROVED, VIOLATED
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel


class Parts(Pipeline):
    """A warpgroup of two parts, and a third role. second: the second option of a choice is open too."""

    second = True
    x = tile(bytes=64, slots=1)
    y = tile(bytes=64, slots=1)
    ready = barrier(arrivals=1, slots=1)
    given = barrier(arrivals=1, slots=1)

    def picks(self, name):
        return self.choose(name, 0, 1 if self.second else 2)


class WaitsEarlyOrLate(Parts):
    """The part that gives x back waits before it does, or behind it; who overwrites x decides that later. A role that
    reads x learns of no wait.
    """

    gives = 64

    @role(warps=1)
    def other(self):
        yield self.picks("early")
        yield self.given.wait(0)
        if (yield self.choose("write", 0, 1)):
            yield self.x.write()
        yield self.ready.arrive()

    @role(warps=1)
    def late(self):
        yield self.ready.wait(0)
        yield self.x.read()

    @role(threads=128, split=(64, 64))
    def math(self, me):
        yield (self.y if me.first else self.x).mma(commit=False)
        yield self.mma_commit(joint=True)
        early = (yield self.picks("early")) == 1
        if me.first == self.gives and early:
            yield self.given.arrive()
        if me.first == 0 or self.gives:
            yield self.mma_wait(0, joint=True)
        if me.first == self.gives and not early:
            yield self.given.arrive()
        yield self.choose("nothing", 0, 1)


class ItselfWaitsEarlyOrLate(WaitsEarlyOrLate):
    """The same of the part that reads x, and it alone waits."""

    gives = 0


class ReleasesToOneOrAnother(WaitsEarlyOrLate):
    """Behind a relaxed barrier.cluster, the part that has waited releases what it knows to who writes x, or not."""

    @role(warps=1)
    def other(self):
        yield self.picks("elsewhere")
        yield self.cluster_arrive()
        yield self.cluster_wait()
        yield self.given.wait(0)
        if (yield self.choose("write", 0, 1)):
            yield self.x.write()
        yield self.ready.arrive()

    @role(warps=1)
    def late(self):
        yield self.cluster_arrive()
        yield self.cluster_wait()
        yield self.ready.wait(0)
        yield self.x.read()

    @role(threads=128, split=(64, 64))
    def math(self, me):
        yield self.x.mma(commit=False)
        yield self.mma_commit(joint=True)
        if me.first == 0:
            yield self.mma_wait(0, joint=True)
        elsewhere = (yield self.picks("elsewhere")) == 1
        yield self.cluster_arrive_relaxed()
        yield self.cluster_wait()
        if elsewhere == (me.first == 0):
            yield self.named_sync(1 + me.warp, 64)
        else:
            yield self.given.arrive()
        yield self.given.wait(0)
        yield self.choose("nothing", 0, 1)


class FirstOrSecondGroup(Parts):
    """x is read in the first or in the second of two groups; later the other part waits for the first alone."""

    @role(warps=1)
    def other(self):
        yield self.picks("second")
        yield self.choose("nothing", 0, 1)
        yield self.given.wait(0)
        yield self.x.write()

    @role(threads=128, split=(64, 64))
    def math(self, me):
        second = yield self.picks("second")
        for number in (0, 1):
            if me.first == 0:
                yield (self.x if number == second else self.y).mma(commit=False)
            yield self.mma_commit(joint=True)
        if me.first == 0:
            yield self.mma_wait(0, joint=True)
        yield self.choose("nothing", 0, 1)
        if me.first:
            yield self.mma_wait(1, joint=True)
            yield self.given.arrive()


class CommitsOrNot(Parts):
    """One part commits a group and waits for it, or does neither; later the other one waits for one."""

    @role(threads=128, split=(64, 64))
    def math(self, me):
        commits = (yield self.picks("commits")) != 1
        if me.first == 0 or commits:
            yield self.mma_commit(joint=True)
        if me.first and commits:
            yield self.mma_wait(0, joint=True)
        yield self.choose("nothing", 0, 1)
        if me.first == 0:
            yield self.mma_wait(0, joint=True)


class CommitsBeforeOrAfter(Parts):
    """One part commits after it has learnt of a write, or before; later the other one waits for that, and reads."""

    @role(warps=1)
    def other(self):
        yield self.picks("before")
        yield self.x.write()
        yield self.given.arrive()

    @role(threads=128, split=(64, 64))
    def math(self, me):
        before = (yield self.picks("before")) == 1
        if before or me.first:
            yield self.mma_commit(joint=True)
        if me.first == 0:
            yield self.given.wait(0)
        if not before and me.first == 0:
            yield self.mma_commit(joint=True)
        yield self.choose("nothing", 0, 1)
        if me.first:
            yield self.mma_wait(0, joint=True)
            yield self.x.read()


@pytest.mark.parametrize(
    ("parts", "property"),
    [
        (WaitsEarlyOrLate, "race"),
        (ItselfWaitsEarlyOrLate, "race"),
        (ReleasesToOneOrAnother, "race"),
        (FirstOrSecondGroup, "race"),
        (CommitsOrNot, "deadlock"),
        (CommitsBeforeOrAfter, "race"),
    ],
)
def test_what_a_later_wait_finds_is_part_of_the_situation(parts, property):
    for second in (False, True):
        kernel = trace(parts(second=second))
        said, found = order(kernel), explore(compile_kernel(kernel), limit=20_000)
        assert (property in found.violations) == second
        assert said.verdicts[property] == (VIOLATED if second else PROVED), said.why
