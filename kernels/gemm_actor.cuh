// What the roles of a GEMM do to barriers and copies, operation by operation, watched and recorded (recorder.cuh). A role
// that has given up does nothing any more but meet its warpgroup, so that all threads end.

#pragma once

#include "recorder.cuh"

// Objects as events have them: a kind, and in the low bits the stage. C and D are in parts, by who reads or writes them.
enum Kind : unsigned {
  FULL, EMPTY, EPI_FULL, EPI_EMPTY, LOAD_ORDER, MATH_ORDER, A, B, B1, AB, WHOLE_C, WHOLE_D, PART_C, PART_D = PART_C + 3,
};
__host__ __device__ constexpr unsigned object(unsigned kind, int index) { return kind << 8 | index; }

// Where a directed run can hold a role.
enum Point : unsigned { BEFORE_LOAD_A, BEFORE_LOAD_B, BEFORE_MMA, BEFORE_READ, BEFORE_WRITE, BEFORE_TILE };

using ptx::address;
using ptx::init;

__device__ __forceinline__ unsigned read_shared(unsigned at) {
  unsigned word;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(at) : "memory");
  return word;
}

__device__ __forceinline__ void write_shared(unsigned at, unsigned word) {
  asm volatile("st.shared.u32 [%0], %1;" ::"r"(at), "r"(word) : "memory");
}

// Without waiting, so that what had to wait is known.
__device__ __forceinline__ bool is_over(unsigned barrier, unsigned parity) { return ptx::test_parity(barrier, parity); }

__device__ __forceinline__ bool test(unsigned barrier, unsigned parity) {
  return ptx::try_parity<1000>(barrier, parity);
}

__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive;\n barrier.cluster.wait;" ::: "memory");
}

struct Doer : Actor {
  __device__ __forceinline__ void wait(unsigned what, unsigned barrier, unsigned parity) {
    RECORD_BEFORE(*this);
    if (!gone && !is_over(barrier, parity)) {
      RECORD_WAITED(*this);
      while (!gone && !test(barrier, parity)) {
        if (expired()) give_up(did::WAIT, what, parity);
      }
    }
#ifndef UNWATCHED
    gone = __any_sync(lanes, gone);
#endif
    RECORD_AFTER(*this, did::WAIT, what, parity);
  }

#ifdef CLUSTER
  // At another CTA's barrier that lies where this CTA's does, or nowhere for a target of -1.
  __device__ __forceinline__ void arrive_at(unsigned what, unsigned barrier, int target) {
    RECORD_BEFORE(*this);
    if (!gone && target >= 0) ptx::remote_arrive(ptx::map(barrier, target));
    RECORD_ARRIVAL(*this, did::ARRIVE, what, ~0u, target >= 0, target);
  }
#endif

  // By every lane.
  __device__ __forceinline__ void arrive(unsigned what, unsigned barrier) {
    RECORD_BEFORE(*this);
    [[maybe_unused]] Time token = 0;
    if (!gone) token = ptx::arrive(barrier);
    RECORD_RESULT(*this, token);
    RECORD_ARRIVAL(*this, did::ARRIVE, what, ~0u, true, -1);
  }

  __device__ __forceinline__ void arrive_expect(unsigned what, unsigned barrier, int bytes) {
    RECORD_BEFORE(*this);
    [[maybe_unused]] Time token = 0;
    if (!gone) token = ptx::arrive_expect_tx(barrier, bytes);
    RECORD_RESULT(*this, token);
    RECORD_ARRIVAL(*this, did::ARRIVE_EXPECT, what, bytes, true, -1);
  }

  __device__ __forceinline__ void expect(unsigned what, unsigned barrier, int bytes) {
    RECORD_BEFORE(*this);
    if (!gone) ptx::expect_tx(barrier, bytes);
    RECORD_AFTER(*this, did::EXPECT, what, bytes);
  }

  // signals: the object of the barrier. mask: CTAs of the cluster that get the copy, and whose barriers are signalled,
  // or 0.
  __device__ __forceinline__ void load(unsigned what, unsigned signals, unsigned to, const void* map, int x, int y,
                                       unsigned barrier, int bytes, int mask = 0) {
    RECORD_BEFORE(*this);
    if (!gone && mask) {
      ptx::load_tensor(to, map, x, y, barrier, static_cast<unsigned short>(mask));
    } else if (!gone) {
      ptx::load_tensor(to, map, x, y, barrier);
    }
    RECORD_LOAD(*this, what, signals, bytes, 0, mask);
  }

  __device__ __forceinline__ void fence_proxy() {
    RECORD_BEFORE(*this);
    ptx::fence_proxy_async();
    RECORD_AFTER(*this, did::FENCE_PROXY, 0, 0);
  }

  // Also when given up: the others of the group come here too.
  __device__ __forceinline__ void named_sync(int id, int threads) {
    RECORD_BEFORE(*this);
    asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");  // .aligned
    look(did::NAMED_SYNC, id, threads);
    RECORD_AFTER(*this, did::NAMED_SYNC, id, threads);
  }

  // By the first lane of a warp; the others wait with it for what it waits for.
  __device__ __forceinline__ void store(unsigned what, unsigned from, const void* map, int x, int y, int bytes) {
    RECORD_BEFORE(*this);
    if (tells && !gone) ptx::store_tensor(map, x, y, from);
    RECORD_AFTER(*this, did::STORE, what, bytes);
  }

  __device__ __forceinline__ void bulk_commit() {
    RECORD_BEFORE(*this);
    if (tells) ptx::bulk_commit();
    RECORD_AFTER(*this, did::BULK_COMMIT, 0, 0);
  }

  template <int PENDING>
  __device__ __forceinline__ void bulk_wait_read() {
    RECORD_BEFORE(*this);
    if (tells) ptx::bulk_wait_read<PENDING>();
    __syncwarp();
    RECORD_AFTER(*this, did::BULK_WAIT_READ, 0, PENDING);
  }

  template <int PENDING>
  __device__ __forceinline__ void mma_wait() {
    RECORD_BEFORE(*this);
    asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
    RECORD_AFTER(*this, did::MMA_WAIT, 0, PENDING);
  }

  __device__ __forceinline__ void committed() {
    RECORD_BEFORE(*this);
    RECORD_AFTER(*this, did::MMA_COMMIT, 0, 0);
  }

  // All warps of a group have issued the MMAs that the operation before has waited for.
  __device__ __forceinline__ void met() {
    RECORD_BEFORE(*this);
    RECORD_AFTER(*this, did::WARP_SYNC, 0, 0);
  }

  __device__ __forceinline__ void warp_sync() {
    RECORD_BEFORE(*this);
    __syncwarp();
    RECORD_AFTER(*this, did::WARP_SYNC, 0, 0);
  }

  template <int REGISTERS, bool MORE>
  __device__ __forceinline__ void set_registers() {
    RECORD_BEFORE(*this);
    if (MORE) asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(REGISTERS));
    else asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(REGISTERS));
    RECORD_AFTER(*this, MORE ? did::REGISTERS_INC : did::REGISTERS_DEC, 0, REGISTERS);
  }
};
