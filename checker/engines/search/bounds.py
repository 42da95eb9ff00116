"""The bounds of a search: states, time and memory."""

from __future__ import annotations

from dataclasses import dataclass

from sm90_verify.engines.effort import resident_bytes


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
