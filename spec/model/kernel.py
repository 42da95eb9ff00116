"""What a role does, as a graph of locations, each with one operation: what tracing gives and everything else reads."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, field

from sm90_verify.spec.errors import Source
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.groups import Held


@dataclass
class Node:
    """One location: its operation (None at the end), what the role holds there, and where each answer leads.

    loop: this is a decision of the trip-count loop of that name; answers are then True (another iteration) and False.
    distance: for a wait, how many phases after the role's last wait on the barrier it is meant for. arrived,
    observed, ahead: by barrier, how many arrivals, the last phase waited for, bytes expected less bytes issued.
    """

    operation: op.Operation | None
    source: Source
    held: Held
    loop: str = ""
    distance: int = 0
    choice: int = 0
    iteration: int = 0
    arrived: dict[str, int] = field(default_factory=dict)
    observed: dict[str, int] = field(default_factory=dict)
    ahead: dict[str, int] = field(default_factory=dict)
    successors: dict[Hashable, int] = field(default_factory=dict)
    drift: list[tuple[dict[str, int], dict[str, int], dict[str, int], int]] = field(default_factory=list)
    """The same counts on every later visit to a loop head."""


@dataclass(frozen=True)
class Program:
    """A role instance as a graph of nodes; node 0 is its start."""

    name: str
    me: Threads
    nodes: tuple[Node, ...]
    role: str
    home: str = ""
    """What the names of its CTA's things begin with, see spec.ptx.cluster."""
    where: Source | None = field(default=None, compare=False, repr=False)
    """The role's declaration."""


@dataclass(frozen=True)
class Threads:
    """Who executes a role: `threads` threads that behave alike; index 0 of a split role is the one that is elected."""

    name: str
    threads: int
    index: int
    copy: int
    cta: int = 0
    """The rank of the CTA in its cluster."""
    first: int = 0
    """Threads of the role before these, if it is split."""

    @property
    def leader(self) -> bool:
        return self.index == 0
