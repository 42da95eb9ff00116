// Executes a pipeline of the specification on the GPU: real mbarriers, bulk copies, named barriers and clusters, with
// the arithmetic left out, as in the specification itself.
//
// Each role is a list of instructions, one after the other as its program gives them for one trip count, and has warps
// of its own. Every cluster of the grid executes the whole pipeline once. Buffers hold 32-bit words: all words of a
// write are its number, so that a read says whose write it has seen. A wgmma is stood in for by ordinary reads when it
// is issued and again when its group is waited for, or at the end of the role if it never is.
//
// Every wait gives up when `limit` nanoseconds have passed or another has given up. One more warp per CTA watches the
// time: bar.sync cannot give up, so that it makes the missing arrivals itself after the deadline.
//
// With RECORD, each warp writes an event per instruction: the clock before and after it, whether a wait had to wait,
// and the words that a read has seen. Without, the events and the clocks are not compiled.

#include "ptx.cuh"

using ptx::rest;
using ptx::timer;

enum Code : int {
  WAIT,           // a: barrier, b: parity
  ARRIVE,         // a: barrier, b: arrivals, c: bytes to expect first or -1, d: CTA or -1
  DROP,           // the same
  NO_COMPLETE,    // the same
  TRANSACTION,    // a: barrier, b: bytes (negative: complete_tx), d: CTA or -1
  LOAD,           // a: offset, b: bytes, c: barrier, d: its number, e: multicast mask or 0, f: CTA
  READ,           // a: offset, b: bytes
  WRITE,          // a: offset, b: bytes, d: its number
  STORE,          // a: offset, b: bytes, c: offset in the output
  BULK_COMMIT,    //
  BULK_WAIT,      // a: groups that may be pending
  BULK_WAIT_READ, // a: groups that may be pending
  FENCE_PROXY,    //
  FENCE_INIT,     //
  NAMED_SYNC,     // a: barrier, b: threads
  NAMED_ARRIVE,   // a: barrier, b: threads
  CTA_SYNC,       // a: barrier that stands for it, b: threads
  CLUSTER_ARRIVE, // a: release
  CLUSTER_WAIT,   //
  INIT,           // a: barrier, b: count
  INVAL,          // a: barrier
  WAIT_TOKEN,     // a: barrier
  MEET,           // a: who meets, b: warps
  NOTHING,        // an instruction that is left out on the GPU; any other code traps
};

struct Instruction {
  int code, a, b, c, d, e;
  int gate;  // the step of a directed run that this is, or -1: it waits for its turn for `patience` nanoseconds
  int hold;  // nanoseconds to wait before it
  int late;  // sums of all shared memory that the copy engine has to do first, so that this copy is late
};

struct Role {
  int begin, end;        // its instructions
  int warp, warps;       // its warps
  int threads;
  int cta;
};

struct Event {
  unsigned long long before, after;
  unsigned instruction, waited;
  unsigned low, high;
};

constexpr unsigned GLANCE = 32;  // looks at the step between two looks at the time
constexpr int NAMED = 17;  // 16 named barriers, and what stands for __syncthreads

__device__ __forceinline__ unsigned long long now() {
#ifdef CLUSTER
  return timer();
#else
  unsigned long long t;
  asm volatile("mov.u64 %0, %%clock64;" : "=l"(t)::"memory");
  return t;
#endif
}

__device__ __forceinline__ unsigned hash(unsigned x) {
  x ^= x >> 16; x *= 0x7feb352du; x ^= x >> 15; x *= 0x846ca68bu;
  return x ^ x >> 16;
}

// What all warps of a CTA share beside the pipeline's own shared memory.
struct Shared {
  int ended;                // warps
  int arrived[NAMED];       // warps at a named barrier, modulo its count
  int threads[NAMED];       // its count
  int passed[32];           // warps of a role that have taken their gate
  int met[64];              // warps that have come to a meeting of a role's parts
  int step;                 // the next step of a directed run; of a cluster it is in global memory
  int wanted, given;        // sums before late copies
};

// The turn is over once all warps of the role have taken it. Of a barrier of threads that is when they come to it.
__device__ __forceinline__ void pass_on(Shared& shared, volatile int* step, int gate, int who, int warps) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) {
#ifdef CLUSTER
    __threadfence();
#else
    __threadfence_block();
#endif
    if (atomicAdd(&shared.passed[who], 1) % warps == warps - 1) atomicMax(const_cast<int*>(step), gate + 1);
  }
}

