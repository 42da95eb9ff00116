"""Rings of one barrier per stage, and small kernels that are wrong or right in one respect only."""

from __future__ import annotations

from sm90_verify.spec.cutlass.classes import TmaAsync, TransactionAsync
from sm90_verify.spec.cutlass.pipelines import PipelineAsync, PipelineTmaAsync, PipelineTmaStore
from sm90_verify.spec.language.declarations import Body, barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.model.kernel import Threads


class SingleBarrier(Pipeline):
    """One mbarrier per stage: its even phases mean filled, its odd ones released.

    watches: everybody waits for its "own" phase only, or for "every" phase in turn. arrives: the producer brings all
    arrivals of a filled phase and the consumers those of a released one ("own"), or everybody arrives once in "every"
    phase, in the other's phase to say that it has seen the one before.
    """

    _label = "single-barrier"
    stages = 1
    consumers = 1
    watches = "own"
    arrives = "own"
    bytes = 1024
    barrier = barrier(arrivals=lambda self: self.consumers + (self.arrives == "every"))
    a = tile(bytes="bytes")

    def next(self, phase: PipelineState) -> PipelineState:
        """The same phase of the next stage, two phases later after a lap."""
        return phase + (1 + self.stages if phase.index == self.stages - 1 else 1)

    @role(threads=1)
    def producer(self) -> Body:
        released = PipelineState.start(self.stages, producer=True)
        data = PipelineState.start(self.stages)
        for k in self.loop():
            bar = self.barrier[released]
            if self.watches == "every" and k >= self.stages:
                yield bar.wait((released + -self.stages).phase)
            if self.arrives == "every" and k >= self.stages:
                yield bar.arrive()
            yield bar.wait(released.phase)
            if self.arrives == "own" and self.consumers > 1:
                yield bar.arrive(self.consumers - 1)
            yield bar.arrive_expect_tx(self.bytes)
            yield self.a[data].load(signals=bar, tag=data.tag)
            released, data = self.next(released), data + 1

    @role(warpgroups=1, copies="consumers")
    def consumer(self) -> Body:
        filled = PipelineState.start(self.stages)
        data = PipelineState.start(self.stages)
        for k in self.loop():
            bar = self.barrier[filled]
            if self.watches == "every" and k >= self.stages:
                yield bar.wait((filled + -self.stages).phase)
            if self.arrives == "every":
                yield bar.arrive()
            yield bar.wait(filled.phase)
            yield self.a[data].read(tag=data.tag)
            yield bar.arrive()
            filled, data = self.next(filled), data + 1


class SharedPhase(Pipeline):
    """One mbarrier per stage, whose every phase takes the producer's arrival and the consumers'."""

    _label = "shared-phase"
    stages = 1
    consumers = 1
    barrier = barrier(arrivals=lambda self: 1 + self.consumers)
    a = tile()

    @role(threads=1)
    def producer(self) -> Body:
        state = PipelineState.start(self.stages, producer=True)
        for _ in self.loop():
            yield self.barrier[state].wait(state.phase)
            yield self.barrier[state].arrive_expect_tx(self.a.bytes)
            yield self.a[state].load(signals=self.barrier[state], tag=state.tag)
            state = state + 1

    @role(warpgroups=1, copies="consumers")
    def consumer(self) -> Body:
        state = PipelineState.start(self.stages)
        for _ in self.loop():
            yield self.barrier[state].wait(state.phase)
            yield self.a[state].read(tag=state.tag)
            yield self.barrier[state].arrive()
            state = state + 1


class TwoProducers(Pipeline):
    """TMA fills one buffer and a warp writes another; the stage is full when both are. full: count of its barrier."""

    _label = "two-producers"
    stages = 2
    full = 2
    pipeline = PipelineTmaAsync(producers="full", consumers=1, bytes=1024)
    a = tile()
    x = tile()

    @role(threads=1)
    def tma(self) -> Body:
        state = self.pipeline.producer_start()
        for _ in self.loop():
            yield from self.pipeline.producer_acquire(state)
            yield self.a[state].load(signals=self.pipeline.full[state], tag=state.tag)
            state = state + 1

    @role(threads=1)
    def writer(self) -> Body:
        state = self.pipeline.producer_start()
        for _ in self.loop():
            yield from self.pipeline.producer_acquire(state, leader=False)
            yield self.x[state].write(tag=state.tag)
            yield self.pipeline.full[state].arrive()
            state = state + 1

    @role(threads=1)
    def consumer(self) -> Body:
        state = self.pipeline.consumer_start()
        for _ in self.loop():
            yield from self.pipeline.consumer_wait(state)
            yield self.a[state].read(tag=state.tag)
            yield self.x[state].read(tag=state.tag)
            yield self.pipeline.empty[state].arrive()
            state = state + 1


