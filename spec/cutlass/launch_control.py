"""The SM100 pipeline that fetches the next tile: Cluster Launch Control hands out clusters that were not launched yet.

Line numbers C are those of cutlass/pipeline/sm100_pipeline.hpp, K those of cutlass/gemm/kernel/
sm100_gemm_tma_warpspecialized.hpp in CUTLASS 4.2. The scheduler warp of CTA 0 asks; the answer, 16 bytes, lands in
every CTA of the cluster; every thread that needs it reads it and arrives on the empty barrier of CTA 0.
"""

from __future__ import annotations

from sm90_verify.spec.cutlass.pipelines import WAIT_AGAIN, PipelineAsync
from sm90_verify.spec.language.declarations import Body, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.model.kernel import Threads
from sm90_verify.spec.ptx.limits import WARP, WARPGROUP

RESPONSE_BYTES = 16
"""CLCResponseSize, transaction_bytes of the pipeline."""


class PipelineCLCFetchAsync(PipelineAsync):
    """PipelineCLCFetchAsync<Stages> (C:923-1124). consumers: consumer_arv_count, the arrivals on CTA 0."""

    def producer_acquire(self, state: PipelineState, token: bool = WAIT_AGAIN) -> Body:
        """C:1082-1092: wait until all threads have read the stage; then lane i arms the full barrier of CTA i."""
        yield from self._wait_empty(state, token)
        for cta in range(self.owner.shape.size):
            yield self.full[state].on(cta).arrive_expect_tx(RESPONSE_BYTES)

    def producer_tail(self, state: PipelineState) -> Body:
        """C:1028-1038: wait until every stage that was filled has been read."""
        for _ in range(state.stages):
            yield from self._wait_empty(state, WAIT_AGAIN)
            state = state + 1

    def consumer_release(self, state: PipelineState, me: Threads) -> Body:
        """C:1119-1122: every consumer thread arrives on the barrier of CTA 0 (producer_blockid, K:508)."""
        yield self.empty[state].on(0).arrive(me.threads)


class LaunchControl(Pipeline):
    """The pipeline as the kernel uses it, without the throttle that only paces it.

    epilogue_threads: of the epilogue warps. epilogue_load: whether the epilogue needs a load warp. count: arrivals that
    the empty barrier expects; 0 for what K:510-514 computes.
    """

    _label = "launch-control"
    stages = 3
    epilogue_threads = WARPGROUP
    epilogue_load = 0
    count = 0

    pipeline = PipelineCLCFetchAsync(producers=1, consumers=lambda self: self.count or self.all_consumers)
    response = tile(bytes=RESPONSE_BYTES)

    @property
    def all_consumers(self) -> int:
        """K:510-514: the scheduler warp, and in each CTA the load, MMA and epilogue warps, and the epilogue's load warp
        if there is one.
        """
        return WARP + self.shape.size * (WARP + self.epilogue_threads + WARP + WARP * self.epilogue_load)

    @role(threads=WARP, ctas=(0,))
    def scheduler(self, me: Threads) -> Body:
        """Asks for a tile, then reads the answer like everybody else."""
        write, read = self.pipeline.producer_start(), self.pipeline.consumer_start()
        for _ in self.loop():
            yield from self.pipeline.producer_acquire(write)
            everywhere = tuple(range(self.shape.size))
            yield self.response[write].load(signals=self.pipeline.full[write], tag=write.tag, multicast=everywhere)
            write = write + 1
            yield from self._fetch(read, me)
            read = read + 1
        yield from self.pipeline.producer_tail(write)

    @role(threads=WARP)
    def mainloop_load(self, me: Threads) -> Body:
        yield from self._consumer(me)

    @role(threads=WARP)
    def mma_warp(self, me: Threads) -> Body:
        yield from self._consumer(me)

    @role(threads="epilogue_threads")
    def epilogue(self, me: Threads) -> Body:
        yield from self._consumer(me)

    @role(threads=WARP, copies="epilogue_load")
    def epilogue_load_warp(self, me: Threads) -> Body:
        yield from self._consumer(me)

    def _consumer(self, me: Threads) -> Body:
        state = self.pipeline.consumer_start()
        for _ in self.loop():
            yield from self._fetch(state, me)
            state = state + 1

    def _fetch(self, state: PipelineState, me: Threads) -> Body:
        yield from self.pipeline.consumer_wait(state)
        yield self.response[state].read(tag=state.tag)
        yield from self.pipeline.consumer_release(state, me)
