"""A persistent GEMM in CuTe DSL for Hopper: one warp copies with TMA, two warpgroups multiply and store.

`python cute_gemm.py FOLDER [CLUSTER]` compiles it for D = A * B (512 x 512 x 256, f16, two CTAs or one cluster of
CLUSTER CTAs), keeps the PTX in FOLDER and launches it; `build.py` gives it a runtime that needs no GPU.
"""

from __future__ import annotations

import sys
from pathlib import Path

import cutlass
from cute_launch import compile_and_launch
from cutlass import cute, pipeline
from cutlass.cute.nvgpu import cpasync, warpgroup
from cutlass.memory import SmemAllocator
from cutlass.tensor_utils import LayoutEnum
from cutlass.utils import hopper_helpers as hopper

TILE_M, TILE_N, TILE_K = 128, 128, 64
STAGES = 4
CONSUMER_WARPS = 8
THREADS = 128 + 32 * CONSUMER_WARPS
STORING = 1  # the named barrier of the warps that store


class PersistentGemm:
    """D[m, n] = sum of A[m, k] * B[n, k], all f16 with the last index contiguous, in whole tiles.

    CTAs take the tiles in turn; cluster: how many CTAs, one below another, share each tile of B.
    """

    def __init__(self, m: int, n: int, k: int, ctas: int, cluster: int = 1) -> None:
        self.m, self.n, self.k = m, n, k
        self.ctas = ctas
        self.cluster = cluster

    @cute.jit
    def __call__(self, a: cute.Pointer, b: cute.Pointer, d: cute.Pointer, stream):
        self.kind = kind = a.dtype
        a = cute.make_tensor(a, cute.make_layout((self.m, self.k), stride=(self.k, 1)))
        b = cute.make_tensor(b, cute.make_layout((self.n, self.k), stride=(self.k, 1)))
        d = cute.make_tensor(d, cute.make_layout((self.m, self.n), stride=(self.n, 1)))
        row_major = LayoutEnum.ROW_MAJOR
        k_major = row_major.sm90_mma_major_mode()
        mma = hopper.make_trivial_tiled_mma(kind, kind, k_major, k_major, cutlass.Float32, (2, 1, 1), (64, TILE_N))
        tile = (TILE_M, TILE_N, TILE_K)
        a_layout = hopper.make_smem_layout_a(row_major, tile, kind, STAGES)
        b_layout = hopper.make_smem_layout_b(row_major, tile, kind, STAGES)
        d_layout = hopper.make_smem_layout_epi(kind, row_major, (TILE_M, TILE_N), 1)
        load = cpasync.CopyBulkTensorTileG2SOp()
        share = load if cutlass.const_expr(self.cluster == 1) else cpasync.CopyBulkTensorTileG2SMulticastOp()
        tma_a, a = cpasync.make_tiled_tma_atom(load, a, a_layout, (TILE_M, TILE_K))
        tma_b, b = cpasync.make_tiled_tma_atom(share, b, b_layout, (TILE_N, TILE_K), self.cluster)
        tma_d, d = cpasync.make_tiled_tma_atom(cpasync.CopyBulkTensorTileS2GOp(), d, d_layout, (TILE_M, TILE_N))
        self.kernel(tma_a, a, tma_b, b, tma_d, d, mma, a_layout, b_layout, d_layout).launch(
            grid=(self.ctas, 1, 1),
            block=(THREADS, 1, 1),
            cluster=(self.cluster, 1, 1),
            min_blocks_per_mp=1,
            stream=stream,
        )

    @cute.kernel
    def kernel(
        self,
        tma_a: cute.CopyAtom,
        a: cute.Tensor,
        tma_b: cute.CopyAtom,
        b: cute.Tensor,
        tma_d: cute.CopyAtom,
        d: cute.Tensor,
        mma: cute.TiledMma,
        a_layout: cute.ComposedLayout,
        b_layout: cute.ComposedLayout,
        d_layout: cute.ComposedLayout,
    ):
        warp = cute.arch.make_warp_uniform(cute.arch.warp_idx())
        thread = cute.arch.thread_idx()[0]
        cta, ctas = cute.arch.block_idx()[0], cute.arch.grid_dim()[0]
        rank = cute.arch.make_warp_uniform(cute.arch.block_idx_in_cluster())
        cluster_layout = cute.make_layout((1, self.cluster, 1, 1))

        storage = SmemAllocator()
        barriers = storage.allocate_array(cutlass.Int64, 2 * STAGES)
        shared_a = storage.allocate_tensor(self.kind, a_layout.outer, 1024, a_layout.inner)
        shared_b = storage.allocate_tensor(self.kind, b_layout.outer, 1024, b_layout.inner)
        shared_d = storage.allocate_tensor(self.kind, d_layout.outer, 1024, d_layout.inner)
        one_a, one_b = cute.select(a_layout, mode=[0, 1]), cute.select(b_layout, mode=[0, 1])
        producer, consumer = pipeline.PipelineTmaAsync.create(
            num_stages=STAGES,
            producer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread),
            consumer_group=pipeline.CooperativeGroup(pipeline.Agent.Thread, CONSUMER_WARPS * self.cluster),
            tx_count=cute.size_in_bytes(self.kind, one_a) + cute.size_in_bytes(self.kind, one_b),
            barrier_storage=barriers,
            cta_layout_vmnk=cluster_layout,
        ).make_participants()

        tiles_a = cute.local_tile(a, (TILE_M, TILE_K), (None, None))
        tiles_b = cute.local_tile(b, (TILE_N, TILE_K), (None, None))
        tiles_d = cute.local_tile(d, (TILE_M, TILE_N), (None, None))
        rows, columns = cute.size(tiles_d, mode=[2]), cute.size(tiles_d, mode=[3])
        depth = cute.size(tiles_a, mode=[3])

        # All warps of a warpgroup have to execute the same setmaxnreg.
        if warp < 4:
            cute.arch.setmaxregister_decrease(40)
        if warp == 0:
            into_a, from_a = cpasync.tma_partition(
                tma_a, 0, cute.make_layout(1), cute.group_modes(shared_a, 0, 2), cute.group_modes(tiles_a, 0, 2)
            )
            into_b, from_b = cpasync.tma_partition(
                tma_b,
                rank,
                cute.make_layout(self.cluster),
                cute.group_modes(shared_b, 0, 2),
                cute.group_modes(tiles_b, 0, 2),
            )
            everyone = None
            if cutlass.const_expr(self.cluster > 1):
                everyone = cutlass.Int16((1 << self.cluster) - 1)
            for tile in cutlass.range(cta, rows * columns, ctas, unroll=1):
                row, column = tile % rows, tile // rows
                for k in cutlass.range(depth, unroll=1):
                    stage = producer.acquire_and_advance()
                    cute.copy(tma_a, from_a[None, row, k], into_a[None, stage.index], tma_bar_ptr=stage.barrier)
                    cute.copy(
                        tma_b,
                        from_b[None, column, k],
                        into_b[None, stage.index],
                        tma_bar_ptr=stage.barrier,
                        mcast_mask=everyone,
                    )
            producer.tail()
        elif warp >= 4:
            cute.arch.setmaxregister_increase(232)
            me = thread - 128
            mine = mma.get_slice(me)
            fragments_a = mma.make_fragment_A(mine.partition_A(shared_a))
            fragments_b = mma.make_fragment_B(mine.partition_B(shared_b))
            sums = cute.make_rmem_tensor(mma.partition_shape_C((TILE_M, TILE_N)), cutlass.Float32)
            store = hopper.get_smem_store_op(LayoutEnum.ROW_MAJOR, self.kind, cutlass.Float32)
            writer = cute.make_tiled_copy_C(store, mma).get_slice(me)
            written = writer.partition_D(shared_d)[None, None, None, 0]
            from_d, into_d = cpasync.tma_partition(
                tma_d, 0, cute.make_layout(1), cute.group_modes(shared_d, 0, 2), cute.group_modes(tiles_d, 0, 2)
            )
            storing = pipeline.NamedBarrier(barrier_id=STORING, num_threads=32 * CONSUMER_WARPS)
            for tile in cutlass.range(cta, rows * columns, ctas, unroll=1):
                row, column = tile % rows, tile // rows
                mma.set(warpgroup.Field.ACCUMULATE, False)
                previous = consumer.clone()
                for k in cutlass.range(depth, unroll=1):
                    stage = consumer.wait_and_advance()
                    warpgroup.fence()
                    for block in cutlass.range_constexpr(cute.size(fragments_a, mode=[2])):
                        at = (None, None, block, stage.index)
                        cute.gemm(mma, sums, fragments_a[at], fragments_b[at], sums)
                        mma.set(warpgroup.Field.ACCUMULATE, True)
                    warpgroup.commit_group()
                    warpgroup.wait_group(1)
                    if k > 0:
                        previous.release()
                        previous.advance()
                warpgroup.wait_group(0)
                previous.release()

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
                    cute.copy(tma_d, from_d[None, 0], into_d[None, row, column])
                    cute.arch.cp_async_bulk_commit_group()
            if warp == 4:
                cute.arch.cp_async_bulk_wait_group(0)


if __name__ == "__main__":
    folder, cluster = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    kernel = PersistentGemm(512, 512, 256, max(2, cluster), cluster)
    compile_and_launch(kernel, [cutlass.Float16] * 3, folder / f"cute_gemm_{cluster}x1.ptx")
