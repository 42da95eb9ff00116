// Does one sequence of operations on an mbarrier, well-formed or not, and writes the answer of each.
//
// Behind mbarrier.cuh. A sequence is an array of struct Operation (checker/evidence/hardware/mbarrier/ill_formed.py). The answers
// are written to memory of the host, each some time after its operation, so that the answers that are missing after a
// fault say which operation it belongs to. `interpret` is one CTA, `interpret_pair` a cluster of two. Nothing waits
// unbounded.

constexpr int LONGEST = 64;                 // operations of a sequence
constexpr unsigned long long REST = 20000;  // nanoseconds after each operation
constexpr unsigned COPIED = 8192;           // bytes that bulk copies may fill

DEVICE void store(unsigned address, unsigned long long value) {
  asm volatile("st.volatile.shared::cta.u64 [%0], %1;" ::"r"(address), "l"(value) : "memory");
}

DEVICE unsigned load(unsigned address) {
  unsigned value;
  asm volatile("ld.volatile.shared::cta.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}

// Operations that have no form for the barrier of another CTA, by its generic address nevertheless.
DEVICE unsigned perform_generic(const Operation& one, const void* own, int rank) {
  unsigned long long barrier;
  unsigned answer = 0;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(barrier) : "l"(own), "r"(rank));
  switch (one.verb) {
    case DO_INIT: asm volatile("mbarrier.init.b64 [%0], %1;" ::"l"(barrier), "r"(one.operand) : "memory"); break;
    case DO_INVAL: asm volatile("mbarrier.inval.b64 [%0];" ::"l"(barrier) : "memory"); break;
    case DO_ARRIVE_NOCOMPLETE: {
      Token token;
      asm volatile("mbarrier.arrive.noComplete.b64 %0, [%1], %2;"
                   : "=l"(token) : "l"(barrier), "r"(one.operand) : "memory");
      answer = pending_count(token);
      break;
    }
    case DO_TEST_WAIT_PARITY:
      asm volatile("{\n .reg .pred p;\n mbarrier.test_wait.parity.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}"
                   : "=r"(answer) : "l"(barrier), "r"(one.operand) : "memory");
      break;
    case DO_TRY_WAIT_PARITY:
      asm volatile("{\n .reg .pred p;\n mbarrier.try_wait.parity.b64 p, [%1], %2, 20;\n selp.u32 %0, 1, 0, p;\n}"
                   : "=r"(answer) : "l"(barrier), "r"(one.operand) : "memory");
      break;
    default: break;
  }
  return answer;
}

DEVICE bool has_no_remote_form(int verb) {
  return verb == DO_INIT || verb == DO_INVAL || verb == DO_ARRIVE_NOCOMPLETE || verb == DO_TEST_WAIT_PARITY ||
         verb == DO_TRY_WAIT_PARITY;
}

DEVICE void interpret_in(int rank, const Operation* operations, int count, volatile int* answers,
                         const unsigned char* source) {
  __shared__ __align__(128) unsigned long long object[16];
  __shared__ __align__(128) unsigned char copied[COPIED];
  Token tokens[LONGEST];
  const unsigned own = (unsigned)__cvta_generic_to_shared(object), target = (unsigned)__cvta_generic_to_shared(copied);
  unsigned offset = 0, source_offset = 0, target_offset = 0;
  if (lane() == 0) {
    for (int k = 0; k < 16; ++k) store(own + 8 * k, 0);
  }
  cluster_sync();
  for (int i = 0; i < count && i < LONGEST; ++i) {
    const Operation one = operations[i];
    const int by = one.place == BY_REMOTE || one.place == BY_PEER, at = one.place == BY_PEER || one.place == BY_PEERS;
    const unsigned barrier = own + offset;
    const bool mine = one.place == BY_OTHER ? lane() == 1 : lane() < one.lanes;
    const int leader = one.place == BY_OTHER;
    unsigned answer = 0;
    Token token = 0;
    if (one.verb == DO_EXIT) {
      if (rank) return;
    } else if (rank == by && mine) {
      switch (one.verb) {
        case DO_STORE: store(barrier, one.operand * 0x100000001ull); break;
        case DO_LOAD: answer = load(barrier + 4 * one.operand); break;
        case DO_PENDING_COUNT: answer = pending_count(tokens[one.operand % LONGEST]); break;
        case DO_ALIGN: break;
        case DO_BULK_SOURCE: source_offset = one.operand; break;
        case DO_BULK_TARGET: target_offset = one.operand; break;
        case DO_BULK: ptx::load(target + target_offset, source + source_offset, one.operand, barrier); break;
        default:
          if (rank == at) {
            answer = perform_here(one, barrier, tokens[one.operand % LONGEST], &token);
          } else if (has_no_remote_form(one.verb)) {
            answer = perform_generic(one, object, at);
          } else {
            perform_remote(one, map(barrier, at));
          }
      }
    }
    if (one.verb == DO_ALIGN) offset = one.operand;
    __syncwarp();
    rest(REST);
    tokens[i] = __shfl_sync(0xffffffffu, token, leader);  // another lane may wait with it
    if (rank == (one.verb == DO_EXIT ? 0 : by) && lane() == leader) {
      answers[i] = (int)answer;
      __threadfence_system();
    }
    cluster_sync();
  }
}

extern "C" __global__ void __launch_bounds__(32)
    interpret(const Operation* operations, int count, volatile int* answers, const unsigned char* source) {
  interpret_in(0, operations, count, answers, source);
}

extern "C" __global__ void __launch_bounds__(32) __cluster_dims__(2, 1, 1)
    interpret_pair(const Operation* operations, int count, volatile int* answers, const unsigned char* source) {
  interpret_in((int)rank_in_cluster(), operations, count, answers, source);
}
