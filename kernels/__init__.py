"""CUDA sources that run on an SM90 GPU."""
