// One kernel per pipeline class of kernels/pipelines.cuh, and the epilogue that is made of two of them. Every cluster of
// the grid executes its pipeline once. All words of a stage are the number of the copy or write that filled it, so that
// who reads a stage knows whose words it finds; `errors` counts, by cluster, the words that were others.

#include "pipelines.cuh"

// Bytes of shared memory: barriers, the word that says that somebody has given up, and buffers from FIRST on.
enum Place : unsigned { FULL_AT = 0, EMPTY_AT = 128, ORDER_AT = 256, OVER = 1000, FIRST = 1024 };

constexpr Time LANDING = 100000;  // nanoseconds in which everything that was started has landed

struct Arguments {
  const Orders* orders;
  Global source, output;  // the output has `rows` rows a cluster
  unsigned char* scratch;
  unsigned* errors;
  unsigned trips, rows;
  unsigned flood;  // with DIRECTED: prefetches of FLOOD bytes before a copy that is to be late
};

#ifdef UNWATCHED  // as kernels elsewhere take them
#define GIVEN const __grid_constant__ Arguments arguments
#define ARGUMENTS arguments
#else
#define GIVEN const Arguments* arguments
#define ARGUMENTS *arguments
#endif

// What every thread of a CTA has.
struct Cta {
  unsigned char* memory;
  unsigned base, rank, cluster;
  unsigned warp, lane, thread;  // of the warpgroup: `thread`
  unsigned group;               // the warpgroup
};

__device__ __forceinline__ Cta enter(unsigned char* memory) {
  Cta cta;
  cta.memory = memory;
  cta.base = static_cast<unsigned>(__cvta_generic_to_shared(memory));
  cta.rank = CTAS == 1 ? 0 : rank_in_cluster();
  cta.cluster = blockIdx.x / CTAS;
  cta.warp = threadIdx.x / WARP;
  cta.lane = threadIdx.x % WARP;
  cta.thread = threadIdx.x % WARPGROUP;
  cta.group = threadIdx.x / WARPGROUP;
  unsigned bytes;
  asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
  for (unsigned k = threadIdx.x; k < bytes / 4; k += blockDim.x) reinterpret_cast<unsigned*>(memory)[k] = 0;
  ptx::fence_proxy_async();
  __syncthreads();
  return cta;
}

// All have met once one thread has initialised the barriers.
__device__ __forceinline__ void meet() {
  ptx::fence_init();
  if (CTAS == 1) __syncthreads();
  else cluster_sync();
}

__device__ __forceinline__ Actor actor(const Arguments& all, const Cta& cta, unsigned places, unsigned place,
                                       unsigned lanes) {
  Actor me;
  me.open(*all.orders, reinterpret_cast<volatile int*>(cta.memory + OVER), blockIdx.x, places, place, lanes);
  return me;
}

// Who has given up stays until nothing is on its way to the CTA any more; who has not leaves as a kernel leaves.
__device__ __forceinline__ void leave(const Arguments& all, const Cta& cta, Actor& me, unsigned errors) {
  me.close();
  if (errors) atomicAdd(all.errors + cta.cluster, errors);
  if (!me.gone) return;
  rest(LANDING);
  if (CTAS > 1) cluster_sync();
}

// The TMA unit has this much to do before what the thread gives it next.
__device__ __forceinline__ void flood(const Arguments& all, const Cta& cta) {
#ifdef DIRECTED
  if (cta.lane) return;
  for (unsigned k = 0; k < all.flood; ++k) {
    ptx::prefetch(all.scratch, FLOOD);
  }
#endif
}

#if KERNEL == 0  // PipelineTmaAsync, as a mainloop has it: each producer loads a part of a stage

constexpr unsigned PART_A = BYTES / 2 / CLUSTER_Y, PART_B = BYTES / 2 / CLUSTER_X;

// A word of the row of `source` that iteration k has from a producer, or from a CTA for A (0) or B (1).
__device__ __forceinline__ unsigned row_of(unsigned k, unsigned who, unsigned what) {
  return CTAS == 1 ? k * PRODUCERS + who : (k * CTAS + who) * 2 + what;
}

