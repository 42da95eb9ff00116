"""What an answer may cost: seconds and memory, the tracing and compiling of its model included; and who is told how far
the work is.
"""

from __future__ import annotations

import math
import os
import resource
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from sm90_verify.spec.errors import Source
from sm90_verify.spec.model.tick import EVENTS_OF, ROUND_WITHOUT_EVENT

Told: TypeAlias = Callable[[str], None]
"""Called now and then with a few words about what is being done."""
TRACE_SECONDS = 5.0
"""For a shorter trace, unless a question says otherwise."""
TICKS = 32
"""Operations that are traced or compiled between looks at the memory."""

WITHOUT_END = {ROUND_WITHOUT_EVENT: 1_500_000, EVENTS_OF: 200_000}
"""By work, after how many operations it is taken for work without end unless somebody gives it a timeout."""
OF_NO_STATES = ("tracing", "comparing", "packing", *WITHOUT_END)
"""Work that visits nothing of which a limit of states could be the bound."""


def now() -> float:
    """Seconds on a clock that only goes on."""
    return time.perf_counter()


class RanOut(Exception):
    """What an answer may cost is spent: what ran out, and where the work was then."""


@dataclass(frozen=True)
class Effort:
    """timeout: seconds from `since` on; memory: bytes of resident memory; limit: states (0: no bound). told: is told of
    the progress. purpose: what the seconds are for, if they are a part of those of the question.
    """

    timeout: float = 0.0
    memory: int = 0
    told: Told | None = None
    since: float = field(default_factory=now)
    purpose: str = ""
    limit: int = 0
    trace_seconds: float = TRACE_SECONDS
    """For a shorter trace of a violation that is known; 0: order looks for none."""

    def ran_out(self, memory: bool = True) -> str:
        """What has run out, or nothing. memory: look at the memory, too, which is slow to ask for."""
        if self.timeout and now() - self.since > self.timeout:
            what = f"the {self.timeout:.2g} s {self.purpose}" if self.purpose else f"the timeout of {self.timeout:g} s"
            return what if self.purpose else f"{what} (--timeout)"
        if memory and self.memory and resident_bytes() > self.memory:
            return f"the memory bound of {self.memory / 2**30:.1f} GiB (--memory)"
        return ""

    def tell(self, words: str) -> None:
        if self.told is not None:
            self.told(words)

    def tick(self, what: str, role: str, done: int, where: Source | None) -> None:
        """A Tick (spec.model.tick). Raises RanOut, also where a role has more locations than states may be visited."""
        if self.told is not None:
            self.told(f"{what} {role}, {done} operations")
        why = self.ran_out(done % TICKS == 1)
        if self.limit and done > self.limit and what not in OF_NO_STATES:
            why = f"the limit of {self.limit} states (--limit)"
        if not self.timeout and done > WITHOUT_END.get(what, done):
            why = f"the bound of {WITHOUT_END[what]} for a loop without end (let it end, or give it --timeout SECONDS)"
        if why:
            place = "" if where is None else f", {where}"
            raise RanOut(f"{why}, reached while {what} {role} after {done} operations{place}")

    def again(self) -> Effort:
        """The same from now on, for another engine."""
        return replace(self, since=now())

    def for_a_trace(self) -> Effort:
        """The part of it that is spent on a shorter trace: half of what is left, and not more than TRACE_SECONDS."""
        begun = now()
        left = self.timeout - (begun - self.since) if self.timeout else math.inf
        seconds = max(min(self.trace_seconds, left / 2), 1e-3)
        return replace(self, timeout=seconds, since=begun, purpose="to look for a shorter trace")


def memory_bound() -> int:
    """Three quarters of the machine's memory: what an answer may use unless it is told otherwise."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 4 * 3


def resident_bytes() -> int:
    """Peak resident memory of this process."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
