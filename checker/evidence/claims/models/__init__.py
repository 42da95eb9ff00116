"""Models that the claims ask about: rings with one thing varied, rings of one barrier, and rings that are no ring."""