// In a cluster map[0] is that of A's parts and map[1] that of B's.
__device__ __forceinline__ void fill(Actor& me, const Arguments& all, const Cta& cta, int stage, unsigned k,
                                     unsigned full) {
  const unsigned first = cta.base + FIRST;
  if (CTAS == 1) {
    const unsigned buffer = stage * PRODUCERS + cta.warp;
    load(me, all.source, row_of(k, cta.warp, 0), first + buffer * BYTES, BYTES, full, 0, BUFFER + buffer, FULL + stage);
    return;
  }
  const unsigned i = cta.rank % CLUSTER_X, j = cta.rank / CLUSTER_X;
  unsigned for_a = 0, for_b = 0;
  for (int other = 0; other < CTAS; ++other) {
    if (other % CLUSTER_X == i) for_a |= 1u << other;
    if (other / CLUSTER_X == j) for_b |= 1u << other;
  }
  const bool many_a = CLUSTER_Y > 1 && wrong != MULTICAST_TO_ITSELF, many_b = CLUSTER_X > 1 && wrong != MULTICAST_TO_ITSELF;
  Global b = all.source;
  if (b.map) b.map += 128;
  const unsigned part_a = stage * CLUSTER_Y + j, part_b = stage * CLUSTER_X + i;
  load(me, all.source, row_of(k, cta.rank, 0), first + part_a * PART_A, PART_A, full, many_a ? for_a : 0,
       BUFFER + part_a, FULL + stage);
  load(me, b, row_of(k, cta.rank, 1), first + STAGES * BYTES / 2 + part_b * PART_B, PART_B, full, many_b ? for_b : 0,
       BUFFER_2 + part_b, FULL + stage);
}

// What a wgmma would read of a stage.
__device__ __forceinline__ unsigned consume(Actor& me, did::Code code, const Cta& cta, int stage, unsigned k) {
  const unsigned char* first = cta.memory + FIRST;
  unsigned errors = 0;
  if (CTAS == 1) {
    for (unsigned one = 0; one < PRODUCERS; ++one) {
      const unsigned buffer = stage * PRODUCERS + one;
      errors += read(me, code, first + buffer * BYTES, BYTES, BUFFER + buffer, row_of(k, one, 0) + 1, cta.thread, WARPGROUP);
    }
    return errors;
  }
  const unsigned i = cta.rank % CLUSTER_X, j = cta.rank / CLUSTER_X;
  for (unsigned one = 0; one < CLUSTER_Y; ++one) {
    const unsigned part = stage * CLUSTER_Y + one;
    errors += read(me, code, first + part * PART_A, PART_A, BUFFER + part, row_of(k, i + one * CLUSTER_X, 0) + 1,
                   cta.thread, WARPGROUP);
  }
  for (unsigned one = 0; one < CLUSTER_X; ++one) {
    const unsigned part = stage * CLUSTER_X + one;
    errors += read(me, code, first + STAGES * BYTES / 2 + part * PART_B, PART_B, BUFFER_2 + part,
                   row_of(k, one + j * CLUSTER_X, 1) + 1, cta.thread, WARPGROUP);
  }
  return errors;
}

extern "C" __global__ void __launch_bounds__(WARPGROUP * (1 + CONSUMERS)) pipeline(GIVEN) {
  extern __shared__ __align__(1024) unsigned char memory[];
  using Pipeline = PipelineTmaAsync<STAGES>;
  constexpr unsigned places = PRODUCERS + 4 * CONSUMERS;
  const Arguments all = ARGUMENTS;
  const Cta cta = enter(memory);
  if (threadIdx.x == 0) Pipeline::init(cta.base + FULL_AT, cta.base + EMPTY_AT);
  meet();
  if (cta.group == 0) {
    if (cta.warp >= PRODUCERS || cta.lane) return;
    Actor me = actor(all, cta, places, cta.warp, 1);
    Pipeline pipeline(me, cta.base + FULL_AT, cta.base + EMPTY_AT);
    auto state = make_producer_start_state<STAGES>();
    all.source.acquire();
    for (unsigned k = 0; k < all.trips; ++k) {
      RECORD_ITERATION(me, k);
      const BarrierToken token = pipeline.producer_try_acquire(state);
      pipeline.producer_acquire(state, token);
      HOLD(me, BEFORE_LOAD);
      fill(me, all, cta, state.index, k, pipeline.full + 8 * state.index);
      pipeline.producer_commit(state);
      ++state;
    }
    RECORD_ITERATION(me, all.trips);
    pipeline.producer_tail(state);
    leave(all, cta, me, 0);
    return;
  }
  Actor me = actor(all, cta, places, PRODUCERS + cta.warp - 4, ~0u);
  Pipeline pipeline(me, cta.base + FULL_AT, cta.base + EMPTY_AT);
  auto state = make_consumer_start_state<STAGES>();
  unsigned errors = 0;
  for (unsigned k = 0; k < all.trips; ++k) {
    RECORD_ITERATION(me, k);
    const BarrierToken token = pipeline.consumer_try_wait(state);
    pipeline.consumer_wait(state, token);
    if (wrong == RELEASE_BEFORE_READ) pipeline.consumer_release(state);
    HOLD(me, BEFORE_READ);
    errors += consume(me, did::MMA, cta, state.index, k);
    RECORD_BEFORE(me);
    RECORD_AFTER(me, did::MMA_COMMIT, 0, 0);
    errors += consume(me, did::MMA_AGAIN, cta, state.index, k);
    {
      RECORD_BEFORE(me);
      asm volatile("barrier.cta.sync %0, 128;" ::"r"(cta.group + 1) : "memory");  // a wgmma is the whole warpgroup's
      RECORD_AFTER(me, did::MMA_WAIT, 0, 0);
    }
    HOLD(me, BEFORE_RELEASE);
    if (wrong != RELEASE_BEFORE_READ) pipeline.consumer_release(state);
    ++state;
  }
  leave(all, cta, me, errors);
}

