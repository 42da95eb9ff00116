"""CUTLASS's pipeline classes, collectives and whole kernels, and one catalogue of them."""
