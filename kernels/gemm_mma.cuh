// WGMMA on tiles of shared memory that TMA has filled: both operands K-major in rows of 128 bytes, swizzled by 128 bytes.

#pragma once

#ifdef BF16
#define ELEMENT "bf16"
#else
#define ELEMENT "f16"
#endif

constexpr int ROW = 128;            // bytes: 64 elements of K
constexpr int SWIZZLE_ROWS = 8;     // rows after which the pattern recurs
constexpr int K_STEP = 16;          // elements of K of one wgmma
constexpr int WGMMA_M = 64;

// The matrix descriptor of a tile: start and stride of 8 rows in units of 16 bytes, and the kind of swizzle. Tiles are
// 1024-byte aligned; a step along K stays within the pattern, so that it only moves the start.
__device__ __forceinline__ unsigned long long descriptor(unsigned address) {
  return static_cast<unsigned long long>((address & 0x3ffff) >> 4) | 1ull << 16 |
         static_cast<unsigned long long>(ROW * SWIZZLE_ROWS >> 4) << 32 | 1ull << 62;
}

__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory");
}

#define D8(i) \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])

// d = a * b, or d += a * b, for 64 rows of A and N of B; SIGN -1: a is negated.
template <int SIGN>
__device__ __forceinline__ void wgmma(float (&d)[32], unsigned long long a, unsigned long long b, int accumulate) {
  asm volatile(
      "{\n .reg .pred p;\n setp.ne.b32 p, %34, 0;\n"
      " wgmma.mma_async.sync.aligned.m64n64k16.f32." ELEMENT "." ELEMENT " {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
      "}, %32, %33, p, %35, 1, 0, 0;\n}"
      : D8(0), D8(8), D8(16), D8(24)
      : "l"(a), "l"(b), "r"(accumulate), "n"(SIGN));
}

template <int SIGN>
__device__ __forceinline__ void wgmma(float (&d)[64], unsigned long long a, unsigned long long b, int accumulate) {
  asm volatile(
      "{\n .reg .pred p;\n setp.ne.b32 p, %66, 0;\n"
      " wgmma.mma_async.sync.aligned.m64n128k16.f32." ELEMENT "." ELEMENT " {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
      "}, %64, %65, p, %67, 1, 0, 0;\n}"
      : D8(0), D8(8), D8(16), D8(24), D8(32), D8(40), D8(48), D8(56)
      : "l"(a), "l"(b), "r"(accumulate), "n"(SIGN));
}

template <int SIGN>
__device__ __forceinline__ void wgmma(float (&d)[128], unsigned long long a, unsigned long long b, int accumulate) {
  asm volatile(
      "{\n .reg .pred p;\n setp.ne.b32 p, %130, 0;\n"
      " wgmma.mma_async.sync.aligned.m64n256k16.f32." ELEMENT "." ELEMENT " {"
      "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63, "
      "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, "
      "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, "
      "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, "
      "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
      "}, %128, %129, p, %131, 1, 0, 0;\n}"
      : D8(0), D8(8), D8(16), D8(24), D8(32), D8(40), D8(48), D8(56), D8(64), D8(72), D8(80), D8(88), D8(96), D8(104),
        D8(112), D8(120)
      : "l"(a), "l"(b), "r"(accumulate), "n"(SIGN));
}
