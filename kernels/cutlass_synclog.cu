// One CUTLASS GEMM that logs its synchronisation, compared with a plain product.
//
// CUTLASS is used from the PyPI package nvidia-cutlass 4.2.0.0 (its include and tools/util/include folders); what
// `python -m sm90_verify.evidence.hardware.cutlass` builds and runs:
//
//   nvcc -std=c++17 -O2 -gencode arch=compute_90a,code=sm_90a --expt-relaxed-constexpr -rdc=true -DNDEBUG
//        -DCUTLASS_ENABLE_SYNCLOG -I... -I... -DSCHEDULE=1 -DCLUSTER_M=2 cutlass_synclog.cu
//   timeout -s KILL 10 ./a.out M N K SMS         exit 0: right, 1: wrong elements, 137: it hangs
//
// It prints a `#` line with what CUTLASS made of the macros, then the log of block 0. There is no watchdog inside
// CUTLASS's kernels: run it under `timeout`, in a process of its own.
//
// SCHEDULE   0 TmaWarpSpecialized, 1 Cooperative, 2 Pingpong, 3 Tma without specialised warps
// INPUT      0 f16, 1 e4m3, 2 e4m3 with sums kept in the tensor core, 3 int8 times f16, 4 tf32 with A along M
//            and B along N, 5 e4m3 with a scale per tile of A and B, which cp.async copies
// COPY       0 TMA, 1 cp.async
// STREAM_K   1: tiles are split along K among the CTAs
// GROUPS     of different sizes, each with its own pointers and tensor maps; 0: one GEMM
// SOURCE     0: D = A * B
// STAGES     of the mainloop; 0: as many as fit beside CARVEOUT bytes and the epilogue
// STAGES_C, STAGES_D, REUSE, DELAY: the epilogue policy, all of them or none
// EPI_M x EPI_N: the epilogue tile; 0: CUTLASS's choice
#include <cstdio>
#include <cstdlib>
#include <type_traits>
#include <vector>

#include "cute/tensor.hpp"
#include "cutlass/cutlass.h"
#include "cutlass/epilogue/collective/collective_builder.hpp"
#include "cutlass/gemm/collective/collective_builder.hpp"
#include "cutlass/gemm/device/gemm_universal_adapter.h"
#include "cutlass/gemm/kernel/gemm_universal.hpp"
#include "cutlass/util/packed_stride.hpp"

#include "operands.cuh"

#ifndef SCHEDULE
#define SCHEDULE 0
#endif
#ifndef INPUT
#define INPUT 0
#endif
#ifndef COPY
#define COPY 0
#endif
#ifndef STREAM_K
#define STREAM_K 0
#endif
#ifndef GROUPS
#define GROUPS 0
#endif
#ifndef SOURCE
#define SOURCE 1
#endif
#ifndef STAGES
#define STAGES 0
#endif
#ifndef CARVEOUT
#define CARVEOUT 0
#endif
#ifndef TILE_M
#define TILE_M 128
#endif
#ifndef TILE_N
#define TILE_N 128
#endif
#ifndef TILE_K
#define TILE_K 64
#endif
#ifndef CLUSTER_M
#define CLUSTER_M 1
#endif
#ifndef CLUSTER_N
#define CLUSTER_N 1
#endif
#ifndef EPI_M
#define EPI_M 0
#define EPI_N 0
#endif

namespace gemm = cutlass::gemm;
namespace epilogue = cutlass::epilogue;
using cute::Int;

template <int choice, class... Types> using Choose = std::tuple_element_t<choice, std::tuple<Types...>>;

using A = Choose<INPUT, cutlass::half_t, cutlass::float_e4m3_t, cutlass::float_e4m3_t, int8_t, cutlass::tfloat32_t,
                 cutlass::float_e4m3_t>;
using B = std::conditional_t<INPUT == 3, cutlass::half_t, A>;
using D = std::conditional_t<INPUT == 4, float, cutlass::half_t>;
using C = std::conditional_t<SOURCE, D, void>;
using RowMajor = cutlass::layout::RowMajor;
using ColumnMajor = cutlass::layout::ColumnMajor;
using LayoutA = std::conditional_t<INPUT == 4, ColumnMajor, RowMajor>;
using LayoutB = std::conditional_t<INPUT == 4, RowMajor, ColumnMajor>;
using LayoutD = RowMajor;
using Tile = cute::Shape<Int<TILE_M>, Int<TILE_N>, Int<TILE_K>>;
using Cluster = cute::Shape<Int<CLUSTER_M>, Int<CLUSTER_N>, Int<1>>;

