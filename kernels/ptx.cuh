// Instructions of PTX that kernels here use, one function per form. Barriers and buffers are 32-bit addresses: in the
// window shared::cta, or for the functions `remote_...` in shared::cluster.

#pragma once

#define PTX static __device__ __forceinline__

namespace ptx {

typedef unsigned long long Token;

PTX unsigned long long timer() {
  unsigned long long t;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(t)::"memory");
  return t;
}

PTX void rest(unsigned long long nanoseconds) {
  const unsigned long long start = timer();
  while (timer() - start < nanoseconds) {}
}

PTX unsigned address(const void* in_shared_memory) {
  return static_cast<unsigned>(__cvta_generic_to_shared(in_shared_memory));
}

// ---------------------------------------------------------------- on a barrier of one's own CTA

PTX void init(unsigned barrier, unsigned count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(count) : "memory");
}

PTX void inval(unsigned barrier) { asm volatile("mbarrier.inval.shared::cta.b64 [%0];" ::"r"(barrier) : "memory"); }

PTX void expect_tx(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

PTX void complete_tx(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

PTX Token arrive(unsigned barrier) {
  Token token;
  asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(token) : "r"(barrier) : "memory");
  return token;
}

PTX Token arrive(unsigned barrier, unsigned count) {
  Token token;
  asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1], %2;" : "=l"(token) : "r"(barrier), "r"(count) : "memory");
  return token;
}

PTX Token arrive_expect_tx(unsigned barrier, unsigned bytes) {
  Token token;
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 %0, [%1], %2;"
               : "=l"(token) : "r"(barrier), "r"(bytes) : "memory");
  return token;
}

PTX Token arrive_no_complete(unsigned barrier, unsigned count) {
  Token token;
  asm volatile("mbarrier.arrive.noComplete.shared::cta.b64 %0, [%1], %2;"
               : "=l"(token) : "r"(barrier), "r"(count) : "memory");
  return token;
}

PTX Token arrive_drop(unsigned barrier) {
  Token token;
  asm volatile("mbarrier.arrive_drop.shared::cta.b64 %0, [%1];" : "=l"(token) : "r"(barrier) : "memory");
  return token;
}

PTX Token arrive_drop(unsigned barrier, unsigned count) {
  Token token;
  asm volatile("mbarrier.arrive_drop.shared::cta.b64 %0, [%1], %2;"
               : "=l"(token) : "r"(barrier), "r"(count) : "memory");
  return token;
}

PTX Token arrive_drop_expect_tx(unsigned barrier, unsigned bytes) {
  Token token;
  asm volatile("mbarrier.arrive_drop.expect_tx.shared::cta.b64 %0, [%1], %2;"
               : "=l"(token) : "r"(barrier), "r"(bytes) : "memory");
  return token;
}

PTX unsigned pending_count(Token token) {
  unsigned count;
  asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(count) : "l"(token));
  return count;
}

PTX unsigned test_parity(unsigned barrier, unsigned parity) {
  unsigned passes;
  asm volatile("{\n .reg .pred p;\n mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}"
               : "=r"(passes) : "r"(barrier), "r"(parity) : "memory");
  return passes;
}

// It may suspend the thread, for so many nanoseconds or so.
template <int HINT>
PTX unsigned try_parity(unsigned barrier, unsigned parity) {
  unsigned passes;
  asm volatile("{\n .reg .pred p;\n mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2, %3;\n selp.u32 %0, 1, 0, p;\n}"
               : "=r"(passes) : "r"(barrier), "r"(parity), "n"(HINT) : "memory");
  return passes;
}

// The same with .sem and .scope; and arrivals with them, on one's own barrier or on one of the cluster.
enum Order : int { USUAL, RELAXED_CTA, RELAXED_CLUSTER, ORDERED_CTA, ORDERED_CLUSTER };

#define TRY_PARITY(form) \
  asm volatile("{\n .reg .pred p;\n mbarrier.try_wait.parity." form \
               ".shared::cta.b64 p, [%1], %2, 1000;\n selp.u32 %0, 1, 0, p;\n}" \
               : "=r"(passes) : "r"(barrier), "r"(parity) : "memory")
#define ARRIVE_AS(form, where) \
  asm volatile("mbarrier.arrive." form ".shared::" where ".b64 _, [%0], %1;" ::"r"(barrier), "r"(count) : "memory")

