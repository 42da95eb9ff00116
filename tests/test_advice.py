"""arrive() of a role is one arrival: where a barrier counts threads, the report says what to write."""

from __future__ import annotations

import pytest

from sm90_verify.engines.check import check
from sm90_verify.report.as_json import to_object
from sm90_verify.report.text import render
from sm90_verify.result import PROVED, VIOLATED
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline


class Ring(Pipeline):
    """Its consumer arrives once, or with all of its threads."""

    stages = 2
    counted = 128
    all_of_it = False
    full = barrier(arrivals=1)
    empty = barrier(arrivals="counted")
    a = tile(bytes=64)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(self.a.bytes)
        yield self.a[at].load(signals=self.full[at])

    @role(warps=4)
    def consumer(self, at, me):
        yield self.full[at].wait(at.phase)
        yield self.a[at].read()
        yield self.empty[at].arrive(me.threads if self.all_of_it else 1)


class TwoWarps(Pipeline):
    """Two roles arrive on a barrier of all of their threads; one of them may do it right."""

    right = False
    both = False
    done = barrier(arrivals=96, slots=1)

    @role(warps=1)
    def small(self, me):
        yield self.done.arrive(me.threads if self.right or self.both else 1)

    @role(warps=2)
    def large(self, me):
        yield self.done.arrive(me.threads if self.both else 1)

    @role(warps=1)
    def waiter(self):
        yield self.done.wait(0)


class Elected(Pipeline):
    """A single thread arrives beside a warp that does so once."""

    counted = 33
    all_of_it = False
    done = barrier(arrivals="counted", slots=1)

    @role(threads=1)
    def one(self):
        yield self.done.arrive()

    @role(warps=1)
    def warp(self, me):
        yield self.done.arrive(me.threads if self.all_of_it else 1)

    @role(threads=1)
    def waiter(self):
        yield self.done.wait(0)


BROKEN = {
    "a warpgroup": (Ring(), "empty[0] expects 128 arrivals, and arrive() of consumer is one", "here arrive(128),"),
    "two roles": (
        TwoWarps(),
        "done expects 96 arrivals, and arrive() of small and large is one",
        "arrive(me.threads) ",
    ),
    "one of two roles": (TwoWarps(right=True), "done expects 96 arrivals, and arrive() of large is one", "arrive(64),"),
    "beside one thread": (Elected(), "done expects 33 arrivals, and arrive() of warp is one", "here arrive(32),"),
}
FIXED = (Ring(all_of_it=True), TwoWarps(both=True), Elected(all_of_it=True))
OTHERWISE = (
    Ring(counted=127),
    Ring(counted=2),
    Elected(counted=3),
    Elected(counted=32),
    TwoWarps(both=True, right=True),
)


@pytest.mark.parametrize("engine", ["search", "order", "default"])
@pytest.mark.parametrize("name", BROKEN)
def test_a_role_that_arrives_once_for_all_of_its_threads_is_told_what_to_write(name, engine):
    pipeline, says, writes = BROKEN[name]
    result = check(pipeline, engine=engine, properties=("deadlock",))
    assert result.verdict == VIOLATED
    assert result.trace.advice.startswith(says) and "arrive(me.threads)" in result.trace.advice
    assert writes in result.trace.advice
    text = render(result)
    assert text.count("\n  advice   ") == 1 and result.trace.advice in " ".join(text.split())
    assert to_object(result)["trace"]["advice"] == result.trace.advice


@pytest.mark.parametrize("pipeline", FIXED, ids=lambda one: one.name)
def test_what_is_advised_is_right(pipeline):
    assert check(pipeline).verdict == PROVED


@pytest.mark.parametrize("pipeline", OTHERWISE)
def test_where_the_count_is_wrong_otherwise_nothing_is_advised(pipeline):
    result = check(pipeline, properties=("deadlock",))
    assert result.trace is None or not result.trace.advice
    assert "  advice " not in render(result)