constexpr bool grouped = GROUPS > 0, is_cp_async = COPY == 1, unspecialised = SCHEDULE == 3;
// A group's operands are pointers to arrays of matrices, which CUTLASS writes as pointers to layouts.
template <class Layout> using Layouts = std::conditional_t<grouped, Layout*, Layout>;
using Scales = decltype(cutlass::detail::sm90_trivial_blockwise_scale_config(Tile{}));
template <class Layout, class Scale>
using Operand = std::conditional_t<INPUT == 5, cute::tuple<Layout, Scale>, Layouts<Layout>>;

// clang-format off
using MainloopSchedule = Choose<
    grouped ? 3 : is_cp_async ? 2 : INPUT == 2 ? 1 : INPUT == 5 ? 4 : 0,
    Choose<SCHEDULE, gemm::KernelTmaWarpSpecialized, gemm::KernelTmaWarpSpecializedCooperative,
                     gemm::KernelTmaWarpSpecializedPingpong, gemm::KernelTma>,
    Choose<SCHEDULE, gemm::KernelTmaWarpSpecializedFP8FastAccum, gemm::KernelTmaWarpSpecializedCooperativeFP8FastAccum,
                     gemm::KernelTmaWarpSpecializedPingpongFP8FastAccum, void>,
    Choose<SCHEDULE, gemm::KernelCpAsyncWarpSpecialized, gemm::KernelCpAsyncWarpSpecializedCooperative,
                     gemm::KernelCpAsyncWarpSpecializedPingpong, gemm::KernelMultistage>,
    Choose<SCHEDULE, void, gemm::KernelPtrArrayTmaWarpSpecializedCooperative,
                     gemm::KernelPtrArrayTmaWarpSpecializedPingpong, void>,
    Choose<SCHEDULE, void, gemm::KernelTmaWarpSpecializedCooperativeFP8Blockwise,
                     gemm::KernelTmaWarpSpecializedPingpongFP8Blockwise, void>>;
using EpilogueSchedule = Choose<
    grouped ? 1 : is_cp_async || unspecialised ? 2 : 0,
    std::conditional_t<SCHEDULE == 1, epilogue::TmaWarpSpecializedCooperative, epilogue::TmaWarpSpecialized>,
    std::conditional_t<SCHEDULE == 1, epilogue::PtrArrayTmaWarpSpecializedCooperative,
                                      epilogue::PtrArrayTmaWarpSpecializedPingpong>,
    epilogue::NoSmemWarpSpecialized>;
// clang-format on

using EpilogueTile =
    std::conditional_t<EPI_M == 0, epilogue::collective::EpilogueTileAuto, cute::Shape<Int<EPI_M>, Int<EPI_N>>>;
template <class Element> constexpr int alignment = 128 / cutlass::sizeof_bits<Element>::value;

using Built = typename epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster, EpilogueTile, float, float, C, Layouts<LayoutD>,
    alignment<D>, D, Layouts<LayoutD>, alignment<D>, EpilogueSchedule>::CollectiveOp;

#ifdef STAGES_C
using Policy = epilogue::Sm90TmaWarpSpecialized<STAGES_C, STAGES_D, Built::DispatchPolicy::FragmentSize, REUSE, DELAY>;
template <class Collective> struct WithPolicy;
template <class Old, class... Rest> struct WithPolicy<epilogue::collective::CollectiveEpilogue<Old, Rest...>> {
  using type = epilogue::collective::CollectiveEpilogue<Policy, Rest...>;
};
using Epilogue = typename WithPolicy<Built>::type;
#else
using Epilogue = Built;
#endif

using Stages = std::conditional_t<
    STAGES == 0,
    gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage) + CARVEOUT)>,
    gemm::collective::StageCount<STAGES>>;
using Mainloop = typename gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, A, Operand<LayoutA, decltype(Scales::deduce_layoutSFA())>,
    alignment<A>, B, Operand<LayoutB, decltype(Scales::deduce_layoutSFB())>, alignment<B>, float, Tile, Cluster,
    Stages, MainloopSchedule>::CollectiveOp;
using Shape =
    std::conditional_t<grouped, gemm::GroupProblemShape<cute::Shape<int, int, int>>, cute::Shape<int, int, int, int>>;
using Scheduler = std::conditional_t<STREAM_K, gemm::StreamKScheduler, void>;
using Kernel = gemm::kernel::GemmUniversal<Shape, Mainloop, Epilogue, Scheduler>;
using Gemm = gemm::device::GemmUniversalAdapter<Kernel>;

