"""The kernels that exercise each CUTLASS pipeline class: what `verify pipeline CLASS` checks.

The consumer of a stage reads it with a content tag, so that a proof says not only that nothing hangs or races but
that each iteration finds its own data.
"""

from __future__ import annotations

from typing import Any

from sm90_verify.spec.cutlass.collective import defined_in, most_bytes
from sm90_verify.spec.cutlass.pipelines import (
    EPILOGUE_BARRIER,
    WAIT_AGAIN,
    OrderedSequenceBarrier,
    PipelineAsync,
    PipelineTmaAsync,
    PipelineTmaStore,
    PipelineTransactionAsync,
)
from sm90_verify.spec.language.declarations import Body, role, tile
from sm90_verify.spec.language.handles import Tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState, ring_period
from sm90_verify.spec.model.kernel import Threads
from sm90_verify.spec.ptx.limits import WARPGROUP

STAGE_BYTES = 32_768
"""A and B of a 128x128x64 f16 stage."""


class _Fitting(Pipeline):
    """Stages that fit into a CTA: unless their size is given, it is the class's own, or less if there is no room for so
    many.
    """

    def __init__(self, **parameters: Any) -> None:
        given = {name: getattr(type(self), name, 1) for name in ("stages", "producers", "bytes")} | parameters
        open = "bytes" not in parameters and defined_in(type(self), "bytes") == __name__
        if open and isinstance(given["stages"], int) and isinstance(given["producers"], int):
            most = most_bytes(given["stages"], given["stages"] * given["producers"])
            if most < given["bytes"]:
                parameters["bytes"] = most
        super().__init__(**parameters)


class TmaAsync(_Fitting):
    """PipelineTmaAsync as the mainloop uses it: `producers` leaders issue TMA, `consumers` warpgroups read with WGMMA.

    peek: use the try functions before acquire and wait. pieces: in how many pieces each copy's bytes are signalled. In
    a cluster of X x Y CTAs, each loads its part of A for the Y CTAs with the same rows, and its part of B for the X
    CTAs with the same columns.
    """

    _label = "tma-async"
    stages = 4
    consumers = 1
    producers = 1
    bytes = STAGE_BYTES
    pieces = 1
    peek = False

    pipeline = PipelineTmaAsync(producers="producers", consumers=lambda self: WARPGROUP * self.consumers, bytes="bytes")
    a = tile(bytes="bytes", slots=lambda self: self.stages * self.producers * (self.shape.size == 1))
    parts_of_a = tile(
        bytes=lambda self: self.bytes // 2 // self.shape.y,
        slots=lambda self: self.stages * self.shape.y * (self.shape.size > 1),
    )
    parts_of_b = tile(
        bytes=lambda self: self.bytes // 2 // self.shape.x,
        slots=lambda self: self.stages * self.shape.x * (self.shape.size > 1),
    )

    @role(threads=1, copies="producers")
    def producer(self, me: Threads) -> Body:
        state = self.pipeline.producer_start()
        for _ in self.loop():
            token = WAIT_AGAIN
            if self.peek:
                token = yield from self.pipeline.producer_try_acquire(state)
            yield from self.pipeline.producer_acquire(state, token)
            yield from self.fill(state, me)
            state = state + 1
        yield from self.pipeline.producer_tail(state)

    @role(warpgroups=1, copies="consumers")
    def consumer(self, me: Threads) -> Body:
        state = self.pipeline.consumer_start()
        for _ in self.loop():
            token = WAIT_AGAIN
            if self.peek:
                token = yield from self.pipeline.consumer_try_wait(state)
            yield from self.pipeline.consumer_wait(state, token)
            yield self.mma(*self.operands(state))
            yield self.mma_wait(0)
            yield from self.pipeline.consumer_release(state, me)
            state = state + 1

    def fill(self, state: PipelineState, me: Threads) -> Body:
        """The copies of one stage that this leader starts."""
        full = self.pipeline.full[state]
        if self.shape.size == 1:
            buffer = self.a[state.index * self.producers + me.copy]
            yield buffer.load(signals=full, tag=state.tag, pieces=self.pieces)
            return
        i, j = self.shape.position(me.cta)
        part_of_a = self.parts_of_a[state.index * self.shape.y + j]
        yield part_of_a.load(signals=full, tag=state.tag, multicast=self.shape.sharing_a(me.cta))
        part_of_b = self.parts_of_b[state.index * self.shape.x + i]
        yield part_of_b.load(signals=full, tag=state.tag, multicast=self.shape.sharing_b(me.cta))

    def operands(self, state: PipelineState) -> list[Tile]:
        """Everything that one k-tile of a stage consists of."""
        if self.shape.size == 1:
            all_parts = [(self.a, self.producers)]
        else:
            all_parts = [(self.parts_of_a, self.shape.y), (self.parts_of_b, self.shape.x)]
        return [array[state.index * n + part].of(state.tag) for array, n in all_parts for part in range(n)]


