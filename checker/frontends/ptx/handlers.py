"""What every handler of an instruction has: the launch, the state, and its results and events."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from sm90_verify.frontends.ptx.code import Code
from sm90_verify.frontends.ptx.events import BarrierAt, LaneEvent, What
from sm90_verify.frontends.ptx.fragment import Fragment
from sm90_verify.frontends.ptx.instruction import Operand, PtxInstruction, Register
from sm90_verify.frontends.ptx.operands import Indices, OperandReader
from sm90_verify.frontends.ptx.spaces import OFFSET, RANK_SHIFT
from sm90_verify.frontends.ptx.state import Assumed, ClusterState, Warp
from sm90_verify.frontends.ptx.values import One, Value, lane, together
from sm90_verify.spec.errors import SpecError

Handler: TypeAlias = Callable[[Warp, Fragment, Indices], bool]
"""Executes an instruction for lanes of a fragment, given by their places in it; False if it cannot go on yet."""


@dataclass
class Binding:
    """One instruction of a kernel that is executed, and the cluster in which it is."""

    code: Code
    number: int
    cluster: ClusterState
    reader: OperandReader
    spins: Callable[[Warp, Fragment, int], bool]
    """Whether lanes that get the answer no at an instruction come back to it, and do nothing else."""

    @property
    def one(self) -> PtxInstruction:
        return self.code.function.code[self.number]

    def has(self, *words: str) -> bool:
        """All these modifiers."""
        return all(word in self.one.modifiers for word in words)

    def note(self, warp: Warp, fragment: Fragment, lanes: Indices, what: What) -> None:
        """An event of these lanes."""
        warp.events.append(LaneEvent(self.number, fragment.mask_at(lanes), what))

    def write(self, fragment: Fragment, operand: Operand, lanes: Indices, value: Value) -> None:
        """A result: one for all, or one for each of the lanes, in their order."""
        if not isinstance(operand, Register):
            return
        slot = self.code.slots.get(operand.number)
        if slot is None:
            return
        count = len(fragment.lanes)
        if len(lanes) == count:
            fragment.registers[slot] = together(value) if isinstance(value, tuple) else value
            return
        before = fragment.registers[slot]
        found: list[One] = [lane(before, index) for index in range(count)]
        for order, index in enumerate(lanes):
            found[index] = lane(value, order)
        fragment.registers[slot] = together(found)

    def wants(self, *operands: Operand) -> bool:
        """Somebody needs one of these results."""
        return any(isinstance(one, Register) and one.number in self.code.slots for one in operands)

    def barrier(self, warp: Warp, address: int) -> BarrierAt:
        """The mbarrier at an address of shared memory."""
        rank, offset = address >> RANK_SHIFT, address & OFFSET
        if address < 0 or rank > len(self.cluster.ctas):
            raise SpecError(f"{self.one.name}: {address:#x} is no address of shared memory", self.reader.source)
        return BarrierAt(warp.cta.rank if rank == 0 else rank - 1, offset)

    def assume(self, what: str) -> None:
        """Keeps what is taken for granted here."""
        self.cluster.assumed.setdefault(Assumed(self.one.line, what))

    def unknown_form(self) -> SpecError:
        """The error for an instruction of a form that nobody knows."""
        return SpecError(f"{self.one.name} is not known here: a newer version may know it", self.reader.source)
