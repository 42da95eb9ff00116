// How a GEMM kernel is compiled: schedule, sizes and mistakes by macro, and where everything lies in shared memory.

#pragma once
#include "gemm_actor.cuh"
#include "gemm_mma.cuh"

#ifndef SCHEDULE
#define SCHEDULE 0
#endif
#ifndef STAGES
#define STAGES 4
#endif
#ifndef TILE_M
#define TILE_M 128
#endif
#ifndef TILE_N
#define TILE_N 128
#endif
#ifndef SOURCE  // whether there is a C
#define SOURCE 0
#endif
#ifndef STAGES_C
#define STAGES_C 4
#endif
#ifndef STAGES_D
#define STAGES_D 2
#endif
#ifndef REUSE  // D is written over the C that it was made of
#define REUSE 0
#endif
#ifndef DELAY  // a subtile is stored when the next one has been computed
#define DELAY 0
#endif
#ifndef WRONG
#define WRONG 0
#endif
#ifndef REPEAT  // how often more each product is added and taken away again, so that an MMA reads for longer
#define REPEAT 0
#endif

enum Schedule { WS, COOPERATIVE, PINGPONG };
enum Wrong {
  RIGHT,
  RELEASE_BEFORE_MMA,   // a stage is released as soon as it has been waited for
  RELEASE_BEFORE_WAIT,  // a stage is released before the wait for its MMA
  RELEASE_UNWAITED,     // a stage is released when its MMA has been issued, and no wait for it comes before the tile's end
  EXPECT_LESS,          // the bytes of B are not expected
  EXPECT_MORE,          // 16 bytes too many are expected
  CONSUMER_PARITY,      // full barriers are waited for with the other parity
  PRODUCER_PHASE,       // the producer starts in the consumers' phase
  NO_RELEASE,           // some consumer threads never release
  NO_TAIL_RELEASE,      // the last stage of a tile is not released
  NO_LOAD_TAIL,         // the producer does not wait for the release of its last stages
  NO_ACQUIRE,           // the producer does not wait for a stage to be empty
  ORDER_SWAPPED,        // the second warpgroup is let in first
  NO_MMA_ORDER,         // the warpgroups take no turns in the mainloop
  NO_EPILOGUE_ORDER,    // nor in the epilogue
  NO_STORE_SYNC,        // D is stored before all warps are known to have written it
  NO_STORE_FENCE,       // what was written is not made visible to the async proxy
  NO_STORE_WAIT,        // a stage of D is given away while it may still be read
  RELEASE_OWN,          // in a cluster, a stage is released for the own CTA only
  SOURCE_RELEASED,      // a stage of C is released before it has been read
};

#ifdef CLUSTER
static_assert(CLUSTER == 2, "clusters of 2x1 only");
#define CTAS CLUSTER
#else
#define CTAS 1
#endif

constexpr int WARPGROUP = 128;
constexpr int TILE_K = 64;
constexpr int SHARERS = SCHEDULE == COOPERATIVE ? 2 : 1;  // warpgroups that share a tile
constexpr int BLOCKS = TILE_M / WGMMA_M / SHARERS;        // of 64 rows, of a warpgroup
constexpr int SUBTILE_N = 32;
constexpr int SUBTILES = TILE_N / SUBTILE_N;
constexpr int MMA_THREADS = WARPGROUP * SHARERS;
constexpr int THREADS = SCHEDULE == WS ? 2 * WARPGROUP : 3 * WARPGROUP;
constexpr int ALL_CTAS = CTAS > 1 ? (1 << CTAS) - 1 : 0;
constexpr int RELEASES = CTAS > 1 ? CTAS * SHARERS : MMA_THREADS;  // of a stage
constexpr int LOAD_REGISTERS = 40, MMA_REGISTERS = 232;
constexpr int EPILOGUE_BARRIER = 1;
constexpr int PRODUCER_PLACES = SCHEDULE == WS ? 2 : SOURCE ? 6 : 5;
constexpr int PLACES = PRODUCER_PLACES + (SCHEDULE == WS ? 4 : 8);
static_assert(TILE_M % (WGMMA_M * SHARERS) == 0 && BLOCKS >= 1 && (TILE_N == 64 || TILE_N == 128 || TILE_N == 256), "");
static_assert(SOURCE || !REUSE, "without C there is no memory of it to reuse");

constexpr int BYTES_A = TILE_M * ROW, BYTES_B = TILE_N * ROW;
constexpr int BYTES_D = TILE_M * SUBTILE_N * 2;  // of a stage, of C as well
constexpr int STORE_STAGES = REUSE ? STAGES_C : STAGES_D;
constexpr int BYTES_ALL_C = SOURCE ? STAGES_C * BYTES_D : 0;
constexpr int BYTES_EPILOGUE = REUSE ? BYTES_ALL_C : BYTES_ALL_C + STORE_STAGES * BYTES_D;
constexpr int BYTES_MAINLOOP = STAGES * (BYTES_A + BYTES_B);
constexpr int AT_C = 0, AT_D = REUSE ? 0 : BYTES_ALL_C;
constexpr int AT_A = SCHEDULE == WS ? 0 : BYTES_EPILOGUE, AT_B = AT_A + STAGES * BYTES_A;
constexpr int BYTES_TENSORS = SCHEDULE != WS                   ? BYTES_EPILOGUE + BYTES_MAINLOOP
                              : BYTES_MAINLOOP > BYTES_EPILOGUE ? BYTES_MAINLOOP
                                                                : BYTES_EPILOGUE;

struct Barriers {
  unsigned long long full[STAGES], empty[STAGES];
  unsigned long long epi_full[STAGES_C], epi_empty[STAGES_C];
  unsigned long long load_order[2], math_order[4];
};

struct alignas(64) Map {
  unsigned char bytes[128];
};
struct Maps {
  Map of[4];  // A, B, C, D
};

template <int COUNT>
struct State {
  int index;
  unsigned phase;
  __device__ explicit State(unsigned start) : index(0), phase(start) {}
  __device__ void operator++() {
    if (++index == COUNT) {
      index = 0;
      phase ^= 1;
    }
  }
  __device__ void advance(int steps) {
    phase ^= (index + steps) / COUNT & 1;
    index = (index + steps) % COUNT;
  }
};
using Mainloop = State<STAGES>;
using Loads = State<STAGES_C>;
using Stores = State<STORE_STAGES>;

// What all roles know.
struct Kernel {
  const Map* maps;  // of A, B, C, D
  unsigned tensors; // shared memory
  Barriers* barriers;
  int tiles, rows;  // of D; tiles of a column; both as pairs in a cluster
  int k_tiles;
  int rank;         // of the CTA in its cluster

  __device__ unsigned full(int i) const { return address(barriers->full + i); }
  __device__ unsigned empty(int i) const { return address(barriers->empty + i); }
  __device__ unsigned epi_full(int i) const { return address(barriers->epi_full + i); }
  __device__ unsigned epi_empty(int i) const { return address(barriers->epi_empty + i); }
  __device__ unsigned load_order(int i) const { return address(barriers->load_order + i); }
  __device__ unsigned math_order(int i) const { return address(barriers->math_order + i); }
  __device__ int first() const { return blockIdx.x / CTAS; }
  __device__ int step() const { return gridDim.x / CTAS; }
  __device__ int row(int tile) const { return (tile % rows * CTAS + rank) * TILE_M; }
  __device__ int column(int tile) const { return tile / rows * TILE_N; }
};
