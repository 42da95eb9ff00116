// Executes a pipeline of the specification on the GPU: real mbarriers, bulk copies, named barriers and clusters, with
// the arithmetic left out, as in the specification itself.
//
// Each role is a list of instructions as its program gives them for one trip count, with branches where that depends on
// an answer, and has warps of its own. CTAS CTAs of the grid, in clusters of CLUSTER, execute the whole pipeline once,
// or with a dependent grid, which is launched behind this one, the part of it that is theirs. Buffers hold 32-bit words:
// all words of a write are its number, so that a read says whose write it has seen. A wgmma is stood in for by ordinary
// reads when it is issued and again when its group is waited for, or at the end of the role if it never is.
//
// Every wait gives up when `limit` nanoseconds have passed or another has given up. One more warp per CTA watches the
// time: bar.sync cannot give up, so that it makes the missing arrivals itself after the deadline. barrier.cluster counts
// all threads of the cluster: with MEETS, those that have no role, or have done theirs, take part in each of its
// generations until all roles have ended.
//
// With RECORD, each warp writes an event per instruction: the clock before and after it, whether a wait had to wait,
// and the words that a read has seen. Without, the events and the clocks are not compiled.

#include "ptx.cuh"
#ifdef WORDS
#include "words.cuh"
#endif

#ifndef CLUSTER
#define CLUSTER 1
#endif
#ifndef CTAS
#define CTAS CLUSTER
#endif
#ifndef GRIDS
#define GRIDS 1
#endif
#define ALONE (CTAS == 1 && GRIDS == 1)
#ifdef MEETS
#define HELPERS 2
#else
#define HELPERS 1
#endif

using ptx::rest;
using ptx::timer;

enum Code : int {
  WAIT,           // a: barrier, b: parity, c: ptx::Order
  ARRIVE,         // a: barrier, b: arrivals, c: bytes to expect first or -1, d: CTA or -1, 
                  // e: mask of several CTAs or 0, from bit 16 on ptx::Order
  DROP,           // the same
  NO_COMPLETE,    // the same
  TRANSACTION,    // a: barrier, b: bytes (negative: complete_tx), d: CTA or -1
  LOAD,           // a: offset, b: bytes, c: barrier, d: its number, e: multicast mask or 0
  READ,           // a: offset, b: bytes, e: place
  WRITE,          // a: offset, b: bytes, d: its number, e: place
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
  WORD,           // a: offset, b: place, c: words::Form, d: operand, e: values modulo which it counts, or of cas compare
  FENCE,          // a: fence.sc, b: scope
  LOAD_GLOBAL,    // a: offset, b: bytes, c: barrier, d: offset of the source, e: multicast mask or 0
  LOAD_SHARED,    // a: offset, b: bytes, c: barrier, d: offset of the source, e: CTA
  STORE_TO,       // a: offset, b: bytes, c: offset in global memory
  REDUCE_TO,      // the same
  RED,            // a: offset, b: bytes, d: its number, e: place
  CP_ASYNC,       // a: offset, b: bytes, c: bytes of each cp.async, d: offset of the source, or its number if e
  CP_COMMIT,      //
  CP_WAIT,        // a: groups that may be pending, -1 for wait_all
  CP_ARRIVE,      // a: barrier, b: threads, c: .noinc
  STORE_ASYNC,    // a: offset, b: bytes, c: barrier, d: its number, e: place and from bit 16 on whether it adds
  TRY_WAIT,       // a: barrier, b: parity, -1 for the token, c: test_wait
  FIND,           // as READ
  CHOOSE,         // a: which
  LAUNCH_DEPENDENTS,
  GRID_WAIT,
  BRANCH,         // a: the answer with which it is taken, b: where to, c: the answer is shared by the role's warps
  JUMP,           // b: where to
};

// Places: one's own shared memory, global memory, that of the CTA of a rank, from PEERS on.
enum Place : int { OWN, GLOBAL, PEERS };

struct Instruction {
  int code, a, b, c, d, e;
  int gate;  // the step of a directed run that this is, or -1: it waits for its turn for `patience` nanoseconds
  int hold;  // nanoseconds to wait before it
  int late;  // sums of all shared memory that the copy engine has to do first, so that this copy is late
};

struct Role {
  int begin, end;        // its instructions; a branch counts from the first
  int warp, warps;       // its warps
  int threads;
  int cta;
};

struct Event {
  unsigned long long before, after;
  unsigned instruction, waited;
  unsigned low, high;
};

// How many events a warp has come to, and at which instruction it was in the end.
struct Position {
  unsigned events, instruction;
};

