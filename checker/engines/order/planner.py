"""From a kernel to the plan of its run: barriers, meetings and bytes get numbers, and every location its `Move`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import assert_never

from sm90_verify.engines.order.decisions import asked_ahead, decided_by, decisions_of, unequal
from sm90_verify.engines.order.joint import Marked, Parts, joins
from sm90_verify.engines.order.plan import BarrierUse, Left, MeetingUse, Move, Numbers, Plan, Use, has_cycle
from sm90_verify.engines.order.settled import settle, unsettled
from sm90_verify.spec.model.barrier_bytes import barriers_under
from sm90_verify.spec.model.contents import extents, left_by
from sm90_verify.spec.model.flow import just_waited, meeting_of, threads_of_warp
from sm90_verify.spec.model.kernel import Kernel, Node, Program
from sm90_verify.spec.model.weaker import weaker_operation
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effect_parts import Begun
from sm90_verify.spec.ptx.effects import Effects, effects_of
from sm90_verify.spec.ptx.memory import Access
from sm90_verify.spec.ptx.needs import TOGETHER
from sm90_verify.spec.ptx.own_accesses import own_faults

TAKEN = "taken"
"""Marks the bytes that copies are taken from, apart from the same bytes where they are read or written."""


def refusal(programs: tuple[Program, ...]) -> str:
    """Why one run says nothing about the others: control flow that depends on the schedule; "" if there is none."""
    if (unfollowed := _unfollowed(programs)) is not None:
        return f"st.async writes {unfollowed}, which is accessed through the async proxy: the fence is not followed"
    for program in programs:
        for node in program.nodes:
            effects = effects_of(node.operation)
            if any(copies.write.strong is not None for copies, _ in effects.lands):
                return f"red.async is taken for a write like any other ({node.source})"
            if effects.triggers is not None:
                return f"arrivals that follow cp.asyncs come at any time ({node.source})"
            if effects.word is not None:
                return f"control flow depends on the value of {effects.word.access.object} ({node.source})"
            if effects.finds is not None:
                return f"control flow depends on what is found in {effects.finds.access.object} ({node.source})"
            wait = effects.waits
            if wait is not None and wait.kind != "wait":
                return f"control flow depends on the answer of {wait.kind} on {wait.barrier} ({node.source})"
            if wait is not None and node.skips:
                return f"{program.name} waits on {wait.barrier} for some phases only ({node.source})"
    return unequal(programs)


def _unfollowed(programs: tuple[Program, ...]) -> str | None:
    """A buffer that st.async writes and that an access through the async proxy wants a fence for."""
    effects = [effects_of(node.operation) for program in programs for node in program.nodes]
    stored = {copies.write: None for one in effects for copies, _ in one.lands if copies.write.proxy == "generic"}
    wanting = {access: None for one in effects for access in one.accesses if stored and access.wants_fence}
    return next((one.object for one in stored for other in wanting if one.overlaps(other)), None)


def orders_less(kernel: Kernel) -> str:
    """Why going on because of another role does not mean to be ordered after it; "" where it does."""
    where = weaker_operation(kernel)
    return f"an operation orders less than all that came before it ({where})" if where else ""


def make_plan(kernel: Kernel) -> Plan:
    """Numbers everything; the programs have no refusal."""
    return _Planner(kernel).plan()


class _Planner:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.programs = kernel, kernel.programs
        self.barriers, self.objects = self._barriers(), extents(kernel.layout)
        self.decisions = decisions_of(kernel.programs)
        self.asked = {(use.name, use.loop): number for number, use in enumerate(self.decisions)}
        self.numbers = {use.name: number for number, use in enumerate(self.barriers)}
        self.meetings: dict[str, MeetingUse] = {}
        self.regions: dict[tuple[str, tuple[str, int], int, int, str, Access | None], int] = {}
        self.known: dict[tuple[op.Operation, str | int, bool], Move] = {}
        self.parts = Parts(kernel.programs)

    def plan(self) -> Plan:
        for number, program in enumerate(self.programs):
            for node in program.nodes:
                self._note(number, program, node)
        moves = tuple(tuple(self._role(program)) for program in self.programs)
        settle(self.programs, moves)
        near, unharmed = self._near()
        endless = any(
            target <= index
            for program in self.programs
            for index, node in enumerate(program.nodes)
            for target in node.successors.values()
        )
        return Plan(
            self.kernel,
            moves,
            tuple(self.barriers),
            tuple(self.meetings.values()),
            self.decisions,
            tuple(asked_ahead(program, self.decisions) for program in self.programs),
            tuple(key[1] for key in self.regions),
            near,
            unharmed,
            unsettled(moves),
            frozenset(number for key, number in self.regions.items() if key[4] == TAKEN),
            frozenset(
                one for role in moves for move in role for use in move.uses if use.map for one in near[use.bytes]
            ),
            tuple(
                tuple(number for number, program in enumerate(self.programs) if program.me.number == cta)
                for cta in range(self.kernel.launch.ctas)
            ),
            endless,
            has_cycle(self.programs, choosing=False),
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
        effects = effects_of(node.operation)
        for copies, _ in effects.lands:
            self._use(copies.barrier).plain = False
        for signal in effects.signals:
            self._note_signal(self._use(signal.barrier), signal)
        if effects.waits is not None:
            use = self._use(effects.waits.barrier)
            if not isinstance(effects.waits.phase, op.Token):
                use.distance[role] = max(use.distance.get(role, 0), node.distance)
            elif role not in use.tokens:
                use.tokens.append(role)
        name = meeting_of(program, node.operation) or ""
        if effects.meets is not None and name not in self.meetings:
            self.meetings[name] = MeetingUse(name, *self._members(program, effects.meets))

    def _use(self, barrier: str) -> BarrierUse:
        return self.barriers[self.numbers[barrier]]

    @staticmethod
    def _note_signal(use: BarrierUse, signal: op.Signal) -> None:
        match signal:
            case op.Arrive():
                use.counts[signal.count] = None
                use.plain &= signal.kind == "arrive" and signal.expect is None
            case op.Inval() | op.Init():
                use.plain = False
                use.invals |= isinstance(signal, op.Inval)
            case op.Transaction():
                use.plain = False
            case _:
                assert_never(signal)

    def _members(self, program: Program, operation: op.Meeting) -> tuple[tuple[int, ...], int]:
        """The roles whose exit counts as an arrival, and the threads that are counted; for a named barrier, neither."""
        match operation:
            case op.NamedSync():
                return (), 0
            case op.WarpSync():
                return (), threads_of_warp(self.programs, program, operation)
            case op.CtaSync():
                them = [number for number, other in enumerate(self.programs) if other.me.number == program.me.number]
            case op.ClusterArrive() | op.ClusterWait():
                them = [number for number, other in enumerate(self.programs) if other.peers == program.peers]
            case _:
                assert_never(operation)
        return tuple(them), sum(self.programs[number].me.threads for number in them)

    def _role(self, program: Program) -> Iterable[Move]:
        watches = [self._names(names) if names else () for names in just_waited(program, 0)]
        watched = [self._names(names) if names else () for names in just_waited(program, 1)]
        for index, node in enumerate(program.nodes):
            move = self._move(program, node)
            move.watches, move.watched = watches[index], watched[index]
            if watches[index]:
                for target in node.successors.values():
                    move.forgets += tuple(name for name in watches[index] if name not in watches[target])
                    move.forgot += tuple(name for name in watched[index] if name not in watched[target])
            yield move

    def _names(self, names: tuple[str, ...]) -> Numbers:
        return tuple(self.numbers[name] for name in names)

    def _move(self, program: Program, node: Node) -> Move:
        operation, decision = node.operation, decided_by(node)
        if decision is not None:
            leads = tuple(node.successors[number] for number in range(len(node.successors)))
            return Move("decide", node, thing=self.asked[decision], leads=leads)
        if operation is None:
            return Move("end", node)
        part = program.name in self.parts.marks
        key = (operation, program.role if isinstance(operation, op.WarpSync) else program.me.number, part)
        known = self.known.get(key)
        if known is None:
            known = self.known[key] = self._first(program, node, operation)
        move = known.standing(node)
        held, then = node.held, program.nodes[move.next].held
        move.own = tuple(
            (property, because, use.access.object)
            for use in move.uses
            for property, because in own_faults(program.name, use.access, held)
        )
        if (parted := effects_of(operation).parted) is not None:
            because = TOGETHER.said(role=program.name, instruction=parted.instruction, others=parted.others)
            move.own = ((TOGETHER.property, because, program.name),)
        if effects_of(operation).ends is not None:
            move.over = self._missing(*(self.parts.in_progress(program, one) for one in (held, then)))
            move.made = tuple(self._region(access) for access in held.copied_by(operation))
        if "accesses" in move.shows:
            move.unfenced = tuple({self._region(access): None for access in then.unfenced})
        if part:
            move.joins = joins(operation)
        if held.tracks:
            loose, still = (self.parts.marked(program, one.unordered) for one in (held, then))
            move.loosens, move.tightens = self._missing(still, loose), self._missing(loose, still)
        return move

    def _missing(self, some: tuple[Marked, ...], others: tuple[Marked, ...]) -> tuple[tuple[int, bool], ...]:
        return tuple((self._region(*one), one[0].write) for one in some if one not in others)

    def _first(self, program: Program, node: Node, operation: op.Operation) -> Move:
        over = tuple((access, self.numbers[name]) for access, name in barriers_under(self.kernel.layout, operation))
        move = self._plain(program, node, operation)
        move.over_barriers = over
        return move

    def _plain(self, program: Program, node: Node, operation: op.Operation) -> Move:
        effects = effects_of(operation)
        uses = tuple(self._used(program, *pair) for begun in effects.begins for pair in self._landing(begun, effects))
        leaves = tuple(self._leave(*pair) for pair in effects.left)
        if effects.waits is not None:
            number, phase = self.numbers[effects.waits.barrier], effects.waits.phase
            if isinstance(phase, op.Token):
                return Move("token", node, thing=number, operation=op.Wait("", op.Token("")))
            return Move("wait", node, thing=number, operation=op.Wait("", int(phase)))
        if effects.signal is not None:
            first, *more = [self._signalling(node, signal, uses, leaves) for signal in effects.signals]
            first.parts = (first, *more) if more else ()
            return first
        if effects.lands:
            (copies, _), *_ = effects.lands
            lost = op.Transaction("", -(copies.bytes // copies.pieces))
            leaves = tuple(self._leave(one.write, tag) for one, tag in effects.lands)
            things = tuple(self.numbers[one.barrier] for one, _ in effects.lands)
            wants = _wants(effects)
            return Move(
                "load", node, things=things, operation=lost, uses=uses, wants=wants, leaves=leaves, pieces=copies.pieces
            )
        if effects.meets is not None:
            kind = "leave" if isinstance(effects.meets, op.ClusterWait) else "meet"
            return Move(kind, node, thing=self._meeting(program, operation), shows=effects.shows)
        if effects.chooses is not None:
            raise AssertionError("a choice is a decision")
        if effects.registers is not None:
            return Move("registers", node)
        if effects.turns is not None:
            return Move("turn", node)
        shows, seen = effects.shows, effects.acquires
        acquires = (-1, False) if seen is None else (self._region(seen.map), seen.wide)
        return Move("access", node, uses=uses, wants=_wants(effects), leaves=leaves, shows=shows, acquires=acquires)

    def _signalling(self, node: Node, signal: op.Signal, uses: tuple[Use, ...], leaves: tuple[Left, ...]) -> Move:
        kind, far, alike = _signal(signal)
        return Move(kind, node, thing=self.numbers[signal.barrier], far=far, operation=alike, uses=uses, leaves=leaves)

    def _landing(self, begun: Begun, effects: Effects) -> Iterable[tuple[Begun, int]]:
        """With the barriers that tell when the copies have landed that make the access; a source may have several."""
        lands = [self.numbers[one.barrier] for one, _ in effects.lands if begun.access in one.accesses]
        return ((begun, number) for number in lands or [-1])

    def _used(self, program: Program, begun: Begun, lands: int) -> Use:
        access = begun.access
        return Use(
            self._region(
                access, TAKEN if begun.until == "landed" and not access.write else self.parts.mark(program, begun)
            ),
            access.write,
            access.wants_fence,
            access,
            access.cta if access.space != "global" and access.cta != program.me.number else -1,
            begun.until in ("mma_group", "bulk_group", "cp_group"),
            lands,
            begun.raw,
            access.proxy == "tensormap",
        )

    def _meeting(self, program: Program, operation: op.Operation) -> int:
        return list(self.meetings).index(meeting_of(program, operation) or "")

    def _leave(self, access: Access, tag: Hashable) -> Left:
        others = [
            region.object
            for region in self.kernel.layout.regions
            if region.object != access.object
            and (region.space, region.cta) == (access.space, access.cta)
            and region.start < access.stop
            and access.start < region.stop
        ]
        return access.object, left_by(access, tag, self.objects), tuple(others)

    def _region(self, access: Access, how: str = "") -> int:
        told = access._replace(write=True) if access.strong or access.value is not None else None
        key = (access.object, (access.space, access.cta), access.start, access.stop, how, told)
        return self.regions.setdefault(key, len(self.regions))

    def _near(self) -> tuple[tuple[Numbers, ...], tuple[Numbers, ...]]:
        """By region, the regions that share bytes with it: those with which it conflicts, and those with which it does
        not, although one of the two is written.
        """
        near: list[list[int]] = [[] for _ in self.regions]
        unharmed: list[list[int]] = [[] for _ in self.regions]
        ordered = sorted(self.regions.items(), key=lambda item: item[0][1:5])
        for index, ((_, space, _, stop, _, mine), one) in enumerate(ordered):
            (near if mine is None or not mine.unharmed_by(mine) else unharmed)[one].append(one)
            for (_, where, start, _, _, theirs), other in ordered[index + 1 :]:
                if where != space or start >= stop:
                    break
                found = near if mine is None or theirs is None or not mine.unharmed_by(theirs) else unharmed
                found[one].append(other)
                found[other].append(one)
        return tuple(tuple(sorted(one)) for one in near), tuple(tuple(sorted(one)) for one in unharmed)


def _wants(effects: Effects) -> tuple[tuple[Access, Hashable], ...]:
    return tuple((access, tag) for access, tag in effects.expected if tag is not None)


def _signal(signal: op.Signal) -> tuple[str, int, op.Signal]:
    """The kind of its move, the other CTA that it reaches into, and what it does, whichever barrier it is."""
    match signal:
        case op.Init():
            return "init", -1, replace(signal, barrier="", write=None)
        case op.Inval():
            return "inval", -1, replace(signal, barrier="", write=None)
        case op.Arrive() | op.Transaction():
            return "signal", signal.cta, replace(signal, barrier="", cta=min(signal.cta, 0))
        case _:
            assert_never(signal)