struct Run {
  const Instruction* instructions;
  unsigned* positions;         // by cluster, CTA and warp
  Event* events;               // the same, and then by instruction of the role
  volatile int* abort;         // by cluster
  volatile int* step;          // the next step of a directed run
  const unsigned* sources;     // by number, `stride` words each
  unsigned* output;            // by cluster
  unsigned long long deadline;
  unsigned stride, output_words, jitter, seed;
  int longest;                 // instructions of a role
};

__device__ __forceinline__ bool over(const Run& run, int cluster) {
  if (run.abort[cluster]) return true;
  if (timer() < run.deadline) return false;
  run.abort[cluster] = 1;
  return true;
}

// `count` arrivals: by one lane of each warp if that is how many there are, or else by the first threads, one each; if
// there are fewer threads, each arrives with a count.
__device__ unsigned long long arrive(int code, unsigned barrier, int count, int expect, bool elsewhere, int threads,
                                     int thread) {
  unsigned long long token = 0;
  const int warps = (threads + 31) / 32;
  int each = count > threads ? count / threads : 1;
  if (thread >= threads) return token;
  if (count == warps ? thread % 32 != 0 : thread >= count) return token;
  if (thread == 0 && count > threads) each += count % threads;
  if (expect >= 0) {
    if (elsewhere) {  // without .release.cluster, as CUTLASS has it
      asm volatile("mbarrier.arrive.expect_tx.shared::cluster.b64 _, [%0], %1;" ::"r"(barrier), "r"(expect) : "memory");
    } else if (code == DROP) {
      token = ptx::arrive_drop_expect_tx(barrier, expect);
    } else {
      token = ptx::arrive_expect_tx(barrier, expect);
    }
  } else if (elsewhere) {
    ptx::remote_arrive(barrier, each);
  } else if (code == DROP) {
    token = ptx::arrive_drop(barrier, each);
  } else if (code == NO_COMPLETE) {
    token = ptx::arrive_no_complete(barrier, each);
  } else {
    token = ptx::arrive(barrier, each);
  }
  return token;
}

extern "C" __global__ void executor(const Instruction* instructions, const Role* roles, int count, const int* barriers,
                                    int barrier_count, unsigned* positions, Event* events, int* abort, int* step,
                                    const unsigned* sources, unsigned* ballast, unsigned* output,
                                    unsigned stride, unsigned output_words,
                                    unsigned limit, unsigned patience, unsigned jitter, unsigned seed,
                                    int longest, int warps) {
  extern __shared__ __align__(1024) unsigned char memory[];
  __shared__ Shared shared;
  const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(memory));
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
#ifdef CLUSTER
  const int cta = blockIdx.x % CLUSTER, cluster = blockIdx.x / CLUSTER;
#else
  const int cta = 0, cluster = blockIdx.x;
#endif
  const int own_warps = blockDim.x / 32 - 1;  // all but the one that watches
  unsigned bytes;
  asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
  for (unsigned k = threadIdx.x; k < bytes / 4; k += blockDim.x) reinterpret_cast<unsigned*>(memory)[k] = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    shared.ended = shared.step = shared.wanted = shared.given = 0;
    for (int i = 0; i < NAMED; ++i) shared.arrived[i] = shared.threads[i] = 0;
    for (int i = 0; i < 32; ++i) shared.passed[i] = 0;
    for (int i = 0; i < 64; ++i) shared.met[i] = 0;
    for (int i = 0; i < barrier_count; ++i) {
      if (barriers[3 * i] == cta) {
        ptx::init(base + barriers[3 * i + 1], barriers[3 * i + 2]);
      }
    }
    ptx::fence_init();
  }
  __syncthreads();
