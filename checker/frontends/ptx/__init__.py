"""PTX: what the instructions of a kernel touch."""
