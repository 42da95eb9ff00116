// Stands in for kernels/mbarrier.cuh on a host: one thread is a warp, and an mbarrier is a few plain numbers that
// follow the prose of the PTX ISA. BROKEN names a way in which they do not.
#include <pthread.h>
#include <cstdlib>
#ifndef BROKEN
#define BROKEN 0
#endif
#define __device__
#define __forceinline__ inline
#define __global__
#define __shared__ static thread_local
#define __align__(n)
#define __launch_bounds__(...)
#define __syncwarp()
#define __threadfence_system()
#define __shfl_sync(mask, value, from) (value)
#define DEVICE static inline
#define LANES 1

enum { SOUND, DROP_IS_AN_ARRIVAL, PHASE_SHRINKS, BYTES_ARE_LOST, TOKEN_IS_INVERTED, FRESH_PHASE_IS_ODD,
       REMOTE_IS_LOST };
typedef unsigned long long Token;
struct Index { unsigned x; };
struct Object { bool live; long phase, expected, pending, tx; };
struct Seen { unsigned low, high, sum; };
static thread_local Index blockIdx;
static thread_local int cta, address_count;
static void* addresses_of_cta_0[8];
static pthread_barrier_t meeting;
static Object object_;
static int faults;  // operations that hardware would not survive

DEVICE unsigned __cvta_generic_to_shared(void* object) {
  if (!cta) addresses_of_cta_0[address_count] = object;
  return address_count++;
}
DEVICE unsigned map(unsigned address, int) { return address; }
DEVICE int load_remote(unsigned address) { return *(volatile int*)addresses_of_cta_0[address]; }
DEVICE int rank_in_cluster() { return cta; }
DEVICE void cluster_sync() { pthread_barrier_wait(&meeting); }
DEVICE int lane() { return 0; }
DEVICE unsigned long long timer() {
  static thread_local unsigned long long now;
  return now += 100;
}
DEVICE void atomicAdd(unsigned long long* sum, unsigned long long more) { __atomic_fetch_add(sum, more, 5); }

DEVICE void fault_if(bool wrong) { faults += wrong; }
DEVICE void signal(long arrivals, long bytes, bool tests) {
  Object& o = object_;
  fault_if(!o.live || arrivals > o.pending);
  o.pending -= arrivals;
  o.tx += bytes;
  fault_if(o.tx > 1048575 || o.tx < -1048575);
  if (tests && !o.pending && !o.tx) {
    ++o.phase;
    o.pending = o.expected - (BROKEN == PHASE_SHRINKS && o.expected == 128);
  }
}
DEVICE Token token_of() { return (Token)(object_.phase & 1) << 63 | (Token)object_.pending; }
DEVICE unsigned pending_count(Token token) { return token & 0xfffff ? (unsigned)(token & 0xfffff) : 1u << 20; }
DEVICE unsigned test_parity(unsigned, unsigned parity) { return (object_.phase & 1) != parity; }
DEVICE Token arrive(unsigned, unsigned count) {
  const Token token = token_of();
  signal(count, 0, count != 0);
  return token;
}
DEVICE bool is_wait(int verb) {
  return verb == DO_TEST_WAIT_PARITY || verb == DO_TRY_WAIT_PARITY || verb == DO_TEST_WAIT || verb == DO_TRY_WAIT;
}
DEVICE void drop(long count) {
  if (BROKEN != DROP_IS_AN_ARRIVAL) object_.expected -= count;
  fault_if(object_.expected < 1);
}

DEVICE unsigned perform_here(const Operation& one, Token kept, Token* token) {
  Object& o = object_;
  const long n = one.operand, count = one.count;
  const bool patient = rand() % 8;  // a try_wait may give up
  const Token before = token_of();
  if (BROKEN == REMOTE_IS_LOST && one.place == BY_REMOTE && one.lanes == 4) return 0;
  switch (one.verb) {
    case DO_INIT:
      fault_if(o.live);
      o = Object{true, BROKEN == FRESH_PHASE_IS_ODD && n == 7, n, n, 0};
      return 0;
    case DO_INVAL: fault_if(!o.live); o.live = false; return 0;
    case DO_EXPECT_TX: fault_if(!o.pending && !(o.tx + n)); signal(0, n, false); return 0;
    case DO_COMPLETE_TX: signal(0, BROKEN == BYTES_ARE_LOST && n == 65536 ? 0 : -n, true); return 0;
    case DO_ARRIVE: signal(count, 0, count); break;
    case DO_ARRIVE_EXPECT_TX: signal(1, n, true); break;
    case DO_ARRIVE_NOCOMPLETE: fault_if(count && o.pending == count && !o.tx); signal(count, 0, count); break;
    case DO_ARRIVE_DROP: drop(count); signal(count, 0, true); break;
    case DO_ARRIVE_DROP_EXPECT_TX: drop(1); signal(1, n, true); break;
    case DO_TEST_WAIT_PARITY: return (o.phase & 1) != n;
    case DO_TRY_WAIT_PARITY: return patient && (o.phase & 1) != n;
    case DO_TEST_WAIT: return ((long)(kept >> 63) != (o.phase & 1)) != (BROKEN == TOKEN_IS_INVERTED);
    case DO_TRY_WAIT: return patient && (long)(kept >> 63) != (o.phase & 1);
    case DO_CP_ASYNC_MBARRIER_ARRIVE: ++o.pending; signal(1, 0, true); return 0;
    case DO_CP_ASYNC_MBARRIER_ARRIVE_NOINC: signal(1, 0, true); return 0;
    default: return 0;
  }
  *token = before;
  return pending_count(before);
}

DEVICE Seen perform(const Operation& one, unsigned, Token kept, Token* token) {
  Seen seen = {~0u, 0, 0};
  for (int i = 0; i < one.lanes; ++i) {
    Token own = kept;
    const unsigned answer = perform_here(one, kept, &own);
    if (!i) *token = own;
    seen = Seen{answer < seen.low ? answer : seen.low, answer > seen.high ? answer : seen.high, seen.sum + answer};
  }
  return seen;
}
