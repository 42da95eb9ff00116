"""DeepGEMM's FP8 GEMM for SM90 (deep_gemm/include/deep_gemm/impls/sm90_fp8_gemm_1d2d.cuh), as it synchronises.

Persistent: one thread loads A, its scales and B for `stages` K blocks in each turn of the inner loop, and one or two
warpgroups multiply. In a cluster of two CTAs the tiles of B are multicast by CTA 0, and lanes 0 and 1 of every math
warp release a stage in both CTAs; where B cannot be shared each CTA loads its own. If the last tile is CTA 0's alone,
both lanes arrive at its own barrier, so that the count stays the same.

$ verify spec examples/deep_gemm.py
PROVED
$ verify spec examples/deep_gemm.py --set cluster=2x1
PROVED
$ verify spec examples/deep_gemm.py --set drains=false --set cluster=2x1
VIOLATED exit-hazard
"""

from sm90_verify import Body, Pipeline, Threads, barrier, role, tile

WARPS = 4
"""Of a warpgroup: lane 0 of each arrives."""
MATH = 8
"""The named barrier of the math threads: cutlass::arch::NamedBarrier's own ids begin after the reserved ones."""


class DeepGemm(Pipeline):
    """stages, last_stages: kNumStages, and kNumLastStages, those of the last turn that have a K block. turns:
    num_iterations. math: warpgroups. drains: the last round of empty waits.
    """

    stages = 2
    last_stages = 2
    turns = 2
    math = 1
    drains = True

    full = barrier(arrivals=1)
    empty = barrier(arrivals=lambda self: self.shape.size * self.math * WARPS)
    a = tile(bytes=16_384)
    b = tile(bytes=16_384)
    scales_a = tile(bytes=512)
    scales_b = tile(bytes=512, slots="math")  # the part that each warpgroup brings
    d = tile(bytes=16_384, slots="math")

    @role(threads=128, split=(1, 127))
    def producer(self, me: Threads) -> Body:
        yield self.setmaxnreg_dec(40)
        if not me.leader:
            return
        turn = 0  # current_iter * num_iterations + k_iter, of which only the parity is used
        for _ in self.loop():
            shared = self.shape.size > 1 and (yield self.choose("B is shared", True, False))
            turn = yield from self.load(me, turn, shared)
        if self.shape.size > 1:
            if (yield self.choose("CTA 0 has another tile", False, True)) and me.cta == 0:
                turn = yield from self.load(me, turn, shared=False)
            for s in range(self.stages if self.drains else 0):
                yield self.empty[s].wait((turn + 1) & 1)

    def load(self, me: Threads, turn: int, shared: bool) -> Body:
        for k in range(self.turns):
            for s in range(self.stages):
                yield self.empty[s].wait((turn + 1) & 1)
                if s < self.valid(k):
                    yield self.a[s].load(signals=self.full[s])
                    yield self.scales_a[s].load(signals=self.full[s])
                    if not shared:
                        yield self.b[s].load(signals=self.full[s])
                    elif me.cta == 0:
                        yield self.b[s].load(signals=self.full[s], multicast=(0, 1))
                    yield self.full[s].arrive_expect_tx(self.a.bytes + self.scales_a.bytes + self.b.bytes)
                else:
                    yield self.full[s].arrive()
            turn = (turn + 1) & 1
        return turn

    @role(warpgroups=1, copies="math")
    def consumer(self, me: Threads) -> Body:
        yield self.setmaxnreg_inc(232)
        turn = 0
        for _ in self.loop():
            if self.shape.size > 1:
                yield self.choose("B is shared", True, False)
            turn = yield from self.multiply(me, turn, alone=False)
            yield from self.write_back(me)
        if self.shape.size > 1 and (yield self.choose("CTA 0 has another tile", False, True)) and me.cta == 0:
            turn = yield from self.multiply(me, turn, alone=True)
            yield from self.write_back(me)

    def multiply(self, me: Threads, turn: int, alone: bool) -> Body:
        yield self.scales_b[me.copy].write()
        yield self.named_sync(MATH, 128 * self.math)
        for k in range(self.turns):
            for s in range(self.stages):
                if s < self.valid(k):
                    for part in range(self.math):
                        yield self.scales_b[part].read()
                yield self.full[s].wait(turn)
                if s < self.valid(k):
                    yield self.scales_a[s].read()
                    yield self.mma(self.a[s], self.b[s])
                    yield self.mma_wait(0)
                if alone:  # is_peer_cta_alive is false: both lanes arrive at the CTA's own barrier
                    yield self.empty[s].arrive(2 * WARPS)
                else:
                    yield self.empty[s].arrive(WARPS, ctas=range(self.shape.size))
            turn = (turn + 1) & 1
        return turn

    def write_back(self, me: Threads) -> Body:
        """The threads that store wait for their last store, all math threads meet, write, and meet again."""
        if me.copy == 0:
            yield self.bulk_wait(0)
        yield self.named_sync(MATH, 128 * self.math)
        yield self.d[me.copy].write()
        yield self.fence_proxy_async()
        yield self.named_sync(MATH, 128 * self.math)
        if me.copy == 0:
            yield self.store(*(self.d[part] for part in range(self.math)))
            yield self.bulk_commit()  # wrong with drains=false: the CTA may end behind it

    def valid(self, k: int) -> int:
        """Stages of turn k that bring a K block."""
        return self.stages if k < self.turns - 1 else self.last_stages
