// A program around a kernel that does a sequence of operations on each of many mbarriers, and hangs, so that a core dump
// shows their words: FILE CTAS BARRIERS LENGTH. The file has, for each of so many barriers of each CTA, LENGTH rows of
// two 32-bit words: an operation (enum Verb), or -1 behind the last, and its operand; then, by barrier, the parity that
// a thread is to wait for, which is that of its current phase, or -1. The barriers lie side by side.
//
// A kernel cannot look itself: on an H200 an ordinary load of the word is answered with what it was before the first
// operation, until mbarrier.inval, although the program order has the operations before it.

#include <vector>

#include "ptx.cuh"
#include "hang.cuh"

enum Verb { INIT, EXPECT_TX, COMPLETE_TX, ARRIVE, ARRIVE_EXPECT_TX, ARRIVE_NO_COMPLETE, ARRIVE_DROP,
            ARRIVE_DROP_EXPECT_TX, TEST_WAIT_PARITY };

constexpr unsigned THREADS = 256, WARP = 32;

struct Row {
  int verb;
  unsigned operand;
};

__device__ __forceinline__ void perform(unsigned barrier, const Row& row) {
  switch (row.verb) {
    case INIT: ptx::init(barrier, row.operand); break;
    case EXPECT_TX: ptx::expect_tx(barrier, row.operand); break;
    case COMPLETE_TX: ptx::complete_tx(barrier, row.operand); break;
    case ARRIVE: ptx::arrive(barrier, row.operand); break;
    case ARRIVE_EXPECT_TX: ptx::arrive_expect_tx(barrier, row.operand); break;
    case ARRIVE_NO_COMPLETE: ptx::arrive_no_complete(barrier, row.operand); break;
    case ARRIVE_DROP: ptx::arrive_drop(barrier, row.operand); break;
    case ARRIVE_DROP_EXPECT_TX: ptx::arrive_drop_expect_tx(barrier, row.operand); break;
    case TEST_WAIT_PARITY: ptx::test_parity(barrier, row.operand); break;
    default: break;
  }
}

extern "C" __global__ void __launch_bounds__(THREADS) words(const Row* rows, const int* parities, int barriers, int length) {
  extern __shared__ __align__(1024) unsigned long long objects[];
  rows += static_cast<size_t>(blockIdx.x) * barriers * length;
  parities += blockIdx.x * barriers;
  if (threadIdx.x < WARP) {
    for (int one = threadIdx.x; one < barriers; one += WARP) {
      for (int k = 0; k < length; ++k) perform(ptx::address(objects + one), rows[one * length + k]);
    }
  }
  __syncthreads();
  const int own = static_cast<int>(threadIdx.x);
  if (own < barriers && parities[own] >= 0) {
    while (!ptx::try_parity<1000>(ptx::address(objects + own), parities[own])) {}
  }
}

int main(int count, char** given) {
  if (count != 5) return std::printf("usage: FILE CTAS BARRIERS LENGTH\n"), 2;
  const int ctas = std::atoi(given[2]), barriers = std::atoi(given[3]), length = std::atoi(given[4]);
  const size_t all = size_t(ctas) * barriers;
  std::vector<Row> rows(all * length);
  std::vector<int> parities(all);
  std::FILE* file = std::fopen(given[1], "rb");
  if (!file || std::fread(rows.data(), sizeof(Row), rows.size(), file) != rows.size() ||
      std::fread(parities.data(), sizeof(int), all, file) != all) {
    return std::printf("%s is too short\n", given[1]), 2;
  }
  void* on_gpu = zeros(rows.size() * sizeof(Row));
  void* waits = zeros(all * sizeof(int));
  check(cudaMemcpy(on_gpu, rows.data(), rows.size() * sizeof(Row), cudaMemcpyHostToDevice), "rows");
  check(cudaMemcpy(waits, parities.data(), all * sizeof(int), cudaMemcpyHostToDevice), "parities");
  launch(words, static_cast<unsigned>(ctas), THREADS, static_cast<unsigned>(barriers) * 8, 1u,
         static_cast<const Row*>(on_gpu), static_cast<const int*>(waits), barriers, length);
  return hang();
}
