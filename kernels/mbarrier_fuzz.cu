// Random operations on real mbarriers, each answer compared with the specification's.
//
// Behind mbarrier.cuh and the menu that checker/evidence/hardware/mbarrier/generate.py writes. One warp per CTA; every CTA (with
// CLUSTER 2 every pair) has one barrier and draws operations from the menu, those that the specification calls illegal
// in the barrier's state excepted. All lanes follow the state; lane 0 keeps the books. After an operation the parity of the
// current phase is tested, which must not pass, and often that of the phase before, which must.
//
// In a cluster CTA 1 does the remote operations, on the barrier of CTA 0, and the CTAs meet after every operation.
// Nothing waits without a bound: a wait that should pass is tried a number of times, and `limit` ends the whole.

constexpr int RECENT = 16;
constexpr int RETRIES = 1000;  // of a try_wait, which may return false; of any wait in a cluster
constexpr unsigned long long ASYNCHRONOUS = 4000;  // nanoseconds that an asynchronous arrival is given at first
enum { FAILS_WAIT = 1, FAILS_PENDING = 2, FAILS_LANES = 3, FAILS_ARRIVAL = 4 };
enum { SKIPPED, SPURIOUS, LATE, UNDEFINED, OVERDUE, EXTRAS };

struct Record {
  int what, step, operation;
  unsigned expected, got;
  unsigned before[8];        // struct State
  int recent[RECENT];        // the operations before it, the latest first, -1 where there are no more
};

FUNCTION uint64_t mix(uint64_t x) {
  x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
  return x ^ x >> 31;
}

// The number of a random step: it depends on nothing but these three.
FUNCTION uint64_t random_number(uint64_t seed, unsigned group, int step) {
  return mix(mix(seed) + UINT64_C(0x9e3779b97f4a7c15) * (((uint64_t)group << 32) + (uint64_t)step + 1));
}

// A random one of those entries that take no more than `room`; the smallest if there is none.
FUNCTION int at_most(const int* entries, int count, unsigned random, unsigned room) {
  for (int i = (int)(random % (unsigned)count); i < count; ++i) {
    const Operation& one = MENU[entries[i]];
    const unsigned amount = one.count ? one.count * one.lanes : one.operand;
    if (amount <= room) return entries[i];
  }
  return entries[count - 1];
}

// The test of a parity: of the current phase (ahead = 1), or of the one before (0).
FUNCTION int parity_wait(const int* entries, const State& s, int ahead) {
  const int distance = (int)s.unseen + ahead;
  return distance > 2 ? -1 : entries[3 * (int)(ahead ? s.phase : s.phase ^ 1) + distance];
}

// A random entry, with a leaning towards what brings the phase to its end and, then, to be seen.
FUNCTION int choose(uint64_t random, const State& s) {
  const unsigned dice = random & 31, other = (unsigned)(random >> 16);
  if (!s.alive) return INITS[other % INITS_COUNT];
  if ((random & 63) == 63) return INVAL;
  if (!s.observed && dice < 24) {
    if (s.age == 1 && dice < 8) return TOKEN_WAITS[other % TOKEN_WAITS_COUNT];
    const int wait = parity_wait(dice % 2 ? TRIES : TESTS, s, 0);
    if (wait >= 0) return wait;
  }
  if (s.tx && dice < 10) {
    const bool negative = s.tx >> (TX_WIDTH - 1);
    if (!negative) return at_most(LANDS, LANDS_COUNT, other, s.tx);
    if (s.pending) return at_most(EXPECTS, EXPECTS_COUNT, other, (1u << TX_WIDTH) - s.tx);
    return EXPECTS[other % EXPECTS_COUNT];
  }
  if (s.pending && dice < 20) return at_most(ARRIVALS, ARRIVALS_COUNT, other, s.pending);
  return (int)(other % OPERATIONS);
}

// The pending count of a token that an arrival returns in this state.
FUNCTION unsigned counted(const State& s) { return s.pending ? s.pending : NONE_PENDING; }

// Waits until an asynchronous arrival has shown itself; 0 if it does not in time.
DEVICE unsigned has_arrived(unsigned barrier, const State& before, const State& after, bool completes) {
  unsigned seen = 0;
  if (lane() == 0) {
    const unsigned long long start = timer();
    while (timer() - start < ASYNCHRONOUS) {}  // the byte that the one form is compiled to cannot be seen to go
    do {
      seen = completes ? test_parity(barrier, before.phase)
                       : pending_count(arrive(barrier, 0)) == counted(after);
    } while (!seen && timer() - start < ASYNCHRONOUS * 100);
  }
  return __shfl_sync(0xffffffffu, seen, 0);
}

// What the answers should have been, and were: 0 if they agree, or which of them does not.
DEVICE int differs(const Operation& one, const State& before, unsigned outcome, const Seen& seen, unsigned* expected,
                   unsigned* got, unsigned* undefined) {
  *got = seen.low;
  if (is_wait(one.verb)) {
    *expected = (outcome & PASSES) != 0;
    return *got == *expected ? 0 : FAILS_WAIT;
  }
  if (!one.has_token) return 0;
  const unsigned others = one.lanes - 1, pending = counted(before);
  const unsigned low = pending - one.count * others, sum = one.lanes * pending - one.count * others * one.lanes / 2;
  *expected = low;
  if (seen.low == low && seen.high == pending && seen.sum == sum) return 0;
  if (one.lanes == 1) return FAILS_PENDING;
  if (one.verb == DO_ARRIVE_NOCOMPLETE) return FAILS_LANES;
  ++*undefined;  // PTX gives the tokens of other arrivals no pending count
  return 0;
}

