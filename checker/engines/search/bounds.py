"""The bounds of a search: states, time and memory."""

from __future__ import annotations

import os
import resource
import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class SearchBounds:
    """The most states, seconds and bytes of resident memory; 0 for no bound."""

    states: int = 0
    seconds: float = 0.0
    memory: int = 0

    def ran_out(self, states: int, seconds: float) -> str:
        """What has run out, or nothing."""
        if self.states and states > self.states:
            return f"the limit of {self.states} states (--limit)"
        if self.seconds and seconds > self.seconds:
            return f"the timeout of {self.seconds:g} s (--timeout)"
        if self.memory and resident_bytes() > self.memory:
            return f"the memory bound of {self.memory / 2**30:.1f} GiB (--memory)"
        return ""


def memory_bound() -> int:
    """Three quarters of the machine's memory: what a search may use unless it is told otherwise."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4 * 3


def resident_bytes() -> int:
    """Peak resident memory of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
