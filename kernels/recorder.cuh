// What a hand-written kernel is watched with: waits that give up instead of lasting for ever, delays at chosen points,
// and a record of what its warps do.
//
// A place is a warp, or the lanes of a warp that play a role together; each has an Actor. A wait gives up when the time
// is over: the actor notes where, and from then on every operation that the kernel guards with `gone` does nothing, so
// that its threads run on to their end, through the barriers of threads that they all pass.
//
// With RECORD, each place writes an event per operation into a ring: what was done to which object, the clock before
// and after, whether a wait had to wait, the words seen. Objects are numbers of the kernel's own. All lanes of a place
// must come to each RECORD_... macro. Without RECORD the macros are empty. With DIRECTED, HOLD(me, point) delays.
//
// With UNWATCHED, which neither RECORD nor DIRECTED is given with, waits last for ever, as in kernels elsewhere, and
// nothing of the watch is compiled.

#include "ptx.cuh"

using ptx::rest;
using ptx::timer;

typedef unsigned long long Time;

namespace did {
enum Code : unsigned {
  NOTHING,
  WAIT,            // barrier, parity
  ARRIVE,          // barrier, -1; low: CTAs that were arrived at, or 0 for the own one; lanes: how many arrived
  ARRIVE_EXPECT,   // barrier, bytes; the same
  EXPECT,          // barrier, bytes
  LOAD,            // buffer and barrier, bytes; low: the word that it brings, high: multicast mask or 0
  READ,            // buffer, bytes; low, high: the smallest and the largest word found
  WRITE,           // buffer, bytes; low: the word written
  MMA,             // buffer, bytes: as READ, by a wgmma that is committed later
  MMA_COMMIT,      //
  MMA_AGAIN,       // as READ: what the next MMA_WAIT has waited for
  MMA_WAIT,        // -, groups that may be pending
  STORE,           // buffer, bytes
  BULK_COMMIT,     //
  BULK_WAIT,       // -, groups that may be pending
  BULK_WAIT_READ,  // the same
  FENCE_PROXY,     //
  FENCE_INIT,      //
  NAMED_SYNC,      // barrier's id, threads
  NAMED_ARRIVE,    // the same
  CTA_SYNC,        //
  CLUSTER_ARRIVE,  // -, 1 for .release and 0 for .relaxed
  CLUSTER_WAIT,    //
  INIT,            // barrier, count
  REGISTERS_DEC,   // -, registers
  REGISTERS_INC,   // the same
  WARP_SYNC,       // the parts of a role have met
};
}

struct Event {
  Time before, after;
  unsigned code;  // and from bit 8 on whether a wait had to wait, from bit 16 on how many lanes arrived
  unsigned object, operand, iteration, low, high;
};

// Where a place has come to. code: what it gave up in, or NOTHING if it has ended; 0xffffffff until then.
struct Position {
  unsigned events, code, object, operand;
};

// Delays all lanes of a place, which has a number in its cluster. point, place, iteration: 0xffffffff stands for all.
struct Hold {
  unsigned point, place, iteration, nanoseconds;
};

// The clock of events: in a cluster one that all its multiprocessors share.
__device__ __forceinline__ Time recording_clock() {
#ifdef CLUSTER
  return timer();
#else
  Time t;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
  return t;
#endif
}

__device__ __forceinline__ unsigned mixed(unsigned x) {
  x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu;
  return x ^ x >> 16;
}

// What a kernel is told about its watch and its record. events: by place and CTA, `capacity` each. jitter: up to so
// many nanoseconds before some of what is recorded.
struct Orders {
  Event* events;
  Position* positions;
  const Hold* holds;
  unsigned capacity, hold_count, limit, jitter, seed;
};

struct Actor {
  volatile int* over;  // shared by the CTA: somebody has given up
  Position* position;
  Time deadline;
  unsigned lanes;      // the mask of those that are at this place
  bool tells;          // this lane writes for its place
  bool gone;
#ifdef RECORD
  Event* events;
  unsigned capacity, count, waited, jitter, random;
  Time peeked;  // when the next operation has begun, if that was before it: 0 if not
#endif
#if defined(RECORD) || defined(DIRECTED)
  unsigned iteration;
#endif
#ifdef DIRECTED
  const Hold* holds;
  unsigned hold_count, place;
#endif

