// An accumulator that is read while the wgmmas that write it are in flight, and one that is written between two wgmmas
// with no wgmma.fence: what becomes of that is up to the assembler, which sees these registers.
//
// A warpgroup accumulates `steps` products of ones, and every thread looks at its sums: `wrong` counts the threads and
// rounds that found others than the right ones.

#include "ptx.cuh"

constexpr int COLUMNS = 64, DEPTH = 16, SUMS = COLUMNS / 2;
enum Mistake { NONE, READS_IN_FLIGHT, WRITES_UNFENCED };

PTX void fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
PTX void commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
PTX void wait() { asm volatile("wgmma.wait_group.sync.aligned 0;" ::: "memory"); }

#define D8(n) "+f"(d[n]), "+f"(d[n + 1]), "+f"(d[n + 2]), "+f"(d[n + 3]), "+f"(d[n + 4]), "+f"(d[n + 5]), \
              "+f"(d[n + 6]), "+f"(d[n + 7])

// Core matrices of 8 rows by 16 bytes lie one behind the other.
PTX void multiply(float (&d)[SUMS], unsigned a, unsigned b) {
  const unsigned long long left = a >> 4 | 8ull << 16 | 16ull << 32, right = b >> 4 | 8ull << 16 | 16ull << 32;
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, "
      "%14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1, 1, 1, 0, "
      "0;"
      : D8(0), D8(8), D8(16), D8(24)
      : "l"(left), "l"(right)
      : "memory");
}

template <int MISTAKE>
__device__ void accumulate(unsigned* wrong, unsigned a, unsigned b, int steps, int rounds) {
  unsigned differ = 0;
  for (int round = 0; round < rounds; ++round) {
    float d[SUMS];
    for (float& sum : d) sum = 0;
    fence();
    for (int step = 0; step < steps; ++step) multiply(d, a, b);
    commit();
    if (MISTAKE != READS_IN_FLIGHT) wait();
    bool right = true;
    for (float sum : d) right &= sum == static_cast<float>(DEPTH * steps);
    if (MISTAKE == READS_IN_FLIGHT) wait();
    for (float& sum : d) sum = 1;
    if (MISTAKE != WRITES_UNFENCED) fence();
    multiply(d, a, b);
    commit();
    wait();
    for (float sum : d) right &= sum == DEPTH + 1.0f;
    differ += !right;
  }
  if (differ) atomicAdd(wrong, differ);
}

extern "C" __global__ void accumulators(unsigned* wrong, int mistake, int steps, int rounds) {
  __shared__ __align__(128) unsigned ones[2][COLUMNS * DEPTH / 2];
  for (int k = threadIdx.x; k < COLUMNS * DEPTH / 2; k += blockDim.x) ones[0][k] = ones[1][k] = 0x3c003c00;
  ptx::fence_proxy_async();
  __syncthreads();
  const unsigned a = ptx::address(ones[0]), b = ptx::address(ones[1]);
  if (mistake == NONE) accumulate<NONE>(wrong, a, b, steps, rounds);
  if (mistake == READS_IN_FLIGHT) accumulate<READS_IN_FLIGHT>(wrong, a, b, steps, rounds);
  if (mistake == WRITES_UNFENCED) accumulate<WRITES_UNFENCED>(wrong, a, b, steps, rounds);
}
