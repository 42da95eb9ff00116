"""Split-K: CTAs that each multiply a part of K add up one tile of D in global memory, in turn or as they come.

A lock in global memory counts the K tiles that have been added to the workspace, one lock for each warpgroup that
multiplies (CUTLASS 4.2, gemm/kernel/sm90_tile_scheduler_stream_k.hpp:422-547, and cutlass/barrier.h:137-195). The first
CTA stores, those in the middle add with red, in the order of K or once the first one has stored, and the last one adds
what is there to its own and writes D. With mode=semaphore all add in turn, with loads and stores, and pass the lock on
by st.release (cutlass/semaphore.h:90-115).

$ verify spec examples/split_k.py
PROVED
$ verify spec examples/split_k.py --set mode=nondeterministic
PROVED
$ verify spec examples/split_k.py --set mode=semaphore
PROVED
$ verify spec examples/split_k.py --set fences=false
VIOLATED race
"""

from sm90_verify import Body, Pipeline, PipelineState, Threads, barrier, role, tile, word

STREAM_K = 4
"""cutlass::arch::ReservedNamedBarriers::StreamkBarrier0, and the next one for the second warpgroup."""


class SplitK(Pipeline):
    """clusters: splits, a CTA each. k_tiles: of a split. math: warpgroups that multiply. mode: ReductionMode, or
    semaphore. fences: red_release is a fence and a relaxed red.
    """

    clusters = 3
    stages = 2
    k_tiles = 1
    math = 1
    mode = "deterministic"
    fences = True

    full = barrier(arrivals=1)
    empty = barrier(arrivals="math")
    a = tile(bytes=16_384)
    acc = tile(bytes=65_536, slots=1, space="registers")
    lock = word(values=lambda self: self.clusters * self.k_tiles + 1, slots="math")
    workspace = tile(bytes=65_536, slots="math", space="global")
    d = tile(bytes=65_536, slots="math", space="global")

    @role(warps=1)
    def producer(self) -> Body:
        at = PipelineState.start(self.stages, producer=True)
        for _ in range(self.k_tiles):
            yield self.empty[at].wait(at.phase)
            yield self.full[at].arrive_expect_tx(self.a.bytes)
            yield self.a[at].load(signals=self.full[at])
            at += 1

    @role(warpgroups=1, copies="math")
    def consumer(self, me: Threads) -> Body:
        at = PipelineState.start(self.stages)
        for _ in range(self.k_tiles):
            yield self.full[at].wait(at.phase)
            yield self.wgmma_fence()
            yield self.a[at].mma(into=self.acc[0])
            yield self.mma_wait(0)
            yield self.empty[at].arrive()
            at += 1
        yield self.acc[0].read()
        if self.mode == "semaphore":
            yield from self.add_in_turn(me)
        else:
            yield from self.fix_up(me)

    def fix_up(self, me: Threads) -> Body:
        before = me.cluster * self.k_tiles  # work_tile_info.K_idx
        sums = self.workspace[me.copy]
        if me.cluster == self.clusters - 1:  # compute_epilogue
            yield self.lock[me.copy].spin(equals=before, sem="acquire")
            yield self.named_sync(STREAM_K + me.copy, 128)
            yield sums.read()  # load_add
            yield self.d[me.copy].write()
            return
        if not before:
            yield sums.write()
        else:
            if self.mode == "deterministic":
                yield self.lock[me.copy].spin(equals=before, sem="acquire")
            else:
                yield self.lock[me.copy].spin(at_least=1, sem="acquire")
            yield self.named_sync(STREAM_K + me.copy, 128)
            yield sums.red()
        yield self.named_sync(STREAM_K + me.copy, 128)  # arrive_inc, and red_release by one thread
        if self.fences:
            yield self.fence_acq_rel()
        yield self.lock[me.copy].red("add", self.k_tiles, sem="relaxed")  # wrong with fences=false

    def add_in_turn(self, me: Threads) -> Body:
        yield self.lock[me.copy].spin(equals=me.cluster, sem="acquire")
        yield self.named_sync(STREAM_K + me.copy, 128)
        if me.cluster:
            yield self.d[me.copy].read(tag=me.cluster - 1)
        yield self.d[me.copy].write(tag=me.cluster)
        yield self.named_sync(STREAM_K + me.copy, 128)
        last = me.cluster == self.clusters - 1  # the lock is left as it was
        yield self.lock[me.copy].st(0 if last else me.cluster + 1, sem="release")
