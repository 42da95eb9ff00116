"""What instructions compute in registers: random operands put to a GPU, and what it gives."""
