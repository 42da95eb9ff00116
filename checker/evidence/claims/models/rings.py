"""The TMA ring with one thing varied at a time: phases, counts, tails, who arrives, and how the barriers are armed.

What is not varied is as in spec.cutlass.classes: a producer that waits, arms and copies, consumers that wait, read and
arrive.
"""

from __future__ import annotations

from sm90_verify.spec.cutlass.classes import TmaAsync
from sm90_verify.spec.cutlass.pipelines import PipelineTmaAsync
from sm90_verify.spec.language.declarations import Body, barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.model.kernel import Threads
from sm90_verify.spec.ptx.limits import WARPGROUP


class Ring(TmaAsync):
    """first: the phase that the producer starts with. release: consumers arrive "after" or "before" their WGMMAs are
    over.
    """

    _label = "ring"
    first = 1
    release = "after"

    @role(threads=1, copies="producers")
    def producer(self, me: Threads) -> Body:
        state = PipelineState.start(self.stages, producer=self.first == 1)
        for _ in self.loop():
            yield from self.pipeline.producer_acquire(state)
            yield self.a[state.index * self.producers + me.copy].load(
                signals=self.pipeline.full[state], tag=state.tag, pieces=self.pieces
            )
            state = state + 1

    @role(warpgroups=1, copies="consumers")
    def consumer(self, me: Threads) -> Body:
        state = self.pipeline.consumer_start()
        for _ in self.loop():
            yield from self.pipeline.consumer_wait(state)
            yield self.a[state.index].mma(tag=state.tag)
            if self.release == "after":
                yield self.mma_wait(0)
            yield from self.pipeline.consumer_release(state, me)
            if self.release == "before":
                yield self.mma_wait(0)
            state = state + 1


class ProducerAlone(Pipeline):
    """A producer and nobody who releases anything: how far does it come?"""

    _label = "producer-alone"
    stages = 4
    first = 1
    trips = 4
    pipeline = PipelineTmaAsync(consumers=WARPGROUP, bytes=1024)
    a = tile()

    @role(threads=1)
    def producer(self) -> Body:
        state = PipelineState.start(self.stages, producer=self.first == 1)
        for _ in self.loop():
            yield from self.pipeline.producer_acquire(state)
            yield self.a[state].load(signals=self.pipeline.full[state])
            state = state + 1


class Tail(TmaAsync):
    """tail: whether the producer ends with producer_tail."""

    _label = "tail"
    tail = 1

    @role(threads=1)
    def producer(self, me: Threads) -> Body:
        state = self.pipeline.producer_start()
        for _ in self.loop():
            yield from self.pipeline.producer_acquire(state)
            yield from self.fill(state, me)
            state = state + 1
        if self.tail:
            yield from self.pipeline.producer_tail(state)


class Counts(Pipeline):
    """full, empty: counts of the barriers. producers and consumers arrive `each` times a phase."""

    _label = "counts"
    stages = 2
    producers = 1
    consumers = 1
    full = 1
    empty = 1
    each = 1
    bytes = 1024
    pipeline = PipelineTmaAsync(producers="full", consumers="empty", bytes="bytes")
    a = tile(bytes="bytes", slots=lambda self: self.stages * self.producers)

    @role(threads=1, copies="producers")
    def producer(self, me: Threads) -> Body:
        state = self.pipeline.producer_start()
        for _ in self.loop():
            yield from self.pipeline.producer_acquire(state)
            buffer = self.a[state.index * self.producers + me.copy]
            yield buffer.load(signals=self.pipeline.full[state], tag=state.tag)
            state = state + 1

    @role(warpgroups=1, copies="consumers")
    def consumer(self) -> Body:
        state = self.pipeline.consumer_start()
        for _ in self.loop():
            yield from self.pipeline.consumer_wait(state)
            for producer in range(self.producers):
                yield self.a[state.index * self.producers + producer].mma(tag=state.tag)
            yield self.mma_wait(0)
            yield self.pipeline.empty[state].arrive(self.each)
            state = state + 1


