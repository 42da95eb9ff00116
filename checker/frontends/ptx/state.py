"""The state of one cluster while its kernel is executed: CTAs, warps, barriers, shared memory."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from sm90_verify.frontends.ptx.events import BarrierAt, LaneEvent
from sm90_verify.frontends.ptx.fragment import Fragment, lanes_of
from sm90_verify.frontends.ptx.launch import Block, Launch
from sm90_verify.frontends.ptx.made_maps import MadeMap
from sm90_verify.frontends.ptx.stored import Memory
from sm90_verify.spec.ptx.numbers import DEAD, KnownBarrier


@dataclass(slots=True)
class ExecutedBarrier:
    """completed: phases so far, since the last init."""

    known: KnownBarrier = DEAD
    completed: int = 0


@dataclass(slots=True)
class ThreadsMet:
    """Of a barrier of threads: how many have arrived, of how many, and the number of the generation."""

    arrived: int = 0
    number: int = 0


@dataclass
class Warp:
    """number: in its CTA. fragments: lanes that have not exited. mask: of all that it has."""

    cta: CtaState
    number: int
    fragments: list[Fragment]
    mask: int
    events: list[LaneEvent] = field(default_factory=list)
    local: dict[int, Memory] = field(default_factory=dict)
    """By lane."""
    arrived: dict[int, int] = field(default_factory=dict)
    """By lane, the generation of barrier.cluster in which it has arrived and not waited."""
    left: tuple[tuple[int, LaneEvent | None], ...] = ()
    """Lanes that could not go on in the end, and the event that they would be; None where they wait inside of one."""

    def watch_local(self) -> None:
        """From now on it is kept what its lanes read and write of local memory."""
        for one in lanes_of(self.mask):
            self.local.setdefault(one, Memory()).watched = True

    @property
    def alive(self) -> int:
        """A bit for each lane that has not exited."""
        mask = 0
        for one in self.fragments:
            mask |= one.mask
        return mask

    @property
    def name(self) -> str:
        return f"{self.cta.name}warp{self.number}"


@dataclass
class CtaState:
    """rank: in its cluster; block: in the grid."""

    rank: int
    block: Block
    name: str
    warps: list[Warp] = field(default_factory=list)
    barriers: dict[int, ExecutedBarrier] = field(default_factory=dict)
    memory: Memory = field(default_factory=Memory)
    maps: dict[int, MadeMap] = field(default_factory=dict)
    """Tensor maps that are made in shared memory, by address."""
    named: dict[int, ThreadsMet] = field(default_factory=dict)

    @property
    def threads(self) -> int:
        return sum(len(fragment.lanes) for warp in self.warps for fragment in warp.fragments)


class Assumed(NamedTuple):
    """Something that was taken for granted while a kernel was executed. line: of the PTX."""

    line: int
    what: str


@dataclass
class ClusterState:
    """All that is shared by the CTAs of a cluster."""

    launch: Launch
    ctas: list[CtaState] = field(default_factory=list)
    meeting: ThreadsMet = field(default_factory=ThreadsMet)
    maps: dict[int, MadeMap] = field(default_factory=dict)
    """Tensor maps in global memory that the kernel makes, by address."""
    assumed: dict[Assumed, None] = field(default_factory=dict)
    used: dict[tuple[int, int, int, int], int] = field(default_factory=dict)
    """By line, CTA, warp and lane, how many values of an assumption have been used."""

    writes_global: bool | None = None
    """Whether the kernel has an instruction that may write global memory; None if nobody has asked."""
    taken: dict[int, int] = field(default_factory=dict)
    written: dict[int, int] = field(default_factory=dict)
    """Bytes of global memory that the launch describes, with a line that reads them or writes them."""

    def barrier(self, at: BarrierAt) -> ExecutedBarrier:
        return self.ctas[at.rank].barriers.setdefault(at.address, ExecutedBarrier())
