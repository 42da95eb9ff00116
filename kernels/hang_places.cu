// A program around a kernel that hangs wherever a warp can: its warps wait for mbarriers in different states, for
// barriers of threads and of the cluster, or sleep, and lanes of one warp do different things. CTAS WARPS GRIDS: WARPS
// is a mask of the warps that take part, and with FAULT in it warp 5 arrives once too often, which is an exception.

#include "ptx.cuh"
#include "hang.cuh"

constexpr unsigned THREADS = 256, NAMED = 5, FAULT = 256;

struct Places {
  unsigned long long counted, counting;  // waited for by lanes of warp 0: 2 of 3 arrivals, none of 1048575
  unsigned long long bytes, early;       // by warp 6 and 7: 1024 bytes missing; 512 bytes too early
  unsigned long long second;             // by warp 5, in its second phase
  unsigned flag;
};

__device__ __forceinline__ void wait(unsigned barrier, unsigned parity) {
  while (!ptx::try_parity<1000>(barrier, parity)) {}
}

// Called, and not inlined.
__device__ __noinline__ void wait_elsewhere(unsigned barrier, unsigned parity) { wait(barrier, parity); }

extern "C" __global__ void __launch_bounds__(THREADS) places(unsigned long long seven, unsigned short three,
                                                               unsigned warps) {
  __shared__ Places at;
  const unsigned warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const unsigned counted = ptx::address(&at.counted), counting = ptx::address(&at.counting);
  const unsigned bytes = ptx::address(&at.bytes), early = ptx::address(&at.early), second = ptx::address(&at.second);
  if (threadIdx.x == 0) {
    ptx::init(counted, three);
    ptx::init(counting, 1048575);
    ptx::init(bytes, 1);
    ptx::init(early, static_cast<unsigned>(seven));
    ptx::init(second, 2);
    at.flag = 0;
  }
  __syncthreads();
  if (!(warps >> warp & 1)) return;
  switch (warp) {
    case 0:
      if (lane < 8) {
        if (lane < 2) ptx::arrive(counted);
        wait(counted, 0);
      } else if (lane < 16) {
        wait(counting, 0);
      } else if (lane >= 24) {
        while (!*static_cast<volatile unsigned*>(&at.flag)) __nanosleep(1000);
      }
      break;
    case 1: ptx::named_sync(NAMED, 96); break;
    case 2: break;
    case 3: ptx::cluster_sync(); break;
    case 4: __syncthreads(); break;
    case 5:
      if (lane < (warps & FAULT ? 3 : 2)) ptx::arrive(second);
      wait(second, 0);
      if (lane == 2) ptx::arrive(second);
      wait(second, 1);
      break;
    case 6:
      if (lane == 0) ptx::arrive_expect_tx(bytes, 1024);
      wait_elsewhere(bytes, 0);
      break;
    default:
      if (lane == 0) ptx::complete_tx(early, 512);
      wait(early, 0);
  }
}

int main(int count, char** words) {
  if (count != 4) return std::printf("usage: CTAS WARPS GRIDS\n"), 2;
  unsigned given[3];
  for (int k = 0; k < 3; ++k) given[k] = static_cast<unsigned>(std::atoi(words[k + 1]));
  for (unsigned grid = 0; grid < given[2]; ++grid) {
    launch(places, given[0], THREADS, 0u, 2u, 7ull, static_cast<unsigned short>(3), given[1] >> grid);
  }
  return hang();
}
