"""What is fixed before a run: every location of every role as a `Move`, with its barriers and bytes as numbers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field, replace
from typing import assert_never

from sm90_verify.spec.model.barrier_bytes import barriers_under
from sm90_verify.spec.model.flow import just_waited, meeting_of
from sm90_verify.spec.model.kernel import Kernel, Node, Program
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import accesses_of, contents, expectations, outlasts
from sm90_verify.spec.ptx.memory import Access

Names = tuple[int, ...]
"""Barriers by number."""


@dataclass(frozen=True, slots=True)
class Use:
    """One access by an operation: `bytes` numbers its region; `asynchronous` means shared memory by the async proxy;
    far: the other CTA whose memory it is, or -1.
    """

    bytes: int
    write: bool
    asynchronous: bool
    access: Access
    far: int


@dataclass(slots=True)
class Move:
    """One location of a role. kind: how the run executes it. next: the location after it, -1 at the end.

    thing: the number of its barrier or meeting, -1 if none; things: for a copy, the barrier of each destination. far:
    the other CTA whose barrier it is, or -1. operation: what it or its copy does to a barrier, the same for every
    barrier, so that its effect is found again; of a wait the form that blocks, on the CTA's own barrier.
    uses: what it accesses; wants: (buffer, tag) that it must find; leaves: (buffer, tag, buffers that hold nothing
    then). over_barriers: those of its accesses that lie over a barrier, and which. over: accesses that it is the end
    of; lasting: it is not the end of its own. loosens, tightens: accesses that nothing releases to other roles from
    here on, or that it releases.
    watches, watched: barriers whose wait the role has only just passed there (spec.model.flow.just_waited, distance 0
    and 1); forgets, forgot: those of which that ends with this operation.
    """

    kind: str
    node: Node
    next: int = -1
    again: int = -1
    thing: int = -1
    things: tuple[int, ...] = ()
    far: int = -1
    operation: op.Signal | op.Wait | None = None
    uses: tuple[Use, ...] = ()
    wants: tuple[tuple[str, Hashable], ...] = ()
    leaves: tuple[tuple[str, Hashable, tuple[str, ...]], ...] = ()
    over_barriers: tuple[tuple[Access, int], ...] = ()
    over: tuple[tuple[int, bool], ...] = ()
    lasting: bool = False
    loosens: tuple[tuple[int, bool], ...] = ()
    tightens: tuple[tuple[int, bool], ...] = ()
    watches: Names = ()
    watched: Names = ()
    forgets: Names = ()
    forgot: Names = ()

    def standing(self, node: Node) -> Move:
        """The same operation at another location."""
        return Move(
            self.kind,
            node,
            node.successors[None],
            -1,
            self.thing,
            self.things,
            self.far,
            self.operation,
            self.uses,
            self.wants,
            self.leaves,
            over_barriers=self.over_barriers,
            lasting=self.lasting,
        )


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


@dataclass(frozen=True)
class MeetingUse:
    """A named barrier, __syncthreads(), __syncwarp() or barrier.cluster: the roles of which an exit counts as an
    arrival, and how many threads it counts (0: the instruction says)."""

    name: str
    roles: tuple[int, ...]
    total: int


@dataclass(frozen=True)
class Plan:
    """The whole program. A clock has a component per role, then one per mbarrier, then one per meeting.

    near: by region, the regions that share bytes with it, itself included.
    homes: the roles of each CTA. copies: there are bulk copies. endless: some role can come back to where it was;
    forever: even if every trip count is finite. loop: the trip count left open.
    """

    kernel: Kernel
    moves: tuple[tuple[Move, ...], ...]
    barriers: tuple[BarrierUse, ...]
    meetings: tuple[MeetingUse, ...]
    near: tuple[tuple[int, ...], ...]
    homes: tuple[tuple[int, ...], ...]
    copies: bool
    endless: bool
    forever: bool
    loop: str

    @property
    def programs(self) -> tuple[Program, ...]:
        """Those of the kernel."""
        return self.kernel.programs

    @property
    def width(self) -> int:
        return len(self.programs) + len(self.barriers) + len(self.meetings)


def refusal(programs: tuple[Program, ...]) -> str:
    """Why one run says nothing about the others: control flow that depends on the schedule; "" if there is none."""
    loops: dict[str, None] = {}
    for program in programs:
        for node in program.nodes:
            operation = node.operation
            if isinstance(operation, op.Choose):
                return f"control flow depends on choose({operation.name!r}) ({node.source})"
            if isinstance(operation, op.Wait) and operation.kind != "wait":
                return f"control flow depends on the answer of {operation.kind} on {operation.barrier} ({node.source})"
            if node.loop:
                loops[node.loop] = None
    if len(loops) > 1:
        return f"control flow depends on several trip counts: {', '.join(loops)}"
    return ""


def make_plan(kernel: Kernel) -> Plan:
    """Numbers everything; the programs have no refusal."""
    return _Planner(kernel).plan()


class _Planner:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.programs = kernel, kernel.programs
        self.barriers = self._barriers()
        self.numbers = {use.name: number for number, use in enumerate(self.barriers)}
        self.meetings: dict[str, MeetingUse] = {}
        self.regions: dict[tuple[str, tuple[str, int], int, int], int] = {}
        self.known: dict[tuple[op.Operation, str | int], Move] = {}

    def plan(self) -> Plan:
        for number, program in enumerate(self.programs):
            for node in program.nodes:
                self._note(number, program, node)
        moves = tuple(tuple(self._role(program)) for program in self.programs)
        endless = any(
            target <= index
            for program in self.programs
            for index, node in enumerate(program.nodes)
            for target in node.successors.values()
        )
        loops = [node.loop for program in self.programs for node in program.nodes if node.loop]
        return Plan(
            self.kernel,
            moves,
            tuple(self.barriers),
            tuple(self.meetings.values()),
            self._near(),
            tuple(
                tuple(number for number, program in enumerate(self.programs) if program.me.cta == cta)
                for cta in range(self.kernel.cluster.size)
            ),
            any(isinstance(node.operation, op.Load) for program in self.programs for node in program.nodes),
            endless,
            _has_cycle(self.programs),
            loops[0] if loops else "",
        )

    def _barriers(self) -> list[BarrierUse]:
        layout = self.kernel.layout
        declared = set(layout.barriers)
        return [
            BarrierUse(region.object, layout.arrivals.get(region.object, 1), region.object in layout.arrivals)
            for region in layout.regions
            if region.declaration in declared
        ]

    def _note(self, role: int, program: Program, node: Node) -> None:
        """What one operation says about its barrier, meeting or buffers."""
        operation = node.operation
        match operation:
            case op.Wait(phase=op.Token()):
                use = self.barriers[self.numbers[operation.barrier]]
                if role not in use.tokens:
                    use.tokens.append(role)
            case op.Wait():
                use = self.barriers[self.numbers[operation.barrier]]
                use.distance[role] = max(use.distance.get(role, 0), node.distance)
            case op.Arrive():
                use = self.barriers[self.numbers[operation.barrier]]
                use.counts[operation.count] = None
                use.plain &= operation.kind == "arrive" and operation.expect is None
            case op.Inval() | op.Init():
                use = self.barriers[self.numbers[operation.barrier]]
                use.plain = False
                use.invals |= isinstance(operation, op.Inval)
            case op.Transaction():
                self.barriers[self.numbers[operation.barrier]].plain = False
            case op.Load():
                for _, barrier in operation.destinations:
                    self.barriers[self.numbers[barrier]].plain = False
            case op.NamedSync() | op.CtaSync() | op.WarpSync() | op.ClusterArrive() | op.ClusterWait():
                name = meeting_of(program, operation) or ""
                if name not in self.meetings:
                    self.meetings[name] = MeetingUse(name, *self._members(program, operation))
            case None | op.Touch() | op.Store() | op.Group() | op.Fence() | op.Choose() | op.Setmaxnreg():
                pass
            case _:
                assert_never(operation)

    def _members(self, program: Program, operation: op.Meeting) -> tuple[tuple[int, ...], int]:
        """The roles whose exit counts as an arrival, and the threads that are counted; for a named barrier, neither."""
        match operation:
            case op.NamedSync():
                return (), 0
            case op.WarpSync():
                return (), sum(other.me.threads for other in self.programs if other.role == program.role)
            case op.CtaSync():
                them = [number for number, other in enumerate(self.programs) if other.me.cta == program.me.cta]
            case op.ClusterArrive() | op.ClusterWait():
                them = list(range(len(self.programs)))
            case _:
                assert_never(operation)
        return tuple(them), sum(self.programs[number].me.threads for number in them)

    def _role(self, program: Program) -> Iterable[Move]:
        watches = [self._names(names) for names in just_waited(program, 0)]
        watched = [self._names(names) for names in just_waited(program, 1)]
        for index, node in enumerate(program.nodes):
            move = self._move(program, node)
            move.watches, move.watched = watches[index], watched[index]
            for target in node.successors.values():
                move.forgets += tuple(name for name in watches[index] if name not in watches[target])
                move.forgot += tuple(name for name in watched[index] if name not in watched[target])
            yield move

    def _names(self, names: tuple[str, ...]) -> Names:
        return tuple(self.numbers[name] for name in names)

    def _move(self, program: Program, node: Node) -> Move:
        operation = node.operation
        if operation is None:
            if not node.loop:
                return Move("end", node)
            return Move("loop", node, node.successors.get(False, -1), node.successors.get(True, -1))
        key = (operation, program.role if isinstance(operation, op.WarpSync) else program.me.cta)
        known = self.known.get(key)
        if known is None:
            known = self.known[key] = self._first(program, node, operation)
        move = known.standing(node)
        held, then = node.held, program.nodes[move.next].held
        if isinstance(operation, op.Group):
            move.over = self._missing(held.in_progress(), then.in_progress())
        if held.tracks:
            move.loosens = self._missing(then.unordered, held.unordered)
            move.tightens = self._missing(held.unordered, then.unordered)
        return move

    def _missing(self, some: tuple[Access, ...], others: tuple[Access, ...]) -> tuple[tuple[int, bool], ...]:
        return tuple((self._region(access), access.write) for access in some if access not in others)

    def _first(self, program: Program, node: Node, operation: op.Operation) -> Move:
        over = tuple((access, self.numbers[name]) for access, name in barriers_under(self.kernel.layout, operation))
        return replace(self._plain(program, node, operation), over_barriers=over)

    def _plain(self, program: Program, node: Node, operation: op.Operation) -> Move:
        uses = tuple(
            Use(
                self._region(access),
                access.write,
                access.proxy == "async" and access.space == "shared",
                access,
                access.cta if access.space != "global" and access.cta != program.me.cta else -1,
            )
            for access in accesses_of(operation)
        )
        match operation:
            case op.Wait():
                number = self.numbers[operation.barrier]
                if isinstance(operation.phase, op.Token):
                    return Move("token", node, thing=number, operation=op.Wait("", op.Token("")))
                return Move("wait", node, thing=number, operation=op.Wait("", int(operation.phase)))
            case op.Init() | op.Inval():
                kind = "init" if isinstance(operation, op.Init) else "inval"
                leaves = tuple(self._leave(*pair) for pair in contents(operation))
                alike: op.Signal = replace(operation, barrier="", write=None)
                number = self.numbers[operation.barrier]
                return Move(kind, node, thing=number, operation=alike, uses=uses, leaves=leaves)
            case op.Arrive() | op.Transaction():
                far = operation.cta
                alike = replace(operation, barrier="", cta=min(far, 0))
                return Move("signal", node, thing=self.numbers[operation.barrier], far=far, operation=alike)
            case op.Load():
                lands = op.Transaction("", -(operation.bytes // operation.pieces))
                leaves = tuple(self._leave(write, operation.tag) for write, _ in operation.destinations)
                things = tuple(self.numbers[barrier] for _, barrier in operation.destinations)
                return Move("load", node, things=things, operation=lands, uses=uses, leaves=leaves)
            case op.Touch() | op.Store():
                leaves = tuple(self._leave(*pair) for pair in contents(operation))
                lasting = outlasts(operation)
                return Move("access", node, uses=uses, wants=_wants(operation), leaves=leaves, lasting=lasting)
            case op.Group():
                return Move("access", node)
            case op.Fence():
                return Move("fence", node)
            case op.NamedSync() | op.CtaSync() | op.WarpSync() | op.ClusterArrive():
                return Move("meet", node, thing=self._meeting(program, operation))
            case op.ClusterWait():
                return Move("leave", node, thing=self._meeting(program, operation))
            case op.Setmaxnreg():
                return Move("registers", node)
            case op.Choose():
                raise AssertionError("a program with a choice is refused")
            case _:
                assert_never(operation)

    def _meeting(self, program: Program, operation: op.Operation) -> int:
        return list(self.meetings).index(meeting_of(program, operation) or "")

    def _leave(self, access: Access, tag: Hashable) -> tuple[str, Hashable, tuple[str, ...]]:
        others = [
            region.object
            for region in self.kernel.layout.regions
            if region.object != access.object
            and (region.space, region.cta) == (access.space, access.cta)
            and region.start < access.stop
            and access.start < region.stop
        ]
        return access.object, tag, tuple(others)

    def _region(self, access: Access) -> int:
        key = (access.object, (access.space, access.cta), access.start, access.stop)
        return self.regions.setdefault(key, len(self.regions))

    def _near(self) -> tuple[tuple[int, ...], ...]:
        near: list[list[int]] = [[] for _ in self.regions]
        ordered = sorted(self.regions.items(), key=lambda item: item[0][1:])
        for index, ((_, space, _, stop), one) in enumerate(ordered):
            near[one].append(one)
            for (_, where, start, _), other in ordered[index + 1 :]:
                if where != space or start >= stop:
                    break
                near[one].append(other)
                near[other].append(one)
        return tuple(tuple(sorted(numbers)) for numbers in near)


def _has_cycle(programs: tuple[Program, ...]) -> bool:
    """Whether some role goes round for ever without another iteration of the trip-count loop."""
    for program in programs:
        targets = [
            [to for answer, to in node.successors.items() if not (node.loop and answer)] for node in program.nodes
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


def _wants(operation: op.Operation) -> tuple[tuple[str, Hashable], ...]:
    return tuple((access.object, tag) for access, tag in expectations(operation) if tag is not None)
