"""Models that make the mistakes of the hand-written kernels (kernels/pipelines.cuh), one class each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sm90_verify.spec.cutlass.classes import Async, OrderedSequence, TmaAsync, TmaStore, TransactionAsync
from sm90_verify.spec.cutlass.epilogue import Epilogue, Stores, Storing
from sm90_verify.spec.cutlass.pipelines import (
    EPILOGUE_BARRIER,
    WAIT_AGAIN,
    OrderedSequenceBarrier,
    PipelineAsync,
    PipelineTmaAsync,
    PipelineTransactionAsync,
)
from sm90_verify.spec.language.declarations import Body, role
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.model.kernel import Threads
from sm90_verify.spec.ptx.limits import WARP, WARPGROUP


def _consumers(self: Any) -> int:
    return WARPGROUP * int(self.consumers)


# ---------------------------------------------------------------- PipelineTmaAsync


class _WrongPhase(PipelineTmaAsync):
    def producer_start(self) -> PipelineState:
        return self.consumer_start()


class ProducerPhase(TmaAsync):
    pipeline = _WrongPhase(consumers=_consumers, bytes="bytes")


class ReleaseBeforeRead(TmaAsync):
    @role(warpgroups=1, copies="consumers")
    def consumer(self, me: Threads) -> Body:
        state = self.pipeline.consumer_start()
        for _ in self.loop():
            yield from self.pipeline.consumer_wait(state)
            yield from self.pipeline.consumer_release(state, me)
            yield self.mma(*self.operands(state))
            yield self.mma_wait(0)
            state = state + 1


class ExpectMore(TmaAsync):
    pipeline = PipelineTmaAsync(consumers=_consumers, bytes=lambda self: self.bytes + 16)


class ExpectLess(TmaAsync):
    pipeline = PipelineTmaAsync(consumers=_consumers, bytes=lambda self: self.bytes // 2)


class _SomeRelease(PipelineTmaAsync):
    def consumer_release(self, state: PipelineState, me: Threads) -> Body:
        yield from self._release(state, me.threads - WARP)


class ReleaseBySomeWarps(TmaAsync):
    pipeline = _SomeRelease(consumers=_consumers, bytes="bytes")


class _OtherCount(PipelineTmaAsync):
    def __init__(self, count: Callable[[Any], int]) -> None:
        super().__init__(consumers=_consumers, bytes="bytes")
        self.empty_arrivals = count


class CountOfOneGroup(TmaAsync):
    pipeline = _OtherCount(lambda self: WARPGROUP)


class CountTooLarge(TmaAsync):
    pipeline = _OtherCount(lambda self: _consumers(self) + WARP)


class StateNotAdvanced(TmaAsync):
    @role(warpgroups=1, copies="consumers")
    def consumer(self, me: Threads) -> Body:
        state = meant = self.pipeline.consumer_start()
        for _ in self.loop():
            yield from self.pipeline.consumer_wait(state)
            yield self.mma(self.a[state.index].of(meant.tag))
            yield self.mma_wait(0)
            yield from self.pipeline.consumer_release(state, me)
            meant = meant + 1


class PhaseNotFlipped(TmaAsync):
    @role(warpgroups=1, copies="consumers")
    def consumer(self, me: Threads) -> Body:
        state = self.pipeline.consumer_start()
        for _ in self.loop():
            yield self.pipeline.full[state].wait(0)
            yield self.mma(*self.operands(state))
            yield self.mma_wait(0)
            yield from self.pipeline.consumer_release(state, me)
            state = state + 1


class _NoAcquire(PipelineTmaAsync):
    def producer_acquire(self, state: PipelineState, token: bool = WAIT_AGAIN, *, leader: bool = True) -> Body:
        yield self.full[state].arrive_expect_tx(self.owner.value(self.bytes))


class AcquireSkipped(TmaAsync):
    pipeline = _NoAcquire(consumers=_consumers, bytes="bytes")


class MulticastToItself(TmaAsync):
    def fill(self, state: PipelineState, me: Threads) -> Body:
        i, j = self.shape.position(me.cta)
        full = self.pipeline.full[state]
        yield self.parts_of_a[state.index * self.shape.y + j].load(signals=full, tag=state.tag)
        yield self.parts_of_b[state.index * self.shape.x + i].load(signals=full, tag=state.tag)


class _OwnRelease(PipelineTmaAsync):
    def consumer_release(self, state: PipelineState, me: Threads) -> Body:
        yield self.empty[state].arrive(1)


class _OwnCount(_OwnRelease):
    def __init__(self) -> None:
        super().__init__(consumers=_consumers, bytes="bytes")
        self.empty_arrivals = "consumers"


class ReleaseToItself(TmaAsync):
    pipeline = _OwnRelease(consumers=_consumers, bytes="bytes")


class ClusterForgotten(TmaAsync):
    pipeline = _OwnCount()


class _NoTail(PipelineTmaAsync):
    def producer_tail(self, state: PipelineState) -> Body:
        return
        yield


class TailLeftOut(TmaAsync):
    pipeline = _NoTail(consumers=_consumers, bytes="bytes")


# ---------------------------------------------------------------- PipelineTransactionAsync, PipelineAsync


class _NoExpect(PipelineTransactionAsync):
    def producer_expect_transaction(self, state: PipelineState) -> Body:
        return
        yield


class ExpectLeftOut(TransactionAsync):
    pipeline = _NoExpect(producers=WARP, consumers=_consumers, bytes="bytes")


class _OneCommits(PipelineTransactionAsync):
    def producer_commit(self, state: PipelineState, me: Threads) -> Body:
        if me.leader:
            yield self.full[state].arrive(me.threads)


class CommitByOneLane(TransactionAsync):
    pipeline = _OneCommits(producers=WARP, consumers=_consumers, bytes="bytes")


class _SomeReleaseC(PipelineTransactionAsync):
    def consumer_release(self, state: PipelineState, me: Threads) -> Body:
        yield from self._release(state, me.threads - WARP)


class CReleaseBySomeWarps(TransactionAsync):
    pipeline = _SomeReleaseC(producers=WARP, consumers=_consumers, bytes="bytes")


class CReleaseBeforeRead(TransactionAsync):
    @role(warpgroups=1, copies="consumers")
    def consumer(self, me: Threads) -> Body:
        state = self.pipeline.consumer_start()
        for _ in self.loop():
            yield from self.pipeline.consumer_wait(state)
            yield from self.pipeline.consumer_release(state, me)
            yield self.c[state].read()
            state = state + 1


class CommitBeforeWrite(Async):
    @role(warpgroups=1, copies="producers")
    def producer(self, me: Threads) -> Body:
        state = self.pipeline.producer_start()
        for _ in self.loop():
            yield from self.pipeline.producer_acquire(state)
            yield from self.pipeline.producer_commit(state, me)
            yield self.x[state].write(tag=state.tag)
            state = state + 1
        yield from self.pipeline.producer_tail(state)


class _NoWait(PipelineAsync):
    def producer_acquire(self, state: PipelineState, token: bool = WAIT_AGAIN) -> Body:
        return
        yield


class XAcquireSkipped(Async):
    pipeline = _NoWait(producers=WARPGROUP, consumers=_consumers)


# ---------------------------------------------------------------- PipelineTmaStore


class StoreWithout(TmaStore):
    """TmaStore with parts that can be left out."""

    fence: bool = True
    wait: bool = True
    store_sync: bool = True
    acquire_sync: bool = True

    @role(warps=1)
    def store_warp(self) -> Body:
        state = self.pipeline.producer_start()
        for _ in self.loop():
            yield self.mine[state].write()
            yield from self._before()
            yield self.store(self.mine[state], self.rest[state])
            yield from self.pipeline.producer_commit(state)
            state = state + 1
            if self.wait:
                yield from self.pipeline.producer_acquire(state)
            yield from self._meet(self.acquire_sync)
        yield from self.pipeline.producer_tail(state)

    @role(threads=lambda self: WARPGROUP * self.consumers - 32)
    def other_warps(self) -> Body:
        state = self.pipeline.producer_start()
        for _ in self.loop():
            yield self.rest[state].write()
            yield from self._before()
            state = state + 1
            yield from self._meet(self.acquire_sync)

    def _before(self) -> Body:
        if self.fence:
            yield self.fence_proxy_async()
        yield from self._meet(self.store_sync)

    def _meet(self, wanted: bool) -> Body:
        if wanted:
            yield self.named_sync(EPILOGUE_BARRIER, WARPGROUP * self.consumers)


# ---------------------------------------------------------------- OrderedSequenceBarrier


class TurnNotAdvanced(OrderedSequence):
    @role(warpgroups=1, copies="consumers")
    def group(self, me: Threads) -> Body:
        state = meant = self.order.start(me.copy)
        for _ in self.loop():
            turn = meant.tag // self.stages * self.consumers + me.copy
            yield from self.order.wait(state, me.copy)
            yield self.work[meant].read(tag=(turn - 1) % self.turns)
            yield self.work[meant].write(tag=turn)
            yield from self.order.arrive(state, me.copy, me)
            meant = meant + 1


class _AllWait(OrderedSequenceBarrier):
    def start(self, group: int) -> PipelineState:
        return PipelineState.start(self.owner.value(self.depth))


class AllGroupsWait(OrderedSequence):
    order = _AllWait("stages", "consumers", group=WARPGROUP)


class _ToItself(OrderedSequenceBarrier):
    def arrive(self, state: PipelineState, group: int, me: Threads) -> Body:
        yield self.barrier[state.index * self.owner.value(self.length) + group].arrive(me.threads)


class ArrivesAtItself(OrderedSequence):
    order = _ToItself("stages", "consumers", group=WARPGROUP)


# ---------------------------------------------------------------- the epilogue


class ReleasedAfterRead(Epilogue):
    """With reuse_smem_c, as the threads release a stage without it."""

    def epilogue_store(self, at: Stores, me: Threads, part: str) -> Storing:
        load, store, aux, issued = at
        for _ in range(self.subtiles):
            yield from self._read(store.flip(), part)
            yield from self.epi_load.consumer_release(load, me)
            yield self.d.part(part, store).write()
            _, store, aux, issued = yield from self._tma_store((load, store, aux, 0), me, part)
            load = load + 1
        return load, store, aux, issued

    def epilogue_store_tail(self, at: Stores, me: Threads, part: str) -> Storing:
        if part == self.store_parts[0]:
            yield self.bulk_wait_read(0)
        return at
