"""What is just enough is proved by the order engine, and what is just too little is not."""

from __future__ import annotations

import pytest

from sm90_verify.engines.order import order
from sm90_verify.engines.order.schedule import confirm
from sm90_verify.engines.search.explore import explore
from sm90_verify.result import PROVED
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel


class HasBegun(Pipeline):
    """An arrival at a CTA that has met this one; `visible`: the meeting shows the barrier's initialisation too."""

    cluster = "2x1"
    met = False
    visible = True
    p = barrier(arrivals=1, initialised=False)

    @role(warps=1)
    def warp(self, me):
        if me.cta == 1:
            yield self.p.init(1)
        yield self.cluster_arrive() if self.visible else self.cluster_arrive_relaxed()
        yield self.cluster_wait()
        if me.cta == 0:
            yield self.p[0].on(1).arrive()
        else:
            yield self.p.wait(0)


class OwnMemoryFirst(Pipeline):
    """Each CTA writes its own memory before it knows that the other one has begun."""

    cluster = "2x1"
    met = False
    a = tile(bytes=64)

    @role(warps=1)
    def warp(self):
        yield self.a.write()
        yield self.a.read()


class ReachesAfterTheArrival(Pipeline):
    """A CTA that waits for the other one may exit before what comes after the arrival, or before the arrival itself."""

    cluster = "2x1"
    first = False
    p = barrier(arrivals=1)
    a = tile(bytes=64)

    @role(warps=1)
    def warp(self, me):
        if me.cta == 1:
            yield self.p.wait(0)
        elif self.first:
            yield self.a[0].on(1).read()
            yield self.p[0].on(1).arrive()
        else:
            yield self.p[0].on(1).arrive()
            yield self.a[0].on(1).read()


class WritesAfterTheRead(Pipeline):
    """The writer knows of the reader's arrival, and of the read if that comes first."""

    first = False
    p = barrier(arrivals=1)
    a = tile(bytes=64)

    @role(warps=1)
    def reader(self):
        if self.first:
            yield self.a.read()
        yield self.p.arrive()
        if not self.first:
            yield self.a.read()

    @role(warps=1)
    def writer(self):
        yield self.p.wait(0)
        yield self.a.write()


class ReadsOneCopyOfTwo(Pipeline):
    """The second copy into the same bytes may be landing while the reader, which is told later, reads the first."""

    waits = False
    p = barrier(arrivals=1)
    go_on = barrier(arrivals=1)
    a = tile(bytes=64)

    @role(warps=1)
    def loads(self):
        at = PipelineState.start(1)
        for last in (False, True):
            yield self.p.arrive_expect_tx(64)
            yield self.a.load(signals=self.p)
            if not last or self.waits:
                yield self.p.wait((at + last).phase)
        yield self.go_on.arrive()
        if not self.waits:
            yield self.p.wait((at + 1).phase)

    @role(warps=1)
    def reads(self):
        yield self.go_on.wait(0)
        yield self.a.read()


class WritesWhatWgmmaHasRead(Pipeline):
    """The wgmma is waited for before the arrival, or not."""

    waits = True
    p = barrier(arrivals=1)
    a = tile(bytes=64)

    @role(warpgroups=1)
    def math(self):
        yield self.a.mma()
        if self.waits:
            yield self.mma_wait(0)
        yield self.p.arrive()
        yield self.mma_wait(0)

    @role(warps=1)
    def writer(self):
        yield self.p.wait(0)
        yield self.a.write()


class OneEndsEarly(Pipeline):
    """A role that does not come to __syncthreads does not stand for one that has yet to come."""

    a = tile(bytes=64)

    @role(warps=1)
    def reader(self):
        yield self.cta_sync()
        yield self.a.read()

    @role(warps=1)
    def ends(self):
        yield self.fence_proxy_async()

    @role(warps=1)
    def writer(self):
        yield self.a.write()
        yield self.cta_sync()


class LivesTwice(Pipeline):
    """Two roles wait for the first phase of each life of a barrier, one after the other."""

    parity = 0
    full = barrier(initialised=False)
    next = barrier(arrivals=1)

    @role(warps=1)
    def first(self):
        for _ in range(2):
            yield self.full.init(1)
            yield self.cta_sync()
            yield self.full.arrive()
            yield self.cta_sync()
            yield self.full.inval()

    @role(warps=1)
    def second(self):
        for _ in range(2):
            yield self.cta_sync()
            yield self.full.wait(0)
            yield self.next.arrive()
            yield self.cta_sync()

    @role(warps=1)
    def third(self):
        for k in range(2):
            yield self.cta_sync()
            yield self.next.wait(k)
            yield self.full.wait(k * self.parity)
            yield self.cta_sync()


