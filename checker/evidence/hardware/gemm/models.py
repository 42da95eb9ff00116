"""The specification of what kernels/gemm.cu does wrong: GEMM kernels that differ from CUTLASS's in one thing each."""

from __future__ import annotations

from sm90_verify.evidence.hardware.gemm.config import Config
from sm90_verify.spec.cutlass.cluster import signals
from sm90_verify.spec.cutlass.epilogue import Stores, Storing
from sm90_verify.spec.cutlass.gemm import GEMMS, Gemm
from sm90_verify.spec.cutlass.mainloop import Advanced, Consumed
from sm90_verify.spec.cutlass.pipelines import WAIT_AGAIN, OrderedSequenceBarrier, PipelineTmaAsync
from sm90_verify.spec.language.declarations import Body, Parameter
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.model.kernel import Threads
from sm90_verify.spec.ptx.limits import WARPGROUP


def right_bytes(owner: Gemm) -> int:
    return owner.bytes_a + owner.bytes_b


def mainloop(kind: type[PipelineTmaAsync], bytes: Parameter = right_bytes) -> PipelineTmaAsync:
    return kind(consumers="mma_threads", bytes=bytes)


class _ConsumersPhase(PipelineTmaAsync):
    def producer_start(self) -> PipelineState:
        return self.consumer_start()


class _NoAcquire(PipelineTmaAsync):
    def producer_acquire(self, state: PipelineState, token: bool = WAIT_AGAIN, *, leader: bool = True) -> Body:
        yield self.full[state].arrive_expect_tx(self.owner.value(self.bytes))


class _SomeRelease(PipelineTmaAsync):
    """The second warpgroup never releases; where a stage has one only, all its warps but the first."""

    def consumer_release(self, state: PipelineState, me: Threads) -> Body:
        alone = not me.name.startswith(("consumer0", "consumer1"))
        if me.index == 0 if alone else me.name.startswith("consumer0"):
            yield from super().consumer_release(state, me)


class _OwnRelease(PipelineTmaAsync):
    def consumer_release(self, state: PipelineState, me: Threads) -> Body:
        consumers = self.owner.value(self.consumers)
        threads = range(me.first, me.first + me.threads)
        targets = [signals(self.owner.shape, consumers, me.cta, thread) for thread in threads]
        if me.cta in targets:
            yield self.empty[state].on(me.cta).arrive(targets.count(me.cta))


class _OtherParity(PipelineTmaAsync):
    def consumer_wait(self, state: PipelineState, token: bool = WAIT_AGAIN) -> Body:
        yield self.full[state].wait(state.phase ^ 1)


class _SecondFirst(OrderedSequenceBarrier):
    def start(self, group: int) -> PipelineState:
        return super().start(1 - group)


class ReleaseBeforeMma(Gemm):
    """A stage is released as soon as it has been waited for."""

    def _mma_ss(self, read: PipelineState, me: Threads) -> Consumed:
        for number in range(int(self.k_tiles)):
            yield from self.mainloop.consumer_wait(read)
            yield from self.mainloop.consumer_release(read, me)
            yield self.mma(*self.a.all_parts(read), *self.b.all_parts(read))
            if number:
                yield self.mma_wait(self.mmas_in_flight)
            read = read + 1
        return read, 0


class ReleaseBeforeWait(Gemm):
    """A stage is released before the wait for its MMA."""

    release = "before"


class ReleaseUnwaited(Gemm):
    """A stage is released when its MMA has been issued, and no wait for it comes before the tile's end."""

    def _mma_ss(self, read: PipelineState, me: Threads) -> Consumed:
        for _ in range(int(self.k_tiles)):
            yield from self._k_tile_ss(read)
            yield from self.mainloop.consumer_release(read, me)
            read = read + 1
        return read, 0


class ExpectLess(Gemm):
    """The bytes of B are not expected."""

    mainloop = mainloop(PipelineTmaAsync, lambda self: self.bytes_a)


class ExpectMore(Gemm):
    """16 bytes too many are expected."""

    mainloop = mainloop(PipelineTmaAsync, lambda self: self.bytes_a + self.bytes_b + 16)


