// What tensormap.replace leaves of a tensor map in shared memory: one field of one map for each block.
//
// checker/evidence/hardware/footprints/maps.py puts the macro REPLACE before this text: a case of a switch for each field.

#include "ptx.cuh"

constexpr unsigned WORDS = 32;  // of a map

extern "C" __global__ void replace(const int* fields, const unsigned long long* values, const unsigned* before,
                                   unsigned* after) {
  __shared__ __align__(128) unsigned map[WORDS];
  map[threadIdx.x] = before[blockIdx.x * WORDS + threadIdx.x];
  __syncwarp();
  const unsigned at = ptx::address(map);
  const unsigned long long value = values[blockIdx.x];
  if (threadIdx.x == 0) {
    switch (fields[blockIdx.x]) {
      REPLACE
    }
  }
  asm volatile("fence.proxy.tensormap::generic.release.cta;" ::: "memory");
  __syncwarp();
  after[blockIdx.x * WORDS + threadIdx.x] = reinterpret_cast<volatile unsigned*>(map)[threadIdx.x];
}
