"""Hand-written pipelines (kernels/pipelines.cu), right and with mistakes."""
