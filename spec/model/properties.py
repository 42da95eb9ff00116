"""The properties that a kernel can violate: their ids, the order of reports, and which of them end a run."""

from __future__ import annotations

PROPERTIES = (
    "deadlock",
    "race",
    "stale-read",
    "phase-lapped",
    "arrival-count",
    "tx-count",
    "barrier-init",
    "missing-fence",
    "register-hazard",
    "exit-hazard",
    "smem-overlap",
    "named-barrier",
    "register-pool",
    "unobserved-phase",
)
"""In the order in which reports list them."""

SEVERITY = (
    "race",
    "stale-read",
    "deadlock",
    "missing-fence",
    "register-hazard",
    "arrival-count",
    "tx-count",
    "barrier-init",
    "exit-hazard",
    "smem-overlap",
    "named-barrier",
    "register-pool",
    "phase-lapped",
    "unobserved-phase",
)
"""Which of several violations a report leads with."""

UNORDERED = ("race", "stale-read", "missing-fence")
"""What accesses violate that nothing orders."""

NOTED = ("unobserved-phase",)
"""What violates a rule of the ISA and goes well on hardware all the same: a violation of a strict kernel; of any other
one, people are told where it happens.
"""

HALTING = ("arrival-count", "tx-count", "barrier-init", "limit")
"""What follows their violation is undefined; "limit" is what a Machine cannot hold."""
