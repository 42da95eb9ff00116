"""Each condition of the order engine is needed: without it a wrong pipeline is proved."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from corpus_table import CASES
from traced import traced

from sm90_verify.engines.order import ctas, handed, lifetime, meetings, memory, order, phases, signals
from sm90_verify.engines.order.run import Run
from sm90_verify.engines.order.schedule import confirm
from sm90_verify.engines.search.explore import explore
from sm90_verify.result import PROVED
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.model.compile import compile_kernel


class Lapped(Pipeline):
    """The second phase can complete while the reader still stands at its wait for the first."""

    unseen = True
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

    unseen = True
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


class InvalidatedUnderACopy(Pipeline):
    """The bytes of the second copy may come after the inval, and those of the first one do not."""

    waited = 1
    p = barrier(arrivals=1)
    a = tile(bytes=1024, slots=2)

    @role(warps=1)
    def loads(self):
        at = PipelineState.start(1)
        for copy in range(2):
            yield self.p.arrive_expect_tx(1024)
            yield self.a[copy].load(signals=self.p)
            if copy < self.waited:
                yield self.p.wait(at.phase)
            at += 1
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
    """The second bar.arrive can complete the first generation, so that the second bar.sync waits for ever."""

    @role(warps=1)
    def syncs(self):
        yield self.named_sync(1, 64)
        yield self.named_sync(1, 64)

    @role(warps=1)
    def arrives(self):
        yield self.named_arrive(1, 64)
        yield self.named_arrive(1, 64)


@pytest.mark.parametrize("waited, wrong", [(2, False), (1, True)])
def test_a_barrier_is_invalidated_after_all_copies_that_signal_it(waited, wrong):
    kernel = traced(InvalidatedUnderACopy(waited=waited, stages=1))
    said = order(kernel)
    assert said.verdict_on("barrier-init") == ("violated" if wrong else PROVED)
    machine = compile_kernel(kernel)
    assert ("barrier-init" in confirm(said, machine)) == ("barrier-init" in explore(machine).violations) == wrong


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
    (meetings, "_must_know", nothing, ArrivesTwice(), "deadlock"),
    (meetings, "_must_be_together", nothing, corpus("D30"), "named-barrier"),
    (Run, "deadlock", nothing, corpus("D01"), "deadlock"),
]


@pytest.mark.parametrize(
    "where, name, instead, pipeline, property", CONDITIONS, ids=[f"{one[1]} {one[3].name}" for one in CONDITIONS]
)
def test_without_the_condition_a_wrong_pipeline_is_proved(monkeypatch, where, name, instead, pipeline, property):
    said = order(traced(pipeline))
    machine = compile_kernel(said.kernel)
    assert property in explore(machine).violations
    assert property in confirm(said, machine)
    monkeypatch.setattr(where, name, instead)
    if name == "release":  # what is left without a release is not known by the others either
        assert order(traced(pipeline)).handed
        monkeypatch.setattr(handed, "must_know", nothing)
    assert order(traced(pipeline)).verdict == PROVED