// The epilogue policy as CUTLASS has it; an epilogue without shared memory has none.
template <class Of, class = void> struct Epi {
  static constexpr int stages_c = 0, stages_d = 0, reuse = 0, delay = 0, m = 0, n = 0;
};
template <class Of> struct Epi<Of, std::void_t<decltype(Of::DispatchPolicy::StagesD)>> {
  using Policy = typename Of::DispatchPolicy;
  static constexpr int stages_c = Policy::StagesC, stages_d = Policy::StagesD;
  static constexpr int reuse = Policy::ReuseSmemC, delay = Policy::DelayTmaStore;
  static constexpr int m = cute::size<0>(typename Of::EpilogueTile{}), n = cute::size<1>(typename Of::EpilogueTile{});
};

struct Problem {
  int m, n, k;
  A* a;
  B* b;
  D* c;
  D* d;
};

__global__ void fill_with(float* data, size_t size, float value) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x) data[i] = value;
}

__global__ void compare(Problem problem, unsigned* wrong) {
  int column = blockIdx.x * blockDim.x + threadIdx.x, row = blockIdx.y;
  int n = problem.n, k = problem.k;
  if (column >= n) return;
  float sum = SOURCE ? float(problem.c[size_t(row) * n + column]) : 0;
  for (int i = 0; i < k; i++) {
    size_t at_a = std::is_same_v<LayoutA, RowMajor> ? size_t(row) * k + i : size_t(i) * problem.m + row;
    size_t at_b = std::is_same_v<LayoutB, ColumnMajor> ? size_t(column) * k + i : size_t(i) * n + column;
    sum += float(problem.a[at_a]) * float(problem.b[at_b]);
  }
  if (float(D(sum)) != float(problem.d[size_t(row) * n + column])) atomicAdd(wrong, 1u);
}

__global__ void print_log() { cutlass::arch::synclog_print(); }

template <class Element> Element* on_device(std::vector<Element> const& values) {
  Element* data = allocate<Element>(values.size());
  cudaMemcpy(data, values.data(), values.size() * sizeof(Element), cudaMemcpyHostToDevice);
  return data;
}

// Odd groups have half the rows and twice the depth, so that nothing of one group fits another.
std::vector<Problem> problems(int m, int n, int k) {
  std::vector<Problem> all;
  for (int group = 0; group < (grouped ? GROUPS : 1); group++) {
    int rows = group % 2 ? m / 2 : m, depth = group % 2 ? k * 2 : k;
    D* d = allocate<D>(size_t(rows) * n);
    cudaMemset(d, 0xff, size_t(rows) * n * sizeof(D));
    all.push_back({rows, n, depth, filled<A>(size_t(rows) * depth, 1 + group, 2),
                   filled<B>(size_t(n) * depth, 2 + group, 2), filled<D>(size_t(rows) * n, 3 + group, 100), d});
  }
  return all;
}

template <class Stride> Stride packed(int rows, int columns) {
  return cutlass::make_cute_packed_stride(Stride{}, {rows, columns, 1});
}

// The scales of A and of B cancel, so that the product is the plain one.
template <class Layout> float* scales(Layout const& layout, float value) {
  size_t size = cute::size(cute::filter_zeros(layout));
  float* data = allocate<float>(size);
  fill_with<<<1, 256>>>(data, size, value);
  return data;
}

