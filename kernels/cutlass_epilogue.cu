// One GEMM of CUTLASS with an epilogue policy of one's own, run several times and compared with a plain product.
//
// CUTLASS is used from the PyPI package nvidia-cutlass 4.2.0.0 (its include and tools/util/include folders):
//
//   nvcc -std=c++17 -O2 -gencode arch=compute_90a,code=sm_90a --expt-relaxed-constexpr -I... -I... \
//        -DKIND=1 -DEPI_M=128 -DEPI_N=64 -DSTAGES_C=4 -DSTAGES_D=4 -DREUSE=true -DDELAY=false cutlass_epilogue.cu -lcuda
//   timeout -s KILL 10 ./a.out M N K SMS RUNS          exit 0: right, 1: wrong elements, 137: it hangs
//
// KIND: 0 TmaWarpSpecialized, 1 Cooperative, 2 Pingpong. EPI_M x EPI_N: the epilogue tile, so a tile of 128 x 128 has
// 128 * 128 / (EPI_M * EPI_N) subtiles. ELEMENT_C, ELEMENT_D: half_t unless float is asked for. SMS: CTAs, so that
// M / 128 * N / 128 / SMS is the number of tiles of each (0: all SMs). There is no watchdog inside CUTLASS's kernels:
// run it under `timeout`, in a process of its own.
#include <cstdio>
#include <cstdlib>

#include "cute/tensor.hpp"
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/util/packed_stride.hpp"

#include "operands.cuh"

#ifndef ELEMENT_C
#define ELEMENT_C cutlass::half_t
#endif
#ifndef ELEMENT_D
#define ELEMENT_D cutlass::half_t
#endif
#ifndef STAGES
#define STAGES 2
#endif

using cute::_1;
using cute::_64;
using cute::_128;
using A = cutlass::half_t;
using B = cutlass::half_t;
using C = ELEMENT_C;
using D = ELEMENT_D;
using RowMajor = cutlass::layout::RowMajor;
using ColumnMajor = cutlass::layout::ColumnMajor;
using Tile = cute::Shape<_128, _128, _64>;
using Cluster = cute::Shape<_1, _1, _1>;

#if KIND == 1
using MainloopSchedule = cutlass::gemm::KernelTmaWarpSpecializedCooperative;
using EpilogueSchedule = cutlass::epilogue::TmaWarpSpecializedCooperative;
#else
using MainloopSchedule = std::conditional_t<KIND == 0, cutlass::gemm::KernelTmaWarpSpecialized,
                                            cutlass::gemm::KernelTmaWarpSpecializedPingpong>;
using EpilogueSchedule = cutlass::epilogue::TmaWarpSpecialized;
#endif

// The builder chooses everything but the stages and the two switches.
using Built = typename cutlass::epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster, cute::Shape<cute::Int<EPI_M>, cute::Int<EPI_N>>,
    float, float, C, RowMajor, 8, D, RowMajor, 8, EpilogueSchedule>::CollectiveOp;
using Policy =
    cutlass::epilogue::Sm90TmaWarpSpecialized<STAGES_C, STAGES_D, Built::DispatchPolicy::FragmentSize, REUSE, DELAY>;

template <class Collective> struct WithPolicy;
template <class Old, class... Rest> struct WithPolicy<cutlass::epilogue::collective::CollectiveEpilogue<Old, Rest...>> {
  using type = cutlass::epilogue::collective::CollectiveEpilogue<Policy, Rest...>;
};
using Epilogue = typename WithPolicy<Built>::type;

using Mainloop = typename cutlass::gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, A, RowMajor, 8, B, ColumnMajor, 8, float, Tile, Cluster,
    cutlass::gemm::collective::StageCount<STAGES>, MainloopSchedule>::CollectiveOp;
using Kernel = cutlass::gemm::kernel::GemmUniversal<cute::Shape<int, int, int, int>, Mainloop, Epilogue>;
using Gemm = cutlass::gemm::device::GemmUniversalAdapter<Kernel>;

__global__ void compare(A const* a, B const* b, C const* c, D const* d, int n, int k, unsigned* wrong) {
  int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
  if (column >= n) return;
  float sum = float(c[size_t(row) * n + column]);
  for (int i = 0; i < k; i++) sum += float(a[size_t(row) * k + i]) * float(b[size_t(column) * k + i]);
  if (float(D(sum)) != float(d[size_t(row) * n + column])) atomicAdd(wrong, 1u);
}

int main(int count, char** arguments) {
  if (count != 6) {
    std::printf("usage: M N K SMS RUNS\n");
    return 2;
  }
  int m = std::atoi(arguments[1]), n = std::atoi(arguments[2]), k = std::atoi(arguments[3]);
  int sms = std::atoi(arguments[4]), runs = std::atoi(arguments[5]);
  size_t out = size_t(m) * n;
  A* a = filled<A>(size_t(m) * k, 1, 4);
  B* b = filled<B>(size_t(n) * k, 2, 4);
  C* c = filled<C>(out, 3, 100);
  D* d = allocate<D>(out);
  unsigned* wrong = allocate<unsigned>(1);

  cutlass::KernelHardwareInfo hardware;
  hardware.sm_count = sms ? sms : cutlass::KernelHardwareInfo::query_device_multiprocessor_count(0);
  typename Gemm::Arguments parameters{
      cutlass::gemm::GemmUniversalMode::kGemm,
      {m, n, k, 1},
      {a, cutlass::make_cute_packed_stride(typename Kernel::StrideA{}, {m, k, 1}), b,
       cutlass::make_cute_packed_stride(typename Kernel::StrideB{}, {n, k, 1})},
      {{}, c, cutlass::make_cute_packed_stride(typename Kernel::StrideC{}, {m, n, 1}), d,
       cutlass::make_cute_packed_stride(typename Kernel::StrideD{}, {m, n, 1})},
      hardware};
  parameters.epilogue.thread.alpha = 1.f;
  parameters.epilogue.thread.beta = 1.f;
  Gemm gemm;
  char* workspace = allocate<char>(Gemm::get_workspace_size(parameters) + 16);
  if (gemm.can_implement(parameters) != cutlass::Status::kSuccess ||
      gemm.initialize(parameters, workspace) != cutlass::Status::kSuccess) {
    std::printf("this GEMM cannot be run: %d bytes of shared memory\n", int(Kernel::SharedStorageSize));
    return 2;
  }
  int bad_runs = 0;
  unsigned most = 0;
  for (int run = 0; run < runs; run++) {
    cudaMemset(d, 0xff, out * sizeof(D));
    cudaMemset(wrong, 0, sizeof(unsigned));
    gemm.run();
    compare<<<dim3((n + 127) / 128, m), 128>>>(a, b, c, d, n, k, wrong);
    unsigned found = 0;
    cudaMemcpy(&found, wrong, sizeof(unsigned), cudaMemcpyDeviceToHost);
    if (cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
      std::printf("CUDA: %s\n", cudaGetErrorString(error));
      return 3;
    }
    bad_runs += found != 0;
    most = found > most ? found : most;
  }
  std::printf("%d of %d runs wrong, at most %u of %zu elements\n", bad_runs, runs, most, out);
  return bad_runs != 0;
}
