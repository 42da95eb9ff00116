"""Stream-K: each CTA multiplies as many K tiles as the others, across the borders of the tiles of D.

A CTA begins with the last tile of D in its share and ends with the first (CUTLASS 4.2,
gemm/kernel/sm90_tile_scheduler_stream_k.hpp:904-962), so that it hands its part of the later tile on before it waits
for others at the earlier one. Parts of a tile are added up as in split_k.py: a lock in global memory for each tile of D
counts the K tiles that have been added to the workspace, and who has the last ones writes D. The accumulators, the ring
and its states go on from one part to the next.

$ verify spec examples/stream_k.py
PROVED
$ verify spec examples/stream_k.py --set clusters=4 --set tiles=2
PROVED
$ verify spec examples/stream_k.py --set fences=false
VIOLATED race
"""

from sm90_verify import Body, Pipeline, PipelineState, Threads, barrier, role, tile, word

STREAM_K = 4
"""cutlass::arch::ReservedNamedBarriers::StreamkBarrier0."""


class StreamK(Pipeline):
    """clusters: CTAs, which share the K tiles of all tiles of D alike. tiles: of D. k_tiles: of each. fences:
    arrive_inc is a fence and a relaxed red.
    """

    clusters = 2
    tiles = 3
    k_tiles = 2
    stages = 2
    fences = True

    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=16_384)
    acc = tile(bytes=65_536, slots=1, space="registers")
    lock = word(values=lambda self: self.k_tiles + 1, slots="tiles")
    workspace = tile(bytes=65_536, slots="tiles", space="global")
    d = tile(bytes=65_536, slots="tiles", space="global")

    @role(warps=1)
    def producer(self, me: Threads) -> Body:
        at = PipelineState.start(self.stages, producer=True)
        for _, k_tiles in self.work(me.cluster):
            for _ in k_tiles:
                yield self.empty[at].wait(at.phase)
                yield self.full[at].arrive_expect_tx(self.a.bytes)
                yield self.a[at].load(signals=self.full[at])
                at += 1

    @role(warpgroups=1)
    def consumer(self, me: Threads) -> Body:
        at = PipelineState.start(self.stages)
        for number, k_tiles in self.work(me.cluster):
            for _ in k_tiles:
                yield self.full[at].wait(at.phase)
                yield self.wgmma_fence()
                yield self.a[at].mma(into=self.acc[0])
                yield self.mma_wait(0)
                yield self.empty[at].arrive()
                at += 1
            yield self.acc[0].read()
            yield from self.fix_up(number, k_tiles)
            yield self.acc[0].write()

    def fix_up(self, number: int, k_tiles: range) -> Body:
        """fixup_helper (:422-547): deterministic, in the order of K."""
        lock, sums = self.lock[number], self.workspace[number]
        if k_tiles.start:
            yield lock.spin(equals=k_tiles.start, sem="acquire")  # wait_eq
            yield self.named_sync(STREAM_K, 128)
        if k_tiles.stop < self.k_tiles:
            yield sums.red() if k_tiles.start else sums.write()
            yield self.named_sync(STREAM_K, 128)  # arrive_inc
            if self.fences:
                yield self.fence_acq_rel()
            yield lock.red("add", len(k_tiles), sem="relaxed")  # wrong with fences=false
            return
        if k_tiles.start:
            yield sums.read()
        yield self.d[number].write()

    def work(self, cta: int) -> list[tuple[int, range]]:
        """The parts of tiles of D that a CTA multiplies, each with its K tiles, the last one first."""
        share = self.tiles * self.k_tiles // self.clusters
        first = cta * share
        stop = self.tiles * self.k_tiles if cta == self.clusters - 1 else first + share
        parts = []
        for number in range(self.tiles):
            start = number * self.k_tiles
            mine = range(max(first, start) - start, min(stop, start + self.k_tiles) - start)
            if mine:
                parts.append((number, mine))
        return parts[::-1]
