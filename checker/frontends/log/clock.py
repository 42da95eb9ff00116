"""What the checks of a log keep: vector clocks, asynchronous groups, loads, and generations of bar.sync."""

from __future__ import annotations

from dataclasses import dataclass, field

Clock = list[int]
LoadedRegion = tuple[int, int]
"""A place that TMA loads fill: the full barrier that they signal, and the address."""


def joined(one: Clock | None, other: Clock) -> Clock:
    """The least clock that knows what both know."""
    if one is None:
        return other.copy()
    return [a if a > b else b for a, b in zip(one, other, strict=True)]


@dataclass(frozen=True, slots=True)
class Fill:
    """The load that last wrote a region: its entry, the barrier that it signals, the phase of that barrier."""

    record: int
    full: int
    phase: int


@dataclass
class AsyncGroups:
    """Asynchronous groups of a warp, of wgmma or of bulk stores: how many were committed, and where each was waited
    for.
    """

    committed: int = 0
    begun: int = -1
    """Entry of the last operation that no commit has closed, or -1."""
    done: list[int] = field(default_factory=list)

    def commit(self) -> None:
        """Closes a group, perhaps an empty one."""
        self.committed += 1
        self.begun = -1

    def wait(self, allowed: int, record: int) -> None:
        """All but the last `allowed` groups are complete at this entry (9.7.9.25.6.2, 9.7.15.7.3)."""
        while len(self.done) < self.committed - allowed:
            self.done.append(record)


@dataclass(frozen=True)
class Generation:
    """One generation of bar.sync: for each warp its entry, whether it has fenced since its last, and what it knew.

    What it knew is as of that fence, if there is one: the writes that it makes visible come before it.
    """

    entries: tuple[tuple[int, int, bool, Clock], ...]
    fences: tuple[int, ...]
    """Entry of the last fence of each warp, or -1."""
