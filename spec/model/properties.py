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

HALTING = ("arrival-count", "tx-count", "barrier-init", "limit")
"""What follows their violation is undefined; "limit" is what a Machine cannot hold."""
