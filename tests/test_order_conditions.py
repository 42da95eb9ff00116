"""Each condition of the order engine is needed: without it a wrong pipeline is proved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from corpus_table import CASES

from sm90_verify.engines.order import ctas, lifetime, meetings, memory, order, phases, signals
from sm90_verify.engines.order.run import Run
from sm90_verify.engines.order.schedule import confirm
from sm90_verify.engines.search.explore import explore
from sm90_verify.result import PROVED, UNDETERMINED
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel

# ---------------------------------------------------------------- each condition is needed


class Lapped(Pipeline):
    """The second phase can complete while the reader still stands at its wait for the first."""

    observation = False
    p = barrier(arrivals=1)
    go_on = barrier(arrivals=1)

    @role(warps=1)
    def reader(self):
        yield self.p.wait(0)

    @role(warps=1)
    def writer(self):
        yield self.p.arrive()
        yield self.go_on.wait(0)
        yield self.p.arrive()

    @role(warps=1)
    def other(self):
        yield self.go_on.arrive()


class NobodyLooks(Pipeline):
    """Half a phase more, before anybody is known to have seen the first: no wait can be lapped."""

    p = barrier(arrivals=2)

    @role(warps=1)
    def writer(self):
        yield self.p.arrive(2)
        yield self.p.arrive(1)

    @role(warps=1)
    def reader(self):
        yield self.p.wait(0)


class SkipsAPhase(Pipeline):
    """The reader waits for the second phase, and parity 1 passes before the first is complete."""

    observation = False
    p = barrier(arrivals=1)

    @role(warps=1)
    def writer(self):
        yield self.p.arrive()
        yield self.p.arrive()

    @role(warps=1)
    def reader(self):
        yield self.p.wait((PipelineState.start(1) + 1).phase)


class NotAlwaysLast(Pipeline):
    """arrive.noComplete is the first of two arrivals only by chance."""

    p = barrier(arrivals=2)

    @role(warps=1)
    def one(self):
        yield self.p.arrive_no_complete()

    @role(warps=1)
    def other(self):
        yield self.p.arrive()
        yield self.p.wait(0)


class InvalidatedUnderAWait(Pipeline):
    """One waiter invalidates the barrier; another may still stand at its wait."""

    p = barrier(arrivals=1)

    @role(warps=1)
    def arrives(self):
        yield self.p.arrive()

    @role(warps=1)
    def waits(self):
        yield self.p.wait(0)

    @role(warps=1)
    def invalidates(self):
        yield self.p.wait(0)
        yield self.p.inval()


class InvalidatedTooEarly(Pipeline):
    """Nothing orders the inval after the init."""

    p = barrier(arrivals=1, initialised=False)

    @role(warps=1)
    def initialises(self):
        yield self.p.init(1)

    @role(warps=1)
    def invalidates(self):
        yield self.p.inval()


class HiddenInit(Pipeline):
    """An arrival from the other CTA, after a barrier.cluster that shows everything but the init."""

    cluster = "2x1"
    p = barrier(arrivals=1, initialised=False)

    @role(warps=1)
    def warp(self, me):
        if me.cta == 1:
            yield self.p.init(1)
        yield self.cluster_arrive_relaxed()
        yield self.cluster_wait()
        if me.cta == 0:
            yield self.p[0].on(1).arrive()
        else:
            yield self.p.wait(0)


class NotBegun(Pipeline):
    """An arrival at a CTA that may not run yet."""

    cluster = "2x1"
    met = False
    p = barrier(arrivals=1)

    @role(warps=1)
    def warp(self, me):
        if me.cta == 0:
            yield self.p[0].on(1).arrive()
        else:
            yield self.p.wait(0)


class ReadsInFlight(Pipeline):
    """A reader that does not wait for the copy."""

    p = barrier(arrivals=1)
    a = tile(bytes=1024)

    @role(warps=1)
    def loads(self):
        yield self.p.arrive_expect_tx(1024)
        yield self.a.load(signals=self.p)
        yield self.p.wait(0)

    @role(warps=1)
    def reads(self):
        yield self.a.read()


class NeverWritten(Pipeline):
    """A read of data that nobody writes."""

    a = tile(bytes=1024)

    @role(warps=1)
    def reads(self):
        yield self.a.read(tag=1)


class ArrivesTwice(Pipeline):
    """The second bar.arrive can come before the barrier has counted the other side."""

    @role(warps=1)
    def syncs(self):
        yield self.named_sync(1, 64)
        yield self.named_sync(1, 64)

    @role(warps=1)
    def arrives(self):
        yield self.named_arrive(1, 64)
        yield self.named_arrive(1, 64)


def nothing(*_: Any, **__: Any) -> None:
    pass


def corpus(id: str) -> Pipeline:
    return next(case.broken for case in CASES if case.id == id)


CONDITIONS: list[tuple[Any, str, Callable[..., Any], Pipeline, str]] = [
    (signals, "_must_know", nothing, corpus("D11c self"), "unobserved-phase"),
    (phases, "_any_order", nothing, corpus("F06"), "tx-count"),
    (phases, "_not_last", nothing, NotAlwaysLast(), "arrival-count"),
    (phases, "_must_have_passed", nothing, Lapped(), "phase-lapped"),
    (signals, "_observed", lambda *_: True, NobodyLooks(), "unobserved-phase"),
    (signals, "_must_not_be_early", nothing, SkipsAPhase(), "phase-lapped"),
    (signals, "not_initialised", nothing, corpus("R18 sync"), "barrier-init"),
    (signals, "not_initialised", nothing, InvalidatedTooEarly(), "barrier-init"),
    (lifetime, "_must_be_unused", nothing, InvalidatedUnderAWait(), "barrier-init"),
    (signals, "_must_be_fenced", nothing, corpus("R18 fence"), "barrier-init"),
    (signals, "_must_be_visible", nothing, HiddenInit(), "barrier-init"),
    (memory, "_race", nothing, corpus("R29"), "race"),
    (memory, "_must_have_landed", nothing, ReadsInFlight(), "race"),
    (memory, "_missing_fence", nothing, corpus("R05"), "missing-fence"),
    (memory, "release", nothing, corpus("R21"), "race"),
    (memory, "_overruns", nothing, corpus("D36"), "smem-overlap"),
    (memory, "_must_find", nothing, NeverWritten(), "stale-read"),
    (ctas, "must_have_begun", nothing, NotBegun(), "exit-hazard"),
    (ctas, "look_at_flight", nothing, corpus("D06 exit"), "exit-hazard"),
    (ctas, "_gone", nothing, corpus("R20"), "exit-hazard"),
    (meetings, "_must_know", nothing, ArrivesTwice(), "named-barrier"),
    (meetings, "_must_be_together", nothing, corpus("D30"), "named-barrier"),
    (Run, "deadlock", nothing, corpus("D01"), "deadlock"),
]


@pytest.mark.parametrize(
    "where, name, instead, pipeline, property", CONDITIONS, ids=[f"{one[1]} {one[3].name}" for one in CONDITIONS]
)
def test_without_the_condition_a_wrong_pipeline_is_proved(monkeypatch, where, name, instead, pipeline, property):
    said = order(trace(pipeline))
    machine = compile_kernel(said.kernel)
    assert property in explore(machine).violations
    assert property in confirm(said, machine)
    monkeypatch.setattr(where, name, instead)
    assert order(trace(pipeline)).verdict == PROVED


# ---------------------------------------------------------------- what is just enough, and what is just too little


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


class EndsWithoutItsWait(Pipeline):
    cluster = "2x1"

    @role(warps=1)
    def warp(self, me):
        yield self.cluster_arrive()
        if me.cta == 0:
            yield self.cluster_wait()


class GivesAfterTaking(Pipeline):
    registers = 168

    @role(warpgroups=1)
    def gives(self):
        yield self.setmaxnreg_dec(40)

    @role(warpgroups=1)
    def takes(self):
        yield self.setmaxnreg_inc(232)
        yield self.setmaxnreg_dec(168)


@pytest.mark.parametrize(
    ("pipeline", "words"),
    [
        (EndsWithoutItsWait(), "ends between barrier.cluster.arrive and its wait"),
        (GivesAfterTaking(), "the order in which setmaxnreg requests are granted may matter"),
    ],
    ids=lambda one: one.name if isinstance(one, Pipeline) else "",
)
def test_what_is_left_open(pipeline, words):
    said = order(trace(pipeline))
    assert (said.verdict, words in said.why) == (UNDETERMINED, True)


class Words(Pipeline):
    """One role that does what `words` say; `over` lies in the bytes of the barrier `dead`."""

    words = ""
    strict = False
    p = barrier(arrivals=1)
    dead = barrier(initialised=False)
    a = tile(bytes=64)
    over = tile(bytes=64, shares="dead")

    @role(warps=1)
    def one(self):
        for word in self.words.split():
            match word:
                case "arrive":
                    yield self.p.arrive()
                case "wait":
                    yield self.p.wait(1)
                case "expect":
                    yield self.p.expect_tx(16)
                case "load":
                    yield self.a.load(signals=self.p)
                case "write":
                    yield self.a.write()
                case "tag":
                    yield self.a.write(tag=1)
                case "over":
                    yield self.over.write()
                case "sync":
                    yield self.named_sync(1, 32)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("", ""),
        ("arrive", "arrival-count"),
        ("wait", "phase-lapped"),
        ("arrive wait", "phase-lapped arrival-count unobserved-phase"),
        ("expect", "tx-count"),
        ("load", "race tx-count exit-hazard"),
        ("load write", "race tx-count missing-fence exit-hazard"),
        ("write", "race"),
        ("tag", "race stale-read"),
        ("over", "race barrier-init"),
        ("sync", "named-barrier"),
    ],
)
def test_what_a_program_could_violate_at_all(words, expected):
    assert order(trace(Words(words=words))).applies == ("deadlock", *expected.split())
    strict = order(trace(Words(words=words, strict=True))).applies
    assert set(strict) == {"deadlock", "exit-hazard", *expected.split()}
