// Pipelines of stages in shared memory, as kernels use them: a state that walks around the ring, and one class per way
// to fill a stage and to give it back. Written against the ISA, not against the specification in spec/, so that what
// kernels made of them do can be held to it.
//
// STAGES, CONSUMERS (warpgroups), PRODUCERS, BYTES (of a stage), CLUSTER_X, CLUSTER_Y and so on are macros. WRONG is 0,
// or one of the mistakes below.

#include "recorder.cuh"

enum Mistake {
  NONE,
  PRODUCER_PHASE,         // the producer starts in the consumer's phase
  RELEASE_BEFORE_READ,    // a stage is released before it has been read
  EXPECT_MORE,            // more bytes are expected than are copied
  EXPECT_LESS,            // fewer
  RELEASE_BY_SOME_WARPS,  // one warp of a warpgroup does not release
  COUNT_OF_ONE_GROUP,     // a stage counts as empty when one of two warpgroups has released it
  COUNT_TOO_LARGE,        // an empty barrier waits for a warp that there is not
  STATE_NOT_ADVANCED,     // the consumer stays at its stage
  PHASE_NOT_FLIPPED,      // the consumer's state keeps its phase when it wraps around
  ACQUIRE_SKIPPED,        // the producer does not wait until the stage is empty
  MULTICAST_TO_ITSELF,    // a copy for the cluster goes to its own CTA alone
  RELEASE_TO_ITSELF,      // a stage is released to the own CTA alone
  CLUSTER_FORGOTTEN,      // the same, and the empty barriers count one CTA alone
  TAIL_LEFT_OUT,          // the producer ends before the last stages are released
  EXPECT_LEFT_OUT,        // no bytes are expected
  COMMIT_BY_ONE_LANE,     // only the elected lane arrives
  COMMIT_BEFORE_WRITE,    // a stage counts as full before it has been written
  FENCE_LEFT_OUT,         // no fence.proxy.async before a TMA store
  WAIT_READ_LEFT_OUT,     // no wait_group.read after a TMA store
  STORE_SYNC_LEFT_OUT,    // the threads do not meet before the TMA store of what they wrote
  ACQUIRE_SYNC_LEFT_OUT,  // nor after the wait for it
  TURN_NOT_ADVANCED,      // a group stays at its stage of the sequence
  ALL_GROUPS_WAIT,        // group 0 starts in the phase of the others
  ARRIVES_AT_ITSELF,      // a group lets itself in instead of the next one
  RELEASED_AFTER_READ,    // a stage whose memory is reused is released when it has been read
  STORE_TAIL_LEFT_OUT,    // the last stages are not released
};

#ifndef WRONG
#define WRONG 0
#endif
#ifndef CONSUMERS
#define CONSUMERS 1
#endif
#ifndef PRODUCERS
#define PRODUCERS 1
#endif
#ifndef CLUSTER_X
#define CLUSTER_X 1
#endif
#ifndef CLUSTER_Y
#define CLUSTER_Y 1
#endif

constexpr int wrong = WRONG;
constexpr int CTAS = CLUSTER_X * CLUSTER_Y;
constexpr int WARP = 32, WARPGROUP = 128;

// Numbers of objects in what is recorded; buffers follow from BUFFER on.
constexpr unsigned FULL = 0, EMPTY = 32, ORDER = 64, BUFFER = 128, BUFFER_2 = 160, BUFFER_3 = 192, BUFFER_4 = 224;

enum Point { BEFORE_LOAD = 1, BEFORE_READ, BEFORE_RELEASE, BEFORE_WRITE, BEFORE_STORE, BEFORE_TURN };

// ---------------------------------------------------------------- instructions

using ptx::rank_in_cluster;

__device__ __forceinline__ bool try_wait(unsigned barrier, unsigned phase) {
  return ptx::try_parity<1000>(barrier, phase);
}

__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;\n barrier.cluster.wait.acquire;" ::: "memory");
}

// ---------------------------------------------------------------- operations that are recorded