class OneArrivalPerWarpgroup(Pipeline):
    """One thread of each of two consumer warpgroups releases. reads: by "wgmma", which is over when all four warps have
    issued it, or "ldmatrix", where each warp reads for itself; meets: the warps meet before that thread arrives.
    """

    _label = "one-arrival-per-warpgroup"
    stages = 2
    reads = "wgmma"
    meets = 0
    pipeline = PipelineTmaAsync(consumers=2, bytes=1024)
    a = tile()

    @role(threads=1)
    def producer(self) -> Body:
        state = self.pipeline.producer_start()
        for _ in self.loop():
            yield from self.pipeline.producer_acquire(state)
            yield self.a[state].load(signals=self.pipeline.full[state], tag=state.tag)
            state = state + 1

    @role(warpgroups=1, copies=lambda self: 2 if self.reads == "wgmma" else 0)
    def warpgroup(self) -> Body:
        state = self.pipeline.consumer_start()
        for _ in self.loop():
            yield from self.pipeline.consumer_wait(state)
            yield self.a[state].mma(tag=state.tag)
            yield self.mma_wait(0)
            if self.meets:
                yield self.warp_sync()
            yield self.pipeline.empty[state].arrive()
            state = state + 1

    @role(warpgroups=1, copies=lambda self: 2 if self.reads == "ldmatrix" else 0, split=(32, 96))
    def warps(self, me: Threads) -> Body:
        state = self.pipeline.consumer_start()
        for _ in self.loop():
            yield from self.pipeline.consumer_wait(state)
            yield self.a[state].read(tag=state.tag)
            if self.meets:
                yield self.warp_sync()
            if me.leader:
                yield self.pipeline.empty[state].arrive()
            state = state + 1


class Observer(TmaAsync):
    """A warpgroup that waits on the full barriers and reads; counted: it releases and the empty barriers count it."""

    _label = "observer"
    counted = 1
    pipeline = PipelineTmaAsync(consumers=lambda self: WARPGROUP * (self.consumers + self.counted), bytes="bytes")

    @role(warpgroups=1)
    def observer(self, me: Threads) -> Body:
        state = self.pipeline.consumer_start()
        for _ in self.loop():
            yield from self.pipeline.consumer_wait(state)
            if self.counted:
                yield from self.pipeline.consumer_release(state, me)
            state = state + 1


class Leaders(Pipeline):
    """`leaders` threads execute arrive.expect_tx for the same copy, `expects` bytes each, on a barrier that counts
    `full`.
    """

    _label = "leaders"
    stages = 2
    leaders = 1
    full = 1
    expects = 1024
    pipeline = PipelineTmaAsync(producers="full", consumers=WARPGROUP, bytes="expects")
    a = tile(bytes=1024)

    @role(threads=1, copies="leaders")
    def producer(self, me: Threads) -> Body:
        state = self.pipeline.producer_start()
        for _ in self.loop():
            yield from self.pipeline.producer_acquire(state)
            if me.copy == 0:
                yield self.a[state].load(signals=self.pipeline.full[state], tag=state.tag)
            state = state + 1

    @role(warpgroups=1)
    def consumer(self, me: Threads) -> Body:
        state = self.pipeline.consumer_start()
        for _ in self.loop():
            yield from self.pipeline.consumer_wait(state)
            yield self.a[state].mma(tag=state.tag)
            yield self.mma_wait(0)
            yield from self.pipeline.consumer_release(state, me)
            state = state + 1


class Elected(TmaAsync):
    """The lane that elect.sync picks runs the load loop; is_leader is (thread 0 of the warpgroup)."""

    _label = "elected"
    elected = 0

    @role(threads=1)
    def producer(self) -> Body:
        state = self.pipeline.producer_start()
        for _ in self.loop():
            yield from self.pipeline.producer_acquire(state, leader=self.elected == 0)
            yield self.a[state].load(signals=self.pipeline.full[state], tag=state.tag)
            state = state + 1


class Expectation(Pipeline):
    """How the producer arms the full barrier. how: "one" (arrive.expect_tx), "arrive-expect", "expect-arrive",
    "expect" (never arrives), "arrive" (never expects) or "arrive-expect-arrive" on a barrier that counts two.
    """

    _label = "expectation"
    stages = 1
    how = "one"
    full = barrier(arrivals=lambda self: 1 + (self.how == "arrive-expect-arrive"))
    empty = barrier(arrivals=1)
    a = tile()

    @role(threads=1)
    def producer(self) -> Body:
        state = PipelineState.start(self.stages, producer=True)
        for _ in self.loop():
            yield self.empty[state].wait(state.phase)
            if self.how == "one":
                yield self.full[state].arrive_expect_tx(self.a.bytes)
            else:
                for verb in self.how.split("-"):
                    yield self.full[state].arrive() if verb == "arrive" else self.full[state].expect_tx(self.a.bytes)
            yield self.a[state].load(signals=self.full[state], tag=state.tag)
            state = state + 1

    @role(warpgroups=1)
    def consumer(self) -> Body:
        state = PipelineState.start(self.stages)
        for _ in self.loop():
            yield self.full[state].wait(state.phase)
            yield self.a[state].read(tag=state.tag)
            yield self.empty[state].arrive()
            state = state + 1
