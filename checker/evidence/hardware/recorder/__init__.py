"""What hand-written kernels share: their tapes, held to a model's programs; tensor maps."""
