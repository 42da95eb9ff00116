// The epilogue of a GEMM: a warp loads C, the warpgroups turn it into D subtile by subtile, one of their warps stores D.

#pragma once
#include "gemm_shape.cuh"

// By all lanes of a warp; the first one copies.
template <bool LEADER>
__device__ void epilogue_load(Doer& me, const Kernel& kernel, Loads& write, int tile) {
  for (int subtile = 0; subtile < SUBTILES; ++subtile, ++write) {
    const int at = write.index;
    RECORD_ITERATION(me, subtile);
    me.wait(object(EPI_EMPTY, at), kernel.epi_empty(at), write.phase);
    if (LEADER) {
      me.load(object(WHOLE_C, at), object(EPI_FULL, at), kernel.tensors + AT_C + at * BYTES_D, kernel.maps + 2,
              kernel.column(tile) + subtile * SUBTILE_N, kernel.row(tile), kernel.epi_full(at), BYTES_D);
      me.expect(object(EPI_FULL, at), kernel.epi_full(at), BYTES_D);
    }
    me.arrive(object(EPI_FULL, at), kernel.epi_full(at));
  }
}

template <bool LEADER>
__device__ void epilogue_load_tail(Doer& me, const Kernel& kernel, Loads write) {
  if (!LEADER) return;
  for (int stage = 0; stage < STAGES_C; ++stage, ++write) {
    me.wait(object(EPI_EMPTY, write.index), kernel.epi_empty(write.index), write.phase);
  }
}

struct Epilogue {
  Loads load;
  Stores store;
  int issued;
  __device__ Epilogue() : load(0), store(1), issued(0) {}
  __device__ void advance(int subtiles) {
    load.advance(subtiles);
    store.advance(subtiles);
  }
};

// Where a thread's pair of columns lies in a stage of C or D: rows of 64 bytes, swizzled by 64 bytes.
__device__ __forceinline__ unsigned place(int row, int pair) {
  const int chunk = pair / 4 ^ (row >> 1 & 3);
  return row * SUBTILE_N * 2 + chunk * 16 + pair % 4 * 4;
}

__device__ __forceinline__ unsigned half2(float low, float high) {
  unsigned both;
  asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(both) : "f"(high), "f"(low));
  return both;
}

__device__ __forceinline__ void add_half2(float& low, float& high, unsigned both) {
  float l, h;
  asm("{\n .reg .b16 x, y;\n mov.b32 {x, y}, %2;\n cvt.f32.f16 %0, x;\n cvt.f32.f16 %1, y;\n}" : "=f"(l), "=f"(h) : "r"(both));
  low += l;
  high += h;
}

__device__ __forceinline__ void release_source(Doer& me, const Kernel& kernel, Epilogue& at) {
  if (SOURCE) me.arrive(object(EPI_EMPTY, at.load.index), kernel.epi_empty(at.load.index));
  ++at.load;
}

__device__ __forceinline__ void tma_store(Doer& me, const Kernel& kernel, Epilogue& at, int tile, int subtile,
                                          bool storing) {
  if (WRONG != NO_STORE_FENCE) me.fence_proxy();
  if (WRONG != NO_STORE_SYNC) me.named_sync(EPILOGUE_BARRIER, MMA_THREADS);
  if (storing) {
    me.store(object(WHOLE_D, at.store.index), kernel.tensors + AT_D + at.store.index * BYTES_D, kernel.maps + 3,
             kernel.column(tile) + subtile * SUBTILE_N, kernel.row(tile), BYTES_D);
    me.bulk_commit();
  }
  ++at.store;
  at.issued += at.issued < STAGES_D;
  if (storing && WRONG != NO_STORE_WAIT) me.bulk_wait_read<STAGES_D - 1>();
  me.named_sync(EPILOGUE_BARRIER, MMA_THREADS);
  if (REUSE && at.issued > STAGES_D - 1) release_source(me, kernel, at);
}

