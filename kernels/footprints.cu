// What an instruction touches in shared memory, byte by byte.
//
// The instructions come from checker/evidence/hardware/footprints/forms.py, which puts the macros FORMS and WGMMA before
// this text: a case of a switch for each form. Which bytes a form touches is told from outside, by what is different
// after it where memory was different before it.

#include "ptx.cuh"

constexpr unsigned WINDOW = 1 << 16;    // bytes of shared memory that are watched
constexpr unsigned LOT = 1 << 16;       // more bytes than a case copies
constexpr unsigned REGION = 1 << 15;    // bytes of global memory that a case writes
constexpr unsigned LONG = 100'000;      // nanoseconds after which a copy has ended

enum Completion { AT_ONCE, SIGNALS, BULK_GROUP, CP_ASYNC_GROUP };

struct Case {
  long long form, completion, lanes, offset, target, there;  // lanes: a mask; offset, target: of CTA 0 and the other one
  long long coordinate[5], value[3], copied;                 // copied: bytes of the form's result that are registers
  unsigned char apart[32 * 4];                               // by lane, the distance from offset, and target, as words
};

// What a byte of shared memory is before the form: 0 and 1 all bits the same, 2 and 3 a byte of its own address.
__device__ unsigned char before(int pattern, unsigned at) {
  switch (pattern) {
    case 0: return 0;
    case 1: return 0xff;
    case 2: return at & 0xff;
    default: return at >> 8;
  }
}

__device__ void execute(const Case& one, const void* there, unsigned at, unsigned far, unsigned barrier,
                        unsigned far_barrier, unsigned (&result)[4]) {
  const int c0 = one.coordinate[0], c1 = one.coordinate[1], c2 = one.coordinate[2], c3 = one.coordinate[3],
            c4 = one.coordinate[4], v0 = one.value[0], v1 = one.value[1], v2 = one.value[2];
  switch (one.form) {
    FORMS
  }
}

// Each cluster of CTAS has a case. At the end its memory is in `shared`, and what it wrote elsewhere in `results`.
extern "C" __global__ void touch(const Case* cases, int ctas, int own, int others, unsigned char* shared,
                                 unsigned char* results, unsigned* signalled) {
  extern __shared__ unsigned char dynamic[];
  __shared__ unsigned long long barriers[1];
  const unsigned start = (ptx::address(dynamic) + 1023) / 1024 * 1024, barrier = ptx::address(barriers);
  unsigned char* window = dynamic + (start - ptx::address(dynamic));
  const unsigned number = blockIdx.x / ctas, rank = blockIdx.x % ctas, lane = threadIdx.x % 32;
  const Case& one = cases[number];
  for (unsigned k = threadIdx.x; k < WINDOW; k += blockDim.x) window[k] = before(rank ? others : own, k);
  if (threadIdx.x == 0) {
    ptx::init(barrier, 1);
    ptx::fence_init();
    if (one.completion == SIGNALS) ptx::arrive_expect_tx(barrier, LOT);
  }
  ptx::fence_proxy_async();
  ctas > 1 ? ptx::cluster_sync() : __syncthreads();
  if (rank == 0 && threadIdx.x < 32 && one.lanes >> lane & 1) {
    const unsigned apart = reinterpret_cast<const unsigned*>(one.apart)[lane];
    const unsigned far = ctas > 1 ? ptx::map(start + one.target + apart, 1) : 0;
    unsigned result[4] = {};
    execute(one, reinterpret_cast<const void*>(one.there), start + one.offset + apart, far, barrier,
            ctas > 1 ? ptx::map(barrier, 1) : 0, result);
    if (one.completion == BULK_GROUP) {
      ptx::bulk_commit();
      ptx::bulk_wait<0>();
    }
    if (one.completion == CP_ASYNC_GROUP) {
      ptx::cp_commit();
      ptx::cp_wait_all();
    }
    if (one.copied) {
      for (int k = 0; k < 4; ++k) reinterpret_cast<unsigned*>(results + number * REGION)[lane * 4 + k] = result[k];
    }
  }
  if (one.completion == SIGNALS) ptx::rest(LONG);
  ctas > 1 ? ptx::cluster_sync() : __syncthreads();
  if (threadIdx.x == 0 && one.completion == SIGNALS) {  // what the copy has left of the phase
    unsigned left = 0;
    while (!ptx::test_parity(barrier, 0) && left < LOT) {
      ptx::complete_tx(barrier, 4);
      left += 4;
    }
    signalled[blockIdx.x] = LOT - left;
  }
  for (unsigned k = threadIdx.x; k < WINDOW; k += blockDim.x) shared[size_t(blockIdx.x) * WINDOW + k] = window[k];
  if (threadIdx.x == 0 && blockIdx.x == 0) signalled[gridDim.x] = start;
}

constexpr unsigned PIECES = 4096;  // places of an operand that are tried
constexpr unsigned ONES = 1024;    // bytes behind them that only hold ones, for the other operand

struct Multiplication {
  unsigned long long form, a, b, unit, ones, tested, pattern;  // a, b: descriptors without the address of the window
};

// Which pieces of shared memory wgmma reads: with zeros everywhere and ones in one piece, the product is not zero. The
// other operand is ones, read by a descriptor whose strides are zero. blockIdx.y is the case.
extern "C" __global__ void __launch_bounds__(128) multiply(const Multiplication* cases, unsigned char* read,
                                                                   unsigned* window_starts) {
  extern __shared__ unsigned char dynamic[];
  const unsigned start = (ptx::address(dynamic) + 1023) / 1024 * 1024;
  unsigned char* window = dynamic + (start - ptx::address(dynamic));
  const Multiplication& one = cases[blockIdx.y];
  const unsigned unit = one.unit, each = PIECES / gridDim.x, ones = one.ones, pattern = one.pattern;
  for (unsigned k = threadIdx.x; k < WINDOW; k += blockDim.x) window[k] = 0;
  for (unsigned k = threadIdx.x; k < ONES; k += blockDim.x) window[WINDOW + k] = ones >> k % 4 * 8;
  if (threadIdx.x == 0) *window_starts = start;
  const unsigned long long at = start >> 4, filled = start + WINDOW >> 4;
  const unsigned long long a = one.a + (one.tested == 0 ? at : filled), b = one.b + (one.tested == 1 ? at : filled);
  for (unsigned piece = blockIdx.x * each; piece < (blockIdx.x + 1) * each; ++piece) {
    const unsigned place = piece * unit + threadIdx.x;
    if (threadIdx.x < unit) window[place] = pattern >> place % 4 * 8;
    ptx::fence_proxy_async();
    __syncthreads();
    unsigned any = 0;
    switch (one.form) {
      WGMMA
    }
    const bool touched = __syncthreads_or(any != 0);
    if (threadIdx.x < unit) window[place] = 0;
    if (threadIdx.x == 0) read[blockIdx.y * PIECES + piece] = touched;
  }
}
