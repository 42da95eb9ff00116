// Who has to execute the proxy fence between ordinary stores and an access through the async proxy?
//
// Four warps write a tile with ordinary stores and arrive on a mbarrier; a warpgroup waits for it and reads the tile
// through the async proxy, by a bulk store or by wgmma. Every round writes another number, every word that was read is
// compared with it, and `wrong` counts, thread by thread, the rounds in which one differs.

#include "ptx.cuh"

constexpr int WORDS = 512, WRITERS = 128, READERS = 128;
enum Reader { STORE, WGMMA };
enum Fence { NOBODY, WRITER, READER, READER_BEFORE_ITS_WAIT };

struct __align__(128) Memory {
  unsigned tile[WORDS];
  unsigned ones[64];
  unsigned long long full, empty;
};

// The sum of each row of the tile, 64 rows of 16 halves: all rows are alike. Core matrices of 8 rows by 16 bytes lie one
// behind the other.
PTX void sums(float (&d)[4], unsigned tile, unsigned ones) {
  const unsigned long long a = tile >> 4 | 8ull << 16 | 16ull << 32;
  const unsigned long long b = ones >> 4 | 8ull << 16 | 16ull << 32;
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, 0, 1, 1, 0, 0;"
      : "=f"(d[0]), "=f"(d[1]), "=f"(d[2]), "=f"(d[3])
      : "l"(a), "l"(b)
      : "memory");
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])::"memory");
}

extern "C" __global__ void proxy_fences(unsigned* wrong, unsigned* output, int reader, int fence, int rounds) {
  __shared__ Memory memory;
  const unsigned full = ptx::address(&memory.full), empty = ptx::address(&memory.empty);
  const unsigned tile = ptx::address(memory.tile);
  unsigned* const stored = output + blockIdx.x * WORDS;
  for (int k = threadIdx.x; k < WORDS; k += blockDim.x) memory.tile[k] = 0;
  if (threadIdx.x < 64) memory.ones[threadIdx.x] = 0x3c003c00;
  if (threadIdx.x == 0) {
    ptx::init(full, WRITERS);
    ptx::init(empty, READERS);
    ptx::fence_init();
  }
  ptx::fence_proxy_async();
  __syncthreads();
  unsigned differ = 0;
  for (int round = 0; round < rounds; ++round) {
    const unsigned number = round * 37 & 1023, half = 0x6400 | number, word = half << 16 | half;  // 1024 + number, twice
    if (threadIdx.x < WRITERS) {
      while (!ptx::try_parity<1000>(empty, (round & 1) ^ 1)) {}
      for (int k = threadIdx.x; k < WORDS; k += WRITERS) memory.tile[k] = word;
      if (fence == WRITER) ptx::fence_proxy_async();
      ptx::arrive(full);
      continue;
    }
    if (fence == READER_BEFORE_ITS_WAIT) ptx::fence_proxy_async();
    while (!ptx::try_parity<1000>(full, round & 1)) {}
    if (fence == READER) ptx::fence_proxy_async();
    const int thread = threadIdx.x - WRITERS;
    bool right = true;
    if (reader == WGMMA) {
      float d[4];
      sums(d, tile, ptx::address(memory.ones));
      for (float sum : d) right &= sum == 16.0f * (1024 + number);
    } else {
      if (thread == 0) {
        ptx::store(stored, tile, sizeof(memory.tile));
        ptx::bulk_commit();
        ptx::bulk_wait<0>();
        __threadfence();
      }
      ptx::named_sync(1, READERS);
      for (int k = thread; k < WORDS; k += READERS) right &= __ldcg(stored + k) == word;
      ptx::named_sync(1, READERS);
    }
    differ += !right;
    ptx::arrive(empty);
  }
  if (differ) atomicAdd(wrong, differ);
}
