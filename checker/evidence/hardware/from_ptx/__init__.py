"""The hand-written kernels of kernels/, asked about by their PTX."""
