"""Random programs over the whole language, decided by every engine that can decide them."""