typename Gemm::Arguments arguments_of(std::vector<Problem> const& all, cutlass::KernelHardwareInfo hardware) {
#if GROUPS
  using StrideA = typename Kernel::InternalStrideA;
  using StrideB = typename Kernel::InternalStrideB;
  using StrideC = typename Kernel::InternalStrideC;
  using StrideD = typename Kernel::InternalStrideD;
  std::vector<typename Shape::UnderlyingProblemShape> shapes;
  std::vector<A const*> a;
  std::vector<B const*> b;
  std::vector<D const*> c;
  std::vector<D*> d;
  std::vector<StrideA> stride_a;
  std::vector<StrideB> stride_b;
  std::vector<StrideC> stride_c;
  std::vector<StrideD> stride_d;
  for (Problem const& one : all) {
    shapes.push_back({one.m, one.n, one.k});
    a.push_back(one.a);
    b.push_back(one.b);
    c.push_back(one.c);
    d.push_back(one.d);
    stride_a.push_back(packed<StrideA>(one.m, one.k));
    stride_b.push_back(packed<StrideB>(one.n, one.k));
    stride_c.push_back(packed<StrideC>(one.m, one.n));
    stride_d.push_back(packed<StrideD>(one.m, one.n));
  }
  typename Gemm::Arguments arguments{
      gemm::GemmUniversalMode::kGrouped,
      {int(all.size()), on_device(shapes), nullptr},
      {on_device(a), on_device(stride_a), on_device(b), on_device(stride_b)},
      {{}, reinterpret_cast<C const**>(on_device(c)), on_device(stride_c), on_device(d), on_device(stride_d)},
      hardware};
#else
  Problem const& one = all[0];
  cute::Shape<int, int, int, int> shape{one.m, one.n, one.k, 1};
#if INPUT == 5
  auto scales_a = Scales::tile_atom_to_shape_SFA(shape);
  auto scales_b = Scales::tile_atom_to_shape_SFB(shape);
#endif
  typename Gemm::Arguments arguments{
      gemm::GemmUniversalMode::kGemm,
      shape,
      {one.a, packed<typename Kernel::StrideA>(one.m, one.k), one.b, packed<typename Kernel::StrideB>(one.n, one.k),
#if INPUT == 5
       scales(scales_a, 2.f), scales_a, scales(scales_b, 0.5f), scales_b,
#endif
      },
      {{},
       one.c,
       packed<typename Kernel::StrideC>(one.m, one.n),
       one.d,
       packed<typename Kernel::StrideD>(one.m, one.n)},
      hardware};
#endif
  arguments.epilogue.thread.alpha = 1.f;
  arguments.epilogue.thread.beta = SOURCE ? 1.f : 0.f;
  return arguments;
}

int main(int count, char** arguments) {
  if (count != 5) {
    std::printf("usage: M N K SMS\n");
    return 2;
  }
  int m = std::atoi(arguments[1]), n = std::atoi(arguments[2]), k = std::atoi(arguments[3]);
  int sms = std::atoi(arguments[4]);
  using Choice = Epi<Epilogue>;
  std::printf(
      "# kind=%d input=%d copy=%d stream_k=%d groups=%d cluster=%dx%d tile=%dx%dx%d M=%d N=%d K=%d SMs=%d bytes_A=%zu "
      "bytes_B=%zu epilogue_tile=%dx%d StagesC=%d StagesD=%d ReuseSmemC=%d DelayTmaStore=%d MainStages=%d threads=%d "
      "smem=%d source=%d\n",
      SCHEDULE, INPUT, COPY, STREAM_K, GROUPS, CLUSTER_M, CLUSTER_N, TILE_M, TILE_N, TILE_K, m, n, k, sms, sizeof(A),
      sizeof(B), Choice::m, Choice::n, Choice::stages_c, Choice::stages_d, Choice::reuse, Choice::delay,
      int(Mainloop::DispatchPolicy::Stages), int(Kernel::MaxThreadsPerBlock), int(Kernel::SharedStorageSize), SOURCE);
  cudaDeviceSetLimit(cudaLimitPrintfFifoSize, 64u << 20);

  std::vector<Problem> all = problems(m, n, k);
  cutlass::KernelHardwareInfo hardware;
  hardware.sm_count = sms ? sms : cutlass::KernelHardwareInfo::query_device_multiprocessor_count(0);
  typename Gemm::Arguments parameters = arguments_of(all, hardware);
  Gemm gemm;
  char* workspace = allocate<char>(Gemm::get_workspace_size(parameters) + 16);
  if (gemm.can_implement(parameters) != cutlass::Status::kSuccess ||
      gemm.initialize(parameters, workspace) != cutlass::Status::kSuccess) {
    std::printf("this GEMM cannot be run: %d bytes of shared memory\n", int(Kernel::SharedStorageSize));
    return 2;
  }
  // The adapter does so only before some of its launches.
  cutlass::arch::synclog_setup();
  gemm.run();
  cudaDeviceSynchronize();
  unsigned* wrong = allocate<unsigned>(1);
  cudaMemset(wrong, 0, sizeof(unsigned));
  for (Problem const& one : all) compare<<<dim3((n + 127) / 128, one.m), 128>>>(one, wrong);
  unsigned found = 0;
  cudaMemcpy(&found, wrong, sizeof(unsigned), cudaMemcpyDeviceToHost);
  // What the kernel printed at the end of its first thread is not the whole log.
  print_log<<<1, 1>>>();
  cudaDeviceSynchronize();
  if (cudaError_t error = cudaGetLastError(); error != cudaSuccess) {
    std::printf("CUDA: %s\n", cudaGetErrorString(error));
    return 3;
  }
  std::printf("%u elements are wrong\n", found);
  return found != 0;
}