PTX unsigned try_parity(unsigned barrier, unsigned parity, int order) {
  unsigned passes;
  switch (order) {
    case RELAXED_CTA: TRY_PARITY("relaxed.cta"); break;
    case RELAXED_CLUSTER: TRY_PARITY("relaxed.cluster"); break;
    case ORDERED_CTA: TRY_PARITY("acquire.cta"); break;
    default: TRY_PARITY("acquire.cluster");
  }
  return passes;
}

PTX void arrive(unsigned barrier, unsigned count, int order) {
  switch (order) {
    case RELAXED_CTA: ARRIVE_AS("relaxed.cta", "cta"); break;
    case RELAXED_CLUSTER: ARRIVE_AS("relaxed.cluster", "cta"); break;
    case ORDERED_CTA: ARRIVE_AS("release.cta", "cta"); break;
    default: ARRIVE_AS("release.cluster", "cta");
  }
}

PTX void remote_arrive(unsigned barrier, unsigned count, int order) {
  switch (order) {
    case RELAXED_CTA: ARRIVE_AS("relaxed.cta", "cluster"); break;
    case RELAXED_CLUSTER: ARRIVE_AS("relaxed.cluster", "cluster"); break;
    case ORDERED_CTA: ARRIVE_AS("release.cta", "cluster"); break;
    default: ARRIVE_AS("release.cluster", "cluster");
  }
}

PTX unsigned test_token(unsigned barrier, Token token) {
  unsigned passes;
  asm volatile("{\n .reg .pred p;\n mbarrier.test_wait.shared::cta.b64 p, [%1], %2;\n selp.u32 %0, 1, 0, p;\n}"
               : "=r"(passes) : "r"(barrier), "l"(token) : "memory");
  return passes;
}

PTX unsigned try_token(unsigned barrier, Token token) {
  unsigned passes;
  asm volatile("{\n .reg .pred p;\n mbarrier.try_wait.shared::cta.b64 p, [%1], %2, 20;\n selp.u32 %0, 1, 0, p;\n}"
               : "=r"(passes) : "r"(barrier), "l"(token) : "memory");
  return passes;
}

// The arrival follows by itself, once all earlier cp.async of the thread are done.
PTX void cp_async_arrive(unsigned barrier) {
  asm volatile("cp.async.mbarrier.arrive.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

PTX void cp_async_arrive_noinc(unsigned barrier) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%0];" ::"r"(barrier) : "memory");
}

// ---------------------------------------------------------------- on a barrier of any CTA of the cluster

PTX unsigned rank_in_cluster() {
  unsigned rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

PTX void cluster_sync() {
  __syncwarp();
  asm volatile("barrier.cluster.arrive.release.aligned;\n barrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The address of the same object in the CTA of this rank.
PTX unsigned map(unsigned address, unsigned rank) {
  unsigned result;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(result) : "r"(address), "r"(rank));
  return result;
}

PTX int load_remote(unsigned address) {
  int value;
  asm volatile("ld.volatile.shared::cluster.s32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}

// Words that threads of a cluster hand to each other.
PTX unsigned load_acquire(unsigned address) {
  unsigned value;
  asm volatile("ld.acquire.cluster.shared::cluster.u32 %0, [%1];" : "=r"(value) : "r"(address) : "memory");
  return value;
}

PTX void store_release(unsigned address, unsigned value) {
  asm volatile("st.release.cluster.shared::cluster.u32 [%0], %1;" ::"r"(address), "r"(value) : "memory");
}

PTX void fence_cluster() { asm volatile("fence.acq_rel.cluster;" ::: "memory"); }

PTX void remote_expect_tx(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.expect_tx.relaxed.cluster.shared::cluster.b64 [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

PTX void remote_complete_tx(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.complete_tx.relaxed.cluster.shared::cluster.b64 [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

PTX void remote_arrive(unsigned barrier) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

PTX void remote_arrive(unsigned barrier, unsigned count) {
  asm volatile("mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(barrier), "r"(count)
               : "memory");
}

PTX void remote_arrive_expect_tx(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes)
               : "memory");
}

PTX void remote_arrive_drop(unsigned barrier) {
  asm volatile("mbarrier.arrive_drop.release.cluster.shared::cluster.b64 _, [%0];" ::"r"(barrier) : "memory");
}

PTX void remote_arrive_drop(unsigned barrier, unsigned count) {
  asm volatile("mbarrier.arrive_drop.release.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(barrier), "r"(count)
               : "memory");
}

PTX void remote_arrive_drop_expect_tx(unsigned barrier, unsigned bytes) {
  asm volatile("mbarrier.arrive_drop.expect_tx.release.cluster.shared::cluster.b64 _, [%0], %1;" ::"r"(barrier),
               "r"(bytes)
               : "memory");
}

// ---------------------------------------------------------------- bulk copies, and what belongs to them

// mask: of the CTAs of the cluster that get it and whose barriers are signalled, at the same addresses.
PTX void load(unsigned to, const void* from, unsigned bytes, unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "l"(from), "r"(bytes), "r"(barrier) : "memory");
}

PTX void load(unsigned to, const void* from, unsigned bytes, unsigned barrier, unsigned short mask) {
  asm volatile(
      "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%0], [%1], %2, [%3], %4;"
      ::"r"(to), "l"(from), "r"(bytes), "r"(barrier), "h"(mask) : "memory");
}

// By a tensor map of two dimensions.
PTX void load_tensor(unsigned to, const void* map, int x, int y, unsigned barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3}], [%4];"
      ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier) : "memory");
}

PTX void load_tensor(unsigned to, const void* map, int x, int y, unsigned barrier, unsigned short mask) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.multicast::cluster"
      " [%0], [%1, {%2, %3}], [%4], %5;" ::"r"(to), "l"(map), "r"(x), "r"(y), "r"(barrier), "h"(mask) : "memory");
}

