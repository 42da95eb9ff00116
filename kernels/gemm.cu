// D = A * B^T, or A * B^T + C, on tensor cores: TMA fills stages of A and B, WGMMA drains them, TMA stores D. The three
// schedules of CUTLASS's warp-specialised kernels, with the synchronising operations of its collectives one for one, in
// their order, so that a run can be held to the specification's models of them (spec/cutlass/gemm.py).
//
//   SCHEDULE 0  one producer warp and one warpgroup per tile of D, one tile per CTA; tensors of mainloop and epilogue
//               are the same bytes
//   SCHEDULE 1  cooperative: CTAs take tile after tile, two warpgroups have half of it each
//   SCHEDULE 2  pingpong: CTAs take tile after tile, two warpgroups take turns, in the mainloop and in the epilogue
//
// With CLUSTER, two CTAs with tiles of D side by side along M load half of their common tile of B each, for both.
//
// A is M x K, B is N x K, both K-contiguous; C and D are M x N half precision, N-contiguous. Sizes are multiples of the
// tile. WRONG leaves something out or does it wrong; with DIRECTED an operation can be held back, so that what nothing
// orders comes in the order that shows it. All of shared memory is NaN at the start: what nobody has written is seen.

#include "gemm_epilogue.cuh"
#include "gemm_mainloop.cuh"

template <bool LEADER>
__device__ void load_warp(Doer& me, const Kernel& kernel) {
  const int tile = kernel.first();
  if (LEADER) {
    Mainloop write(WRONG == PRODUCER_PHASE ? 0 : 1);
    mainloop_load(me, kernel, write, tile);
    mainloop_load_tail(me, kernel, write);
  }
  if (SOURCE) {
    me.warp_sync();
    Loads write(1);
    epilogue_load<LEADER>(me, kernel, write, tile);
    epilogue_load_tail<LEADER>(me, kernel, write);
  }
}

template <bool LEADER>
__device__ void mainloop_load_warp(Doer& me, const Kernel& kernel) {
  Mainloop write(WRONG == PRODUCER_PHASE ? 0 : 1);
  bool first = SOURCE;
  for (int tile = kernel.first(); tile < kernel.tiles; tile += kernel.step()) {
    if (LEADER) mainloop_load(me, kernel, write, tile);
    if (first) me.arrive(object(LOAD_ORDER, 1), kernel.load_order(1));
    first = false;
    if (!LEADER) return;
  }
  mainloop_load_tail(me, kernel, write);
}

template <bool LEADER>
__device__ void epilogue_load_warp(Doer& me, const Kernel& kernel) {
  Loads write(1);
  bool first = true;
  for (int tile = kernel.first(); tile < kernel.tiles; tile += kernel.step()) {
    if (first) me.wait(object(LOAD_ORDER, 1), kernel.load_order(1), 0);
    first = false;
    epilogue_load<LEADER>(me, kernel, write, tile);
  }
  epilogue_load_tail<LEADER>(me, kernel, write);
}

__device__ __forceinline__ void consumer(Doer& me, const Kernel& kernel, int thread, int group) {
  float d[BLOCKS][TILE_N / 2];
  const bool storing = (SCHEDULE != COOPERATIVE || group == 0) && thread < 32;
  Mainloop read(0), last(0);
  Epilogue at;
  if (SCHEDULE == PINGPONG && group == 1) {
    read.advance(kernel.k_tiles);
    at.advance(SUBTILES);
  }
  unsigned turn = (group == 0) != (WRONG == ORDER_SWAPPED) ? 1 : 0;  // the phase of the group's barriers
  bool any = false;
  for (int tile = kernel.first(), nth = 0; tile < kernel.tiles; tile += kernel.step(), ++nth) {
    if (SCHEDULE == PINGPONG) {
      if (nth % 2 != group) continue;
      if (WRONG != NO_MMA_ORDER) me.wait(object(MATH_ORDER, group), kernel.math_order(group), turn);
    }
    RECORD_ITERATION(me, nth);
    HOLD(me, BEFORE_TILE);
    mainloop_mma(me, kernel, read, last, d, thread, group);
    if (SCHEDULE == PINGPONG && WRONG != NO_MMA_ORDER) {
      me.arrive(object(MATH_ORDER, 1 - group), kernel.math_order(1 - group));
    }
    mainloop_mma_tail(me, kernel, last, thread, group);
    if (SCHEDULE == PINGPONG) {
      read.advance(kernel.k_tiles);
      if (WRONG != NO_EPILOGUE_ORDER) me.wait(object(MATH_ORDER, 2 + group), kernel.math_order(2 + group), turn);
    }
    epilogue_store(me, kernel, at, tile, d, thread, group);
    if (SCHEDULE == PINGPONG) {
      epilogue_store_tail(me, kernel, at, storing);
      at.advance(SUBTILES);
      if (WRONG != NO_EPILOGUE_ORDER) me.arrive(object(MATH_ORDER, 3 - group), kernel.math_order(3 - group));
      turn ^= 1;
    }
    any = true;
  }
  if (SCHEDULE != PINGPONG && any) epilogue_store_tail(me, kernel, at, storing);
}