class FourStageDemo(Pipeline):
    """PipelineAsync with four stages, one producing warp, and `warps` consumer warps that arrive `each` times."""

    _label = "four-stage-demo"
    stages = 4
    warps = 1
    each = 1
    count = 1
    pipeline = PipelineAsync(producers=1, consumers="count")
    x = tile()

    @role(threads=1)
    def producer(self, me: Threads) -> Body:
        state = self.pipeline.producer_start()
        for _ in self.loop():
            yield from self.pipeline.producer_acquire(state)
            yield self.x[state].write(tag=state.tag)
            yield from self.pipeline.producer_commit(state, me)
            state = state + 1

    @role(warps=1, copies="warps")
    def consumer(self) -> Body:
        state = self.pipeline.consumer_start()
        for _ in self.loop():
            yield from self.pipeline.consumer_wait(state)
            yield self.x[state].read(tag=state.tag)
            yield self.pipeline.empty[state].arrive(self.each)
            state = state + 1


class LastOperand(TmaAsync):
    """A release whose last operand is the id of the CTA: PTX takes it as the number of arrivals."""

    _label = "last-operand"
    stages = 2
    cta = 1
    pipeline = PipelineTmaAsync(consumers=1, bytes="bytes")

    @role(warpgroups=1)
    def consumer(self) -> Body:
        state = self.pipeline.consumer_start()
        for _ in self.loop():
            yield from self.pipeline.consumer_wait(state)
            yield self.a[state].mma(tag=state.tag)
            yield self.mma_wait(0)
            yield self.pipeline.empty[state].arrive(self.cta)
            state = state + 1


class Stored(Pipeline):
    """A thread brings data into shared memory, by "st" or "tma", and stores it from there; fence: between the two."""

    _label = "stored"
    stages = 2
    written = "st"
    fence = 1
    pipeline = PipelineTmaStore()
    full = barrier(arrivals=1)
    d = tile()

    @role(threads=1)
    def warp(self) -> Body:
        state = PipelineState.start(self.stages)
        for _ in self.loop():
            if self.written == "st":
                yield self.d[state].write(tag=state.tag)
            else:
                yield self.full[state].arrive_expect_tx(self.d.bytes)
                yield self.d[state].load(signals=self.full[state], tag=state.tag)
                yield self.full[state].wait(state.phase)
            if self.fence:
                yield self.fence_proxy_async()
            yield self.d[state].store(tag=state.tag)
            yield from self.pipeline.producer_commit(state)
            state = state + 1
            yield from self.pipeline.producer_acquire(state)
        yield from self.pipeline.producer_tail(state)


class NoExpectation(TransactionAsync):
    """The elected lane copies and arrives, and nobody announces the bytes."""

    _label = "no-expectation"

    @role(threads=32, split=(1, 31))
    def producer(self, me: Threads) -> Body:
        state = self.pipeline.producer_start()
        for _ in self.loop():
            yield from self.pipeline.producer_acquire(state)
            if me.leader:
                yield self.c[state].load(signals=self.pipeline.full[state], tag=state.tag)
            yield from self.pipeline.producer_commit(state, me)
            state = state + 1


class InitByThread(Pipeline):
    """A thread initialises the full barrier; fence: it executes fence.mbarrier_init before all threads meet."""

    _label = "init-by-thread"
    fence = 1
    full = barrier(initialised=False)
    a = tile()

    @role(threads=1)
    def producer(self) -> Body:
        yield self.full.init(1)
        if self.fence:
            yield self.fence_mbarrier_init()
        yield self.cta_sync()
        yield self.full.arrive_expect_tx(self.a.bytes)
        yield self.a[0].load(signals=self.full, tag=0)

    @role(warpgroups=1)
    def consumer(self) -> Body:
        yield self.cta_sync()
        yield self.full.wait(0)
        yield self.a[0].read(tag=0)


class Lagging(TmaAsync):
    """The consumer keeps `in_flight` WGMMA groups: gemm, commit, wait_group `waits`, then the release of the stage
    `in_flight` iterations back; at the end it waits for all and releases the rest. waits -1: none in the loop.
    """

    _label = "lagging"
    in_flight = 1
    waits = 1
    tail = 1
    trips = 4

    @role(warpgroups=1)
    def consumer(self, me: Threads) -> Body:
        read = release = self.pipeline.consumer_start()
        for k in range(int(self.trips)):
            yield from self.pipeline.consumer_wait(read)
            yield self.a[read].mma(tag=read.tag)
            if self.waits >= 0:
                yield self.mma_wait(self.waits)
            if k >= self.in_flight:
                yield from self.pipeline.consumer_release(release, me)
                release = release + 1
            read = read + 1
        if self.tail:
            yield self.mma_wait(0)
        for _ in range(min(self.in_flight, int(self.trips))):
            yield from self.pipeline.consumer_release(release, me)
            release = release + 1


class Watched(TmaAsync):
    """A consumer that looks before it waits. expects: bytes that the producer announces for each copy of `bytes`."""

    _label = "watched"
    bytes = 1024
    expects = 1024
    pipeline = PipelineTmaAsync(consumers=1, bytes="expects")

    @role(threads=1)
    def consumer(self) -> Body:
        state = self.pipeline.consumer_start()
        for _ in self.loop():
            token = yield from self.pipeline.consumer_test_wait(state)
            yield from self.pipeline.consumer_wait(state, token)
            yield self.a[state].read(tag=state.tag)
            yield self.pipeline.empty[state].arrive()
            state = state + 1
