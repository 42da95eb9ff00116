// What a program has that exists to hang: launches of a kernel, so that a core dump of it can be asked for.
//
// It prints "started" behind the launches, and "ended" if the kernel ends after all. Whoever runs it kills it.

#pragma once
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <cuda.h>
#include <cuda_runtime.h>

static void check(cudaError_t code, const char* what) {
  if (code == cudaSuccess) return;
  std::printf("%s: %s\n", what, cudaGetErrorString(code));
  std::exit(2);
}

// Bytes of the GPU's memory, all 0.
static void* zeros(size_t bytes) {
  void* memory = nullptr;
  check(cudaMalloc(&memory, bytes), "cudaMalloc");
  check(cudaMemset(memory, 0, bytes), "cudaMemset");
  check(cudaDeviceSynchronize(), "cudaMemset");
  return memory;
}

// In a stream of its own.
template <class... Parameters>
static void launch(void (*kernel)(Parameters...), unsigned ctas, unsigned threads, unsigned shared, unsigned cluster,
                   Parameters... arguments) {
  check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared)), "shared");
  cudaLaunchAttribute attribute = {};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim.x = cluster;
  attribute.val.clusterDim.y = attribute.val.clusterDim.z = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = dim3(ctas);
  config.blockDim = dim3(threads);
  config.dynamicSmemBytes = shared;
  config.attrs = &attribute;
  config.numAttrs = cluster > 1;
  check(cudaStreamCreateWithFlags(&config.stream, cudaStreamNonBlocking), "stream");
  check(cudaLaunchKernelEx(&config, kernel, arguments...), "launch");
}

// A program that ends takes a dump with it that is not complete.
static int hang() {
  std::printf("started\n");
  std::fflush(stdout);
  const cudaError_t code = cudaDeviceSynchronize();
  if (code == cudaSuccess) return std::printf("ended\n"), 0;
  std::printf("kernel: %s\n", cudaGetErrorString(code));
  std::fflush(stdout);
  for (;;) pause();
}