// Blocks until the phase of this parity is complete. done: it is known to be.
__device__ __forceinline__ void wait(Actor& me, unsigned barrier, unsigned object, unsigned phase, bool done = false) {
  RECORD_BEFORE(me);
  while (!done && !me.gone) {
    done = try_wait(barrier, phase);
    if (!done) {
      RECORD_WAITED(me);
      if (me.expired()) me.give_up(did::WAIT, object, phase);
    }
  }
  RECORD_AFTER(me, did::WAIT, object, phase);
}

__device__ __forceinline__ void arrive(Actor& me, unsigned barrier, unsigned object, bool arrives = true) {
  RECORD_BEFORE(me);
  if (arrives && !me.gone) {
    [[maybe_unused]] const ptx::Token token = ptx::arrive(barrier);
    RECORD_RESULT(me, token);
  }
  RECORD_ARRIVAL(me, did::ARRIVE, object, ~0u, arrives, -1);
}

__device__ __forceinline__ void arrive_expect(Actor& me, unsigned barrier, unsigned object, unsigned bytes) {
  RECORD_BEFORE(me);
  if (!me.gone) {
    [[maybe_unused]] const ptx::Token token = ptx::arrive_expect_tx(barrier, bytes);
    RECORD_RESULT(me, token);
  }
  RECORD_ARRIVAL(me, did::ARRIVE_EXPECT, object, bytes, true, -1);
}

__device__ __forceinline__ void expect(Actor& me, unsigned barrier, unsigned object, unsigned bytes) {
  RECORD_BEFORE(me);
  if (!me.gone) ptx::expect_tx(barrier, bytes);
  RECORD_AFTER(me, did::EXPECT, object, bytes);
}

__device__ __forceinline__ void fence_proxy_async(Actor& me) {
  RECORD_BEFORE(me);
  ptx::fence_proxy_async();
  RECORD_AFTER(me, did::FENCE_PROXY, 0, 0);
}

__device__ __forceinline__ void named_sync(Actor& me, int id, int threads) {
  RECORD_BEFORE(me);
  __syncwarp();
  ptx::named_sync(id, threads);
  me.look(did::NAMED_SYNC, id, threads);
  RECORD_AFTER(me, did::NAMED_SYNC, id, threads);
}

// Where copies come from or go to: rows of `stride` bytes. map: of a tensor of lines of 1024 bytes, or null: then they
// go by address.
struct Global {
  unsigned* words;
  const unsigned char* map;
  unsigned stride;

  __device__ __forceinline__ unsigned char* row(unsigned number) const {
    return reinterpret_cast<unsigned char*>(words) + static_cast<size_t>(number) * stride;
  }
  __device__ __forceinline__ int line(unsigned number) const { return static_cast<int>(number * (stride / 1024)); }
  // A map that lies in global memory is read through a proxy of its own.
  __device__ __forceinline__ void acquire() const {
    if (map) ptx::acquire_map(map);
  }
};

// One thread. The words of row n are all n + 1. mask: of the CTAs that get it, or 0 for the own one.
__device__ __forceinline__ void load(Actor& me, const Global& from, unsigned row, unsigned to, unsigned bytes,
                                     unsigned barrier, unsigned mask, unsigned buffer, unsigned barrier_object) {
  RECORD_BEFORE(me);
  if (!me.gone) {
    const unsigned short ctas = mask;
    if (from.map && mask) {
      ptx::load_tensor(to, from.map, 0, from.line(row), barrier, ctas);
    } else if (from.map) {
      ptx::load_tensor(to, from.map, 0, from.line(row), barrier);
    } else if (mask) {
      ptx::load(to, from.row(row), bytes, barrier, ctas);
    } else {
      ptx::load(to, from.row(row), bytes, barrier);
    }
  }
  RECORD_LOAD(me, buffer, barrier_object, bytes, row + 1, mask);
}

