"""Attention in CuTe DSL for Hopper: a warp copies Q, K and V with TMA, two warpgroups take turns at the tensor cores.

`python cute_attention.py FOLDER` compiles softmax(Q K^T / 8) V for 2 heads of 256 rows of 64 and 512 keys (f16, two
CTAs), keeps the PTX in FOLDER and launches it; `build.py` gives it a runtime that needs no GPU.
"""

from __future__ import annotations

import sys
from pathlib import Path

import cutlass
from cute_launch import compile_and_launch
from cutlass import cute, pipeline
from cutlass.cute.nvgpu import OperandMajorMode, cpasync, warpgroup
from cutlass.memory import SmemAllocator
from cutlass.tensor_utils import LayoutEnum
from cutlass.utils import hopper_helpers as hopper

ROWS, KEYS, WIDTH = 128, 64, 64  # of a tile of Q, of a tile of K and V, of a head
STAGES = 2
CONSUMER_WARPS = 8
CONSUMERS = 32 * CONSUMER_WARPS
THREADS = 128 + CONSUMERS
STORING, TURNS = 1, 2  # named barriers: of the consumers that store, and the first of two whose turn it is
SCALE = 1.4426950408889634 / WIDTH**0.5  # to powers of two


class Attention:
    """O = softmax(Q K^T / sqrt(WIDTH)) V per head, all f16 of shape (heads, rows, WIDTH), in whole tiles.

    CTAs take the tiles of Q in turn.
    """

    def __init__(self, heads: int, rows: int, keys: int, ctas: int) -> None:
        self.heads, self.rows, self.keys = heads, rows, keys
        self.ctas = ctas

    @cute.jit
    def __call__(self, q: cute.Pointer, k: cute.Pointer, v: cute.Pointer, o: cute.Pointer, stream):
        self.kind = kind = q.dtype
        by_row = cute.make_layout((self.rows, WIDTH, self.heads), stride=(WIDTH, 1, self.rows * WIDTH))
        by_key = cute.make_layout((self.keys, WIDTH, self.heads), stride=(WIDTH, 1, self.keys * WIDTH))
        # The product with V sums over keys, which are not contiguous.
        by_column = cute.make_layout((WIDTH, self.keys, self.heads), stride=(1, WIDTH, self.keys * WIDTH))
        q, o = cute.make_tensor(q, by_row), cute.make_tensor(o, by_row)
        k, v = cute.make_tensor(k, by_key), cute.make_tensor(v, by_column)

        across, along = OperandMajorMode.K, OperandMajorMode.MN
        f32 = cutlass.Float32
        scores = hopper.make_trivial_tiled_mma(kind, kind, across, across, f32, (2, 1, 1), (64, KEYS))
        values = hopper.make_trivial_tiled_mma(
            kind, kind, across, along, f32, (2, 1, 1), (64, WIDTH), warpgroup.OperandSource.RMEM
        )
        row_major, column_major = LayoutEnum.ROW_MAJOR, LayoutEnum.COL_MAJOR
        q_layout = hopper.make_smem_layout_a(row_major, (ROWS, KEYS, WIDTH), kind, 1)
        k_layout = hopper.make_smem_layout_b(row_major, (ROWS, KEYS, WIDTH), kind, STAGES)
        v_layout = hopper.make_smem_layout_b(column_major, (ROWS, WIDTH, KEYS), kind, STAGES)
        o_layout = hopper.make_smem_layout_epi(kind, row_major, (ROWS, WIDTH), 1)
        load, store = cpasync.CopyBulkTensorTileG2SOp(), cpasync.CopyBulkTensorTileS2GOp()
        tma_q, q = cpasync.make_tiled_tma_atom(load, q, q_layout, (ROWS, WIDTH))
        tma_k, k = cpasync.make_tiled_tma_atom(load, k, k_layout, (KEYS, WIDTH))
        tma_v, v = cpasync.make_tiled_tma_atom(load, v, v_layout, (WIDTH, KEYS))
        tma_o, o = cpasync.make_tiled_tma_atom(store, o, o_layout, (ROWS, WIDTH))
        self.kernel(
            tma_q, q, tma_k, k, tma_v, v, tma_o, o, scores, values, q_layout, k_layout, v_layout, o_layout
        ).launch(grid=(self.ctas, 1, 1), block=(THREADS, 1, 1), min_blocks_per_mp=1, stream=stream)

    def pipe(self, storage: SmemAllocator, stages: int, layout: cute.ComposedLayout):
        """Producer and consumer of a ring of tiles that one TMA copy each fills."""
        return pipeline.PipelineTmaAsync.create(
            num_stages=stages,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, CONSUMER_WARPS),
            tx_count=cute.size_in_bytes(self.kind, cute.select(layout, mode=[0, 1])),
            barrier_storage=storage.allocate_array(cutlass.Int64, 2 * stages),
            cta_layout_vmnk=cute.make_layout((1, 1, 1, 1)),
            defer_sync=True,
        ).make_participants()

    @cute.kernel
    def kernel(
        self,
        tma_q: cute.CopyAtom,
        q: cute.Tensor,
        tma_k: cute.CopyAtom,
        k: cute.Tensor,
        tma_v: cute.CopyAtom,
        v: cute.Tensor,
        tma_o: cute.CopyAtom,
        o: cute.Tensor,
        scores: cute.TiledMma,
        values: cute.TiledMma,
        q_layout: cute.ComposedLayout,
        k_layout: cute.ComposedLayout,
        v_layout: cute.ComposedLayout,
        o_layout: cute.ComposedLayout,
    ):
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        thread = cute.arch.thread_idx()[0]
        cta, ctas = cute.arch.block_idx()[0], cute.arch.grid_dim()[0]

        storage = SmemAllocator()
        q_producer, q_consumer = self.pipe(storage, 1, q_layout)
        k_producer, k_consumer = self.pipe(storage, STAGES, k_layout)
        v_producer, v_consumer = self.pipe(storage, STAGES, v_layout)
        shared_q = storage.allocate_tensor(self.kind, q_layout.outer, 1024, q_layout.inner)
        shared_k = storage.allocate_tensor(self.kind, k_layout.outer, 1024, k_layout.inner)
        shared_v = storage.allocate_tensor(self.kind, v_layout.outer, 1024, v_layout.inner)
        shared_o = storage.allocate_tensor(self.kind, o_layout.outer, 1024, o_layout.inner)
        cute.arch.mbarrier_init_fence()
        cute.arch.sync_threads()

        tiles_q = cute.local_tile(q, (ROWS, WIDTH), (None, 0, None))
        tiles_k = cute.local_tile(k, (KEYS, WIDTH), (None, 0, None))
        tiles_v = cute.local_tile(v, (WIDTH, KEYS), (0, None, None))
        tiles_o = cute.local_tile(o, (ROWS, WIDTH), (None, 0, None))
        blocks, heads = cute.size(tiles_q, mode=[2]), cute.size(tiles_q, mode=[3])
        depth = cute.size(tiles_k, mode=[2])

        if warp < 4:
            cute.arch.setmaxregister_decrease(40)
        if warp == 0:
            into_q, from_q = self.partition(tma_q, shared_q, tiles_q)
            into_k, from_k = self.partition(tma_k, shared_k, tiles_k)
            into_v, from_v = self.partition(tma_v, shared_v, tiles_v)
            for tile in cutlass.range(cta, blocks * heads, ctas, unroll=1):
                block, head = tile % blocks, tile // blocks
                stage = q_producer.acquire_and_advance()
                cute.copy(tma_q, from_q[None, block, head], into_q[None, stage.index], tma_bar_ptr=stage.barrier)
                for step in cutlass.range(depth, unroll=1):
                    stage = k_producer.acquire_and_advance()
                    cute.copy(tma_k, from_k[None, step, head], into_k[None, stage.index], tma_bar_ptr=stage.barrier)
                    stage = v_producer.acquire_and_advance()
                    cute.copy(tma_v, from_v[None, step, head], into_v[None, stage.index], tma_bar_ptr=stage.barrier)
            q_producer.tail()
            k_producer.tail()
            v_producer.tail()
        elif warp >= 4:
            cute.arch.setmaxregister_increase(232)
            me = thread - 128
            group = cute.arch.make_warp_uniform(me // 128)
            scores_mine, values_mine = scores.get_slice(me), values.get_slice(me)
            fragments_q = scores.make_fragment_A(scores_mine.partition_A(shared_q))
            fragments_k = scores.make_fragment_B(scores_mine.partition_B(shared_k))
            fragments_v = values.make_fragment_B(values_mine.partition_B(shared_v))
            s = cute.make_rmem_tensor(scores.partition_shape_C((ROWS, KEYS)), cutlass.Float32)
            sums = cute.make_rmem_tensor(values.partition_shape_C((ROWS, WIDTH)), cutlass.Float32)
            # The scores of a thread as A of the second product: k16 is two of the n8 that it has them in.
            weights = cute.make_rmem_tensor(cute.make_layout(((2, 2, 2), 1, KEYS // 16)), self.kind)
            by_row = cute.make_tensor(s.iterator, cute.make_layout((2, (2, KEYS // 8)), stride=(2, (1, 4))))
            sums_by_row = cute.make_tensor(sums.iterator, cute.make_layout((2, (2, WIDTH // 8)), stride=(2, (1, 4))))
            highest = cute.make_rmem_tensor(2, cutlass.Float32)
            total = cute.make_rmem_tensor(2, cutlass.Float32)

            writer = cute.make_tiled_copy_C(
                hopper.get_smem_store_op(LayoutEnum.ROW_MAJOR, self.kind, cutlass.Float32), values
            ).get_slice(me)
            written = writer.partition_D(shared_o)[None, None, None, 0]
            from_o, into_o = self.partition(tma_o, shared_o, tiles_o)
            storing = pipeline.NamedBarrier(barrier_id=STORING, num_threads=CONSUMERS)
            my_turn = pipeline.NamedBarrier(barrier_id=TURNS + group, num_threads=CONSUMERS)
            other_turn = pipeline.NamedBarrier(barrier_id=TURNS + 1 - group, num_threads=CONSUMERS)
            if group == 1:
                other_turn.arrive()

            for tile in cutlass.range(cta, blocks * heads, ctas, unroll=1):
                block, head = tile % blocks, tile // blocks
                sums.fill(0.0)
                highest.fill(-1e30)
                total.fill(0.0)
                of_q = q_consumer.wait_and_advance()
                for _ in cutlass.range(depth, unroll=1):
                    of_k = k_consumer.wait_and_advance()
                    my_turn.arrive_and_wait()
                    warpgroup.fence()
                    scores.set(warpgroup.Field.ACCUMULATE, False)
                    for part in cutlass.range_constexpr(WIDTH // 16):
                        ours, theirs = fragments_q[None, None, part, 0], fragments_k[None, None, part, of_k.index]
                        cute.gemm(scores, s, ours, theirs, s)
                        scores.set(warpgroup.Field.ACCUMULATE, True)
                    warpgroup.commit_group()
                    other_turn.arrive()
                    warpgroup.wait_group(0)
                    of_k.release()

                    for row in cutlass.range_constexpr(2):
                        top = highest[row]
                        for column in cutlass.range_constexpr(KEYS // 4):
                            top = cute.arch.fmax(top, by_row[row, column])
                        top = cute.arch.fmax(top, cute.arch.shuffle_sync_bfly(top, 1))
                        top = cute.arch.fmax(top, cute.arch.shuffle_sync_bfly(top, 2))
                        shrink = cute.arch.exp2((highest[row] - top) * SCALE)
                        highest[row] = top
                        total[row] = total[row] * shrink
                        for column in cutlass.range_constexpr(KEYS // 4):
                            weight = cute.arch.exp2((by_row[row, column] - top) * SCALE)
                            by_row[row, column] = weight
                            total[row] = total[row] + weight
                        for column in cutlass.range_constexpr(WIDTH // 4):
                            sums_by_row[row, column] = sums_by_row[row, column] * shrink
                    for i in cutlass.range_constexpr(cute.size(weights)):
                        weights[i] = s[i].to(self.kind)

                    of_v = v_consumer.wait_and_advance()
                    warpgroup.fence()
                    values.set(warpgroup.Field.ACCUMULATE, True)
                    for part in cutlass.range_constexpr(KEYS // 16):
                        ours, theirs = weights[None, None, part], fragments_v[None, None, part, of_v.index]
                        cute.gemm(values, sums, ours, theirs, sums)
                    warpgroup.commit_group()
                    warpgroup.wait_group(0)
                    of_v.release()
                of_q.release()

                for row in cutlass.range_constexpr(2):
                    whole = total[row]
                    whole = whole + cute.arch.shuffle_sync_bfly(whole, 1)
                    whole = whole + cute.arch.shuffle_sync_bfly(whole, 2)
                    for column in cutlass.range_constexpr(WIDTH // 4):
                        sums_by_row[row, column] = sums_by_row[row, column] / whole
                # The last tile's store has to be read out of shared memory before this one is written over it.
                if warp == 4:
                    cute.arch.cp_async_bulk_wait_group(0, read=True)
                storing.arrive_and_wait()
                rounded = cute.make_rmem_tensor_like(sums, self.kind)
                rounded.store(sums.load().to(self.kind))
                cute.copy(writer, writer.retile(rounded), written)
                cute.arch.fence_proxy("async.shared", space="cta")
                storing.arrive_and_wait()
                if warp == 4:
                    cute.copy(tma_o, from_o[None, 0], into_o[None, block, head])
                    cute.arch.cp_async_bulk_commit_group()
            if group == 0:
                my_turn.arrive_and_wait()
            if warp == 4:
                cute.arch.cp_async_bulk_wait_group(0)

    def partition(self, tma: cute.CopyAtom, shared: cute.Tensor, tiles: cute.Tensor):
        """What one CTA's copy takes: the tiles in shared memory, and those in global memory."""
        return cpasync.tma_partition(
            tma, 0, cute.make_layout(1), cute.group_modes(shared, 0, 2), cute.group_modes(tiles, 0, 2)
        )


if __name__ == "__main__":
    compile_and_launch(Attention(2, 256, 512, 2), [cutlass.Float16] * 4, Path(sys.argv[1]) / "cute_attention.ptx")
