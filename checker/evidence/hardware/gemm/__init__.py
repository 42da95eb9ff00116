"""Hand-written GEMMs (kernels/gemm.cu), right and with mistakes."""
