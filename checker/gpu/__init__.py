"""Real SM90 kernels: launched with CuPy, directed and recorded."""
