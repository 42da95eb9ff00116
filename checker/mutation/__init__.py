"""Mutation of models: every operation of every role changed in many small ways, to see whether the engines notice."""
