// The mainloop of a GEMM: a producer fills the stages of A and B, warpgroups drain them.

#pragma once
#include "gemm_shape.cuh"

__device__ void mainloop_load(Doer& me, const Kernel& kernel, Mainloop& write, int tile) {
  for (int k = 0; k < kernel.k_tiles; ++k, ++write) {
    const int at = write.index;
    RECORD_ITERATION(me, k);
    if (WRONG != NO_ACQUIRE) me.wait(object(EMPTY, at), kernel.empty(at), write.phase);
    const int bytes = WRONG == EXPECT_LESS ? BYTES_A : BYTES_A + BYTES_B + (WRONG == EXPECT_MORE ? 16 : 0);
    me.arrive_expect(object(FULL, at), kernel.full(at), bytes);
    HOLD(me, BEFORE_LOAD_A);
    me.load(object(A, at), object(FULL, at), kernel.tensors + AT_A + at * BYTES_A, kernel.maps, k * TILE_K,
            kernel.row(tile), kernel.full(at), BYTES_A);
    HOLD(me, BEFORE_LOAD_B);
    const int half = kernel.rank * (TILE_N / CTAS);  // of B that this CTA loads
    me.load(object(B + kernel.rank, at), object(FULL, at), kernel.tensors + AT_B + at * BYTES_B + half * ROW,
            kernel.maps + 1, k * TILE_K, kernel.column(tile) + half, kernel.full(at), BYTES_B / CTAS, ALL_CTAS);
  }
}

__device__ void mainloop_load_tail(Doer& me, const Kernel& kernel, Mainloop write) {
  if (WRONG == NO_LOAD_TAIL) return;
  for (int stage = 0; stage < STAGES; ++stage, ++write) {
    me.wait(object(EMPTY, write.index), kernel.empty(write.index), write.phase);
  }
}

__device__ __forceinline__ void release(Doer& me, const Kernel& kernel, int at, int thread, int group) {
  if (WRONG == NO_RELEASE && (SCHEDULE == WS ? thread >= 32 : group > 0)) return;
#ifdef CLUSTER
  // One thread of a warpgroup for each CTA, as CUTLASS spreads them.
  const int spread = thread / 8 % 4, target = 4 * (thread / 32 ^ spread) + spread;
  const bool signals = thread % 8 == 0 && target < CTAS && (WRONG != RELEASE_OWN || target == kernel.rank);
  const bool whole = SCHEDULE == COOPERATIVE && group == 1;  // this role is all warps of its group
  if (WRONG == RELEASE_OWN && !whole && (kernel.rank == 0) != (thread < 32)) return;
  me.arrive_at(object(EMPTY, at), kernel.empty(at), signals ? target : -1);
#else
  me.arrive(object(EMPTY, at), kernel.empty(at));
#endif
}

// The end of a group of MMAs is one for all four warps: where a role is some of them, the specification lets its parts
// meet.
__device__ __forceinline__ void met(Doer& me, int group) {
  if (SCHEDULE != COOPERATIVE || group == 0) me.met();
}

// The products of a k-tile, as one group.
__device__ __forceinline__ void mma(Doer& me, const Kernel& kernel, int at, int k, int share,
                                    float (&d)[BLOCKS][TILE_N / 2]) {
  RECORD_BEFORE(me);
  wgmma_fence();
  const unsigned a = kernel.tensors + AT_A + at * BYTES_A + share * BLOCKS * WGMMA_M * ROW;
  const unsigned b = kernel.tensors + AT_B + at * BYTES_B;
#pragma unroll
  for (int step = 0; step < TILE_K / K_STEP; ++step) {
    const unsigned long long right = descriptor(b + step * K_STEP * 2);
#pragma unroll
    for (int block = 0; block < BLOCKS; ++block) {
      const unsigned long long left = descriptor(a + block * WGMMA_M * ROW + step * K_STEP * 2);
      wgmma<1>(d[block], left, right, k + step);
#pragma unroll
      for (int again = 0; again < REPEAT; ++again) {
        wgmma<-1>(d[block], left, right, 1);
        wgmma<1>(d[block], left, right, 1);
      }
    }
  }
  wgmma_commit();
  RECORD_WORDS(me, did::MMA, object(AB, at), BYTES_A + BYTES_B, 1, 0);
  me.committed();
}

// All k-tiles of an output tile: a stage is released when the MMA after its own has been issued.
__device__ __forceinline__ void mainloop_mma(Doer& me, const Kernel& kernel, Mainloop& read, Mainloop& last,
                                             float (&d)[BLOCKS][TILE_N / 2], int thread, int group) {
  Mainloop behind = read;
  const int share = SCHEDULE == COOPERATIVE ? group : 0;
  for (int k = 0; k < kernel.k_tiles; ++k, ++read) {
    const int at = read.index;
    RECORD_ITERATION(me, k);
    me.wait(object(FULL, at), kernel.full(at), read.phase ^ (WRONG == CONSUMER_PARITY));
    if (WRONG == RELEASE_BEFORE_MMA) release(me, kernel, at, thread, group);
    HOLD(me, BEFORE_MMA);
    mma(me, kernel, at, k, share, d);
    if (WRONG == RELEASE_UNWAITED) {
      release(me, kernel, at, thread, group);
    } else if (k > 0) {
      if (WRONG == RELEASE_BEFORE_WAIT) release(me, kernel, behind.index, thread, group);
      me.mma_wait<1>();
      if (CTAS > 1) met(me, group);
      if (WRONG != RELEASE_BEFORE_WAIT && WRONG != RELEASE_BEFORE_MMA) release(me, kernel, behind.index, thread, group);
      ++behind;
    }
  }
  last = behind;
}

__device__ __forceinline__ void mainloop_mma_tail(Doer& me, const Kernel& kernel, const Mainloop& last, int thread,
                                                  int group) {
  me.mma_wait<0>();
  met(me, group);
  constexpr bool released = WRONG == NO_TAIL_RELEASE || WRONG == RELEASE_BEFORE_MMA || WRONG == RELEASE_UNWAITED;
  if (!released) release(me, kernel, last.index, thread, group);
}
