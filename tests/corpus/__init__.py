"""Broken pipelines, kept on purpose, with the finding that each must give and the fixed twin that must be proved.

Each is a public fault of an SM90 code base, distilled to its synchronisation; the docstring of its class says where to
read about it. Cases F.. are correct patterns that are taken for faults; their broken side is the fault that they
resemble.
"""

from __future__ import annotations

from corpus import (
    arrivals,
    clusters,
    epilogue,
    groups,
    memory,
    named_barriers,
    parity,
    patterns,
    registers,
    transactions,
    trips,
)
from corpus.case import Case

CASES: tuple[Case, ...] = (
    *arrivals.CASES,
    *trips.CASES,
    *parity.CASES,
    *transactions.CASES,
    *named_barriers.CASES,
    *registers.CASES,
    *groups.CASES,
    *memory.CASES,
    *epilogue.CASES,
    *patterns.CASES,
    *clusters.CASES,
)

LEFT_OUT: dict[str, str] = {
    "D30": "which threads of a warp reach an aligned barrier together: needs code",
    "D32": "barrier.cluster: needs a cluster",
    "R19": "remote access before the peer is ready: needs a cluster",
    "R20": "remote access to a CTA that has exited: needs a cluster",
    "R21": "scope of a barrier.cluster arrive: needs a cluster",
    "F19": "a CTA of a cluster that returns early: needs a cluster",
}
