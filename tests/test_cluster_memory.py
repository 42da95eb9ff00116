"""What reaches from one CTA into another, when a CTA begins and ends, and who sees a barrier initialised."""

from __future__ import annotations

import pytest
from findings import violated

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel

# ---------------------------------------------------------------- what reaches another CTA, and how


class Ping(Pipeline):
    """CTA 0 writes into CTA 1's buffer and tells it so."""

    cluster = "2x1"
    met = False
    early = False
    relaxed = False
    ready = barrier(arrivals=32, slots=1)
    x = tile(bytes=128, slots=1)

    @role(warps=1)
    def warp(self, me):
        if not self.early:
            yield self.cluster_arrive()
            yield self.cluster_wait()
        if me.cta == 0:
            yield self.x[0].on(1).write(tag=1)
            if self.relaxed:
                yield self.cluster_arrive_relaxed()
                yield self.cluster_wait()
            else:
                yield self.ready[0].on(1).arrive(32)
        else:
            if self.relaxed:
                yield self.cluster_arrive()
                yield self.cluster_wait()
            else:
                yield self.ready[0].wait(0)
            yield self.x.read(tag=1)


def test_distributed_shared_memory_is_ordered_by_a_remote_arrival():
    assert violated(Ping()) == []
    assert violated(Ping(), reduced=False) == []


def test_a_cta_that_may_not_have_started_cannot_be_reached():
    assert violated(Ping(early=True)) == ["exit-hazard"]


class Knocks(Pipeline):
    """CTA 1 signals CTA 0, whose first step is one that others need not wait for."""

    cluster = "2x1"
    met = False
    trips = 1
    first = "arrive"
    asked = barrier(arrivals=1, slots=1)
    own = barrier(arrivals=1, slots=1)
    x = tile(bytes=128, slots=1)

    @role(warps=1, ctas=[0])
    def asks(self):
        if self.first == "arrive":
            yield self.own.arrive()
            yield self.own.wait(0)
        elif self.first == "load":
            yield self.x.load(signals=self.own)
            yield self.own.arrive_expect_tx(128)
            yield self.own.wait(0)
        elif self.first == "loop":
            for _ in self.loop():
                yield self.x.read()
        elif self.first == "sync":
            yield self.named_sync(1, 32)
        yield self.asked.wait(0)
        yield self.cluster_arrive()
        yield self.cluster_wait()

    @role(warps=1, ctas=[1])
    def knocks(self):
        for _ in self.loop():
            yield self.x.read()
        yield self.asked[0].on(0).arrive()
        yield self.cluster_arrive()
        yield self.cluster_wait()


@pytest.mark.parametrize("first", ["arrive", "load", "loop", "sync", ""])
def test_that_a_cta_has_not_begun_is_seen_whatever_it_begins_with(first):
    for reduced in (True, False):
        assert violated(Knocks(first=first), reduced=reduced) == ["exit-hazard"]


class Peek(Pipeline):
    """CTA 0 reads CTA 1's buffer, and nothing else reaches into another CTA."""

    cluster = "2x1"
    met = False
    begun = True
    stays = True
    x = tile(bytes=128, slots=1)

    @role(warps=1)
    def warp(self, me):
        if self.begun:
            yield self.cluster_arrive()
            yield self.cluster_wait()
        if me.cta == 0:
            yield self.x[0].on(1).read()
        if self.stays:
            yield self.cluster_arrive()
            yield self.cluster_wait()


def test_memory_of_a_cta_is_there_from_its_first_operation_to_its_exit():
    assert violated(Peek()) == []
    assert violated(Peek(begun=False)) == violated(Peek(stays=False)) == ["exit-hazard"]


def test_a_relaxed_arrive_orders_no_access():
    """9.7.13.3: .relaxed gives no ordering (quack issue 63, cutlass issue 3324)."""
    assert violated(Ping(relaxed=True)) == ["race"]


class Lends(Pipeline):
    """CTA 0 reads its buffer asynchronously, waits for that, and lets CTA 1 write there."""

    cluster = "2x1"
    relaxed = True
    by = "mma"
    x = tile(bytes=1024, slots=1)
    y = tile(bytes=1024, slots=1, space="global")

    @role(warpgroups=1)
    def group(self, me):
        if me.cta == 0 and self.by == "mma":
            yield self.x.mma(commit=True)
            yield self.mma_wait(0)
        elif me.cta == 0:
            yield self.x.store(to=self.y)
            yield self.bulk_commit()
            yield self.bulk_wait_read(0) if self.by == "store" else self.bulk_wait(0)
        yield self.cluster_arrive_relaxed() if self.relaxed else self.cluster_arrive()
        yield self.cluster_wait()
        if me.cta == 1:
            yield self.x[0].on(0).write()
        yield self.cluster_arrive()
        yield self.cluster_wait()