class OneRequestAfterAnother(Pipeline):
    """Registers that are given once and taken twice, in order."""

    registers = 168

    go_on = barrier(arrivals=1)

    @role(warpgroups=1)
    def producer(self):
        yield self.setmaxnreg_dec(40)

    @role(warpgroups=1)
    def one(self):
        yield self.setmaxnreg_inc(232)
        yield self.go_on.arrive()

    @role(warpgroups=1)
    def other(self):
        yield self.go_on.wait(0)
        yield self.setmaxnreg_inc(232)


class GivesInALoop(Pipeline):
    """The same request in every iteration, of which there are as many as one likes."""

    registers = 168

    @role(warpgroups=1)
    def gives(self, at):
        yield self.setmaxnreg_dec(40)


class InTheSameBytes(Pipeline):
    """The second buffer begins before the first one ends."""

    a = tile(bytes=16, address=0)
    b = tile(bytes=16, address=8)

    @role(warps=1)
    def reads(self):
        yield self.a.read()
        yield self.b.read()


class NeverComes(Pipeline):
    """Two roles go on for ever, and a third waits for one of them, which never arrives there, or does once."""

    arrives = False
    trips = "forever"
    ping = barrier(arrivals=1)
    pong = barrier(arrivals=1)
    done = barrier(arrivals=1)

    @role(warps=1)
    def one(self):
        at = PipelineState.start(1)
        if self.arrives:
            yield self.done.arrive()
        for _ in self.loop():
            yield self.ping.arrive()
            yield self.pong.wait(at.phase)
            at += 1

    @role(warps=1)
    def two(self, at):
        yield self.ping.wait(at.phase)
        yield self.pong.arrive()

    @role(warps=1)
    def three(self):
        yield self.done.wait(0)


class HalvesOfAWarp(Pipeline):
    """One half of a warp waits at a bar.sync, while the other one arrives at another line, or at the same one."""

    apart = True

    @role(threads=32, split=(16, 16))
    def warp(self, me):
        if me.leader or not self.apart:
            yield self.named_sync(1, 64)
        else:
            yield self.named_arrive(1, 64)

    @role(warps=1)
    def other(self):
        yield self.named_sync(1, 64)


class ArrivesUnseen(Pipeline):
    """Who waits arrives too, and the other arrival may come before anybody has seen the first phase."""

    sees = False
    p = barrier(arrivals=2)
    go_on = barrier(arrivals=1)

    @role(warps=1)
    def fills(self):
        yield self.p.arrive(2)
        if self.sees:
            yield self.p.wait(0)
        yield self.go_on.arrive()

    @role(warps=1)
    def waits(self):
        yield self.p.wait(0)
        yield self.p.arrive()
        yield self.p.wait(1)

    @role(warps=1)
    def arrives(self):
        yield self.go_on.wait(0)
        yield self.p.arrive()


@pytest.mark.parametrize(
    ("pipeline", "property"),
    [
        (ArrivesUnseen(sees=True), ""),
        (ArrivesUnseen(), "unobserved-phase"),
        (GivesInALoop(), ""),
        (InTheSameBytes(), "smem-overlap"),
        (NeverComes(arrives=True), ""),
        (NeverComes(), "deadlock"),
        (HalvesOfAWarp(apart=False), ""),
        (HalvesOfAWarp(), "named-barrier"),
        (HasBegun(), ""),
        (HasBegun(visible=False), "barrier-init"),
        (OwnMemoryFirst(), ""),
        (ReachesAfterTheArrival(first=True), ""),
        (ReachesAfterTheArrival(), "exit-hazard"),
        (WritesAfterTheRead(first=True), ""),
        (WritesAfterTheRead(), "race"),
        (ReadsOneCopyOfTwo(waits=True), ""),
        (ReadsOneCopyOfTwo(), "race"),
        (WritesWhatWgmmaHasRead(), ""),
        (WritesWhatWgmmaHasRead(waits=False), "race"),
        (OneEndsEarly(), ""),
        (LivesTwice(), ""),
        (LivesTwice(parity=1), "phase-lapped"),
        (OneRequestAfterAnother(), ""),
    ],
    ids=lambda one: f"{one.name}" if isinstance(one, Pipeline) else one,
)
def test_what_is_just_enough_is_proved(pipeline, property):
    said = order(trace(pipeline))
    machine = compile_kernel(said.kernel)
    violations = explore(machine).violations
    if property:
        assert property in violations and property in confirm(said, machine)
    else:
        assert (said.verdict, violations) == (PROVED, {})
