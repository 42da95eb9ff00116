"""From what a user has to a kernel: Python files and CUTLASS sync logs."""