#ifdef CLUSTER
  asm volatile("barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
#endif
#ifdef CLUSTER
  volatile int* turn = step + cluster;
#else
  volatile int* turn = &shared.step;
#endif
  Run run{instructions, positions, events, abort, turn, sources, output, timer() + limit, stride, output_words, jitter,
          seed, longest};

  if (warp == own_warps) {  // the watch; it starts the sums, as wait_group counts the groups of all threads of a warp
    while (__shfl_sync(0xffffffffu, lane == 0 ? atomicAdd(&shared.ended, 0) : 0, 0) < own_warps) {
      if (!__any_sync(0xffffffffu, over(run, cluster))) {
        if (const int missing = lane == 0 ? atomicAdd(&shared.wanted, 0) - shared.given : 0) {
          for (int k = 0; k < missing; ++k) ptx::add(ballast, base, bytes & ~15u);
          ptx::bulk_commit();
          atomicAdd(&shared.given, missing);
        }
        __syncwarp();
        __nanosleep(500);
        continue;
      }
      rest(200000);  // so that all others have seen it
      for (int id = 0; id < NAMED - 1; ++id) {
        const int here = __shfl_sync(0xffffffffu, lane == 0 ? atomicAdd(&shared.arrived[id], 0) : 0, 0);
        const int full = __shfl_sync(0xffffffffu, lane == 0 ? atomicAdd(&shared.threads[id], 0) / 32 : 0, 0);
        if (full && here % full) {
          for (int missing = full - here % full; missing > 0; --missing) {
            if (lane == 0) atomicAdd(&shared.arrived[id], 1);
            __syncwarp();
            ptx::named_arrive(id, full * 32);
          }
        }
      }
    }
    if (lane == 0) ptx::bulk_wait_read<0>();
    __syncwarp();
#ifdef CLUSTER
    asm volatile("barrier.cluster.arrive;\n barrier.cluster.wait;" ::: "memory");
#else
    if (lane == 0) step[cluster] = *run.step;
#endif
    return;
  }

  int who = -1;
  for (int i = 0; i < count; ++i) {
    if (roles[i].cta == cta && warp >= roles[i].warp && warp < roles[i].warp + roles[i].warps) who = i;
  }
#ifdef CLUSTER
  const size_t place = (static_cast<size_t>(cluster) * CLUSTER + cta) * warps + warp;
#else
  const size_t place = static_cast<size_t>(cluster) * warps + warp;
#endif
  if (who >= 0) {
    const Role role = roles[who];
    const int thread = threadIdx.x - role.warp * 32;
    const bool active = thread < role.threads;
    unsigned long long token = 0;
    int at = role.begin;
    for (; at < role.end; ++at) {
      const Instruction i = instructions[at];
      if (run.jitter) {
        const unsigned random = hash(run.seed ^ hash(cluster * 131071u + at * 8191u + warp));
        if (random % 4 == 0) __nanosleep(random / 4 % run.jitter);
      }
      if (i.gate >= 0) {
        const unsigned long long start = timer();
        bool stop = false;
        for (unsigned look = 1; !stop && *run.step < i.gate; ++look) {
          if (look % GLANCE) continue;
          if (timer() - start >= patience) break;
          stop = over(run, cluster);
        }
        if (__any_sync(0xffffffffu, stop)) break;
      }
      const bool enters = i.gate >= 0 && (i.code == NAMED_SYNC || i.code == CTA_SYNC);
      if (enters) pass_on(shared, run.step, i.gate, who, role.warps);
      if (i.hold) rest(i.hold);
      if (i.late && thread == 0) {
        const int wanted = atomicAdd(&shared.wanted, i.late) + i.late;
        while (atomicAdd(&shared.given, 0) < wanted && !over(run, cluster)) {
        }
      }
      [[maybe_unused]] unsigned waited = 0, low = 0xffffffffu, high = 0;
#ifdef RECORD
      const unsigned long long before = now();
#endif
      bool gone = false;
      switch (i.code) {
        case WAIT:
        case WAIT_TOKEN:
          if (active) {
            while (!(i.code == WAIT ? ptx::try_parity<1000>(base + i.a, i.b) : ptx::test_token(base + i.a, token))) {
              waited = 1;
              if (over(run, cluster)) {
                gone = true;
                break;
              }
            }
          }
          break;
        case ARRIVE:
        case DROP:
        case NO_COMPLETE:
          if (active) {
            const unsigned barrier = i.d < 0 ? base + i.a : ptx::map(base + i.a, i.d);
            const unsigned long long got = arrive(i.code, barrier, i.b, i.c, i.d >= 0, role.threads, thread);
            if (i.d < 0) token = got;
            if (got == ~0ull) gone = true;  // it never is: the clock below is read once the arrival is over
          }
          break;
        case TRANSACTION:
          if (thread == 0) {
            if (i.d < 0) {
              if (i.b >= 0) ptx::expect_tx(base + i.a, i.b);
              else ptx::complete_tx(base + i.a, -i.b);
            } else {
              const unsigned barrier = ptx::map(base + i.a, i.d);
              if (i.b >= 0) ptx::remote_expect_tx(barrier, i.b);
              else ptx::remote_complete_tx(barrier, -i.b);
            }
          }
          break;
        case LOAD:
          if (thread == 0) {
            const unsigned* source = run.sources + static_cast<size_t>(i.d) * run.stride;
            if (i.e) ptx::load(base + i.a, source, i.b, base + i.c, static_cast<unsigned short>(i.e));
            else ptx::load(base + i.a, source, i.b, base + i.c);
          }
          break;
        case READ:
          if (active) {
            const int words = i.b / 4, sampled = words < 64 * role.threads ? words : 64 * role.threads;
            for (int k = thread; k < sampled; k += role.threads) {
              const unsigned index = static_cast<unsigned>(static_cast<unsigned long long>(k) * words / sampled);
              const unsigned word = *reinterpret_cast<volatile unsigned*>(memory + i.a + 4 * index);
              low = word < low ? word : low;
              high = word > high ? word : high;
            }
          }
          low = __reduce_min_sync(0xffffffffu, low);
          high = __reduce_max_sync(0xffffffffu, high);
          break;
        case WRITE:
          if (active) {
            for (int k = thread; k < i.b / 4; k += role.threads) {
              *reinterpret_cast<volatile unsigned*>(memory + i.a + 4 * k) = i.d;
            }
          }
          break;
        case STORE:
          if (thread == 0) {
            unsigned* target = run.output + static_cast<size_t>(cluster) * run.output_words + i.c / 4;
            ptx::store(target, base + i.a, i.b);
          }
          break;
        case BULK_COMMIT:
          if (thread == 0) ptx::bulk_commit();
          break;
        case BULK_WAIT:
        case BULK_WAIT_READ:
          if (thread == 0) {
            switch (i.a) {  // the count is an immediate
#define GROUPS(n) \
  case n: \
    if (i.code == BULK_WAIT) ptx::bulk_wait<n>(); \
    else ptx::bulk_wait_read<n>(); \
    break;
              GROUPS(0) GROUPS(1) GROUPS(2) GROUPS(3) GROUPS(4) GROUPS(5) GROUPS(6) GROUPS(7)
              default: __trap();
            }
          }
          __syncwarp();
          break;
        case FENCE_PROXY:
          ptx::fence_proxy_async();
          break;
        case FENCE_INIT:
          ptx::fence_init();
          break;
        case NAMED_SYNC:
        case NAMED_ARRIVE:
        case CTA_SYNC: {
          const int id = i.code == CTA_SYNC ? 15 : i.a;
          __syncwarp();
          if (lane == 0) {
            atomicExch(&shared.threads[id], i.b);
            atomicAdd(&shared.arrived[id], 1);
          }
          __syncwarp();
          if (i.code == NAMED_ARRIVE) {
            ptx::named_arrive(id, i.b);
          } else {
            ptx::named_sync(id, i.b);
          }
          gone = run.abort[cluster];
          break;
        }
        case CLUSTER_ARRIVE:
          if (i.a) asm volatile("barrier.cluster.arrive;" ::: "memory");
          else asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
          break;
        case CLUSTER_WAIT:
          asm volatile("barrier.cluster.wait;" ::: "memory");
          break;
        case INIT:
          if (thread == 0) ptx::init(base + i.a, i.b);
          break;
        case INVAL:
          if (thread == 0) ptx::inval(base + i.a);
          break;
        case MEET:
          __syncwarp();
          if (lane == 0) {
            const int target = (atomicAdd(&shared.met[i.a], 1) / i.b + 1) * i.b;
            while (atomicAdd(&shared.met[i.a], 0) < target) {
              if (over(run, cluster)) {
                gone = true;
                break;
              }
            }
            __threadfence_block();
          }
          __syncwarp();
          break;
        case NOTHING:
          break;
        default:
          __trap();
      }
      gone = __any_sync(0xffffffffu, gone);
      if (gone) break;
#ifdef RECORD
      const unsigned long long after = now();
      waited = __any_sync(0xffffffffu, waited);
      if (lane == 0) {
        events[place * run.longest + (at - role.begin)] =
            Event{before, after, static_cast<unsigned>(at), waited, low, high};
      }
#endif
      if (i.gate >= 0 && !enters) pass_on(shared, run.step, i.gate, who, role.warps);
    }
    if (lane == 0) positions[place] = at - role.begin;
  }
  __syncwarp();
  if (lane == 0) atomicAdd(&shared.ended, 1);
#ifdef CLUSTER
  __syncwarp();
  asm volatile("barrier.cluster.arrive;\n barrier.cluster.wait;" ::: "memory");
#endif
}