constexpr unsigned QUEUED = 300000;  // nanoseconds after which the second grid is surely waiting for the first
constexpr unsigned GLANCE = 32;  // looks at the step between two looks at the time
constexpr int NAMED = 17;  // 16 named barriers, and what stands for __syncthreads

__device__ __forceinline__ unsigned long long now() {
#if !ALONE
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
  unsigned answers[32];     // what a role was told last
  int generation;           // of barrier.cluster, that are complete
  int step;                 // the next step of a directed run; of several CTAs it is in global memory
  int wanted, given;        // sums before late copies
};

// The turn is over once all warps of the role have taken it. Of a barrier of threads that is when they come to it.
__device__ __forceinline__ void pass_on(Shared& shared, volatile int* step, int gate, int who, int warps) {
  __syncwarp();
  if (threadIdx.x % 32 == 0) {
#if !ALONE
    __threadfence();
#else
    __threadfence_block();
#endif
    if (atomicAdd(&shared.passed[who], 1) % warps == warps - 1) atomicMax(const_cast<int*>(step), gate + 1);
  }
}

struct Run {
  const Instruction* instructions;
  Position* positions;         // by run, CTA and warp
  Event* events;               // the same, and then in their order
  volatile int* abort;         // by run
  volatile int* step;          // the next step of a directed run
  const unsigned* sources;     // by number, `stride` words each
  unsigned* output;            // by run
  unsigned long long deadline;
  unsigned stride, output_words, jitter, seed;
  int longest;                 // events of a warp
};

__device__ __forceinline__ bool over(const Run& run, int number) {
  if (run.abort[number]) return true;
  if (timer() < run.deadline) return false;
  run.abort[number] = 1;
  return true;
}

// A word of a buffer: at the address in one's own window of shared memory, or in global memory, by its place.
__device__ __forceinline__ unsigned long long address_of(int place, unsigned here, unsigned* global) {
  if (place == OWN) return ptx::generic(here);
  return place == GLOBAL ? reinterpret_cast<unsigned long long>(global) : ptx::generic(here, place - PEERS);
}

template <class Word>
__device__ __forceinline__ Word* place_of(int place, unsigned here, unsigned* global, int index) {
  return reinterpret_cast<Word*>(address_of(place, here, global)) + index;
}

// What a role was told, for its other warps.
__device__ __forceinline__ void tell(Shared& shared, int who, unsigned answer) {
  *const_cast<volatile unsigned*>(&shared.answers[who]) = answer;
}

