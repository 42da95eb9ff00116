"""One run of a cluster: every warp goes on until it has to wait, then the next, until all have exited or none can.

What a kernel computes is followed exactly where it matters for its synchronisation; copies land as soon as they are
issued. Lanes that part at a branch go on one part at a time, the part that is behind first, and join where they meet.
"""

from __future__ import annotations

from typing import Protocol

from sm90_verify.frontends.ptx.accumulators import TouchStep
from sm90_verify.frontends.ptx.addresses import Addresses, code_of
from sm90_verify.frontends.ptx.code import Code, Specials
from sm90_verify.frontends.ptx.dispatch import handler_of
from sm90_verify.frontends.ptx.events import LaneEvent, LanesAccessed, LanesMet, What
from sm90_verify.frontends.ptx.fragment import UNWRITTEN, Fragment, mask_of
from sm90_verify.frontends.ptx.handlers import Binding, Handler
from sm90_verify.frontends.ptx.idle import WaysMeet, meeting_of
from sm90_verify.frontends.ptx.instruction import Function, Guard, PtxModule
from sm90_verify.frontends.ptx.launch import Block, Launch
from sm90_verify.frontends.ptx.operands import Indices, OperandReader, Undetermined, depends
from sm90_verify.frontends.ptx.special import special
from sm90_verify.frontends.ptx.spinning import ComesBack, comes_back, comes_to_line
from sm90_verify.frontends.ptx.state import Assumed, ClusterState, CtaState, Warp
from sm90_verify.frontends.ptx.together import (
    Members,
    members,
    met_elsewhere,
    must_meet,
    never_together,
    unlike_warps,
    waits_for,
)
from sm90_verify.frontends.ptx.values import Unknown, Value
from sm90_verify.spec.errors import Source, SpecError
from sm90_verify.spec.model.tick import EVENTS_OF, ROUND_WITHOUT_EVENT, Tick, unheard
from sm90_verify.spec.ptx.cluster import Cluster
from sm90_verify.spec.ptx.limits import WARP

MOST_BLOCKS = 50_000_000
"""Blocks of code that a warp executes at most: more is taken for a loop without end."""
OFTEN = 256
"""Blocks after which whoever asked is told."""
ROUND = 64
"""Times as many blocks after which it is remembered where a warp is, to see that it goes round in a circle."""


class Onlooker(Protocol):
    """Somebody who looks on, and may change what registers hold."""

    def comes(self, warp: Warp, fragment: Fragment, block: int) -> None:
        """Lanes are about to leave their block for another one."""