class ConsumerParity(Gemm):
    """Full barriers are waited for with the other parity."""

    mainloop = mainloop(_OtherParity)


class ProducerPhase(Gemm):
    """The producer starts in the consumers' phase."""

    mainloop = mainloop(_ConsumersPhase)


class NoRelease(Gemm):
    """Some consumer threads never release."""

    mainloop = mainloop(_SomeRelease)


class NoTailRelease(Gemm):
    """The last stage of a tile is not released."""

    def mainloop_mma_tail(self, release: PipelineState, left: int, me: Threads) -> Advanced:
        yield self.mma_wait(0)
        yield from self._together(me)
        return release + left


class NoLoadTail(Gemm):
    """The producer does not wait for the release of its last stages."""

    without = "load_tail"


class NoAcquire(Gemm):
    """The producer does not wait for a stage to be empty."""

    mainloop = mainloop(_NoAcquire)


class OrderSwapped(Gemm):
    """The second warpgroup is let in first."""

    math_order = _SecondFirst(2, 2, group=WARPGROUP)


class NoMmaOrder(Gemm):
    """The warpgroups take no turns in the mainloop."""

    without = "mma_order"


class NoEpilogueOrder(Gemm):
    """The warpgroups take no turns in the epilogue."""

    without = "epilogue_order"


class NoStoreSync(Gemm):
    """D is stored before all warps are known to have written it."""

    without = "store_sync"


class NoStoreFence(Gemm):
    """What was written is not made visible to the async proxy."""

    without = "store_fence"


class NoStoreWait(Gemm):
    """A stage of D is given away while it may still be read."""

    without = "store_wait"


class ReleaseOwn(Gemm):
    """In a cluster, a stage is released for the own CTA only."""

    mainloop = mainloop(_OwnRelease)


class SourceReleased(Gemm):
    """A stage of C is released before it has been read; for kernels that keep C and D apart."""

    def epilogue_store(self, at: Stores, me: Threads, part: str) -> Storing:
        load, store, aux, issued = at
        for subtile in range(self.subtiles):
            yield from self.epi_load.consumer_wait(load)
            yield from self.epi_load.consumer_release(load, me)
            yield self.c.part(part, load).read()
            yield self.fence_proxy_async()
            load = load + 1
            if self.delay_tma_store and subtile > 0:
                load, store, aux, issued = yield from self._tma_store((load, store, aux, issued), me, part)
            yield self.d.part(part, store).write()
            if not self.delay_tma_store:
                load, store, aux, issued = yield from self._tma_store((load, store, aux, issued), me, part)
        if self.delay_tma_store:
            return (yield from self._tma_store((load, store, aux, issued), me, part))
        return load, store, aux, issued


MODELS: dict[str, type[Gemm]] = {
    "release_before_mma": ReleaseBeforeMma,
    "release_before_wait": ReleaseBeforeWait,
    "release_unwaited": ReleaseUnwaited,
    "expect_less": ExpectLess,
    "expect_more": ExpectMore,
    "consumer_parity": ConsumerParity,
    "producer_phase": ProducerPhase,
    "no_release": NoRelease,
    "no_tail_release": NoTailRelease,
    "no_load_tail": NoLoadTail,
    "no_acquire": NoAcquire,
    "order_swapped": OrderSwapped,
    "no_mma_order": NoMmaOrder,
    "no_epilogue_order": NoEpilogueOrder,
    "no_store_sync": NoStoreSync,
    "no_store_fence": NoStoreFence,
    "no_store_wait": NoStoreWait,
    "release_own": ReleaseOwn,
    "source_released": SourceReleased,
}


def model_class(config: Config) -> type[Gemm]:
    """The kernel of the schedule, with what the configuration does wrong."""
    kernel = GEMMS[config.schedule]
    if not config.wrong:
        return kernel
    wrong = MODELS[config.wrong]
    return type(f"{kernel.__name__}{wrong.__name__}", (wrong, kernel), {"_label": f"{kernel._label}-{config.wrong}"})  # type: ignore[attr-defined]
