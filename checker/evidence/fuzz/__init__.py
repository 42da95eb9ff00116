"""Random programs of mbarrier operations, decided by the engines and by an explorer that shares nothing with them."""