  // place: of this CTA, of `places`; cta: of the grid. over: a word of shared memory that was 0 before all have met.
  __device__ __forceinline__ void open(const Orders& orders, volatile int* over_, unsigned cta, unsigned places,
                                       unsigned place_, unsigned mask) {
#ifndef UNWATCHED
    over = over_;
    position = orders.positions + cta * places + place_;
    deadline = timer() + orders.limit;
#endif
    lanes = mask;
    tells = threadIdx.x % 32 == __ffs(mask) - 1;
    gone = false;
#ifdef RECORD
    events = orders.events + static_cast<size_t>(cta * places + place_) * orders.capacity;
    capacity = orders.capacity;
    count = waited = 0;
    peeked = 0;
    jitter = orders.jitter;
    random = mixed(orders.seed ^ mixed(cta * 131071u + place_));
#endif
#if defined(RECORD) || defined(DIRECTED)
    iteration = 0;
#endif
#ifdef DIRECTED
    holds = orders.holds;
    hold_count = orders.hold_count;
#ifdef CLUSTER
    place = cta % CLUSTER * places + place_;
#else
    place = place_;
#endif
#endif
  }

#ifdef UNWATCHED
  __device__ __forceinline__ bool expired() const { return false; }
  __device__ __forceinline__ void give_up(did::Code, unsigned, unsigned) {}
  __device__ __forceinline__ void look(did::Code, unsigned, unsigned) {}
  __device__ __forceinline__ void close() {}
#else
  // The time is over, or somebody else has found that it is.
  __device__ __forceinline__ bool expired() {
    if (*over) return true;
    if (timer() < deadline) return false;
    *over = 1;
    return true;
  }

  __device__ __forceinline__ void give_up(did::Code code, unsigned object, unsigned operand) {
    if (!gone && tells) *position = Position{done(), code, object, operand};
    gone = true;
  }

  // After a barrier of threads, which cannot give up: did it only pass because others did?
  __device__ __forceinline__ void look(did::Code code, unsigned object, unsigned operand) {
    if (*over) give_up(code, object, operand);
  }

  __device__ __forceinline__ void close() {
    if (!gone && tells) *position = Position{done(), did::NOTHING, 0, 0};
  }
#endif

  __device__ __forceinline__ unsigned done() const {
#ifdef RECORD
    return count;
#else
    return 0;
#endif
  }

#ifdef RECORD
  __device__ __forceinline__ Time before() {
    if (peeked) {
      const Time began = peeked;
      peeked = 0;
      return began;
    }
    if (jitter && !gone) {
      random = mixed(random + 0x9e3779b9u);
      if (random % 4 == 0) __nanosleep(random / 4 % jitter);
    }
    waited = 0;
    return recording_clock();
  }

  __device__ __forceinline__ void after(Time began, did::Code code, unsigned object, unsigned operand,
                                        unsigned arrived, unsigned low, unsigned high) {
    const bool lost = __any_sync(lanes, gone);  // also lets all lanes finish before the clock is read
    const unsigned slow = __any_sync(lanes, waited);
    const Time ended = recording_clock();
    if (lost) return;
    if (tells) {
      events[count % capacity] = Event{began, ended, code | slow << 8 | arrived << 16, object, operand, iteration, low, high};
    }
    count += 1;
  }
#endif
};

#ifdef RECORD
#define RECORD_BEFORE(me) const Time recorded_before = (me).before()
// A try_wait that tells the wait after it whether there is anything to wait for is a part of that wait.
#define RECORD_PEEK(me) (me).peeked = (me).before()
#define RECORD_WAITED(me) (me).waited = 1
// The result of an operation must have come before the clock is read again: it is never all ones.
#define RECORD_RESULT(me, result) (me).waited |= (result) == ~0ull
#define RECORD_AFTER(me, code, object, operand) (me).after(recorded_before, code, object, operand, 0, 0, 0)
#define RECORD_ARRIVAL(me, code, object, operand, arrives, target) \
  (me).after(recorded_before, code, object, operand, __popc(__ballot_sync((me).lanes, arrives)), \
             __reduce_or_sync((me).lanes, (arrives) && (target) >= 0 ? 1u << ((target) & 31) : 0u), 0)
#define RECORD_WORDS(me, code, object, operand, low, high) \
  (me).after(recorded_before, code, object, operand, 0, __reduce_min_sync((me).lanes, low), \
             __reduce_max_sync((me).lanes, high))
#define RECORD_LOAD(me, buffer, barrier, bytes, word, mask) \
  (me).after(recorded_before, did::LOAD, (buffer) | (barrier) << 16, bytes, 0, word, mask)
#else
#define RECORD_BEFORE(me)
#define RECORD_PEEK(me)
#define RECORD_WAITED(me)
#define RECORD_RESULT(me, result)
#define RECORD_AFTER(me, code, object, operand)
#define RECORD_ARRIVAL(me, code, object, operand, arrives, target)
#define RECORD_WORDS(me, code, object, operand, low, high)
#define RECORD_LOAD(me, buffer, barrier, bytes, word, mask)
#endif

#if defined(RECORD) || defined(DIRECTED)
#define RECORD_ITERATION(me, number) (me).iteration = (number)
#else
#define RECORD_ITERATION(me, number)
#endif

#ifdef DIRECTED
#define HOLD(me, at) \
  for (unsigned hold_ = 0; hold_ < (me).hold_count; ++hold_) { \
    const Hold one_ = (me).holds[hold_]; \
    if ((one_.point == ~0u || one_.point == (at)) && (one_.place == ~0u || one_.place == (me).place) && \
        (one_.iteration == ~0u || one_.iteration == (me).iteration)) { \
      rest(one_.nanoseconds); \
    } \
  }
#else
#define HOLD(me, at)
#endif