class TransactionAsync(_Fitting):
    """PipelineTransactionAsync as the epilogue load uses it: one warp, whose elected lane issues TMA and then
    expects.
    """

    _label = "transaction-async"
    _clusters = False
    stages = 4
    consumers = 1
    bytes = 8192
    pieces = 1

    pipeline = PipelineTransactionAsync(producers=32, consumers=lambda self: WARPGROUP * self.consumers, bytes="bytes")
    c = tile(bytes="bytes")

    @role(threads=32, split=(1, 31))
    def producer(self, me: Threads) -> Body:
        state = self.pipeline.producer_start()
        for _ in self.loop():
            yield from self.pipeline.producer_acquire(state)
            if me.leader:
                yield self.c[state].load(signals=self.pipeline.full[state], pieces=self.pieces)
                yield from self.pipeline.producer_expect_transaction(state)
            yield from self.pipeline.producer_commit(state, me)
            state = state + 1
        yield from self.pipeline.producer_tail(state)

    @role(warpgroups=1, copies="consumers")
    def consumer(self, me: Threads) -> Body:
        state = self.pipeline.consumer_start()
        for _ in self.loop():
            yield from self.pipeline.consumer_wait(state)
            yield self.c[state].read()
            yield from self.pipeline.consumer_release(state, me)
            state = state + 1


class Async(_Fitting):
    """PipelineAsync: `producers` warpgroups write a stage with ordinary stores, `consumers` warpgroups read it."""

    _label = "async"
    _clusters = False
    stages = 4
    consumers = 1
    producers = 1
    bytes = 8192

    pipeline = PipelineAsync(
        producers=lambda self: WARPGROUP * self.producers, consumers=lambda self: WARPGROUP * self.consumers
    )
    x = tile(bytes="bytes", slots=lambda self: self.stages * self.producers)

    @role(warpgroups=1, copies="producers")
    def producer(self, me: Threads) -> Body:
        state = self.pipeline.producer_start()
        for _ in self.loop():
            yield from self.pipeline.producer_acquire(state)
            yield self.x[state.index * self.producers + me.copy].write(tag=state.tag)
            yield from self.pipeline.producer_commit(state, me)
            state = state + 1
        yield from self.pipeline.producer_tail(state)

    @role(warpgroups=1, copies="consumers")
    def consumer(self, me: Threads) -> Body:
        state = self.pipeline.consumer_start()
        for _ in self.loop():
            yield from self.pipeline.consumer_wait(state)
            for producer in range(self.producers):
                yield self.x[state.index * self.producers + producer].read(tag=state.tag)
            yield from self.pipeline.consumer_release(state, me)
            state = state + 1


class TmaStore(_Fitting):
    """PipelineTmaStore as the epilogue uses it: all threads write a slot, fence and meet; warp 0 stores it and waits.

    The threads are `consumers` warpgroups, seen as the storing warp and all the others, each with its part of the slot.
    """

    _label = "tma-store"
    _clusters = False
    stages = 2
    consumers = 1
    bytes = 8192

    pipeline = PipelineTmaStore()
    mine = tile(bytes=lambda self: self.warp_bytes, stride="bytes")
    rest = tile(
        bytes=lambda self: self.bytes - self.warp_bytes,
        shares="mine",
        offset=lambda self: self.warp_bytes,
        stride="bytes",
    )

    @property
    def warp_bytes(self) -> int:
        """What one warp writes of a slot."""
        return self.bytes // (4 * self.consumers)

    @role(warps=1)
    def store_warp(self) -> Body:
        state = self.pipeline.producer_start()
        for _ in self.loop():
            yield self.mine[state].write()
            yield self.fence_proxy_async()
            yield self.named_sync(EPILOGUE_BARRIER, WARPGROUP * self.consumers)
            yield self.store(self.mine[state], self.rest[state])
            yield from self.pipeline.producer_commit(state)
            state = state + 1
            yield from self.pipeline.producer_acquire(state)
            yield self.named_sync(EPILOGUE_BARRIER, WARPGROUP * self.consumers)
        yield from self.pipeline.producer_tail(state)

    @role(threads=lambda self: WARPGROUP * self.consumers - 32)
    def other_warps(self) -> Body:
        state = self.pipeline.producer_start()
        for _ in self.loop():
            yield self.rest[state].write()
            yield self.fence_proxy_async()
            yield self.named_sync(EPILOGUE_BARRIER, WARPGROUP * self.consumers)
            state = state + 1
            yield self.named_sync(EPILOGUE_BARRIER, WARPGROUP * self.consumers)


class OrderedSequence(Pipeline):
    """OrderedSequenceBarrier<stages, consumers>: in every stage the groups take turns at a buffer that only one may
    touch.
    """

    _label = "ordered-sequence"
    _clusters = False
    stages = 2
    consumers = 2

    order = OrderedSequenceBarrier("stages", "consumers", group=WARPGROUP)
    work = tile(bytes=128, holds=lambda self: self.turns - 1)

    @property
    def turns(self) -> int:
        """Turns at one buffer after which their numbers recur."""
        return ring_period(self.stages) // self.stages * self.consumers

    @role(warpgroups=1, copies="consumers")
    def group(self, me: Threads) -> Body:
        state = self.order.start(me.copy)
        for _ in self.loop():
            turn = state.tag // self.stages * self.consumers + me.copy
            yield from self.order.wait(state, me.copy)
            yield self.work[state].read(tag=(turn - 1) % self.turns)
            yield self.work[state].write(tag=turn)
            yield from self.order.arrive(state, me.copy, me)
            state = state + 1
