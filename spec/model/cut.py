"""What of a kernel is compiled where its Machine has to execute but a few schedules. Each of its operations orders all
that came before it (spec.model.weaker), or it is not cut.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class Cut(NamedTuple):
    """last: by role, the last location but its end that has checks and actions. watched: (role, location) of steps
    whose accesses are compared with those of other roles; elsewhere an access has only the checks behind which nothing
    is defined. What tells search and proofs how far roles have got and have to go (Structure.progress, and waits_ahead
    and next_waits of a Location) is left out.

    A schedule in which no role comes further can be executed on the whole Machine as well, and what it violates here it
    violates there.
    """

    last: Mapping[str, int]
    watched: frozenset[tuple[str, int]]

    def ends_before(self, role: str, location: int) -> bool:
        """The location is not compiled, unless it is the role's end."""
        return location > self.last[role]
