"""TMA rings whose first laps are not those of CUTLASS: parities kept by hand, waits and acquires left out, a prologue.

The rest is as in spec.cutlass.classes: a producer that waits, arms and copies, consumers that wait, read and arrive.
"""

from __future__ import annotations

from sm90_verify.spec.cutlass.classes import Async, TmaAsync
from sm90_verify.spec.language.declarations import Body, role
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.model.kernel import Threads


class Wrap(TmaAsync):
    """The producer waits with parity `lap0` throughout the first lap and with `lap1` throughout the second, in turn."""

    _label = "wrap"
    lap0 = 1
    lap1 = 0
    trips = "forever"

    @role(threads=1)
    def producer(self) -> Body:
        state = self.pipeline.producer_start()
        parity, other = self.lap0, self.lap1
        for _ in self.loop():
            yield self.pipeline.empty[state].wait(parity)
            yield self.pipeline.full[state].arrive_expect_tx(self.bytes)
            yield self.a[state].load(signals=self.pipeline.full[state], tag=state.tag)
            if state.index == self.stages - 1:
                parity, other = other, parity
            state = state + 1


class HandParity(TmaAsync):
    """Parities kept by hand: both loops flip theirs when (i + 1) % stages == 0; the starting values are given."""

    _label = "hand-parity"
    producer_parity = 1
    consumer_parity = 0

    @role(threads=1)
    def producer(self) -> Body:
        state, parity = self.pipeline.producer_start(), self.producer_parity
        for i in self.loop():
            yield self.pipeline.empty[i % self.stages].wait(parity)
            yield self.pipeline.full[i % self.stages].arrive_expect_tx(self.bytes)
            yield self.a[i % self.stages].load(signals=self.pipeline.full[i % self.stages], tag=state.tag)
            if (i + 1) % self.stages == 0:
                parity ^= 1
            state = state + 1

    @role(warpgroups=1)
    def consumer(self, me: Threads) -> Body:
        state, parity = self.pipeline.consumer_start(), self.consumer_parity
        for i in self.loop():
            yield self.pipeline.full[i % self.stages].wait(parity)
            yield self.a[i % self.stages].mma(tag=state.tag)
            yield self.mma_wait(0)
            yield self.pipeline.empty[i % self.stages].arrive(me.threads)
            if (i + 1) % self.stages == 0:
                parity ^= 1
            state = state + 1


class FirstRound(TmaAsync):
    """skip: what the producer leaves out in its first lap: "nothing", the "wait", or the whole "acquire", which arms
    the full barrier as well. first: the phase that its state starts with.
    """

    _label = "first-round"
    skip = "nothing"
    first = 1
    trips = "forever"

    @role(threads=1)
    def producer(self) -> Body:
        state = PipelineState.start(self.stages, producer=self.first == 1)
        for lap in range(2):
            for _ in range(self.stages) if lap == 0 else self.loop():
                if lap or self.skip == "nothing":
                    yield from self.pipeline.producer_acquire(state)
                elif self.skip == "wait":
                    yield self.pipeline.full[state].arrive_expect_tx(self.bytes)
                yield self.a[state].load(signals=self.pipeline.full[state], tag=state.tag)
                state = state + 1


class FirstRoundAsync(Async):
    """The same for PipelineAsync, whose acquire is nothing but the wait."""

    _label = "first-round-async"
    skip = "nothing"
    first = 1
    trips = "forever"

    @role(warpgroups=1)
    def producer(self, me: Threads) -> Body:
        state = PipelineState.start(self.stages, producer=self.first == 1)
        for lap in range(2):
            for _ in range(self.stages) if lap == 0 else self.loop():
                if lap or self.skip == "nothing":
                    yield from self.pipeline.producer_acquire(state)
                yield self.x[state].write(tag=state.tag)
                yield from self.pipeline.producer_commit(state, me)
                state = state + 1


class Prologue(TmaAsync):
    """prologue: the producer commits `stages` copies before its first acquire. first: the phase of that acquire."""

    _label = "prologue"
    prologue = 0
    first = 1
    trips = "forever"

    @role(threads=1)
    def producer(self) -> Body:
        data = self.pipeline.consumer_start()
        if self.prologue:
            for _ in range(self.stages):
                yield self.pipeline.full[data].arrive_expect_tx(self.bytes)
                yield self.a[data].load(signals=self.pipeline.full[data], tag=data.tag)
                data = data + 1
        state = PipelineState.start(self.stages, producer=self.first == 1)
        for _ in self.loop():
            yield from self.pipeline.producer_acquire(state)
            yield self.a[state].load(signals=self.pipeline.full[state], tag=data.tag)
            state, data = state + 1, data + 1