// Of a stage of C or D that the storing warp, the others of its group, or the second group works on.
__device__ __forceinline__ int part_bytes(int part) {
  return part == 2 ? BYTES_D / 2 : BYTES_D / (4 * SHARERS) * (part == 0 ? 1 : 3);
}

// C's part of a subtile is added to the accumulators.
__device__ __forceinline__ void add_source(Doer& me, const Kernel& kernel, int from, int subtile,
                                           float (&d)[BLOCKS][TILE_N / 2], int top, int thread, int part) {
  RECORD_BEFORE(me);
#pragma unroll
  for (int block = 0; block < BLOCKS; ++block) {
#pragma unroll
    for (int i = 0; i < SUBTILE_N / 4; ++i) {
      const unsigned offset = place(top + block * WGMMA_M + i % 2 * 8, i / 2 * 4 + thread % 4);
      const int j = subtile * SUBTILE_N / 2 + i * 2;
      add_half2(d[block][j], d[block][j + 1], read_shared(kernel.tensors + AT_C + from * BYTES_D + offset));
    }
  }
  RECORD_WORDS(me, did::READ, object(PART_C + part, from), part_bytes(part), 1, 0);
}

__device__ __forceinline__ void write_tile(Doer& me, const Kernel& kernel, int to, int subtile,
                                           float (&d)[BLOCKS][TILE_N / 2], int top, int thread, int part) {
  RECORD_BEFORE(me);
#pragma unroll
  for (int block = 0; block < BLOCKS; ++block) {
#pragma unroll
    for (int i = 0; i < SUBTILE_N / 4; ++i) {
      const unsigned offset = place(top + block * WGMMA_M + i % 2 * 8, i / 2 * 4 + thread % 4);
      const int j = subtile * SUBTILE_N / 2 + i * 2;
      write_shared(kernel.tensors + AT_D + to * BYTES_D + offset, half2(d[block][j], d[block][j + 1]));
    }
  }
  RECORD_AFTER(me, did::WRITE, object(PART_D + part, to), part_bytes(part));
}

__device__ __forceinline__ void epilogue_store(Doer& me, const Kernel& kernel, Epilogue& at, int tile,
                                               float (&d)[BLOCKS][TILE_N / 2], int thread, int group) {
  const int share = SCHEDULE == COOPERATIVE ? group : 0;
  const bool storing = share == 0 && thread < 32;
  const int part = share > 0 ? 2 : !storing;
  const int top = share * BLOCKS * WGMMA_M + thread / 32 * 16 + thread % 32 / 4;
#pragma unroll
  for (int subtile = 0; subtile < SUBTILES; ++subtile) {
    RECORD_ITERATION(me, subtile);
    if (SOURCE) {
      // With REUSE a subtile's C is where its D will be.
      const int from = REUSE ? at.store.index : at.load.index;
      me.wait(object(EPI_FULL, from), kernel.epi_full(from), REUSE ? at.store.phase ^ 1 : at.load.phase);
      if (WRONG == SOURCE_RELEASED) release_source(me, kernel, at);
      HOLD(me, BEFORE_READ);
      add_source(me, kernel, from, subtile, d, top, thread, part);
      if (!REUSE) {
        me.fence_proxy();
        if (WRONG != SOURCE_RELEASED) release_source(me, kernel, at);
      }
    }
    if (DELAY && subtile > 0) tma_store(me, kernel, at, tile, subtile - 1, storing);
    HOLD(me, BEFORE_WRITE);
    write_tile(me, kernel, at.store.index, subtile, d, top, thread, part);
    if (!DELAY) tma_store(me, kernel, at, tile, subtile, storing);
  }
  if (DELAY) tma_store(me, kernel, at, tile, SUBTILES - 1, storing);
}

__device__ __forceinline__ void epilogue_store_tail(Doer& me, const Kernel& kernel, Epilogue& at, bool storing) {
  if (storing) me.bulk_wait_read<0>();
  if (REUSE) {
    const int held = STAGES_D - 1 < SUBTILES ? STAGES_D - 1 : SUBTILES;
    for (int stage = 0; stage < held; ++stage) release_source(me, kernel, at);
  }
  at.issued = 0;
}