// `count` arrivals: by one lane of each warp if that is how many there are, or else by the first threads, one each; if
// there are fewer threads, each arrives with a count.
__device__ unsigned long long arrive(int code, unsigned barrier, int count, int expect, int order, bool elsewhere,
                                     int threads, int thread) {
  unsigned long long token = 0;
  const int warps = (threads + 31) / 32;
  int each = count > threads ? count / threads : 1;
  if (thread >= threads) return token;
  if (count == warps ? thread % 32 != 0 : thread >= count) return token;
  if (thread == 0 && count > threads) each += count % threads;
  if (order) {
    if (elsewhere) ptx::remote_arrive(barrier, each, order);
    else ptx::arrive(barrier, each, order);
  } else if (expect >= 0) {
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

// memory: global, by run. starts: CTAs of a run's grid that have started; ends: warps of a cluster that have ended, by
// run and cluster. first: the number of the first run; before: CTAs of the grids before; ctas: of all grids.
extern "C" __global__ void executor(const Instruction* instructions, const Role* roles, int count, const int* barriers,
                                    int barrier_count, const int* words, int word_count, unsigned* all_memory,
                                    const int* choices, int* starts, int* ends, unsigned memory_words,
                                    unsigned count_of_choices, unsigned first, unsigned before, unsigned ctas,
                                    Position* positions, Event* events, int* abort, int* step,
                                    const unsigned* sources, unsigned* ballast, unsigned* output,
                                    unsigned stride, unsigned output_words,
                                    unsigned limit, unsigned patience, unsigned jitter, unsigned seed,
                                    int longest, int warps) {
  extern __shared__ __align__(1024) unsigned char memory[];
  __shared__ Shared shared;
  const unsigned base = static_cast<unsigned>(__cvta_generic_to_shared(memory));
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int cta = before + blockIdx.x % CTAS, number = first + blockIdx.x / CTAS;
  const int own_warps = blockDim.x / 32 - HELPERS;  // all but the one that watches, and that takes part
  unsigned* const global = all_memory + static_cast<size_t>(number) * memory_words;
  unsigned bytes;
  asm volatile("mov.u32 %0, %%dynamic_smem_size;" : "=r"(bytes));
  for (unsigned k = threadIdx.x; k < bytes / 4; k += blockDim.x) reinterpret_cast<unsigned*>(memory)[k] = 0;
  __syncthreads();
  if (threadIdx.x == 0) {
    shared.ended = shared.step = shared.wanted = shared.given = shared.generation = 0;
    for (int i = 0; i < NAMED; ++i) shared.arrived[i] = shared.threads[i] = 0;
    for (int i = 0; i < 32; ++i) shared.passed[i] = 0;
    for (int i = 0; i < 64; ++i) shared.met[i] = 0;
    for (int i = 0; i < barrier_count; ++i) {
      if (barriers[3 * i] == cta) {
        ptx::init(base + barriers[3 * i + 1], barriers[3 * i + 2]);
      }
    }
    for (int i = 0; i < word_count; ++i) {
      if (words[3 * i] == cta) *reinterpret_cast<unsigned*>(memory + words[3 * i + 1]) = words[3 * i + 2];
    }
    ptx::fence_init();
  }
  __syncthreads();
#if CLUSTER > 1
  asm volatile("barrier.cluster.arrive.aligned;\n barrier.cluster.wait.aligned;" ::: "memory");
#endif
#if GRIDS > 1
  if (before == 0) rest(QUEUED);  // or else it could be over before the host has launched the other
#endif
#if !ALONE
  volatile int* turn = step + number;
#else
  volatile int* turn = &shared.step;
#endif
  Run run{instructions, positions, events, abort, turn, sources, output, timer() + limit, stride, output_words, jitter,
          seed, longest};
#if CTAS > CLUSTER
  if (threadIdx.x == 0) {
    int* const started = starts + number * GRIDS + before / CTAS;
    atomicAdd(started, 1);
    while (atomicAdd(started, 0) < CTAS && !over(run, number)) {
    }
  }
  __syncthreads();
#endif
  if (warp == own_warps) {  // the watch; it starts the sums, as wait_group counts the groups of all threads of a warp
#ifdef MEETS
    int generation = 0;
    ptx::cluster_arrive(false);
#endif
    while (__shfl_sync(0xffffffffu, lane == 0 ? atomicAdd(&shared.ended, 0) : 0, 0) < own_warps) {
#ifdef MEETS
      if (__shfl_sync(0xffffffffu, lane == 0 ? atomicAdd(&shared.generation, 0) : 0, 0) > generation) {
        ptx::cluster_wait();
        ptx::cluster_arrive(false);
        ++generation;
      }
#endif
      if (!__any_sync(0xffffffffu, over(run, number))) {
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
#if CLUSTER > 1 && !defined(MEETS)
    asm volatile("barrier.cluster.arrive;\n barrier.cluster.wait;" ::: "memory");
#endif
#if ALONE
    if (lane == 0) step[number] = *run.step;
#endif
    return;
  }
  [[maybe_unused]] bool meeting = false;  // the warp has come to a barrier.cluster and not waited

  int who = -1;
  for (int i = 0; i < count; ++i) {
    if (roles[i].cta == cta && warp >= roles[i].warp && warp < roles[i].warp + roles[i].warps) who = i;
  }
  const size_t place = (static_cast<size_t>(number) * ctas + cta) * warps + warp;
  if (who >= 0) {
    const Role role = roles[who];
    const int thread = threadIdx.x - role.warp * 32;
    const bool active = thread < role.threads;
    unsigned long long token = 0;
    unsigned answer = 0;
    int at = role.begin, done = 0;
    for (; at < role.end; ++at) {
      const Instruction i = instructions[at];
      if (i.code == BRANCH || i.code == JUMP) {
        if (i.code == BRANCH && i.c) answer = *const_cast<volatile unsigned*>(&shared.answers[who]);
        if (i.code == BRANCH && answer != static_cast<unsigned>(i.a)) continue;
        if (role.begin + i.b <= at) {  // it asks again
          if (done >= longest) run.abort[number] = 1;
          if (__any_sync(0xffffffffu, over(run, number))) break;
          __nanosleep(200);
        }
        at = role.begin + i.b - 1;
        continue;
      }
      if (run.jitter) {
        const unsigned random = hash(run.seed ^ hash(number * 131071u + at * 8191u + warp));
        if (random % 4 == 0) __nanosleep(random / 4 % run.jitter);
      }
      if (i.gate >= 0) {
        const unsigned long long start = timer();
        bool stop = false;
        for (unsigned look = 1; !stop && *run.step < i.gate; ++look) {
          if (look % GLANCE) continue;
          if (timer() - start >= patience) break;
          stop = over(run, number);
        }
        if (__any_sync(0xffffffffu, stop)) break;
      }
      const bool enters = i.gate >= 0 && (i.code == NAMED_SYNC || i.code == CTA_SYNC);
      if (enters) pass_on(shared, run.step, i.gate, who, role.warps);
      if (i.hold) rest(i.hold);
      if (i.late && thread == 0) {
        const int wanted = atomicAdd(&shared.wanted, i.late) + i.late;
        while (atomicAdd(&shared.given, 0) < wanted && !over(run, number)) {
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
            while (!(i.code == WAIT_TOKEN ? ptx::test_token(base + i.a, token)
                     : i.c                ? ptx::try_parity(base + i.a, i.b, i.c)
                                          : ptx::try_parity<1000>(base + i.a, i.b))) {
              waited = 1;
              if (over(run, number)) {
                gone = true;
                break;
              }
            }
          }
          break;
        case ARRIVE:
        case DROP:
        case NO_COMPLETE:
          if (i.e & 0xffff) {  // one lane for each CTA
            __syncwarp();
            if (thread < 16 && i.e >> thread & 1) {
              arrive(i.code, ptx::map(base + i.a, thread), i.b, -1, i.e >> 16, true, 1, 0);
            }
          } else if (active) {
            const unsigned barrier = i.d < 0 ? base + i.a : ptx::map(base + i.a, i.d);
            const unsigned long long got = arrive(i.code, barrier, i.b, i.c, i.e >> 16, i.d >= 0, role.threads, thread);
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
              const unsigned word = *place_of<volatile unsigned>(i.e, base + i.a, global + i.a / 4, index);
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
              *place_of<volatile unsigned>(i.e, base + i.a, global + i.a / 4, k) = i.d;
            }
          }
          break;
        case RED:
          if (active) {
            for (int k = thread; k < i.b / 4; k += role.threads) {
              atomicAdd(place_of<unsigned>(i.e, base + i.a, global + i.a / 4, k), i.d);
            }
          }
          break;
        case FIND:
          __syncwarp();
          if (thread == 0) {
            low = high = *place_of<volatile unsigned>(i.e, base + i.a, global + i.a / 4, 0);
            tell(shared, who, low);
          }
          __syncwarp();
          answer = *const_cast<volatile unsigned*>(&shared.answers[who]);
          break;
        case LOAD_GLOBAL:
          if (thread == 0) {
            if (i.e) ptx::load(base + i.a, global + i.d / 4, i.b, base + i.c, static_cast<unsigned short>(i.e));
            else ptx::load(base + i.a, global + i.d / 4, i.b, base + i.c);
          }
          break;
        case LOAD_SHARED:
          if (thread == 0) {
            ptx::copy_to_peer(ptx::map(base + i.a, i.e), base + i.d, i.b, ptx::map(base + i.c, i.e));
          }
          break;
        case STORE_TO:
          if (thread == 0) ptx::store(global + i.c / 4, base + i.a, i.b);
          break;
        case REDUCE_TO:
          if (thread == 0) ptx::add(global + i.c / 4, base + i.a, i.b);
          break;
        case CP_ASYNC:
          if (active) {
            const unsigned* source = i.e ? run.sources + static_cast<size_t>(i.d) * run.stride : global + i.d / 4;
            for (int k = thread * i.c; k < i.b; k += role.threads * i.c) {
              if (i.c == 16) ptx::cp_async<16>(base + i.a + k, source + k / 4);
              else ptx::cp_async<4>(base + i.a + k, source + k / 4);
            }
          }
          break;
        case CP_COMMIT:
          ptx::cp_commit();
          break;
        case CP_WAIT:
          switch (i.a) {
#define CP_GROUPS(n) \
  case n: ptx::cp_wait<n>(); break;
            CP_GROUPS(0) CP_GROUPS(1) CP_GROUPS(2) CP_GROUPS(3) CP_GROUPS(4) CP_GROUPS(5) CP_GROUPS(6) CP_GROUPS(7)
            case -1: ptx::cp_wait_all(); break;
            default: __trap();
          }
          break;
        case CP_ARRIVE:
          if (active && thread < i.b) {
            if (i.c) ptx::cp_async_arrive_noinc(base + i.a);
            else ptx::cp_async_arrive(base + i.a);
          }
          break;
        case STORE_ASYNC:
          if (active) {
            const int rank = (i.e & 0xffff) - PEERS;
            const unsigned to = ptx::map(base + i.a, rank), barrier = ptx::map(base + i.c, rank);
            for (int k = thread; k < i.b / 4; k += role.threads) {
              if (i.e >> 16) ptx::add_async(to + 4 * k, i.d, barrier);
              else ptx::store_async(to + 4 * k, i.d, barrier);
            }
          }
          break;
        case TRY_WAIT:
          __syncwarp();
          if (thread == 0) {
            const bool passes = i.b < 0 ? (i.c ? ptx::test_token(base + i.a, token) : ptx::try_token(base + i.a, token))
                                        : (i.c ? ptx::test_parity(base + i.a, i.b) : ptx::try_parity<20>(base + i.a, i.b));
            tell(shared, who, passes);
            waited = !passes;
          }
          __syncwarp();
          answer = *const_cast<volatile unsigned*>(&shared.answers[who]);
          break;
        case CHOOSE:
          answer = choices[number * count_of_choices + i.a];
          if (thread == 0) tell(shared, who, answer);
          break;
        case LAUNCH_DEPENDENTS:
          ptx::launch_dependents();
          break;
        case GRID_WAIT:
          ptx::grid_wait();
          break;
#ifdef WORDS
        case WORD: {
          const words::Form form(i.c);
          __syncwarp();
          if (thread == 0) {
            const unsigned long long word = address_of(i.b, base + i.a, global + i.a / 4);
            unsigned found = 0;
            switch (form.kind) {
              case words::LD:
                found = words::within(words::load(word, form.sem, form.scope), i.e);
                break;
              case words::SPIN:
                while (!words::compares(form.comparison,
                                        found = words::within(words::load(word, form.sem, form.scope), i.e), i.d)) {
                  waited = 1;
                  if (over(run, number)) {
                    gone = true;
                    break;
                  }
                }
                break;
              case words::ST:
                words::store(word, form.sem, form.scope, i.d);
                break;
              default:
                if (form.answers) {
                  const int compare = form.kind == words::CAS ? i.e : 0, values = form.kind == words::CAS ? 0 : i.e;
                  found = words::within(words::atom(word, form.kind, form.sem, form.scope, i.d, compare), values);
                } else {
                  words::red(word, form.kind, form.sem, form.scope, i.d);
                }
            }
            low = high = found;
            tell(shared, who, found);
          }
          __syncwarp();
          answer = *const_cast<volatile unsigned*>(&shared.answers[who]);
          break;
        }
        case FENCE:
          words::fence(i.a, i.b);
          break;
#else
        case WORD:
        case FENCE:
          __trap();
#endif
        case STORE:
          if (thread == 0) {
            unsigned* target = run.output + static_cast<size_t>(number) * run.output_words + i.c / 4;
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
          gone = run.abort[number];
          break;
        }
        case CLUSTER_ARRIVE:
          ptx::cluster_arrive(i.a);
          meeting = true;
          break;
        case CLUSTER_WAIT:
          ptx::cluster_wait();
          meeting = false;
          gone = run.abort[number];
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
              if (over(run, number)) {
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
      if (lane == 0 && done < run.longest) {
        events[place * run.longest + done] =
            Event{before, after, static_cast<unsigned>(at - role.begin), waited, low, high};
      }
#endif
      ++done;
      if (i.gate >= 0 && !enters) pass_on(shared, run.step, i.gate, who, role.warps);
    }
    if (lane == 0) positions[place] = Position{static_cast<unsigned>(done), static_cast<unsigned>(at - role.begin)};
  }
  __syncwarp();
  if (lane == 0 && warp < own_warps) atomicAdd(&shared.ended, 1);
#ifdef MEETS
  int* const ended = ends + (static_cast<size_t>(number) * ctas + cta) / CLUSTER;
  if (lane == 0 && warp < own_warps) atomicAdd(ended, 1);
  for (;;) {
    if (__shfl_sync(0xffffffffu, lane == 0 ? atomicAdd(ended, 0) : 0, 0) >= own_warps * CLUSTER) return;
    if (!meeting) ptx::cluster_arrive(true);
    meeting = false;
    ptx::cluster_wait();
    if (lane == 0 && warp > own_warps) atomicAdd(&shared.generation, 1);
  }
#elif CLUSTER > 1
  __syncwarp();
  asm volatile("barrier.cluster.arrive;\n barrier.cluster.wait;" ::: "memory");
#endif
}