class ClusterRun:
    """Executes one cluster of a launch."""

    def __init__(self, code: Code, addresses: Addresses, launch: Launch, blocks: tuple[Block, ...], tick: Tick) -> None:
        self.code, self.addresses, self.launch, self.tick = code, addresses, launch, tick
        self.cluster = ClusterState(launch)
        self.cluster.assumed.update((Assumed(line, what), None) for line, what in code.given.items())
        self.handlers: dict[int, Handler] = {}
        self.meeting: dict[int, Members | None] = {}
        self.executed = self.threads = 0
        self.parted = False
        self.meetings: dict[int, WaysMeet | None] = {}
        self.been: tuple[Fragment | None, int, list[Value], int] = None, -1, [], 0
        self.quiet = "", 0, 0
        self.spinning: dict[int, ComesBack] = {}
        shape = Cluster(len(blocks), 1)
        for rank, block in enumerate(blocks):
            cta = CtaState(rank, block, shape.home(rank))
            self.cluster.ctas.append(cta)
            for number in range(-(-launch.threads // WARP)):
                lanes = tuple(lane for lane in range(WARP) if number * WARP + lane < launch.threads)
                registers: list[Value] = [UNWRITTEN] * len(code.slots)
                cta.warps.append(Warp(cta, number, [Fragment(lanes, registers)], mask_of(lanes)))

    watch: Onlooker | None = None
    """Told of it when lanes come to a block."""

    def run(self, *, judged: bool = True) -> ClusterState:
        """The state when nothing can happen any more. judged: look for lanes and warps that have parted."""
        moved = True
        while moved:
            moved = False
            for cta in self.cluster.ctas:
                for warp in cta.warps:
                    moved |= self._go_on(warp)
        for cta in self.cluster.ctas:
            for warp in cta.warps:
                warp.left = tuple((one.mask, one.stands_at) for one in warp.fragments)
                self.parted |= judged and never_together(self.code, warp)
            self.parted |= judged and unlike_warps(self.code, cta, parted=self.parted)
        return self.cluster

    @property
    def stuck(self) -> Source | None:
        """Where lanes cannot go on in the end, the first of them; None if all have exited."""
        for cta in self.cluster.ctas:
            for warp in cta.warps:
                for fragment in warp.fragments:
                    block = self.code.blocks[fragment.block]
                    at = block.steps[fragment.step] if fragment.step < len(block.steps) else block.first
                    return self.code.source(at if isinstance(at, int) else block.first)
        return None

    # -- warps

    def _go_on(self, warp: Warp) -> bool:
        """The warp goes on until all of its lanes wait or have exited. Whether any has moved."""
        moved, waiting = False, list[Fragment]()
        while True:
            able = [one for one in warp.fragments if one not in waiting]
            if not able:
                return moved
            fragment = min(able, key=lambda one: (one.block, one.step)) if len(able) > 1 else able[0]
            went = self._advance(warp, fragment)
            moved |= went
            if not went or fragment.waits:
                waiting.append(fragment)
                if went:
                    waiting = [fragment]
            if len(warp.fragments) > 1:
                self._join(warp)
                waiting = [one for one in waiting if one in warp.fragments]

    def _join(self, warp: Warp) -> None:
        """Fragments at the same place become one."""
        kept: list[Fragment] = []
        for one in warp.fragments:
            same = next((other for other in kept if other.joins(one)), None)
            if same is None:
                kept.append(one)
            else:
                same.join(one)
                same.waits = False
        warp.fragments[:] = kept

    def _advance(self, warp: Warp, fragment: Fragment) -> bool:
        """Executes blocks until the lanes part, wait, or could meet others. Whether anything was executed."""
        blocks, moved = self.code.blocks, False
        if self.launch.open is not None:
            self.launch.open.periods.running = warp.name
        fragment.waits, fragment.stands_at = False, None
        while True:
            block = blocks[fragment.block]
            steps = block.steps
            while fragment.step < len(steps):
                step = steps[fragment.step]
                if isinstance(step, int):
                    if not self._do(warp, fragment, step):
                        return moved
                elif isinstance(step, TouchStep):
                    step.note(warp, fragment, self.code.slots)
                else:
                    step(fragment.registers, self._specials(warp, fragment))
                fragment.step += 1
                moved = True
            self.executed += 1
            self.threads += block.count * len(fragment.lanes)
            if self.executed % OFTEN == 0:
                self._tell(warp, fragment)
            moved = True
            if not self._leave(warp, fragment) or len(warp.fragments) > 1:
                return moved

    def _tell(self, warp: Warp, fragment: Fragment) -> None:
        where = self.code.source(self.code.blocks[fragment.block].first)
        self.tick("executing", warp.name, self.executed, where)
        if self.quiet[:2] != (warp.name, len(warp.events)):
            self.quiet = warp.name, len(warp.events), self.executed
        self.tick(ROUND_WITHOUT_EVENT, warp.name, self.executed - self.quiet[2], where)
        self.tick(EVENTS_OF, warp.name, len(warp.events), where)
        if self.executed % (OFTEN * ROUND) == 0:
            self.been = fragment, fragment.block, fragment.registers.copy(), len(warp.events)
        elif self.been[:3] == (fragment, fragment.block, fragment.registers) and all(
            isinstance(one.what, LanesAccessed) and not one.what.writes for one in warp.events[self.been[3] :]
        ):
            raise Undetermined(f"{warp.name} waits in a loop for memory to change, and that is not followed", where)
        if self.executed > MOST_BLOCKS:
            raise SpecError(f"{warp.name} does not come to an end: {MOST_BLOCKS} blocks of code were executed", where)

    def _leave(self, warp: Warp, fragment: Fragment) -> bool:
        """From the end of a block to the next. Whether the fragment is still there, and whole."""
        block = self.code.blocks[fragment.block]
        fragment.step = 0
        if block.last < 0:
            return self._to(warp, fragment, block.next)
        one = self.code.function.code[block.last]
        awaited = self._awaits(warp, fragment, one.guard) if one.opcode == "bra" else None
        if awaited is not None:
            return self._to(warp, fragment, awaited)
        taken = self._lanes(fragment, one.guard, block.last)
        if not taken:
            return self._to(warp, fragment, block.next)
        if one.opcode == "bra" and taken is fragment.places:
            return self._to(warp, fragment, self._block(one.target))
        targets = self._targets(fragment, block.last, taken)
        whole = len(taken) == len(fragment.lanes)
        for target, lanes in targets.items():
            mask = sum(1 << lane for lane in lanes)
            if mask == fragment.mask:
                return self._to(warp, fragment, target) and False
            part = fragment.split(mask)
            warp.fragments.append(part)
            self._to(warp, part, target)
        if not whole:
            self._to(warp, fragment, block.next)
        return False

    def _awaits(self, warp: Warp, fragment: Fragment, guard: Guard | None) -> int | None:
        """Where lanes go on that read global memory again and again until others have written it: out of the loop. And
        where it is not known how they go on, but both ways come to the same.
        """
        value = None if guard is None else fragment.registers[self.code.slots[guard.register]]
        if not isinstance(value, Unknown) or not value.awaited:
            unknown = isinstance(value, Unknown) or (
                isinstance(value, tuple) and any(isinstance(one, Unknown) for one in value)
            )
            return self._same_way(warp, fragment, self.code.blocks[fragment.block].last) if unknown else None
        block = self.code.blocks[fragment.block]
        ways = self._block(self.code.function.code[block.last].target), block.next
        back = [comes_to_line(self.code, fragment, way, value.line, self._specials(warp, fragment)) for way in ways]
        if back[0] == back[1]:
            return None
        self.cluster.assumed.setdefault(Assumed(value.line, "others write what the loop around it waits for"))
        return ways[1] if back[0] else ways[0]

    def _same_way(self, warp: Warp, fragment: Fragment, branch: int) -> int | None:
        if branch not in self.meetings:
            self.meetings[branch] = meeting_of(self.code, branch)
        found = self.meetings[branch]
        if found is None:
            return None
        found.touches.note(warp, fragment, self.code.slots, sure=False)
        return found.block

    def _specials(self, warp: Warp, fragment: Fragment) -> Specials:
        return lambda name: special(self.launch, self.addresses.static, warp, fragment, name)

    def _targets(self, fragment: Fragment, number: int, taken: Indices) -> dict[int, list[int]]:
        """By block, or -1 for the end, the lanes that go there."""
        one = self.code.function.code[number]
        lanes = [fragment.lanes[index] for index in taken]
        if one.opcode == "brx":
            reader = OperandReader(self.code, number, self.addresses)
            value = reader.get(one.operands[0])(fragment)
            found: dict[int, list[int]] = {}
            for (index,), some in reader.by_value(taken, (value, "the index")):
                if index >= len(one.targets):
                    raise SpecError(f"brx.idx {index} of {len(one.targets)} targets", self.code.source(number))
                target = self._block(one.targets[index])
                found.setdefault(target, []).extend(fragment.lanes[place] for place in some)
            return found
        if one.opcode == "trap":
            raise SpecError("the kernel comes to a trap in this launch", self.code.source(number))
        return {self._block(one.target) if one.opcode == "bra" else -1: lanes}

    def _block(self, number: int) -> int:
        return self.code.block_at.get(number, -1)

    def _to(self, warp: Warp, fragment: Fragment, target: int) -> bool:
        if target < 0:
            warp.fragments.remove(fragment)
            return False
        if self.watch is not None:
            self.watch.comes(warp, fragment, target)
        fragment.block = target
        return True

    # -- instructions

    def _lanes(self, fragment: Fragment, guard: Guard | None, number: int) -> Indices:
        """The places of the lanes for which the guard holds."""
        if guard is None:
            return fragment.places
        value = fragment.registers[self.code.slots[guard.register]]
        if isinstance(value, int):
            return fragment.places if bool(value) != guard.negated else ()
        each = (value,) if isinstance(value, Unknown) else value
        for one in each:
            if isinstance(one, Unknown):
                name = self.code.function.code[number].name
                raise depends(self.code.source(number), name, "whether it is executed", one)
        assert isinstance(value, tuple)
        return [index for index, one in enumerate(value) if bool(one) != guard.negated]

    def _do(self, warp: Warp, fragment: Fragment, number: int) -> bool:
        """Executes an instruction that is no arithmetic; False if it must wait."""
        handler = self.handlers.get(number) or self._bind(number)
        lanes = self._lanes(fragment, self.code.function.code[number].guard, number)
        if not lanes:
            return True
        meeting = self.meeting[number]
        if meeting is not None and not fragment.met:
            what = waits_for(meeting(warp, fragment, lanes), warp, fragment.mask_at(lanes))
            if what is not None and not self._met(warp, fragment, number, fragment.mask_at(lanes), what):
                return False
            lanes = lanes if what is None else fragment.places
        return handler(warp, fragment, lanes)

    def _met(self, warp: Warp, fragment: Fragment, number: int, mask: int, what: What) -> bool:
        """The lanes of the mask come to where others must; whether these are at a copy of the instruction."""
        if mask != fragment.mask:
            warp.fragments.append(fragment.split(fragment.mask & ~mask))
            warp.fragments[-1].step += 1
        fragment.waits, fragment.stands_at = True, LaneEvent(number, mask, what)
        if not isinstance(what, LanesMet) or not met_elsewhere(self.code, warp, what.members):
            return False
        fragment.waits, fragment.stands_at = False, None
        return True

    def _bind(self, number: int) -> Handler:
        one = self.code.function.code[number]
        bound = Binding(self.code, number, self.cluster, OperandReader(self.code, number, self.addresses), self._spins)
        self.meeting[number] = members(bound) if must_meet(one) else None
        self.handlers[number] = handler_of(bound)
        return self.handlers[number]

    def _spins(self, warp: Warp, fragment: Fragment, number: int) -> bool:
        found = self.spinning.get(number)
        if found is None:
            found = self.spinning[number] = comes_back(self.code, fragment, number, self._specials(warp, fragment))
            if found.assumes:
                self.cluster.assumed.setdefault(Assumed(self.code.function.code[number].line, found.assumes))
        for touch in found.touches if found.spins else ():
            touch.note(warp, fragment, self.code.slots, sure=False)
        return found.spins


def execute(
    module: PtxModule, function: Function, launch: Launch, blocks: tuple[Block, ...], tick: Tick = unheard
) -> ClusterRun:
    """A run of one cluster of a launch. Raises SpecError, or what the tick raises."""
    code, addresses = code_of(module, function, launch)
    execution = ClusterRun(code, addresses, launch, blocks, tick)
    execution.run()
    return execution
