"""Engines that decide questions about a specification, and the command line."""
