"""FlashAttention-3, forward, for SM90 (hopper/ of Dao-AILab/flash-attention), as it synchronises.

Persistent and causal: a tile of Q has 1 to 3 blocks of K and V, as the model likes. One warp loads, and
asks for the next tile and hands it on through a slot in shared memory. One to three warpgroups each multiply their
rows of Q with all blocks. Named barriers give these warpgroups their turns (ping-pong, UseSchedulerBarrier), the slot
and the tile of Q; the last warp of the last warpgroup stores O, which lies where V was. With turns and IntraWGOverlap
the second warpgroup waits for hardly any K and V: the first one has, and its turn comes after that. How far it is from
each of these barriers is then followed by the model itself.

$ verify spec examples/flash_attention.py
PROVED
$ verify spec examples/flash_attention.py --set overlap=false
PROVED
$ verify spec examples/flash_attention.py --set pingpong=false
PROVED
"""

from sm90_verify import Body, Pipeline, PipelineState, Threads, barrier, role, tile

EPILOGUE, EMPTY, FULL = 1, 4, 5
"""Of cutlass::arch::ReservedNamedBarriers: EpilogueBarrier, and the StreamkBarriers, which the scheduler takes."""
QUERY_EMPTY, TURNS = 6, 7
"""FwdNamedBarriers (named_barrier.hpp), counted from behind the reserved ones: QueryEmpty, WarpSchedulerWG1 and on."""
WARP = 32
REGISTERS = {1: (56, 256), 2: (24, 240), 3: (32, 160)}
"""Of a thread that loads and one that multiplies, by warpgroups that multiply (flash_fwd_kernel_sm90.h)."""


