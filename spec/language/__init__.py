"""What a user writes, and how it becomes a kernel."""