// The place of the thread's role among those of its CTA, and the lanes that share it; -1: it has none.
__device__ __forceinline__ int placed(int warp, int lane, unsigned& mask) {
  const bool splits = warp == 0 || (SCHEDULE != WS && SOURCE && warp == 2);
  mask = !splits ? 0xffffffffu : lane == 0 ? 1u : 0xfffffffeu;
  if (warp >= 4) return PRODUCER_PLACES + warp - 4;
  if (warp == 0) return lane > 0;
  if (SCHEDULE == WS) return -1;
  if (!SOURCE) return 1 + warp;
  return warp == 1 ? 2 : warp == 2 ? 3 + (lane > 0) : 5;
}

extern "C" __global__ void __launch_bounds__(THREADS, 1)
#ifdef UNWATCHED  // maps as kernels elsewhere take them
    gemm(const __grid_constant__ Maps given, int tiles, int rows, int k_tiles) {
  const Map* const maps = given.of;
  const Orders none = {}, *const orders = &none;
#else
    gemm(const Map* maps, int tiles, int rows, int k_tiles, const Orders* orders) {
#endif
  extern __shared__ unsigned char memory[];
  __shared__ Barriers barriers;
  __shared__ int over, ended;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const unsigned tensors = (address(memory) + 1023) & ~1023u;
  for (unsigned k = threadIdx.x; k < BYTES_TENSORS / 4; k += THREADS) write_shared(tensors + 4 * k, 0xffffffffu);
  ptx::fence_proxy_async();
  if (threadIdx.x == 0) {
    over = ended = 0;
    for (int i = 0; i < STAGES; ++i) {
      init(address(barriers.full + i), 1);
      init(address(barriers.empty + i), RELEASES);
    }
    for (int i = 0; i < STAGES_C; ++i) {
      init(address(barriers.epi_full + i), 32);
      init(address(barriers.epi_empty + i), MMA_THREADS);
    }
    for (int i = 0; i < 2; ++i) init(address(barriers.load_order + i), 32);
    for (int i = 0; i < 4; ++i) init(address(barriers.math_order + i), WARPGROUP);
    ptx::fence_init();
  }
#ifndef UNWATCHED
  for (int i = 0; i < 4; ++i) ptx::acquire_map(maps + i);
#endif
  __syncthreads();
  const int rank = blockIdx.x % CTAS;
#ifdef CLUSTER
  cluster_sync();
#endif
  const Kernel kernel{maps, tensors, &barriers, tiles / CTAS, rows / CTAS, k_tiles, rank};
  unsigned mask;
  const int place = placed(warp, lane, mask);
  Doer me;
  if (place >= 0) me.open(*orders, &over, blockIdx.x, PLACES, place, mask);
  if (warp >= 4) {
    if (SCHEDULE != WS) me.set_registers<MMA_REGISTERS, true>();
    consumer(me, kernel, threadIdx.x % WARPGROUP, warp / 4 - 1);
    me.close();
#ifndef UNWATCHED
    if (SCHEDULE == PINGPONG) {
      // Both groups use one barrier of threads: where they get mixed up, some warps may wait there when all others have
      // ended. Once the time is over, those arrive in place of whom they wait for.
      __syncwarp();
      if (lane == 0) atomicAdd(&ended, 1);
      while (__shfl_sync(0xffffffffu, atomicAdd(&ended, 0), 0) < 8) {
        if (__any_sync(0xffffffffu, me.expired())) {
          ptx::named_arrive(EPILOGUE_BARRIER, MMA_THREADS);
        }
        __nanosleep(1000);
      }
    }
#endif
  } else if (SCHEDULE == WS) {
    if (place == 0) load_warp<true>(me, kernel);
    if (place == 1) load_warp<false>(me, kernel);
    if (place >= 0) me.close();
  } else {
    me.set_registers<LOAD_REGISTERS, false>();
    if (warp == 0) {
      if (lane == 0) mainloop_load_warp<true>(me, kernel);
      else mainloop_load_warp<false>(me, kernel);
    } else if (SOURCE && warp == 2) {
      if (lane == 0) epilogue_load_warp<true>(me, kernel);
      else epilogue_load_warp<false>(me, kernel);
    }
    me.close();
  }
#ifdef CLUSTER
  cluster_sync();  // a CTA that has given up must not be gone while others still reach into it
#endif
}
