// A program around the kernel of gemm.cu, with a mistake that makes it hang: ROWS COLUMNS (tiles of D) K_TILES CTAS.

#define UNWATCHED
#include "gemm.cu"
#include "hang.cuh"

// The map of a tensor of half precision, in boxes of `box_rows` rows and `row` elements.
static Map map_of(size_t rows, size_t columns, unsigned box_rows, unsigned row, CUtensorMapSwizzle swizzle) {
  void* encode = nullptr;
  cudaDriverEntryPointQueryResult found;
  check(cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &encode, 12000, cudaEnableDefault, &found), "driver");
  const cuuint64_t sizes[] = {columns, rows}, strides[] = {columns * 2};
  const cuuint32_t box[] = {row, box_rows}, steps[] = {1, 1};
  CUtensorMap map;
  const CUresult code = reinterpret_cast<decltype(&cuTensorMapEncodeTiled)>(encode)(
      &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT16, 2, zeros(rows * columns * 2), sizes, strides, box, steps,
      CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_128B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  if (code != CUDA_SUCCESS) check(cudaErrorInvalidValue, "tensor map");
  Map bytes;
  static_assert(sizeof(bytes) == sizeof(map), "");
  std::memcpy(&bytes, &map, sizeof(map));
  return bytes;
}

int main(int count, char** words) {
  if (count != 5) return std::printf("usage: ROWS COLUMNS K_TILES CTAS\n"), 2;
  int given[4];
  for (int k = 0; k < 4; ++k) given[k] = std::atoi(words[k + 1]);
  const int rows = given[0], columns = given[1], k_tiles = given[2], ctas = given[3];
  const size_t m = size_t(rows) * TILE_M, n = size_t(columns) * TILE_N, k = size_t(k_tiles) * TILE_K;
  const Maps maps = {map_of(m, k, TILE_M, TILE_K, CU_TENSOR_MAP_SWIZZLE_128B),
                     map_of(n, k, TILE_N / CTAS, TILE_K, CU_TENSOR_MAP_SWIZZLE_128B),
                     map_of(m, n, TILE_M, SUBTILE_N, CU_TENSOR_MAP_SWIZZLE_64B),
                     map_of(m, n, TILE_M, SUBTILE_N, CU_TENSOR_MAP_SWIZZLE_64B)};
  launch(gemm, ctas, THREADS, BYTES_TENSORS + 1024, CTAS, maps, rows * columns, rows, k_tiles);
  return hang();
}
