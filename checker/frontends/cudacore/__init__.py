"""GPU core dumps of CUDA: what a kernel was launched with, and where each of its warps was."""