// A warp, of which one lane stores.
__device__ __forceinline__ void store(Actor& me, const Global& to, unsigned row, unsigned from, unsigned bytes,
                                      unsigned buffer) {
  RECORD_BEFORE(me);
  if (threadIdx.x % WARP == 0 && !me.gone) {
    if (to.map) {
      ptx::store_tensor(to.map, 0, to.line(row), from);
    } else {
      ptx::store(to.row(row), from, bytes);
    }
  }
  RECORD_AFTER(me, did::STORE, buffer, bytes);
}

__device__ __forceinline__ void bulk_commit(Actor& me) {
  RECORD_BEFORE(me);
  if (threadIdx.x % WARP == 0) ptx::bulk_commit();
  RECORD_AFTER(me, did::BULK_COMMIT, 0, 0);
}

template <int Pending>
__device__ __forceinline__ void bulk_wait_read(Actor& me) {
  RECORD_BEFORE(me);
  if (threadIdx.x % WARP == 0) ptx::bulk_wait_read<Pending>();
  __syncwarp();
  RECORD_AFTER(me, did::BULK_WAIT_READ, 0, Pending);
}

// Reads a buffer with `threads` threads, word by word. Returns how many words this thread found that are not `expected`.
__device__ __forceinline__ unsigned read(Actor& me, did::Code code, const unsigned char* at, unsigned bytes,
                                         unsigned object, unsigned expected, unsigned thread, unsigned threads) {
  RECORD_BEFORE(me);
  unsigned low = ~0u, high = 0, others = 0;
  for (unsigned k = thread; k < bytes / 4 && !me.gone; k += threads) {
    const unsigned word = reinterpret_cast<const volatile unsigned*>(at)[k];
    low = word < low ? word : low;
    high = word > high ? word : high;
    others += word != expected;
  }
  RECORD_WORDS(me, code, object, bytes, low, high);
  return others;
}

__device__ __forceinline__ void write(Actor& me, unsigned char* at, unsigned bytes, unsigned object, unsigned word,
                                      unsigned thread, unsigned threads) {
  RECORD_BEFORE(me);
  for (unsigned k = thread; k < bytes / 4 && !me.gone; k += threads) reinterpret_cast<volatile unsigned*>(at)[k] = word;
  RECORD_WORDS(me, did::WRITE, object, bytes, word, word);
}

// ---------------------------------------------------------------- states

template <int Stages>
struct PipelineState {
  int index = 0;
  unsigned phase = 0, count = 0;

  __device__ __forceinline__ PipelineState& operator++() {
    if (wrong == STATE_NOT_ADVANCED && keeps) return *this;
    ++count;
    if (++index == Stages) {
      index = 0;
      if (!(wrong == PHASE_NOT_FLIPPED && keeps)) phase ^= 1;
    }
    return *this;
  }

  __device__ __forceinline__ PipelineState advanced(unsigned steps) const {
    PipelineState state = *this;
    state.phase ^= (index + steps) / Stages & 1;
    state.index = (index + steps) % Stages;
    state.count += steps;
    return state;
  }

  bool keeps = false;  // what WRONG says of the consumer's state is meant for this one
};

// The first acquire of every stage finds the barrier in the phase before its first one.
template <int Stages>
__device__ __forceinline__ PipelineState<Stages> make_producer_start_state() {
  PipelineState<Stages> state;
  state.phase = wrong == PRODUCER_PHASE ? 0 : 1;
  return state;
}

template <int Stages>
__device__ __forceinline__ PipelineState<Stages> make_consumer_start_state() {
  PipelineState<Stages> state;
  state.keeps = true;
  return state;
}

enum BarrierToken { WaitAgain, WaitDone };

// ---------------------------------------------------------------- pipelines with a full and an empty barrier a stage

template <int Stages>
struct Ring {
  using State = PipelineState<Stages>;
  Actor& me;
  unsigned full, empty;  // the first barrier of each

  __device__ __forceinline__ Ring(Actor& me_, unsigned full_, unsigned empty_) : me(me_), full(full_), empty(empty_) {}

