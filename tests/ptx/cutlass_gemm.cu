// One CUTLASS GEMM: its PTX, and a program that prints the launch of its kernel instead of the product.
//
// CUTLASS is used from the PyPI package nvidia-cutlass 4.2.0.0 (its include and tools/util/include folders);
// `build.py` beside this file calls nvcc:
//
//   nvcc -std=c++17 -DNDEBUG --expt-relaxed-constexpr -lineinfo -gencode arch=compute_90a,code=compute_90a -ptx ...
//
// SCHEDULE    0 TmaWarpSpecialized, 1 Cooperative, 2 Pingpong
// TILE_M, TILE_N, CLUSTER_M, CLUSTER_N
// SOURCE      0: D = A * B
// STAGES      of the mainloop; 0: as many as fit beside the epilogue
// STAGES_C, STAGES_D, REUSE, DELAY: the epilogue policy, all of them or none
// STREAM_K    1: tiles are split along K among the CTAs
// GROUPS      of different sizes, each with its own pointers and tensor maps; 0: one GEMM
//
// Arguments of the program: M N K SMS, where SMS is what the persistent schedulers take for the number of SMs.
// It launches the kernel if LAUNCH is in the environment, and otherwise needs no more of a GPU than cudaMalloc and
// cuTensorMapEncodeTiled, which `stand_in_runtime.c` has too.
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

#ifndef SCHEDULE
#define SCHEDULE 0
#endif
#ifndef TILE_M
#define TILE_M 128
#endif
#ifndef TILE_N
#define TILE_N 128
#endif
#ifndef CLUSTER_M
#define CLUSTER_M 1
#endif
#ifndef CLUSTER_N
#define CLUSTER_N 1
#endif
#ifndef SOURCE
#define SOURCE 1
#endif
#ifndef STAGES
#define STAGES 0
#endif
#ifndef STREAM_K
#define STREAM_K 0
#endif
#ifndef GROUPS
#define GROUPS 0
#endif

namespace gemm = cutlass::gemm;
namespace epilogue = cutlass::epilogue;
using cute::Int;

template <int choice, class... Types> using Choose = std::tuple_element_t<choice, std::tuple<Types...>>;

using Element = cutlass::half_t;
using Source = std::conditional_t<SOURCE, Element, void>;
using Tile = cute::Shape<Int<TILE_M>, Int<TILE_N>, Int<64>>;
using Cluster = cute::Shape<Int<CLUSTER_M>, Int<CLUSTER_N>, Int<1>>;

constexpr bool grouped = GROUPS > 0;
// A group's operands are pointers to arrays of matrices, which CUTLASS writes as pointers to layouts.
template <class Layout> using Layouts = std::conditional_t<grouped, Layout*, Layout>;
using RowMajor = Layouts<cutlass::layout::RowMajor>;
using ColumnMajor = Layouts<cutlass::layout::ColumnMajor>;

// clang-format off
using MainloopSchedule = Choose<grouped ? 1 : 0,
    Choose<SCHEDULE, gemm::KernelTmaWarpSpecialized, gemm::KernelTmaWarpSpecializedCooperative,
                     gemm::KernelTmaWarpSpecializedPingpong>,
    Choose<SCHEDULE, void, gemm::KernelPtrArrayTmaWarpSpecializedCooperative,
                     gemm::KernelPtrArrayTmaWarpSpecializedPingpong>>;
using EpilogueSchedule = Choose<grouped ? 1 : 0,
    Choose<SCHEDULE, epilogue::TmaWarpSpecialized, epilogue::TmaWarpSpecializedCooperative,
                     epilogue::TmaWarpSpecialized>,
    Choose<SCHEDULE, void, epilogue::PtrArrayTmaWarpSpecializedCooperative,
                     epilogue::PtrArrayTmaWarpSpecializedPingpong>>;
// clang-format on

using Built = typename epilogue::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Tile, Cluster, epilogue::collective::EpilogueTileAuto, float,
    float, Source, RowMajor, 8, Element, RowMajor, 8, EpilogueSchedule>::CollectiveOp;

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
    STAGES == 0, gemm::collective::StageCountAutoCarveout<static_cast<int>(sizeof(typename Epilogue::SharedStorage))>,
    gemm::collective::StageCount<STAGES>>;
using Mainloop = typename gemm::collective::CollectiveBuilder<
    cutlass::arch::Sm90, cutlass::arch::OpClassTensorOp, Element, RowMajor, 8, Element, ColumnMajor, 8, float, Tile,
    Cluster, Stages, MainloopSchedule>::CollectiveOp;
using Shape =
    std::conditional_t<grouped, gemm::GroupProblemShape<cute::Shape<int, int, int>>, cute::Shape<int, int, int, int>>;
using Scheduler = std::conditional_t<STREAM_K, gemm::StreamKScheduler, void>;
using Kernel = gemm::kernel::GemmUniversal<Shape, Mainloop, Epilogue, Scheduler>;

