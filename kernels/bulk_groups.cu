// For whose bulk groups does cp.async.bulk.wait_group wait? PTX says: for those of the executing thread.
//
// Thread `other` gives the copy engine much to do and then a store of `source`. Thread 0 waits for its own groups, of
// which it has none unless it is that thread, and writes `source` again. What was stored tells whether it has waited.

#include "ptx.cuh"

constexpr int WORDS = 64, SUMS = 4;

extern "C" __global__ void bulk_groups(unsigned* sums, unsigned* output, int other) {
  extern __shared__ __align__(128) unsigned char memory[];
  __shared__ __align__(128) unsigned source[WORDS];
  unsigned bytes;
  asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
  for (unsigned k = threadIdx.x; k < bytes / 4; k += blockDim.x) reinterpret_cast<unsigned*>(memory)[k] = 0;
  if (threadIdx.x < WORDS) source[threadIdx.x] = 1;
  ptx::fence_proxy_async();
  __syncthreads();
  if (threadIdx.x == other) {
    const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(memory));
    for (int k = 0; k < SUMS; ++k) ptx::add(sums, base, bytes);
    const unsigned from = static_cast<unsigned>(__cvta_generic_to_shared(source));
    ptx::store(output + blockIdx.x * WORDS, from, sizeof(source));
    ptx::bulk_commit();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    ptx::bulk_wait_read<0>();
    for (int k = 0; k < WORDS; ++k) reinterpret_cast<volatile unsigned*>(source)[k] = 2;
  }
  ptx::bulk_wait<0>();
}