  // By one thread, before all meet.
  __device__ static void init(unsigned full, unsigned empty, unsigned producers, unsigned consumers) {
    for (int stage = 0; stage < Stages; ++stage) {
      ptx::init(full + 8 * stage, producers);
      ptx::init(empty + 8 * stage, consumers);
    }
  }

  __device__ __forceinline__ BarrierToken producer_try_acquire(const State& state) { return peek(empty, state); }
  __device__ __forceinline__ BarrierToken consumer_try_wait(const State& state) { return peek(full, state); }

  __device__ __forceinline__ void consumer_wait(const State& state, BarrierToken token = WaitAgain) {
    wait(me, full + 8 * state.index, FULL + state.index, state.phase, token == WaitDone);
  }

  __device__ __forceinline__ void wait_empty(const State& state, BarrierToken token = WaitAgain) {
    if (wrong == ACQUIRE_SKIPPED) return;
    wait(me, empty + 8 * state.index, EMPTY + state.index, state.phase, token == WaitDone);
  }

  __device__ __forceinline__ void release_here(const State& state) {
    const bool arrives = wrong != RELEASE_BY_SOME_WARPS || threadIdx.x / WARP % 4 != 3;
    arrive(me, empty + 8 * state.index, EMPTY + state.index, arrives);
  }

  // Until everything that was issued has been released; stages that were never used pass.
  __device__ __forceinline__ void producer_tail(State state) {
    if (wrong == TAIL_LEFT_OUT) return;
    for (int stage = 0; stage < Stages; ++stage) {
      wait(me, empty + 8 * state.index, EMPTY + state.index, state.phase);
      ++state;
    }
  }

 private:
  __device__ __forceinline__ BarrierToken peek(unsigned barriers, const State& state) {
    RECORD_PEEK(me);
    return !me.gone && try_wait(barriers + 8 * state.index, state.phase) ? WaitDone : WaitAgain;
  }
};

// Copies fill a stage: the leader expects their bytes, and they complete the phase themselves. In a cluster one thread
// of a warpgroup tells each CTA in its row or column that the stage is empty.
template <int Stages>
struct PipelineTmaAsync : Ring<Stages> {
  using State = PipelineState<Stages>;
  bool signals = true;
  int target = -1;

  __device__ __forceinline__ PipelineTmaAsync(Actor& me, unsigned full, unsigned empty) : Ring<Stages>(me, full, empty) {
    if (CTAS == 1) return;
    // A few threads of every warp signal, so that no warp has all the work: every eighth, each another CTA.
    const int thread = threadIdx.x % WARPGROUP, group = thread / 8 % 4, own = rank_in_cluster();
    target = 4 * (thread / WARP ^ group) + group;
    const bool meets = target % CLUSTER_X == own % CLUSTER_X || target / CLUSTER_X == own / CLUSTER_X;
    signals = thread % 8 == 0 && target < CTAS && meets;
    if (wrong == RELEASE_TO_ITSELF || wrong == CLUSTER_FORGOTTEN) signals = signals && target == own;
  }

  __device__ static void init(unsigned full, unsigned empty) {
    unsigned count = CTAS == 1 ? CONSUMERS * WARPGROUP : (CLUSTER_X + CLUSTER_Y - 1) * CONSUMERS;
    if (wrong == COUNT_OF_ONE_GROUP) count = WARPGROUP;
    if (wrong == COUNT_TOO_LARGE) count += WARP;
    if (wrong == CLUSTER_FORGOTTEN) count = CONSUMERS;
    Ring<Stages>::init(full, empty, PRODUCERS, count);
  }

  // By the leader.
  __device__ __forceinline__ void producer_acquire(const State& state, BarrierToken token = WaitAgain) {
    this->wait_empty(state, token);
    const unsigned bytes = wrong == EXPECT_MORE ? BYTES + 16 : wrong == EXPECT_LESS ? BYTES / 2 : BYTES;
    arrive_expect(this->me, this->full + 8 * state.index, FULL + state.index, bytes);
  }

