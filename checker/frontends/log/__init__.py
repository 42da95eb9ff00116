"""What real kernels did: CUTLASS sync logs, their barriers recovered, and every event held to the specification."""