#elif KERNEL == 1 || KERNEL == 2  // PipelineTransactionAsync, as an epilogue loads C, and PipelineAsync

extern "C" __global__ void __launch_bounds__(WARPGROUP * (1 + CONSUMERS)) pipeline(GIVEN) {
  extern __shared__ __align__(1024) unsigned char memory[];
#if KERNEL == 1
  using Pipeline = PipelineTransactionAsync<STAGES>;
  constexpr unsigned producer_places = 2;  // the elected lane and the others
#else
  using Pipeline = PipelineAsync<STAGES>;
  constexpr unsigned producer_places = 4;
#endif
  constexpr unsigned places = producer_places + 4 * CONSUMERS;
  const Arguments all = ARGUMENTS;
  const Cta cta = enter(memory);
  if (threadIdx.x == 0) {
#if KERNEL == 1
    Pipeline::init(cta.base + FULL_AT, cta.base + EMPTY_AT, CONSUMERS * WARPGROUP);
#else
    Pipeline::init(cta.base + FULL_AT, cta.base + EMPTY_AT, WARPGROUP, CONSUMERS * WARPGROUP);
#endif
  }
  meet();
  if (cta.group == 0) {
#if KERNEL == 1
    if (cta.warp) return;
    Actor me = actor(all, cta, places, cta.lane != 0, cta.lane ? ~1u : 1u);
#else
    Actor me = actor(all, cta, places, cta.warp, ~0u);
#endif
    Pipeline pipeline(me, cta.base + FULL_AT, cta.base + EMPTY_AT);
    auto state = make_producer_start_state<STAGES>();
    all.source.acquire();
    for (unsigned k = 0; k < all.trips; ++k) {
      RECORD_ITERATION(me, k);
      pipeline.producer_acquire(state);
#if KERNEL == 1
      HOLD(me, BEFORE_LOAD);
      if (cta.lane == 0) {
        flood(all, cta);
        load(me, all.source, k, cta.base + FIRST + state.index * BYTES, BYTES, pipeline.full + 8 * state.index, 0,
             BUFFER + state.index, FULL + state.index);
        pipeline.producer_expect_transaction(state, BYTES);
      }
#else
      if (wrong == COMMIT_BEFORE_WRITE) pipeline.producer_commit(state);
      HOLD(me, BEFORE_WRITE);
      write(me, memory + FIRST + state.index * BYTES, BYTES, BUFFER + state.index, k + 1, cta.thread, WARPGROUP);
      if (wrong == COMMIT_BEFORE_WRITE) {
        ++state;
        continue;
      }
#endif
      pipeline.producer_commit(state);
      ++state;
    }
    RECORD_ITERATION(me, all.trips);
    pipeline.producer_tail(state);
    leave(all, cta, me, 0);
    return;
  }
  Actor me = actor(all, cta, places, producer_places + cta.warp - 4, ~0u);
  Pipeline pipeline(me, cta.base + FULL_AT, cta.base + EMPTY_AT);
  auto state = make_consumer_start_state<STAGES>();
  unsigned errors = 0;
  for (unsigned k = 0; k < all.trips; ++k) {
    RECORD_ITERATION(me, k);
    pipeline.consumer_wait(state);
    if (wrong == RELEASE_BEFORE_READ) pipeline.consumer_release(state);
    HOLD(me, BEFORE_READ);
    errors += read(me, did::READ, memory + FIRST + state.index * BYTES, BYTES, BUFFER + state.index, k + 1, cta.thread,
                   WARPGROUP);
    HOLD(me, BEFORE_RELEASE);
    if (wrong != RELEASE_BEFORE_READ) pipeline.consumer_release(state);
    ++state;
  }
  leave(all, cta, me, errors);
}

