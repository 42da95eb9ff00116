// Operations on mbarriers, one function per form that PTX has, and `perform`, which does one by its number.
//
// Behind the vocabulary that checker/hardware/mbarrier/generate.py writes: numbers of verbs and places, and struct Operation.
// A barrier is a 32-bit address: in the window shared::cta, or for the functions `remote_...` in shared::cluster.

#define DEVICE static __device__ __forceinline__
#define LANES 32

typedef unsigned long long Token;

DEVICE int lane() { return static_cast<int>(threadIdx.x % 32); }

DEVICE unsigned long long timer() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
  return t;
}

// ---------------------------------------------------------------- on a barrier of one's own CTA

DEVICE void init(unsigned barrier, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

DEVICE void inval(unsigned barrier) { asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier) : "memory"); }

DEVICE void expect_tx(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

DEVICE void complete_tx(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

DEVICE Token arrive(unsigned barrier) {
  Token token;
  asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(token) : "r"(barrier) : "memory");
  return token;
}

DEVICE Token arrive(unsigned barrier, unsigned count) {
  Token token;
  asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1], %2;" : "=l"(token) : "r"(barrier), "r"(count) : "memory");
  return token;
}

DEVICE Token arrive_expect_tx(unsigned barrier, unsigned bytes) {
  Token token;
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 %0, [%1], %2;"
               : "=l"(token) : "r"(barrier), "r"(bytes) : "memory");
  return token;
}

DEVICE Token arrive_no_complete(unsigned barrier, unsigned count) {
  Token token;
  asm volatile("mbarrier.arrive.noComplete.shared::cta.b64 %0, [%1], %2;"
               : "=l"(token) : "r"(barrier), "r"(count) : "memory");
  return token;
}

DEVICE Token arrive_drop(unsigned barrier) {
  Token token;
  asm volatile("mbarrier.arrive_drop.shared::cta.b64 %0, [%1];" : "=l"(token) : "r"(barrier) : "memory");
  return token;
}

DEVICE Token arrive_drop(unsigned barrier, unsigned count) {
  Token token;
  asm volatile("mbarrier.arrive_drop.shared::cta.b64 %0, [%1], %2;"
               : "=l"(token) : "r"(barrier), "r"(count) : "memory");
  return token;
}

DEVICE Token arrive_drop_expect_tx(unsigned barrier, unsigned bytes) {
  Token token;
  asm volatile("mbarrier.arrive_drop.expect_tx.shared::cta.b64 %0, [%1], %2;"
               : "=l"(token) : "r"(barrier), "r"(bytes) : "memory");
  return token;
}

DEVICE unsigned pending_count(Token token) {
  unsigned count;
  asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(count) : "l"(token));
  return count;
}

DEVICE unsigned test_parity(unsigned barrier, unsigned parity) {
  unsigned passes;
  asm volatile("{\n .reg .pred p;\n mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}"
               : "=r"(passes) : "r"(barrier), "r"(parity) : "memory");
  return passes;
}

// It may suspend the thread, for 20 nanoseconds or so.
DEVICE unsigned try_parity(unsigned barrier, unsigned parity) {
  unsigned passes;
  asm volatile(
      "{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2, 20;\n selp.u32 %0, 1, 0, p;\n}"
      : "=r"(passes) : "r"(barrier), "r"(parity) : "memory");
  return passes;
}

DEVICE unsigned test_token(unsigned barrier, Token token) {
  unsigned passes;
  asm volatile("{\n .reg .pred p;\n mbarrier.test_wait.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}"
               : "=r"(passes) : "r"(barrier), "l"(token) : "memory");
  return passes;
}

DEVICE unsigned try_token(unsigned barrier, Token token) {
  unsigned passes;
  asm volatile("{\n .reg .pred p;\n mbarrier.try_wait.shared::cta.b64 p, [%1], %2, 20;\n selp.u32 %0, 1, 0, p;\n}"
               : "=r"(passes) : "r"(barrier), "l"(token) : "memory");
  return passes;
}

// The arrival follows by itself, once all earlier cp.async of the thread are done: here there are none.
DEVICE void cp_async_arrive(unsigned barrier) {
  asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

DEVICE void cp_async_arrive_noinc(unsigned barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// ---------------------------------------------------------------- on a barrier of any CTA of the cluster

DEVICE unsigned rank_in_cluster() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

DEVICE void cluster_sync() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;\n barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The address of the same object in the CTA of this rank.
DEVICE unsigned map(unsigned address, unsigned rank) {
  unsigned result;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(result) : "r"(address), "r"(rank));
  return result;
}

DEVICE int load_remote(unsigned address) {
  int value;
  asm volatile("ld.volatile.shared::cluster.s32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}

DEVICE void remote_expect_tx(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

DEVICE void remote_complete_tx(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

DEVICE void remote_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

DEVICE void remote_arrive(unsigned barrier, unsigned count) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(barrier), "r"(count)
               : "memory");
}

DEVICE void remote_arrive_expect_tx(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

DEVICE void remote_arrive_drop(unsigned barrier) {
  asm volatile("mbarrier.arrive_drop.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

DEVICE void remote_arrive_drop(unsigned barrier, unsigned count) {
  asm volatile("mbarrier.arrive_drop.release.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(barrier), "r"(count)
               : "memory");
}

DEVICE void remote_arrive_drop_expect_tx(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive_drop.expect_tx.release.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(barrier),
               "r"(bytes)
               : "memory");
}

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
    case DO_TRY_WAIT_PARITY: return try_parity(barrier, one.operand);
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
