"""Kernels with several pipelines, barriers that roles initialise themselves, and buffers that share bytes."""

from __future__ import annotations

import pytest

from sm90_verify.engines.check import check
from sm90_verify.result import PROVED, VIOLATED
from sm90_verify.spec.cutlass.pipelines import OrderedSequenceBarrier, PipelineTmaAsync, PipelineTransactionAsync
from sm90_verify.spec.language.declarations import Body, barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.model.kernel import Threads


def violated(pipeline: Pipeline) -> set[str]:
    result = check(pipeline, command="spec")
    return {finding.id for finding in result.findings if finding.verdict == VIOLATED}


def proved(pipeline: Pipeline) -> bool:
    return check(pipeline, command="spec").verdict == PROVED


class Gemm(Pipeline):
    """A mainloop ring, a ring for the source matrix, and the order between their two load warps."""

    stages = 2
    stages_c = 1
    k_tiles = 2
    releases_source = True

    mainloop = PipelineTmaAsync("stages", consumers=128, bytes=1024)
    source = PipelineTransactionAsync("stages_c", producers=32, consumers=128, bytes=512)
    order = OrderedSequenceBarrier(1, 2, group=1)
    a = tile(bytes=1024, slots="stages")
    c = tile(bytes=512, slots="stages_c")

    @role(threads=1)
    def load(self, me: Threads) -> Body:
        state, turn = self.mainloop.producer_start(), self.order.start(0)
        first = True
        for _ in self.loop():
            for _ in range(self.k_tiles):
                yield from self.mainloop.producer_acquire(state)
                yield self.a[state].load(signals=self.mainloop.full[state])
                state = state + 1
            if first:
                yield from self.order.arrive(turn, 0, me)
                first = False
        yield from self.mainloop.producer_tail(state)

    @role(warps=1)
    def load_source(self, me: Threads) -> Body:
        state, turn = self.source.producer_start(), self.order.start(1)
        first = True
        for _ in self.loop():
            if first:
                yield from self.order.wait(turn, 1)
                first = False
            yield from self.source.producer_acquire(state)
            yield self.c[state].load(signals=self.source.full[state])
            yield from self.source.producer_expect_transaction(state)
            yield from self.source.producer_commit(state, me)
            state = state + 1
        yield from self.source.producer_tail(state)

    @role(warpgroups=1)
    def math(self, me: Threads) -> Body:
        state, store = self.mainloop.consumer_start(), self.source.consumer_start()
        for _ in self.loop():
            for _ in range(self.k_tiles):
                yield from self.mainloop.consumer_wait(state)
                yield self.a[state].mma()
                yield self.mma_wait(0)
                yield from self.mainloop.consumer_release(state, me)
                state = state + 1
            yield from self.source.consumer_wait(store)
            yield self.c[store].read()
            if self.releases_source:
                yield from self.source.consumer_release(store, me)
            store = store + 1


@pytest.mark.parametrize(("stages", "stages_c", "k_tiles"), [(1, 1, 1), (2, 1, 2), (2, 2, 3), (3, 2, 2)])
def test_two_rings_and_an_order_in_one_kernel(stages, stages_c, k_tiles):
    assert proved(Gemm(stages=stages, stages_c=stages_c, k_tiles=k_tiles))


class ForgetsTheSource(Gemm):
    """The math warpgroup does not release the source stage."""

    releases_source = False


class SharesBytes(Gemm):
    """The source lies over the first mainloop stage, as declared; nothing orders the two."""

    c = tile(bytes=512, slots="stages_c", shares="a")


class LiesOver(Gemm):
    """The same bytes without saying so."""

    c = tile(bytes=512, slots="stages_c", address=0)
    a = tile(bytes=1024, slots="stages", address=0)


def test_faults_in_one_of_two_rings():
    assert "deadlock" in violated(ForgetsTheSource())
    assert "race" in violated(SharesBytes()) and "smem-overlap" not in violated(SharesBytes())
    assert "smem-overlap" in violated(LiesOver())


class InitialisesItself(Pipeline):
    """sm90_gemm_tma_warpspecialized.hpp:362-373: one thread initialises and fences, all meet, then the roles start."""

    stages = 1
    fences = True
    meets = True
    full = barrier(initialised=False)
    empty = barrier(initialised=False)
    a = tile(bytes=1024)

    def _meet(self) -> Body:
        if self.meets:
            yield self.cta_sync()

    @role(threads=32)
    def producer(self) -> Body:
        yield self.full.init(1)
        yield self.empty.init(1)
        if self.fences:
            yield self.fence_mbarrier_init()
        yield from self._meet()
        for k in range(2):
            yield self.empty.wait((k & 1) ^ 1)
            yield self.full.arrive_expect_tx(1024)
            yield self.a.load(signals=self.full, tag=k)

    @role(warpgroups=1)
    def consumer(self) -> Body:
        yield from self._meet()
        for k in range(2):
            yield self.full.wait(k & 1)
            yield self.a.mma(tag=k)
            yield self.mma_wait(0)
            yield self.empty.arrive()


def test_initialisation_is_an_event():
    assert proved(InitialisesItself())
    assert "barrier-init" in violated(InitialisesItself(fences=False))
    assert "barrier-init" in violated(InitialisesItself(meets=False))


def test_a_count_of_zero_is_no_initialisation():
    class Zero(InitialisesItself):
        full = barrier(arrivals=0)

    assert "barrier-init" in violated(Zero())