#elif KERNEL == 3  // PipelineTmaStore: all write a stage, the first warp stores it

extern "C" __global__ void __launch_bounds__(WARPGROUP * CONSUMERS) pipeline(GIVEN) {
  extern __shared__ __align__(1024) unsigned char memory[];
  constexpr unsigned threads = WARPGROUP * CONSUMERS, mine = BYTES / 4 / CONSUMERS, meeting = 1;
  const Arguments all = ARGUMENTS;
  const Cta cta = enter(memory);
  Actor me = actor(all, cta, threads / WARP, cta.warp, ~0u);
  PipelineTmaStore<STAGES - 1> pipeline{me};
  PipelineState<STAGES> state;
  const bool stores = cta.warp == 0;
  all.output.acquire();
  for (unsigned k = 0; k < all.trips; ++k) {
    RECORD_ITERATION(me, k);
    HOLD(me, BEFORE_WRITE);
    unsigned char* const at = memory + FIRST + state.index * BYTES;
    if (stores) write(me, at, mine, BUFFER + state.index, k + 1, cta.lane, WARP);
    else write(me, at + mine, BYTES - mine, BUFFER_2 + state.index, k + 1, threadIdx.x - WARP, threads - WARP);
    if (wrong != FENCE_LEFT_OUT) fence_proxy_async(me);
    if (wrong != STORE_SYNC_LEFT_OUT) named_sync(me, meeting, threads);
    if (stores) {
      HOLD(me, BEFORE_STORE);
      flood(all, cta);
      store(me, all.output, cta.cluster * all.rows + k, cta.base + FIRST + state.index * BYTES, BYTES,
            BUFFER_3 + state.index);
      pipeline.producer_commit();
    }
    ++state;
    if (stores) pipeline.producer_acquire();
    if (wrong != ACQUIRE_SYNC_LEFT_OUT) named_sync(me, meeting, threads);
  }
  if (stores) pipeline.producer_tail();
  leave(all, cta, me, 0);
}

#elif KERNEL == 4  // OrderedSequenceBarrier: in every stage, CONSUMERS groups take turns at 128 bytes

extern "C" __global__ void __launch_bounds__(WARPGROUP * CONSUMERS) pipeline(GIVEN) {
  extern __shared__ __align__(1024) unsigned char memory[];
  using Order = OrderedSequenceBarrier<STAGES, CONSUMERS>;
  const Arguments all = ARGUMENTS;
  const Cta cta = enter(memory);
  if (threadIdx.x == 0) Order::init(cta.base + ORDER_AT, WARPGROUP);
  meet();
  Actor me = actor(all, cta, 4 * CONSUMERS, cta.warp, ~0u);
  Order order(me, cta.base + ORDER_AT, cta.group);
  unsigned errors = 0;
  for (unsigned k = 0; k < all.trips; ++k) {
    RECORD_ITERATION(me, k);
    const unsigned index = k % STAGES, turn = k / STAGES * CONSUMERS + cta.group;
    unsigned char* const at = memory + FIRST + 128 * index;
    order.wait();
    HOLD(me, BEFORE_TURN);
    errors += read(me, did::READ, at, 128, BUFFER + index, turn, cta.thread, WARPGROUP);
    write(me, at, 128, BUFFER + index, turn + 1, cta.thread, WARPGROUP);
    order.arrive();
  }
  leave(all, cta, me, errors);
}

#elif KERNEL == 5  // the epilogue: a warp loads C, the threads of a tile turn it into D, one of their warps stores D

