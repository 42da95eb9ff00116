"""Kernels that hang, each in a program of its own, and core dumps of them while they do."""
