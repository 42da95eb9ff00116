"""What instructions touch in shared memory, seen on a GPU."""