template __global__ void cutlass::device_kernel<Kernel>(CUTLASS_GRID_CONSTANT typename Kernel::Params const);

using Gemm = gemm::device::GemmUniversalAdapter<Kernel>;

struct Problem {
  int m, n, k;
  Element *a, *b, *c, *d;
};

template <class T> T* allocate(size_t count) {
  void* data = nullptr;
  if (cudaMalloc(&data, count * sizeof(T)) != cudaSuccess) {
    std::fprintf(stderr, "cudaMalloc of %zu bytes failed\n", count * sizeof(T));
    std::exit(3);
  }
  return static_cast<T*>(data);
}

template <class T> T* on_device(std::vector<T> const& values) {
  T* data = allocate<T>(values.size());
  cudaMemcpy(data, values.data(), values.size() * sizeof(T), cudaMemcpyHostToDevice);
  return data;
}

// Odd groups have half the rows and twice the depth, so that nothing of one group fits another.
std::vector<Problem> problems(int m, int n, int k) {
  std::vector<Problem> all;
  for (int group = 0; group < (grouped ? GROUPS : 1); group++) {
    size_t rows = group % 2 ? m / 2 : m, depth = group % 2 ? k * 2 : k;
    all.push_back({int(rows), n, int(depth), allocate<Element>(rows * depth), allocate<Element>(n * depth),
                   allocate<Element>(rows * n), allocate<Element>(rows * n)});
  }
  return all;
}

template <class Stride> Stride packed(int rows, int columns) {
  return cutlass::make_cute_packed_stride(Stride{}, {rows, columns, 1});
}

typename Gemm::Arguments arguments_of(std::vector<Problem> const& all, cutlass::KernelHardwareInfo hardware) {
#if GROUPS
  using StrideA = typename Kernel::InternalStrideA;
  using StrideB = typename Kernel::InternalStrideB;
  using StrideC = typename Kernel::InternalStrideC;
  using StrideD = typename Kernel::InternalStrideD;
  std::vector<typename Shape::UnderlyingProblemShape> shapes;
  std::vector<Element const *> a, b, c;
  std::vector<Element*> d;
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
      {{}, reinterpret_cast<Source const**>(on_device(c)), on_device(stride_c), on_device(d), on_device(stride_d)},
      hardware};
#else
  Problem const& one = all[0];
  typename Gemm::Arguments arguments{
      gemm::GemmUniversalMode::kGemm,
      {one.m, one.n, one.k, 1},
      {one.a, packed<typename Kernel::StrideA>(one.m, one.k), one.b, packed<typename Kernel::StrideB>(one.n, one.k)},
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

// The launch file of any GemmUniversalAdapter that is initialized.
template <class Adapter> void print_launch(Adapter const& adapter) {
  using Of = typename Adapter::GemmKernel;
  auto const& params = adapter.params();
  dim3 grid = Of::get_grid_shape(params), block = Of::get_block_shape();
  typename Of::ClusterShape cluster;
  std::printf("{\"launch\": 1, \"grid\": [%u, %u, %u], \"block\": [%u, %u, %u], \"cluster\": [%d, %d, %d],\n", grid.x,
              grid.y, grid.z, block.x, block.y, block.z, int(cute::size<0>(cluster)), int(cute::size<1>(cluster)),
              int(cute::size<2>(cluster)));
  std::printf(" \"dynamic_shared\": %d,\n \"parameters\": \"", int(Of::SharedStorageSize));
  for (size_t i = 0; i < sizeof(params); i++) std::printf("%02x", reinterpret_cast<unsigned char const*>(&params)[i]);
  std::printf("\"}\n");
}

int main(int count, char** arguments) {
  if (count != 5) {
    std::fprintf(stderr, "usage: M N K SMS\n");
    return 2;
  }
  int m = std::atoi(arguments[1]), n = std::atoi(arguments[2]), k = std::atoi(arguments[3]);
  cutlass::KernelHardwareInfo hardware;
  hardware.sm_count = std::atoi(arguments[4]);
  typename Gemm::Arguments parameters = arguments_of(problems(m, n, k), hardware);
  Gemm gemm;
  char* workspace = allocate<char>(Gemm::get_workspace_size(parameters) + 16);
  if (gemm.can_implement(parameters) != cutlass::Status::kSuccess ||
      gemm.initialize(parameters, workspace) != cutlass::Status::kSuccess) {
    std::fprintf(stderr, "CUTLASS cannot run this GEMM: %d bytes of shared memory\n", int(Kernel::SharedStorageSize));
    return 2;
  }
  print_launch(gemm);
  if (std::getenv("LAUNCH")) {
    gemm.run();
    cudaError_t error = cudaDeviceSynchronize();
    if (error == cudaSuccess) error = cudaGetLastError();
    std::fprintf(stderr, "launched: %s\n", cudaGetErrorString(error));
    return error != cudaSuccess;
  }
}