class FlashAttention(Pipeline):
    """stages: kStages. groups: NumMmaWarpGroups. overlap: IntraWGOverlap, P of one block times V beside Q times the
    next K. pingpong: UseSchedulerBarrier. least, most: blocks of K and V in a tile.
    """

    stages = 2
    groups = 2
    overlap = True
    pingpong = True
    least = 1
    most = 3

    barrier_q = barrier(arrivals=1, slots=1)
    barrier_o = barrier(arrivals=1, slots=1)  # one thread stores O by TMA, Use_TMA_O
    k_full = barrier(arrivals=1)
    k_empty = barrier(arrivals="groups")  # a thread of each warpgroup (sm90_pipeline_no_cluster.hpp, consumer_release)
    v_full = barrier(arrivals=1)
    v_empty = barrier(arrivals="groups")

    v = tile(bytes=32_768)
    q = tile(bytes=32_768, slots=1)
    k = tile(bytes=32_768)
    out = tile(bytes=16_384, slots="groups", shares="v")  # SharedStorage: O over V, a part of each warpgroup
    next_tile = tile(bytes=16, slots=1)  # tile_count_smem
    s = tile(bytes=65_536, slots=1, space="registers")
    p = tile(bytes=32_768, slots=1, space="registers")  # MmaPV_is_RS: the matrix A of the second product
    o = tile(bytes=65_536, slots=1, space="registers")

    @role(threads=128, split=(32, 96))
    def producer(self, me: Threads) -> Body:
        """Warp 0 of the first warpgroup (flash_fwd_kernel_sm90.h, and load_tail of the mainloop); the others leave."""
        yield self.setmaxnreg_dec(REGISTERS[self.groups][0])
        if not me.leader:
            return
        kv, work = PipelineState.start(self.stages, producer=True), PipelineState.start(1)
        for number in self.loop(period=2):
            kv, work = yield from self.load(kv, work)
            yield self.named_sync(EMPTY, self.threads + WARP)  # tile_scheduler.hpp, get_next_work<IsProducerWarp>
            yield self.next_tile[0].write(tag=number % 2)
            yield self.named_arrive(FULL, self.threads + WARP)
        yield self.barrier_o[0].wait(work.phase ^ 1)
        for empty in (self.k_empty, self.v_empty):  # producer_tail
            for ahead in range(self.stages):
                yield empty[kv + ahead].wait((kv + ahead).phase)

    def load(self, kv: PipelineState, work: PipelineState) -> Body:
        """mainloop_fwd_sm90_tma_gmma_ws.hpp, load. V is a block behind K where the products of two blocks overlap."""
        blocks = yield from self.blocks()
        yield from self.load_k(kv)
        yield self.named_sync(QUERY_EMPTY, self.threads + WARP)
        yield self.barrier_q[0].arrive_expect_tx(self.q.bytes)
        yield self.q[0].load(signals=self.barrier_q[0], tag=int(work.phase))
        yield self.barrier_o[0].wait(work.phase ^ 1)  # the O of the tile before has been read
        if not self.overlap:
            yield from self.load_v(kv)
        for _ in range(blocks - 1):
            yield from self.load_k(kv + 1)
            yield from self.load_v(kv if self.overlap else kv + 1)
            kv += 1
        if self.overlap:
            yield from self.load_v(kv)
        return kv + 1, work + 1

    def load_k(self, at: PipelineState) -> Body:
        yield self.k_empty[at].wait(at.phase)
        yield self.k_full[at].arrive_expect_tx(self.k.bytes)
        yield self.k[at.index].load(signals=self.k_full[at], tag=int(at.phase ^ 1))

    def load_v(self, at: PipelineState) -> Body:
        yield self.v_empty[at].wait(at.phase)
        yield self.v_full[at].arrive_expect_tx(self.v.bytes)
        yield self.v[at.index].load(signals=self.v_full[at], tag=int(at.phase ^ 1))

    @role(warpgroups=1, copies="groups")
    def consumer(self, me: Threads) -> Body:
        """The other warpgroups: scheduler.init_consumer and mainloop.mma_init, then a tile after the other."""
        yield self.setmaxnreg_inc(REGISTERS[self.groups][1])
        yield self.named_arrive(EMPTY, self.threads + WARP)
        yield self.named_arrive(QUERY_EMPTY, self.threads + WARP)
        if self.pingpong and me.copy == 0:
            yield self.named_arrive(TURNS, 256)  # the first one gives itself the first turn
        kv, work = PipelineState.start(self.stages), PipelineState.start(1)
        for number in self.loop(period=2):
            yield self.barrier_q[0].wait(work.phase)
            if self.overlap:
                kv = yield from self.mma_overlapped(me, kv, work)
            else:
                kv = yield from self.mma_in_turn(me, kv, work)
            work += 1
            yield self.named_sync(FULL, self.threads + WARP)
            yield self.next_tile[0].read(tag=number % 2)
            yield self.named_arrive(EMPTY, self.threads + WARP)
            yield from self.store_o(me)

    def mma_overlapped(self, me: Threads, kv: PipelineState, work: PipelineState) -> Body:
        """mainloop_fwd_sm90_tma_gmma_ws.hpp, mma, IntraWGOverlap: S of a block and O of the one before in flight."""
        blocks = yield from self.blocks()
        waits = not self.pingpong or me.copy == 0  # the others' turns come after its waits
        yield self.k_full[kv].wait(kv.phase)
        yield from self.gemm_s(kv, work)
        yield self.mma_wait(0)
        yield self.k_empty[kv].arrive()
        yield self.s[0].read()  # softmax
        yield self.p[0].write()
        yield self.o[0].write()  # clear
        for _ in range(blocks - 1):
            if waits:
                yield self.k_full[kv + 1].wait((kv + 1).phase)
            yield from self.take_turn(me)
            yield from self.gemm_s(kv + 1, work)
            if waits:
                yield self.v_full[kv].wait(kv.phase)
            yield from self.gemm_o(kv)
            yield from self.give_turn(me)
            yield self.mma_wait(1)
            yield self.k_empty[kv + 1].arrive()
            yield self.s[0].read()
            yield self.mma_wait(0)
            yield self.v_empty[kv].arrive()
            yield self.p[0].write()
            yield self.o[0].write()  # rescale_o
            kv += 1
        yield self.named_arrive(QUERY_EMPTY, self.threads + WARP)
        yield self.v_full[kv].wait(kv.phase)
        yield from self.gemm_o(kv)
        yield self.mma_wait(0)
        yield self.v_empty[kv].arrive()
        yield self.o[0].write()
        return kv + 1

    def mma_in_turn(self, me: Threads, kv: PipelineState, work: PipelineState) -> Body:
        """The same without IntraWGOverlap: one product after the other, and a turn for each."""
        blocks = yield from self.blocks()
        yield from self.take_turn(me)
        for block in range(blocks):
            yield self.k_full[kv].wait(kv.phase)
            yield from self.gemm_s(kv, work)
            yield from self.give_turn(me)
            yield self.mma_wait(0)
            yield self.k_empty[kv].arrive()
            yield self.s[0].read()
            yield self.p[0].write()
            if block:
                yield self.o[0].write()
            yield self.v_full[kv].wait(kv.phase)
            yield from self.take_turn(me)
            yield from self.gemm_o(kv)
            yield self.mma_wait(0)
            yield self.v_empty[kv].arrive()
            kv += 1
        yield from self.give_turn(me)
        yield self.named_arrive(QUERY_EMPTY, self.threads + WARP)
        yield self.o[0].write()
        return kv

    def gemm_s(self, at: PipelineState, work: PipelineState) -> Body:
        """utils.h, gemm: wgmma.fence (warpgroup_arrive), the wgmmas, commit_group."""
        yield self.wgmma_fence()
        yield self.mma(self.q[0].of(int(work.phase)), self.k[at.index].of(int(at.phase)), into=self.s[0])

    def gemm_o(self, at: PipelineState) -> Body:
        yield self.wgmma_fence()
        yield self.mma(self.p[0], self.v[at.index].of(int(at.phase)), into=self.o[0])

    def take_turn(self, me: Threads) -> Body:
        """warp_scheduler_barrier_sync"""
        if self.pingpong:
            yield self.named_sync(TURNS + me.copy, 256)

    def give_turn(self, me: Threads) -> Body:
        """warp_scheduler_barrier_arrive"""
        if self.pingpong:
            yield self.named_arrive(TURNS + (me.copy + 1) % self.groups, 256)

    def store_o(self, me: Threads) -> Body:
        """epilogue_fwd.hpp, store, with Use_smem and Use_TMA_O: all threads arrive, the last warp syncs as well."""
        yield self.o[0].read()
        yield self.named_sync(EPILOGUE, self.threads)  # V is no longer read
        yield self.out[me.copy].write()
        yield self.fence_proxy_async()
        yield self.named_arrive(EPILOGUE, self.threads + WARP)
        if me.copy == self.groups - 1:
            yield self.named_sync(EPILOGUE, self.threads + WARP, by=WARP)
            yield self.store(*(self.out[part] for part in range(self.groups)))
            yield self.bulk_commit()
            yield self.bulk_wait_read(0)
            yield self.barrier_o[0].arrive()

    def blocks(self) -> Body:
        """n_block_max - n_block_min of the next tile."""
        numbers = range(self.least, self.most + 1)
        return (yield self.choose("blocks", *numbers)) if len(numbers) > 1 else self.most

    @property
    def threads(self) -> int:
        """NumMmaThreads."""
        return 128 * self.groups