// STAGES_C, STAGES_D, REUSE, DELAY, SUBTILES, SCHEDULE: 0 for one tile after the other, 1 for 256 threads a tile, 2 for
// two groups of 128 threads that take turns at tiles. BYTES: of a stage of C, and of D.
constexpr unsigned TILE_THREADS = SCHEDULE == 1 ? 256 : 128, GROUPS = SCHEDULE == 2 ? 2 : 1;
constexpr int STORE_STAGES = REUSE ? STAGES_C : STAGES_D;
constexpr unsigned HALF = BYTES / 2, MEETING = 1, OF_D = 0x40000000;
constexpr unsigned D_AT = FIRST + (REUSE ? 0 : STAGES_C * BYTES);
constexpr unsigned PLACES = 2 + GROUPS * TILE_THREADS / WARP;

using Load = PipelineTransactionAsync<STAGES_C>;

// What a thread of a tile carries from tile to tile.
struct Epilogue {
  Actor& me;
  const Arguments& all;
  const Cta& cta;
  Load pipeline;
  PipelineState<STAGES_C> load;
  PipelineState<STORE_STAGES> store;
  unsigned thread, issued, errors;
  bool stores;  // its warp stores D, and owns the first half of each stage

  __device__ __forceinline__ Epilogue(Actor& me_, const Arguments& all_, const Cta& cta_, unsigned thread_)
      : me(me_), all(all_), cta(cta_), pipeline(me_, cta_.base + FULL_AT, cta_.base + EMPTY_AT), thread(thread_),
        issued(0), errors(0), stores(thread_ < WARP) {}

  __device__ __forceinline__ unsigned part() const { return stores ? 0 : HALF; }
  __device__ __forceinline__ unsigned first() const { return stores ? thread : thread - WARP; }
  __device__ __forceinline__ unsigned step() const { return stores ? WARP : TILE_THREADS - WARP; }

  __device__ __forceinline__ void release() {
    HOLD(me, BEFORE_RELEASE);
    pipeline.consumer_release(load);
    ++load;
  }

  __device__ __forceinline__ void tma_store(unsigned subtile) {
    if (wrong != FENCE_LEFT_OUT) fence_proxy_async(me);
    if (wrong != STORE_SYNC_LEFT_OUT) named_sync(me, MEETING, TILE_THREADS);
    if (stores) {
      HOLD(me, BEFORE_STORE);
      flood(all, cta);
      ::store(me, all.output, cta.cluster * all.rows + subtile, cta.base + D_AT + store.index * BYTES, BYTES,
              BUFFER_4 + store.index);
      bulk_commit(me);
    }
    ++store;
    ++issued;
    if (stores && wrong != WAIT_READ_LEFT_OUT) bulk_wait_read<STAGES_D - 1>(me);
    if (wrong != ACQUIRE_SYNC_LEFT_OUT) named_sync(me, MEETING, TILE_THREADS);
    if (REUSE && issued > STAGES_D - 1 && wrong != RELEASED_AFTER_READ) release();
  }

  // A tile whose first subtile has this number.
  __device__ __forceinline__ void tile(unsigned number) {
    PipelineState<STAGES_C> waits = load;
    if (REUSE) {  // the stage that is stored next is the one that was loaded for it
      waits.index = store.index;
      waits.phase = store.phase ^ 1;
    }
    for (unsigned subtile = 0; subtile < SUBTILES; ++subtile) {
      const unsigned k = number + subtile;
      RECORD_ITERATION(me, k);
      pipeline.consumer_wait(waits);
      HOLD(me, BEFORE_READ);
      unsigned words[(HALF / 4 + WARP - 1) / WARP];
      read_c(waits.index, k, words);
      if (!REUSE) {
        fence_proxy_async(me);
        release();
      } else if (wrong == RELEASED_AFTER_READ) {
        release();
      }
      ++waits;
      if (DELAY && subtile) tma_store(k - 1);
      HOLD(me, BEFORE_WRITE);
      write_d(words);
      if (!DELAY) tma_store(k);
    }
    if (DELAY) tma_store(number + SUBTILES - 1);
  }

  __device__ __forceinline__ void read_c(unsigned stage, unsigned k, unsigned* words) {
    RECORD_BEFORE(me);
    const volatile unsigned* const c = reinterpret_cast<const volatile unsigned*>(cta.memory + FIRST + stage * BYTES + part());
    unsigned low = ~0u, high = 0;
#pragma unroll
    for (unsigned n = 0; n < (HALF / 4 + WARP - 1) / WARP; ++n) {
      const unsigned at = first() + n * step();
      if (at < HALF / 4 && !me.gone) {
        words[n] = c[at];
        low = words[n] < low ? words[n] : low;
        high = words[n] > high ? words[n] : high;
        errors += words[n] != k + 1;
      }
    }
    RECORD_WORDS(me, did::READ, (stores ? BUFFER : BUFFER_2) + stage, HALF, low, high);
  }

