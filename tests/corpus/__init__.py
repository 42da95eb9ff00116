"""Broken pipelines, kept on purpose, with the findings that each must give and the fixed twins that must be proved.

Each is a public fault of an SM90 code base, distilled to its synchronisation; the docstring of its class says where to
read about it. Cases F.. are correct patterns that are taken for faults; their broken side is the fault that they
resemble. Every module is what a user would write, and ends in its cases: (id, broken, {property: what its
report must name}, fixed twins).
"""
