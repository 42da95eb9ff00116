// When does each warp of a warpgroup read the matrices of a wgmma? One warp comes late, with its part of A or B.
//
// A is 64 x 64, B is 64 x 8, all ones, and each warp stores twos in its part, fences, and executes wgmma at once:
// part 0 are sixteen rows of A, part 1 sixteen columns of A, part 2 sixteen rows of B. Nothing waits for the late warp.
// Prints, for each part and late warp, the least and greatest accumulator of every warp, and after how many ns it has
// gone on.
#include <cstdint>
#include <cstdio>
#include <cuda_fp16.h>

constexpr long long LATE = 200000;

__device__ long long now() {
  long long ns;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(ns));
  return ns;
}

__device__ uint64_t descriptor(const void* at, int leading, int stride) {
  uint64_t address = static_cast<uint64_t>(__cvta_generic_to_shared(at));
  return (address & 0x3ffff) >> 4 | static_cast<uint64_t>(leading >> 4) << 16 | static_cast<uint64_t>(stride >> 4) << 32;
}

__global__ void wgmma_by_warp(float* sums, long long* times, int part, int late) {
  __shared__ alignas(1024) half a[64 * 64];  // pieces of 8 k: 64 rows of 16 bytes each
  __shared__ alignas(1024) half b[64 * 8];
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  for (int i = threadIdx.x; i < 64 * 64; i += 128) a[i] = __float2half(1.0f);
  for (int i = threadIdx.x; i < 64 * 8; i += 128) b[i] = __float2half(1.0f);
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  long long start = now();
  if (warp == late) {
    while (now() - start < LATE) {}
  }
  for (int i = lane; i < 64 * 64; i += 32) {
    int row = i / 8 % 64, k = i / 512 * 8 + i % 8;
    if ((part == 0 && row / 16 == warp) || (part == 1 && k / 16 == warp)) a[i] = __float2half(2.0f);
  }
  for (int i = lane; i < 64 * 8; i += 32) {
    if (part == 2 && i / 128 == warp) b[i] = __float2half(2.0f);
  }
  __syncwarp();
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  float d[4] = {0, 0, 0, 0};
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  for (int step = 0; step < 4; ++step) {
    uint64_t of_a = descriptor(a + step * 1024, 1024, 128), of_b = descriptor(b + step * 128, 128, 256);
    asm volatile("{ .reg .pred p; setp.ne.b32 p, 1, 0;\n"
                 "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%0, %1, %2, %3}, %4, %5, p, 1, 1, 0, 0; }"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "l"(of_a), "l"(of_b));
  }
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
  asm volatile("wgmma.wait_group.sync.aligned 0;" : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])::"memory");
  long long end = now();
  for (int i = 0; i < 4; ++i) sums[threadIdx.x * 4 + i] = d[i];
  if (lane == 0) times[warp] = end - start;
}

int main() {
  float* sums;
  long long* times;
  cudaMallocManaged(&sums, 512 * sizeof(float));
  cudaMallocManaged(&times, 4 * sizeof(long long));
  for (int part = 0; part < 3; ++part) {
    for (int late = 0; late < 4; ++late) {
      for (int again = 0; again < 3; ++again) {
        wgmma_by_warp<<<1, 128>>>(sums, times, part, late);
        if (cudaDeviceSynchronize() != cudaSuccess) return 1;
        std::printf("part %d late %d:", part, late);
        for (int warp = 0; warp < 4; ++warp) {
          float least = sums[warp * 128], most = least;
          for (int i = 0; i < 128; ++i) {
            least = sums[warp * 128 + i] < least ? sums[warp * 128 + i] : least;
            most = sums[warp * 128 + i] > most ? sums[warp * 128 + i] : most;
          }
          std::printf("  warp %d %g..%g after %lld", warp, least, most, times[warp]);
        }
        std::printf("\n");
      }
    }
  }
  return 0;
}
