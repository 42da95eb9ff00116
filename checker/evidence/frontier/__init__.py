"""Which epilogue configurations are safe, which CUTLASS's static assertions accept, and where the two differ."""
