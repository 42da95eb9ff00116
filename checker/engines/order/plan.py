"""What is fixed before a run: every location of every role as a `Move`, with its barriers and bytes as numbers."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal, NamedTuple, TypeAlias

from sm90_verify.spec.model.flow import warpgroups_of
from sm90_verify.spec.model.handing import is_loose
from sm90_verify.spec.model.kernel import Kernel, Node, Program
from sm90_verify.spec.model.together import Together
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effect_parts import Shown
from sm90_verify.spec.ptx.memory import Access

Numbers = tuple[int, ...]
"""Barriers by number."""


class Use(NamedTuple):
    """One access by an operation: `bytes` numbers its region; `asynchronous` means shared memory by the async proxy;
    far: the other CTA whose memory it is, or -1. lasting: until its group is waited for; lands: the barrier that tells
    when the copy that makes it has landed, or -1; raw: an async access after it wants a fence; map: it reads a
    tensormap.
    """

    bytes: int
    write: bool
    asynchronous: bool
    access: Access
    far: int
    lasting: bool = False
    lands: int = -1
    raw: bool = False
    map: bool = False


Left: TypeAlias = tuple[str, Hashable, tuple[str, ...]]
"""(buffer, tag, buffers that hold nothing then)."""


@dataclass(slots=True)
class Move:
    """One location of a role. kind: how the run executes it. next: the location after it, -1 at the end and where it
    depends on a decision; leads: by answer then.

    thing: the number of its barrier, meeting or decision, -1 if none; things: for a copy, the barrier of each
    destination. far: the other CTA whose barrier it is, or -1. operation: what it or its copy does to a barrier, the
    same for every barrier, so that its effect is found again, of a wait the form that blocks, on the CTA's own barrier;
    pieces: how often its copy does it.
    uses: what it accesses; wants: (access, tag) that it must find; leaves: (buffer, tag, buffers that hold nothing
    then), for a copy when it lands. over_barriers: those of its accesses that lie over a barrier, and which. over:
    accesses that it is the end of; tracks: of cp.asyncs that an arrival follows; also: of earlier ones, which an
    arrival follows already; awaited: those of which the role has waited for the group itself. own: (property, sentence,
    object) that its accesses violate by what its own role holds there. unfenced: regions of accesses that a fence does
    not cover; made: those of generic writes that it is the end of. shows: what others see from here on; acquires: the
    region of a tensormap that it sees, or -1, and whether as other CTAs have released it. loosens, tightens: accesses
    that nothing releases to other roles from here on, or that it releases.
    watches, watched: barriers whose wait the role has only just passed there (spec.model.flow.just_waited, distance 0
    and 1); forgets, forgot: those of which that ends with this operation.
    """

    kind: str
    node: Node
    next: int = -1
    thing: int = -1
    things: tuple[int, ...] = ()
    far: int = -1
    operation: op.Signal | op.Wait | None = None
    uses: tuple[Use, ...] = ()
    wants: tuple[tuple[Access, Hashable], ...] = ()
    leaves: tuple[Left, ...] = ()
    over_barriers: tuple[tuple[Access, int], ...] = ()
    over: tuple[tuple[int, bool], ...] = ()
    own: tuple[tuple[str, str, str], ...] = ()
    unfenced: Numbers = ()
    made: Numbers = ()
    shows: tuple[Shown, ...] = ()
    acquires: tuple[int, bool] = (-1, False)
    pieces: int = 0
    loosens: tuple[tuple[int, bool], ...] = ()
    tightens: tuple[tuple[int, bool], ...] = ()
    watches: Numbers = ()
    watched: Numbers = ()
    forgets: Numbers = ()
    forgot: Numbers = ()
    leads: Numbers = ()
    parts: tuple[Move, ...] = ()
    """Of an arrival at several CTAs, one for each."""
    tracks: tuple[tuple[int, bool], ...] = ()
    also: Numbers = ()
    awaited: Numbers = ()
    joins: Literal["", "begins", "commits", "waits"] = ""
    """What it does with the wgmmas of a warpgroup of which its role is a part."""
    settled: bool = False
    """It reads what its role has written just before: whoever writes the same there changes nothing of that."""

    def standing(self, node: Node) -> Move:
        """The same operation at another location."""
        return Move(
            self.kind,
            node,
            node.successors[None],
            self.thing,
            self.things,
            self.far,
            self.operation,
            self.uses,
            self.wants,
            self.leaves,
            over_barriers=self.over_barriers,
            shows=self.shows,
            acquires=self.acquires,
            pieces=self.pieces,
            parts=self.parts,
            tracks=self.tracks,
        )

    @property
    def barriers(self) -> Numbers:
        """Those that it or its copies do something with."""
        return (self.thing,) if self.kind in ("signal", "wait", "token", "init", "inval") else self.things

    @property
    def pending(self) -> int:
        """Of a wait by a part of a warpgroup, how many groups of wgmmas it leaves."""
        operation = self.node.operation
        assert isinstance(operation, op.Group)
        return operation.pending

    @property
    def lasting(self) -> bool:
        """It is not the end of its own accesses."""
        return any(use.lasting for use in self.uses)


@dataclass
class BarrierUse:
    """What the programs do with one mbarrier. distance: by role, the largest distance of its waits by parity."""

    name: str
    arrivals: int
    initialised: bool
    distance: dict[int, int] = field(default_factory=dict)
    tokens: list[int] = field(default_factory=list)
    invals: bool = False
    counts: dict[int, None] = field(default_factory=dict)
    plain: bool = True
    """Only arrivals, without bytes and drops."""

    @property
    def careless(self) -> bool:
        """Nobody waits, and arrivals fill every phase without a rest: nobody can tell in which phase one is counted."""
        return not self.distance and not self.tokens and self.plain and len(self.counts) <= 1 and self._divides

    @property
    def _divides(self) -> bool:
        return all(count > 0 and self.arrivals % count == 0 for count in self.counts)


class MeetingUse(NamedTuple):
    """A named barrier, __syncthreads(), __syncwarp() or barrier.cluster: the roles of which an exit counts as an
    arrival, and how many threads it counts (0: the instruction says)."""

    name: str
    roles: tuple[int, ...]
    total: int


class DecisionUse(NamedTuple):
    """Decisions that roles share, each of them one answer for all: those of a trip-count loop (0: it ends, 1: it goes
    on), or the choices of one name. options: how many answers each has.
    """

    name: str
    options: int
    loop: bool


@dataclass(frozen=True)
class Plan:
    """The whole program. A clock has a component per role, then one per mbarrier, then one per meeting, then again one
    per role (`fenced`), and where arrivals follow cp.asyncs one per mbarrier.

    places: by region, its space and CTA. near: by region, the regions that share bytes with it, itself included, less
    those with which it never conflicts, which are unharmed; unsettled: (role, region) of reads that must find data and
    are not settled; taken: regions from which copies are taken. maps: regions that share bytes with a tensormap that is
    used.
    homes: the roles of each CTA. endless: some role can come back to where it was; forever: without any decision.
    asks: by role and location, the decisions that it can still ask for.
    """

    kernel: Kernel
    moves: tuple[tuple[Move, ...], ...]
    barriers: tuple[BarrierUse, ...]
    meetings: tuple[MeetingUse, ...]
    decisions: tuple[DecisionUse, ...]
    asks: tuple[tuple[frozenset[int], ...], ...]
    places: tuple[tuple[str, int], ...]
    near: tuple[tuple[int, ...], ...]
    unharmed: tuple[tuple[int, ...], ...]
    unsettled: frozenset[tuple[int, int]]
    taken: frozenset[int]
    maps: frozenset[int]
    homes: tuple[tuple[int, ...], ...]
    endless: bool
    forever: bool

    @property
    def programs(self) -> tuple[Program, ...]:
        """Those of the kernel."""
        return self.kernel.programs

    @cached_property
    def warpgroups(self) -> tuple[tuple[int, ...], ...]:
        """By role that is a part of a warpgroup which executes wgmma, the other roles of that warpgroup."""
        numbers = {program.name: number for number, program in enumerate(self.programs)}
        found = warpgroups_of(self.programs)
        return tuple(tuple(numbers[one] for one in found.get(program.name, ())) for program in self.programs)

    @cached_property
    def together(self) -> tuple[frozenset[int], ...]:
        """By role that is such a part, those of the others whose wgmmas are the same."""
        numbers = {program.name: number for number, program in enumerate(self.programs)}
        found = Together(self.programs).partners
        return tuple(frozenset(numbers[one] for one in found.get(program.name, ())) for program in self.programs)

    @cached_property
    def joint(self) -> frozenset[int]:
        """The regions that wgmmas of such parts read."""
        begins = (move for moves in self.moves for move in moves if move.joins == "begins")
        return frozenset(use.bytes for move in begins for use in move.uses if use.lasting and not use.write)

    @cached_property
    def pending(self) -> Numbers:
        """By role that is such a part, the most groups of wgmmas that a wait of it leaves; -1 if it has no wait."""
        waits = ((move.pending for move in moves if move.joins == "waits") for moves in self.moves)
        return tuple(max(some, default=-1) for some in waits)

    @cached_property
    def loosens(self) -> bool:
        """Some operation leaves accesses without a release."""
        return any(move.loosens for moves in self.moves for move in moves)

    @cached_property
    def hands_on(self) -> bool:
        """Roles meet where an arrival releases nothing."""
        return any(is_loose(node.operation) for program in self.programs for node in program.nodes)

    @cached_property
    def users(self) -> tuple[frozenset[int], ...]:
        """By barrier, the roles that do anything with it."""
        on = [(role, number) for role, move in self._all() for number in move.barriers]
        return tuple(frozenset(role for role, number in on if number == one) for one in range(len(self.barriers)))

    @cached_property
    def members(self) -> tuple[frozenset[int], ...]:
        """By meeting, the roles that come to it."""
        on = [(role, move.thing) for role, move in self._all() if move.kind in ("meet", "leave")]
        return tuple(frozenset(role for role, number in on if number == one) for one in range(len(self.meetings)))

    @cached_property
    def touching(self) -> tuple[frozenset[int], ...]:
        """By region, the roles that access some of its bytes."""
        by_region: list[set[int]] = [set() for _ in self.near]
        for role, move in self._all():
            for use in move.uses:
                for number in (*self.near[use.bytes], *self.unharmed[use.bytes]):
                    by_region[number].add(role)
        return tuple(map(frozenset, by_region))

    @cached_property
    def wanted(self) -> tuple[str, ...]:
        """The buffers in which some read must find data."""
        return tuple(sorted({access.object for _, move in self._all() for access, _ in move.wants}))

    def _all(self) -> Iterator[tuple[int, Move]]:
        """Each location with its role; of an arrival at several CTAs, all of them."""
        for role, moves in enumerate(self.moves):
            for move in moves:
                yield from ((role, part) for part in move.parts or (move,))

    @cached_property
    def fenced(self) -> int:
        """Where in a clock those components begin that count, by role, the events before a proxy fence before now."""
        return len(self.programs) + len(self.barriers) + len(self.meetings)

    @cached_property
    def triggers(self) -> bool:
        """Arrivals follow cp.asyncs. Then clocks count for each barrier, too, which completions a fence is behind."""
        return any(move.kind == "trigger" for moves in self.moves for move in moves)

    @cached_property
    def width(self) -> int:
        return self.fenced + len(self.programs) + (len(self.barriers) if self.triggers else 0)

    def fenced_stage(self, barrier: int) -> int:
        """The component for a barrier: how many of its completions are before a proxy fence before now."""
        return self.fenced + len(self.programs) + barrier


def has_cycle(programs: tuple[Program, ...], *, choosing: bool = True) -> bool:
    """Whether some role goes round for ever without another iteration of a trip-count loop. choosing: it may choose."""
    for program in programs:
        targets = [
            [
                to
                for answer, to in node.successors.items()
                if not (node.loop and answer) and (choosing or not isinstance(node.operation, op.Choose))
            ]
            for node in program.nodes
        ]
        entries = [0] * len(targets)
        for to in (to for them in targets for to in them):
            entries[to] += 1
        free = [index for index, count in enumerate(entries) if not count]
        for index in free:
            for to in targets[index]:
                entries[to] -= 1
                if not entries[to]:
                    free.append(to)
        if len(free) < len(targets):
            return True
    return False
