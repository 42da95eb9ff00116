"""What Hopper and CUTLASS do, as data: nothing here knows how a question about it is decided."""