extern "C" __global__ void __launch_bounds__(32, 32)
    fuzz(unsigned long long seed, unsigned first, int steps, unsigned long long limit, const unsigned* without,
         unsigned long long* counts, Record* records, volatile unsigned long long* last) {
  __shared__ __align__(8) unsigned long long object;
  __shared__ unsigned tally[2 * OPERATIONS + EXTRAS];
  __shared__ int recent[RECENT];
  __shared__ volatile int end;  // the steps after which this CTA and its peer end; 0: not yet
  const int rank = CLUSTER > 1 ? (int)rank_in_cluster() : 0;
  const unsigned group = first + blockIdx.x / CLUSTER;
  const unsigned own = (unsigned)__cvta_generic_to_shared(&object);
  const unsigned ends = (unsigned)__cvta_generic_to_shared((int*)&end);
  const unsigned barrier = CLUSTER > 1 && rank ? map(own, 0) : own;
  const unsigned long long start = timer();
  for (int i = lane(); i < 2 * OPERATIONS + EXTRAS; i += LANES) tally[i] = 0;
  for (int i = lane(); i < RECENT; i += LANES) recent[i] = -1;
  if (lane() == 0) end = 0;
  __syncwarp();
  if (CLUSTER > 1) cluster_sync();

  State s = {0, 0, 0, 0, 0, 1, 3, 0};
  Token kept = 0;
  int follow = 0;  // 1: test the current phase next; 2: the one before; 4: both
  for (int i = 0; i < steps; ++i) {
    uint64_t random = random_number(seed, group, i);
    State after = s;
    int number = -1;
    unsigned outcome = ILLEGAL;
    const bool keep = s.age > 1 || (random >> 8 & 1);
#pragma unroll 1
    for (int draw = 0; draw < 4; ++draw) {
      const int ahead = follow != 2;
      number = follow ? parity_wait(TESTS, s, ahead) : choose(random, s);
      follow = follow == 4 ? 2 : 0;
      if (number >= 0 && !(without[number / 32] >> number % 32 & 1)) {
        after = s;
        outcome = step(number, &after, keep);
        if (!(outcome & ILLEGAL)) break;
      }
      random = mix(random);
    }
    const bool legal = !(outcome & ILLEGAL);
    bool stop = false;
    if (legal) {
      const Operation one = MENU[number];
      if (rank == (one.place == BY_REMOTE)) {
        if (last && lane() == 0) {
          last[blockIdx.x] = (unsigned long long)i << 32 | (unsigned)number;
          __threadfence_system();
        }
        Token token = kept;
        unsigned expected = 0, got = 0, undefined = 0;
        const bool tries = one.verb == DO_TRY_WAIT || one.verb == DO_TRY_WAIT_PARITY;
        int what = 0, retried = -1;
        do {
          const Seen seen = perform(one, barrier, kept, &token);
          what = differs(one, s, outcome, seen, &expected, &got, &undefined);
          ++retried;
        } while (what == FAILS_WAIT && expected && (tries || CLUSTER > 1) && retried < RETRIES);
        if (keep && one.has_token) kept = token;
        if (one.verb == DO_CP_ASYNC_MBARRIER_ARRIVE || one.verb == DO_CP_ASYNC_MBARRIER_ARRIVE_NOINC) {
          expected = 1;
          got = has_arrived(barrier, s, after, outcome & COMPLETES);
          what = got ? 0 : FAILS_ARRIVAL;
        }
        if (lane() == 0) {
          tally[2 * number] += 1;
          if (outcome & COMPLETES) tally[2 * number + 1] += 1;
          tally[2 * OPERATIONS + (tries ? SPURIOUS : LATE)] += retried;
          tally[2 * OPERATIONS + UNDEFINED] += undefined;
          if (what) {
            Record& record = records[blockIdx.x / CLUSTER];
            record.what = what;
            record.step = i;
            record.operation = number;
            record.expected = expected;
            record.got = got;
            const unsigned before[8] = {s.alive, s.phase, s.expected, s.pending, s.tx, s.observed, s.age, s.unseen};
            for (int k = 0; k < 8; ++k) record.before[k] = before[k];
            for (int k = 0; k < RECENT; ++k) record.recent[k] = recent[(i - 1 - k) & (RECENT - 1)];
          }
        }
        stop = what != 0;
      }
      if (!is_wait(one.verb) && after.alive) follow = one.verb == DO_INIT || (random >> 12 & 1) ? 4 : 1;
      s = after;
    } else if (rank == 0 && lane() == 0) {
      tally[2 * OPERATIONS + SKIPPED] += 1;
    }
    if (lane() == 0) recent[i & (RECENT - 1)] = legal ? number : -1;
    if (rank == 0 && i % 256 == 255 && timer() - start > limit) {
      if (lane() == 0) tally[2 * OPERATIONS + OVERDUE] += 1;
      stop = true;
    }
    stop = __shfl_sync(0xffffffffu, stop, 0);
    if (CLUSTER > 1) {
      if (stop && lane() == 0) end = i + 1;
      cluster_sync();
      if (rank) {  // CTA 0 can be ahead, but never by more than one step
        const int ended = load_remote(map(ends, 0));
        stop = ended && ended <= i + 1;
      }
    }
    if (stop) break;
  }
  __syncwarp();
  for (int i = lane(); i < 2 * OPERATIONS + EXTRAS; i += LANES) {
    if (tally[i]) atomicAdd(counts + i, (unsigned long long)tally[i]);
  }
  if (CLUSTER > 1) cluster_sync();
}
