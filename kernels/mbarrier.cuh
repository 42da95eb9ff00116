// Operations on mbarriers by their numbers: `perform` does one.
//
// Behind the vocabulary that checker/evidence/hardware/mbarrier/generate.py writes: numbers of verbs and places, and struct
// Operation.

#include "ptx.cuh"

#define DEVICE static __device__ __forceinline__
#define LANES 32

using namespace ptx;

DEVICE int lane() { return static_cast<int>(threadIdx.x % 32); }

// ---------------------------------------------------------------- an operation by its number

DEVICE bool is_wait(int verb) {
  return verb == DO_TEST_WAIT_PARITY || verb == DO_TRY_WAIT_PARITY || verb == DO_TEST_WAIT || verb == DO_TRY_WAIT;
}

// One lane does it on a barrier of its own CTA. The answer: whether a wait passes, or the pending count of the token
// that an arrival returns.
DEVICE unsigned perform_here(const Operation& one, unsigned barrier, Token kept, Token* token) {
  switch (one.verb) {
    case DO_INIT: init(barrier, one.operand); return 0;
    case DO_INVAL: inval(barrier); return 0;
    case DO_EXPECT_TX: expect_tx(barrier, one.operand); return 0;
    case DO_COMPLETE_TX: complete_tx(barrier, one.operand); return 0;
    case DO_ARRIVE: *token = one.plain ? arrive(barrier) : arrive(barrier, one.operand); break;
    case DO_ARRIVE_EXPECT_TX: *token = arrive_expect_tx(barrier, one.operand); break;
    case DO_ARRIVE_NOCOMPLETE: *token = arrive_no_complete(barrier, one.operand); break;
    case DO_ARRIVE_DROP: *token = one.plain ? arrive_drop(barrier) : arrive_drop(barrier, one.operand); break;
    case DO_ARRIVE_DROP_EXPECT_TX: *token = arrive_drop_expect_tx(barrier, one.operand); break;
    case DO_TEST_WAIT_PARITY: return test_parity(barrier, one.operand);
    case DO_TRY_WAIT_PARITY: return try_parity<20>(barrier, one.operand);
    case DO_TEST_WAIT: return test_token(barrier, kept);
    case DO_TRY_WAIT: return try_token(barrier, kept);
    case DO_CP_ASYNC_MBARRIER_ARRIVE: cp_async_arrive(barrier); return 0;
    case DO_CP_ASYNC_MBARRIER_ARRIVE_NOINC: cp_async_arrive_noinc(barrier); return 0;
    default: return 0;
  }
  return pending_count(*token);
}

// The same on a barrier of another CTA, in the forms that there are.
DEVICE void perform_remote(const Operation& one, unsigned barrier) {
  switch (one.verb) {
    case DO_EXPECT_TX: return remote_expect_tx(barrier, one.operand);
    case DO_COMPLETE_TX: return remote_complete_tx(barrier, one.operand);
    case DO_ARRIVE: return one.plain ? remote_arrive(barrier) : remote_arrive(barrier, one.operand);
    case DO_ARRIVE_EXPECT_TX: return remote_arrive_expect_tx(barrier, one.operand);
    case DO_ARRIVE_DROP: return one.plain ? remote_arrive_drop(barrier) : remote_arrive_drop(barrier, one.operand);
    case DO_ARRIVE_DROP_EXPECT_TX: return remote_arrive_drop_expect_tx(barrier, one.operand);
    default: return;
  }
}

// What the lanes that did an operation were answered.
struct Seen {
  unsigned low, high, sum;
};

// The first lanes of the warp do it, each once; all lanes know the answers. `token`: lane 0's, if it returns one.
DEVICE Seen perform(const Operation& one, unsigned barrier, Token kept, Token* token) {
  const bool mine = lane() < one.lanes;
  unsigned answer = 0;
  if (mine) {
    if (one.place == BY_REMOTE) {
      perform_remote(one, barrier);
    } else {
      answer = perform_here(one, barrier, kept, token);
    }
  }
  __syncwarp();
  if (one.lanes == 1) {
    answer = __shfl_sync(0xffffffffu, answer, 0);
    return Seen{answer, answer, answer};
  }
  return Seen{__reduce_min_sync(0xffffffffu, mine ? answer : 0xffffffffu),
              __reduce_max_sync(0xffffffffu, mine ? answer : 0u), __reduce_add_sync(0xffffffffu, mine ? answer : 0u)};
}
