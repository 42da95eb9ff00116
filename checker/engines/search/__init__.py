"""Explicit search: all reachable states."""
