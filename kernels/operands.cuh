// Operands for the programs that run CUTLASS's kernels.
#pragma once

// Whole numbers small enough that every sum is exact in float, in half where the result is, and in the tensor core's
// shorter sums of e4m3 products.
template <class Element> __global__ void fill(Element* data, size_t size, unsigned seed, int range) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < size; i += gridDim.x * blockDim.x) {
    unsigned hash = (unsigned(i) + seed) * 2654435761u;
    hash ^= hash >> 15;
    hash *= 2246822519u;
    hash ^= hash >> 13;
    data[i] = Element(float(int(hash % (2 * range + 1)) - range));
  }
}

template <class Element> Element* allocate(size_t size) {
  void* data = nullptr;
  cudaMalloc(&data, size * sizeof(Element));
  return static_cast<Element*>(data);
}

template <class Element> Element* filled(size_t size, unsigned seed, int range) {
  Element* data = allocate<Element>(size);
  fill<<<256, 256>>>(data, size, seed, range);
  return data;
}
