"""Real SM90 kernels: launched with CuPy, recorded, and held to the specification."""
