"""What a GPU did, held to a kernel; no GPU needed."""