@pytest.mark.parametrize("by", ["mma", "store", "whole store"])
def test_a_relaxed_arrive_orders_no_group_that_is_over(by):
    assert violated(Lends(by=by)) == ["race"]
    assert violated(Lends(by=by, relaxed=False)) == []


def test_what_a_release_has_ordered_a_relaxed_arrival_does_not_undo():
    class Released(Ping):
        """CTA 1 reads after CTA 0's release on the mbarrier, whatever CTA 0 does at barrier.cluster then."""

        @role(warps=1)
        def warp(self, me):
            if me.cta == 0:
                yield self.x[0].on(1).write(tag=1)
                yield self.ready[0].on(1).arrive(32)
                yield self.cluster_arrive_relaxed()
            else:
                yield self.ready[0].wait(0)
                yield self.x.read(tag=1)
                yield self.cluster_arrive()
            yield self.cluster_wait()

    assert violated(Released(met=True)) == []


class Remote(Pipeline):
    """One remote operation, by name."""

    cluster = "1x2"
    operation = "arrive"
    b = barrier(arrivals=1, slots=1)

    @role(threads=1)
    def thread(self, me):
        if me.cta == 0:
            there = self.b[0].on(1)
            yield {
                "arrive": there.arrive,
                "arrive_expect_tx": lambda: there.arrive_expect_tx(0),
                "complete_tx": lambda: there.complete_tx(0),
                "expect_tx": lambda: there.expect_tx(0),
                "no_complete": there.arrive_no_complete,
                "init": lambda: there.init(1),
                "inval": there.inval,
                "wait": lambda: there.wait(1),
                "try_wait": lambda: there.try_wait(1),
                "test_wait": lambda: there.test_wait(1),
            }[self.operation]()
        else:
            yield self.b.wait(0)


@pytest.mark.parametrize("operation", ["arrive", "arrive_expect_tx", "complete_tx", "expect_tx"])
def test_operations_with_a_shared_cluster_form(operation):
    assert "barrier-init" not in violated(Remote(operation=operation))


@pytest.mark.parametrize("operation", ["no_complete", "init", "inval", "wait", "try_wait", "test_wait"])
def test_operations_without_a_shared_cluster_form(operation):
    assert "barrier-init" in violated(Remote(operation=operation))


def test_a_cta_outside_the_cluster_is_one_line():
    class Outside(Ping):
        @role(threads=1)
        def other(self):
            yield self.ready[0].on(2).arrive()

    with pytest.raises(SpecError, match="CTA 2 of a cluster of 2"):
        compile_kernel(trace(Outside()))


# ---------------------------------------------------------------- initialisation


class Initialised(Pipeline):
    """Barriers are initialised by a thread of each CTA, then made visible, then used from the other CTA."""

    cluster = "2x1"
    met = False
    fence = True
    proxy = False
    relaxed = True
    wait = True
    b = barrier(arrivals=1, slots=1, initialised=False)
    c = barrier(arrivals=1, slots=1)

    @role(threads=1)
    def thread(self, me):
        yield self.b[0].init(1)
        if self.fence:
            yield self.fence_mbarrier_init()
        if self.proxy:
            yield self.fence_proxy_async()
        yield self.cluster_arrive_relaxed() if self.relaxed else self.cluster_arrive()
        if self.wait:
            yield self.cluster_wait()
        yield self.b[0].on(1 - me.cta).arrive()
        yield self.b[0].wait(0)
        yield self.cluster_wait() if not self.wait else self.c[0].arrive()


def test_initialisation_is_visible_after_fence_and_cluster_barrier():
    """The example of the ISA: init; fence.mbarrier_init; barrier.cluster.arrive.relaxed; barrier.cluster.wait."""
    assert violated(Initialised()) == []


def test_relaxed_cluster_barrier_alone_makes_no_initialisation_visible():
    assert violated(Initialised(fence=False)) == ["barrier-init"]
    assert violated(Initialised(fence=False, relaxed=False)) == []


def test_a_proxy_fence_is_no_release_of_an_initialisation():
    """9.7.13.4: fence.proxy.async orders the proxies of one thread's accesses, and has no scope at which others see
    them; fence.mbarrier_init.release.cluster has.
    """
    assert violated(Initialised(fence=False, proxy=True)) == ["barrier-init"]
    assert violated(Initialised(fence=False, proxy=True, relaxed=False)) == []
    assert violated(Initialised(proxy=True)) == []


def test_use_before_the_peer_has_initialised():
    assert "barrier-init" in violated(Initialised(wait=False))