PTX void store(void* to, unsigned from, unsigned bytes) {
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(from), "r"(bytes) : "memory");
}

PTX void store_tensor(const void* map, int x, int y, unsigned from) {
  asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(map), "r"(x),
               "r"(y), "r"(from) : "memory");
}

// From one's own shared memory to that of a CTA of the cluster, whose barrier is signalled.
PTX void copy_to_peer(unsigned to, unsigned from, unsigned bytes, unsigned barrier) {
  asm volatile("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(to),
               "r"(from), "r"(bytes), "r"(barrier) : "memory");
}

// 32-bit sums in global memory.
PTX void add(void* to, unsigned from, unsigned bytes) {
  asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%0], [%1], %2;" ::"l"(to), "r"(from),
               "r"(bytes) : "memory");
}

PTX void prefetch(const void* from, unsigned bytes) {
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
}

PTX void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }

template <int PENDING>
PTX void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(PENDING) : "memory");
}

template <int PENDING>
PTX void bulk_wait_read() {
  asm volatile("cp.async.bulk.wait_group.read %0;" ::"n"(PENDING) : "memory");
}

PTX void fence_proxy_async() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

PTX void fence_init() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// A tensor map that the host has written to global memory.
PTX void acquire_map(const void* map) {
  asm volatile("fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" ::"l"(map) : "memory");
}

// ---------------------------------------------------------------- copies by ordinary threads

template <int EACH>
PTX void cp_async(unsigned to, const void* from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(to), "l"(from), "n"(EACH) : "memory");
}

PTX void cp_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int PENDING>
PTX void cp_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

PTX void cp_wait_all() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// To a word of a CTA of the cluster, and to a barrier there.
PTX void store_async(unsigned to, unsigned value, unsigned barrier) {
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [%0], %1, [%2];" ::"r"(to), "r"(value),
               "r"(barrier) : "memory");
}

PTX void add_async(unsigned to, unsigned value, unsigned barrier) {
  asm volatile("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [%0], %1, [%2];" ::"r"(to),
               "r"(value), "r"(barrier) : "memory");
}

// The generic address of an object of one's own shared memory, or of the same one in the CTA of a rank.
PTX unsigned long long generic(unsigned address) {
  return reinterpret_cast<unsigned long long>(__cvta_shared_to_generic(address));
}

PTX unsigned long long generic(unsigned address, unsigned rank) {
  unsigned long long result;
  asm volatile("mapa.u64 %0, %1, %2;" : "=l"(result) : "l"(generic(address)), "r"(rank));
  return result;
}

// ---------------------------------------------------------------- grids

PTX void launch_dependents() { asm volatile("griddepcontrol.launch_dependents;" ::: "memory"); }

PTX void grid_wait() { asm volatile("griddepcontrol.wait;" ::: "memory"); }

// ---------------------------------------------------------------- barriers of threads

// release: or else .relaxed.
PTX void cluster_arrive(bool release) {
  if (release) asm volatile("barrier.cluster.arrive;" ::: "memory");
  else asm volatile("barrier.cluster.arrive.relaxed;" ::: "memory");
}

PTX void cluster_wait() { asm volatile("barrier.cluster.wait;" ::: "memory"); }

PTX void named_sync(int id, int threads) {
  asm volatile("barrier.cta.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

PTX void named_arrive(int id, int threads) {
  asm volatile("barrier.cta.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

}  // namespace ptx
