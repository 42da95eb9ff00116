"""A kernel: what its roles do, as graphs of nodes with one operation each, and everything around them.

It is the one form in which every front end hands a kernel over, and the only thing that engines, recordings and the
executor read.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, Any, NamedTuple, TypeAlias

from sm90_verify.spec.errors import Source
from sm90_verify.spec.model.layout import Layout
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.cluster import Cluster
from sm90_verify.spec.ptx.groups import IDLE, Held
from sm90_verify.spec.ptx.launch import LaunchShape
from sm90_verify.spec.ptx.limits import CTA_THREADS, WARP
from sm90_verify.spec.ptx.memory import Name, Number

Drift: TypeAlias = tuple[Mapping[str, int], Mapping[str, int], Mapping[str, int], int]
"""arrived, observed, ahead and iteration of a Node."""
Moves: TypeAlias = tuple[tuple[Name, int], ...]
"""By barrier, a number of phases; of other barriers none."""

SKIPPED = 16
"""The distance of a wait that skips phases, if it is for the phase before the one that its role has moved on to: phase
0 at the start, and what `Node.moves` says from there.
"""


@dataclass
class Node:
    """One place of a role: its operation (None at the end), and where each answer leads. The rest follows from the ways
    to it, see spec.model.annotate.

    loop: this is a decision of the trip-count loop of that name; answers are then True (another iteration) and False.
    held: what the role has in flight there. distance: for a wait, how many phases after the role's last wait on the
    barrier it is meant for; if it `skips` phases, counted as SKIPPED says. choice: for a choice, how many of its name
    came before. iteration: of the trip-count loop. arrived, observed, ahead: by barrier, how many arrivals, the number
    of the last phase waited for, the bytes expected less those of copies issued; each on the first way to the node.
    """

    operation: op.Operation | None
    source: Source
    held: Held = IDLE
    loop: str = ""
    distance: Number = 0
    choice: int = 0
    iteration: int = 0
    arrived: Mapping[str, int] = field(default_factory=dict)
    observed: Mapping[str, int] = field(default_factory=dict)
    ahead: Mapping[str, int] = field(default_factory=dict)
    successors: dict[Hashable, int] = field(default_factory=dict)
    drift: list[Drift] = field(default_factory=list)
    """The same on every further edge to the node."""
    skips: bool = False
    """A wait on a barrier where the role skips phases without end: only the machine knows how far it is from them."""
    moves: dict[Hashable, Moves] = field(default_factory=dict)
    """By answer, how many phases the role moves on as it leaves there, where its waits skip phases."""


@dataclass(frozen=True)
class Threads:
    """Who executes a role: `threads` threads that behave alike. index: which part of a split role they are, 0 being the
    one that is elected. copy: which instance of the role, counted in each CTA.
    """

    name: str
    threads: Annotated[int, range(1, CTA_THREADS + 1)]
    index: Number
    copy: Number
    cta: int = 0
    """The rank of the CTA in its cluster."""
    first: Number = 0
    """Threads of the role before these, if it is split."""
    cluster: Number = 0
    """The number of the cluster in its grid."""
    before: Number = 0
    """CTAs of the launch before those of its cluster."""

    @property
    def number(self) -> int:
        """The number of the CTA, counted through the whole launch: it says whose memory an access is to."""
        return self.before + self.cta

    @property
    def warp(self) -> int:
        """Which warp of the role they are in."""
        return self.first // WARP

    @property
    def leader(self) -> bool:
        """They are the elected thread, or a role that is not split."""
        return self.index == 0


@dataclass(frozen=True)
class Program:
    """A role instance as a graph of nodes; node 0 is its start.

    name: unique in the kernel, `cta1.math0.2` for part 2 of copy 0 of the role `math` in CTA 1. role: the same without
    the part, common to all parts of a split role.
    """

    name: Name
    me: Threads
    nodes: tuple[Node, ...]
    role: Name
    home: str = ""
    """What the names of its CTA's things begin with, see spec.ptx.launch."""
    where: Source | None = field(default=None, compare=False, repr=False)
    """The role's declaration."""

    @property
    def peers(self) -> str:
        """What the names of its cluster's things begin with."""
        return self.home.removesuffix(f"cta{self.me.cta}.")


class Rules(NamedTuple):
    """What is demanded beyond PTX, and what is taken for granted.

    strict: the proxy fence by who made the generic access, after a read that a bulk copy overwrites too; no store in
    flight at exit; and nothing that is only noted without it (spec.model.properties). unobserved: the barriers on which
    an arrival in a phase that follows one nobody has seen complete is no violation, though the ISA rules it out
    (9.7.13.15.4). met: all CTAs have started, and met, before the roles begin.
    """

    strict: bool = False
    unobserved: tuple[Name, ...] = ()
    met: bool = True
    resident: bool = True


@dataclass(frozen=True)
class Kernel:
    """What is checked. parameters: for people, and for making the same kernel again. depth: stages of the longest ring,
    beyond which roles are not followed apart. registers: per thread at launch.

    Hand-made programs are put through `annotate` (spec.model.annotate) and hand-made kernels through `validate`
    (spec.model.validate); those of a front end have been.
    """

    name: str
    parameters: Mapping[str, Any]
    layout: Layout
    programs: tuple[Program, ...]
    cluster: Cluster = field(default_factory=Cluster)
    rules: Rules = field(default_factory=Rules)
    registers: int = 168
    depth: Number = 1
    clusters: Annotated[int, range(1, 1 << 16)] = 1
    """Of each grid."""
    grids: Annotated[int, range(1, 3)] = 1
    """2: the second depends on the first (programmatic dependent launch)."""

    @cached_property
    def launch(self) -> LaunchShape:
        """All its CTAs."""
        return LaunchShape(self.cluster, self.clusters, self.grids)

    def allowing(self, barriers: Iterable[str] | None = None) -> Kernel:
        """The same, where an arrival in a phase that follows one nobody has seen is no violation on these barriers; on
        none if they are not given.
        """
        layout = self.layout
        found = (one.object for one in layout.regions if one.declaration in layout.barriers)
        more = tuple(found if barriers is None else barriers)
        return replace(self, rules=self.rules._replace(unobserved=(*self.rules.unobserved, *more)))

    def registers_at(self, node: Node) -> int:
        """Registers of each thread of a role where it is at that node."""
        return node.held.registers or self.registers
