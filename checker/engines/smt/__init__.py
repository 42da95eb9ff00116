"""The Z3 engine: bounded search, and proofs for every number of steps by generated invariants."""
