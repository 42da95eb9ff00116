// What does an mbarrier do with an arrival in a phase although nobody has seen the phase before it complete? PTX forbids
// it (9.7.13.15.4).
//
// HAND_ON, ANOTHER_CTA, BYTES: a barrier counts three arrivals in a phase. Thread `early`, in this CTA or in another one
// of the cluster, makes the first of them while nobody has looked at the barrier since the phase before has completed.
// Thread `proof` makes the second; how many its token says were pending shows that the first was counted in this phase.
// Only then the waiter looks: the phase before must be complete, and this one must not, which its own arrival ends. A
// word hands the turn on. With BYTES, `early` expects 16 bytes as well, which `proof` delivers.
// RENDEZVOUS: each of two CTAs arrives at the barrier of the other one and at its own, and waits for its own. The second
// is held before it looks until the first has arrived for the phase after.

#include "ptx.cuh"

enum Mode { HAND_ON, ANOTHER_CTA, BYTES, RENDEZVOUS };
enum Counted { PHASES, UNOBSERVED, NOT_COMPLETE, TOO_EARLY, WRONG_PENDING, GAVE_UP, COUNTERS };

constexpr unsigned long long LIMIT = 500'000'000;  // nanoseconds after which a thread gives up

typedef unsigned long long Counters[COUNTERS];

__device__ void count(Counters& all, Counted what, bool happens = true) {
  if (happens) atomicAdd(&all[what], 1ull);
}

// Spins until the word has come to `value`; whether it has.
__device__ bool comes_to(unsigned word, unsigned value, Counters& all) {
  const unsigned long long start = ptx::timer();
  while (static_cast<int>(ptx::load_acquire(word) - value) < 0) {
    if (ptx::timer() - start > LIMIT) {
      count(all, GAVE_UP);
      return false;
    }
  }
  return true;
}

// Everything before it has been done, also in the other CTA, once the word says `value`.
__device__ void say(unsigned word, unsigned value) {
  ptx::fence_cluster();
  ptx::store_release(word, value);
}

// The phase before is complete and this one is not.
__device__ void look(unsigned barrier, unsigned phase, Counters& all) {
  const unsigned before = (phase & 1) ^ 1;
  const bool complete = phase & 2 ? ptx::test_parity(barrier, before) : ptx::try_parity<20>(barrier, before);
  count(all, NOT_COMPLETE, !complete);
  count(all, TOO_EARLY, ptx::test_parity(barrier, phase & 1));
}

__device__ void early(Mode mode, unsigned barrier, unsigned turn, unsigned phases, Counters& all) {
  for (unsigned n = 0; n < phases && comes_to(turn, 3 * n, all); ++n) {
    if (mode == ANOTHER_CTA) {
      ptx::remote_arrive(barrier);
    } else {
      const ptx::Token token = mode == BYTES ? ptx::arrive_expect_tx(barrier, 16) : ptx::arrive(barrier);
      count(all, WRONG_PENDING, ptx::pending_count(token) != 3);
    }
    count(all, UNOBSERVED, n > 0);
    say(turn, 3 * n + 1);
  }
}

__device__ void proof(Mode mode, unsigned barrier, unsigned turn, unsigned phases, Counters& all) {
  for (unsigned n = 0; n < phases && comes_to(turn, 3 * n + 1, all); ++n) {
    if (mode == BYTES) ptx::complete_tx(barrier, 16);
    count(all, WRONG_PENDING, ptx::pending_count(ptx::arrive(barrier)) != 2);
    say(turn, 3 * n + 2);
  }
}

__device__ void waiter(unsigned barrier, unsigned turn, unsigned phases, Counters& all) {
  for (unsigned n = 0; n < phases && comes_to(turn, 3 * n + 2, all); ++n) {
    look(barrier, n, all);
    count(all, WRONG_PENDING, ptx::pending_count(ptx::arrive(barrier)) != 1);
    count(all, PHASES);
    say(turn, 3 * n + 3);
  }
  if (phases) count(all, NOT_COMPLETE, !ptx::test_parity(barrier, (phases & 1) ^ 1));
}

// Words: the phases for which this CTA is about to arrive at the other one's barrier, has arrived there, and at its own.
__device__ void meet(unsigned rank, unsigned barrier, unsigned begun, unsigned phases, Counters& all) {
  const unsigned made = begun + 4, own = begun + 8, other = rank ^ 1;
  const unsigned far = ptx::map(barrier, other), others_begun = ptx::map(begun, other), others_made = ptx::map(made, other);
  for (unsigned n = 0; n < phases; ++n) {
    if (rank == 0 && !comes_to(ptx::map(own, 1), n, all)) return;  // then the phase before is complete there
    say(begun, n + 1);
    ptx::remote_arrive(far);
    count(all, UNOBSERVED, rank == 0 && n > 0);
    say(made, n + 1);
    const unsigned pending = ptx::pending_count(ptx::arrive(barrier));
    say(own, n + 1);
    if (rank == 0) {
      const unsigned long long start = ptx::timer();
      while (!ptx::try_parity<20>(barrier, n & 1)) {
        if (ptx::timer() - start > LIMIT) return count(all, GAVE_UP);
      }
      count(all, TOO_EARLY, ptx::load_acquire(others_begun) < n + 1);
    } else {
      count(all, WRONG_PENDING, n > 0 && pending != 1);
      if (!comes_to(others_made, n + 2 < phases ? n + 2 : phases, all)) return;
      look(barrier, n + 1, all);
      count(all, PHASES);
    }
  }
}

extern "C" __global__ void unobserved(int which, unsigned phases, unsigned long long* counted) {
  __shared__ unsigned long long barrier;
  __shared__ unsigned words[3];
  const Mode mode = static_cast<Mode>(which);
  const bool cluster = mode == ANOTHER_CTA || mode == RENDEZVOUS;
  const unsigned rank = cluster ? ptx::rank_in_cluster() : 0, at = ptx::address(&barrier), word = ptx::address(words);
  Counters& all = *reinterpret_cast<Counters*>(counted);
  if (threadIdx.x == 0) {
    words[0] = words[1] = words[2] = 0;
    ptx::init(at, mode == RENDEZVOUS ? 2 : 3);
    ptx::fence_init();
  }
  cluster ? ptx::cluster_sync() : __syncthreads();
  if (mode == RENDEZVOUS) {
    if (threadIdx.x == 0) meet(rank, at, word, phases, all);
  } else {
    if (threadIdx.x == 0 && rank == (mode == ANOTHER_CTA)) {
      early(mode, cluster ? ptx::map(at, 0) : at, cluster ? ptx::map(word, 0) : word, phases, all);
    }
    if (threadIdx.x == 32 && rank == 0) proof(mode, at, word, phases, all);
    if (threadIdx.x == 64 && rank == 0) waiter(at, word, phases, all);
  }
  cluster ? ptx::cluster_sync() : __syncthreads();
}