  __device__ __forceinline__ void write_d(const unsigned* words) {
    RECORD_BEFORE(me);
    volatile unsigned* const d = reinterpret_cast<volatile unsigned*>(cta.memory + D_AT + store.index * BYTES + part());
    unsigned low = ~0u, high = 0;
#pragma unroll
    for (unsigned n = 0; n < (HALF / 4 + WARP - 1) / WARP; ++n) {
      const unsigned at = first() + n * step();
      if (at < HALF / 4 && !me.gone) {
        const unsigned word = words[n] | OF_D;
        d[at] = word;
        low = word < low ? word : low;
        high = word > high ? word : high;
      }
    }
    RECORD_WORDS(me, did::WRITE, (stores ? BUFFER_3 : BUFFER_3 + 16) + store.index, HALF, low, high);
  }

  __device__ __forceinline__ void tail() {
    if (wrong == STORE_TAIL_LEFT_OUT) return;
    if (stores) bulk_wait_read<0>(me);
    for (unsigned n = 0; REUSE && n < STAGES_D - 1 && n < SUBTILES && wrong != RELEASED_AFTER_READ; ++n) release();
    issued = 0;
  }

  __device__ __forceinline__ void skip_tile() {
    load = load.advanced(SUBTILES);
    store = store.advanced(SUBTILES);
  }
};

extern "C" __global__ void __launch_bounds__(WARPGROUP + GROUPS * TILE_THREADS) pipeline(GIVEN) {
  extern __shared__ __align__(1024) unsigned char memory[];
  using Order = OrderedSequenceBarrier<1, 2>;
  const Arguments all = ARGUMENTS;
  const Cta cta = enter(memory);
  if (threadIdx.x == 0) {
    Load::init(cta.base + FULL_AT, cta.base + EMPTY_AT, TILE_THREADS);
    if (GROUPS == 2) Order::init(cta.base + ORDER_AT, WARPGROUP);
  }
  meet();
  if (cta.group == 0) {
    if (cta.warp) return;
    Actor me = actor(all, cta, PLACES, cta.lane != 0, cta.lane ? ~1u : 1u);
    Load pipeline(me, cta.base + FULL_AT, cta.base + EMPTY_AT);
    auto state = make_producer_start_state<STAGES_C>();
    all.source.acquire();
    for (unsigned k = 0; k < all.trips * SUBTILES; ++k) {
      RECORD_ITERATION(me, k);
      pipeline.producer_acquire(state);
      HOLD(me, BEFORE_LOAD);
      if (cta.lane == 0) {
        load(me, all.source, k, cta.base + FIRST + state.index * BYTES, BYTES, pipeline.full + 8 * state.index, 0,
             BUFFER_2 + 16 + state.index, FULL + state.index);
        pipeline.producer_expect_transaction(state, BYTES);
      }
      pipeline.producer_commit(state);
      ++state;
    }
    RECORD_ITERATION(me, all.trips * SUBTILES);
    if (cta.lane == 0) pipeline.producer_tail(state);
    leave(all, cta, me, 0);
    return;
  }
  Actor me = actor(all, cta, PLACES, 2 + cta.warp - 4, ~0u);
  const unsigned group = GROUPS == 2 ? cta.group - 1 : 0;
  Epilogue epilogue(me, all, cta, (threadIdx.x - WARPGROUP) % TILE_THREADS);
  epilogue.store.phase = 1;
  Order order(me, cta.base + ORDER_AT, group);
  if (group) epilogue.skip_tile();
  all.output.acquire();
  for (unsigned tile = group; tile < all.trips; tile += GROUPS) {
    RECORD_ITERATION(me, tile * SUBTILES);
    if (GROUPS == 2) order.wait();
    epilogue.tile(tile * SUBTILES);
    if (SCHEDULE != 1 || tile + 1 == all.trips) epilogue.tail();
    if (GROUPS == 2) {
      epilogue.skip_tile();
      order.arrive();
    }
  }
  leave(all, cta, me, epilogue.errors);
}

#endif
