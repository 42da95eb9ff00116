"""Single mbarriers: a fuzzer of legal operations, and ill-formed sequences."""