  __device__ __forceinline__ void producer_commit(const State&) {}  // the copies do it

  __device__ __forceinline__ void consumer_release(const State& state) {
    if (CTAS == 1) return this->release_here(state);
    RECORD_BEFORE(this->me);
    if (signals && !this->me.gone) ptx::remote_arrive(ptx::map(this->empty + 8 * state.index, target));
    RECORD_ARRIVAL(this->me, did::ARRIVE, EMPTY + state.index, ~0u, signals, target);
  }
};

// All lanes of a warp arrive on the full barrier; the elected one starts copies and expects their bytes before.
template <int Stages>
struct PipelineTransactionAsync : Ring<Stages> {
  using State = PipelineState<Stages>;
  using Ring<Stages>::Ring;

  __device__ static void init(unsigned full, unsigned empty, unsigned consumers) {
    Ring<Stages>::init(full, empty, WARP, consumers);
  }

  __device__ __forceinline__ void producer_acquire(const State& state) { this->wait_empty(state); }

  __device__ __forceinline__ void producer_expect_transaction(const State& state, unsigned bytes) {
    if (wrong == EXPECT_LEFT_OUT) return;
    expect(this->me, this->full + 8 * state.index, FULL + state.index, bytes);
  }

  __device__ __forceinline__ void producer_commit(const State& state) {
    if (wrong == COMMIT_BY_ONE_LANE && threadIdx.x % WARP != 0) return;
    arrive(this->me, this->full + 8 * state.index, FULL + state.index);
  }

  __device__ __forceinline__ void consumer_release(const State& state) { this->release_here(state); }
};

// Threads write a stage themselves, and all of them arrive.
template <int Stages>
struct PipelineAsync : Ring<Stages> {
  using State = PipelineState<Stages>;
  using Ring<Stages>::Ring;

  __device__ __forceinline__ void producer_acquire(const State& state) { this->wait_empty(state); }
  __device__ __forceinline__ void producer_commit(const State& state) {
    arrive(this->me, this->full + 8 * state.index, FULL + state.index);
  }
  __device__ __forceinline__ void consumer_release(const State& state) { this->release_here(state); }
};

// ---------------------------------------------------------------- without full and empty barriers

// Stages that TMA stores are still reading: at most Pending of them may be in flight when the next one is written.
template <int Pending>
struct PipelineTmaStore {
  Actor& me;

  __device__ __forceinline__ void producer_commit() { bulk_commit(me); }
  __device__ __forceinline__ void producer_acquire() {
    if (wrong != WAIT_READ_LEFT_OUT) bulk_wait_read<Pending>(me);
  }
  __device__ __forceinline__ void producer_tail() { bulk_wait_read<0>(me); }
};

// Length groups take turns at each of Depth stages, one after the other, for ever.
template <int Depth, int Length>
struct OrderedSequenceBarrier {
  Actor& me;
  unsigned barriers;
  int group;
  PipelineState<Depth> stage;

  __device__ __forceinline__ OrderedSequenceBarrier(Actor& me_, unsigned barriers_, int group_)
      : me(me_), barriers(barriers_), group(group_) {
    stage.phase = group == 0 && wrong != ALL_GROUPS_WAIT;  // group 0 is first
  }

  __device__ static void init(unsigned barriers, unsigned threads) {
    for (int k = 0; k < Depth * Length; ++k) ptx::init(barriers + 8 * k, threads);
  }

  __device__ __forceinline__ void wait() {
    const int at = stage.index * Length + group;
    ::wait(me, barriers + 8 * at, ORDER + at, stage.phase);
  }

  __device__ __forceinline__ void arrive() {
    const int at = stage.index * Length + (wrong == ARRIVES_AT_ITSELF ? group : (group + 1) % Length);
    ::arrive(me, barriers + 8 * at, ORDER + at);
    if (wrong != TURN_NOT_ADVANCED) ++stage;
  }
};
