"""The registers of wgmma: those in which it accumulates, and those that hold its matrix A (PTX ISA 9.7.15.7).

They are the registers that the PTX names, whatever ptxas makes of them. Registers that the same wgmmas name are never
told apart: whoever touches one of them touches them all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sm90_verify.frontends.ptx.events import LaneEvent, RegisterRange, RegistersTouched
from sm90_verify.frontends.ptx.fragment import Fragment
from sm90_verify.frontends.ptx.instruction import Function, PtxInstruction, Vector, registers_in
from sm90_verify.frontends.ptx.opcodes import registers_of
from sm90_verify.frontends.ptx.state import Warp
from sm90_verify.frontends.ptx.values import Unknown, Value

REGISTER_BYTES = 4
"""Of each register that a wgmma names."""


class UsedRegisters(NamedTuple):
    """Those of a wgmma.mma_async: into which it accumulates, and that hold the matrix A, if registers do."""

    into: RegisterRange
    of_a: RegisterRange | None


class RegisterTouch(NamedTuple):
    """An instruction that is no wgmma reads or writes registers of wgmmas. guard: under which, by its register."""

    number: int
    what: RegistersTouched
    guard: int | None = None
    negated: bool = False


@dataclass(frozen=True)
class WgmmaRegisters:
    """sets: of registers that have something to do with each other, each with a name. used: by the number of a
    wgmma.mma_async that says into which it accumulates; None for one whose registers others have in part, in a way that
    is not followed. touches: by the number of any other instruction.
    """

    sets: tuple[RegisterRange, ...] = ()
    used: Mapping[int, UsedRegisters | None] = field(default_factory=dict)
    touches: Mapping[int, tuple[RegisterTouch, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class TouchStep:
    """What a stretch of instructions touches, between others that are executed one by one."""

    touches: tuple[RegisterTouch, ...]

    def __call__(self, registers: list[Value], specials: object) -> None:
        """Nothing is computed."""

    def note(self, warp: Warp, fragment: Fragment, slots: Mapping[int, int], *, sure: bool = True) -> None:
        """The events of these lanes. sure: they come here in any case."""
        for one in self.touches:
            mask, known = fragment.mask, sure
            if one.guard is not None and sure:
                mask, known = _guarded(one, fragment, slots)
            if mask:
                warp.events.append(LaneEvent(one.number, mask, one.what if known else one.what._replace(sure=False)))


def _guarded(one: RegisterTouch, fragment: Fragment, slots: Mapping[int, int]) -> tuple[int, bool]:
    """The lanes that touch, and whether that is known; a guard that nothing else depends on is not followed."""
    slot = slots.get(-1 if one.guard is None else one.guard)
    value: Value = Unknown(0, "") if slot is None else fragment.registers[slot]
    each = value if isinstance(value, tuple) else (value,) * len(fragment.lanes)
    mask = sum(
        1 << lane for lane, got in zip(fragment.lanes, each, strict=True) if got.__class__ is int and got != one.negated
    )
    if any(isinstance(got, Unknown) for got in each):
        return fragment.mask, False
    return mask, True


def wgmma_registers(function: Function) -> WgmmaRegisters:
    """Those of a function. What is not executed counts as well."""
    shapes: dict[tuple[int, ...], dict[str, None]] = {}
    multiplying: list[tuple[int, str, tuple[int, ...], tuple[int, ...]]] = []
    for number, one in enumerate(function.code):
        into = _vector(one, 0) if _multiplies(one) else ()
        if into:
            shape = next((word for word in one.modifiers if word.startswith("m64n")), "")
            multiplying.append((number, shape, into, _vector(one, 1)))
            shapes.setdefault(into, {})[shape] = None
    operands = dict.fromkeys(one for _, _, *some in multiplying for one in some if one)
    if not operands:
        return WgmmaRegisters()
    placing = _Placing()
    for some in _connected(tuple(operands)):
        placing.place(some, {one: tuple(shapes[one]) for one in some if one in shapes})
    used: dict[int, UsedRegisters | None] = {}
    for number, shape, into, of_a in multiplying:
        target, source = placing.accumulators.get((into, shape)), placing.fragments.get(of_a)
        unknown = target is None or (of_a and source is None)
        used[number] = None if target is None or unknown else UsedRegisters(target, source)
    touches = {
        number: found
        for number, one in enumerate(function.code)
        if not _multiplies(one) and (found := tuple(_touched(number, one, placing.of)))
    }
    return WgmmaRegisters(tuple(placing.sets), used, touches)


def _multiplies(one: PtxInstruction) -> bool:
    return one.opcode == "wgmma" and one.modifiers[:1] == ("mma_async",)


def _vector(one: PtxInstruction, place: int) -> tuple[int, ...]:
    """The registers of an operand that is a vector, in the order of their numbers; () for a descriptor."""
    operand = one.operands[place] if place < len(one.operands) else None
    return tuple(sorted(set(registers_in(operand)))) if isinstance(operand, Vector) else ()


def _connected(operands: Sequence[tuple[int, ...]]) -> list[list[tuple[int, ...]]]:
    """Operands that have registers in common, directly or through others."""
    groups: list[tuple[set[int], list[tuple[int, ...]]]] = []
    for one in operands:
        mine, some = set(one), [one]
        apart = []
        for registers, others in groups:
            if registers.isdisjoint(mine):
                apart.append((registers, others))
            else:
                mine |= registers
                some = others + some
        groups = [*apart, (mine, some)]
    return [some for _, some in groups]


@dataclass
class _Placing:
    """of: by register, where it and those lie that the same wgmmas name. accumulators: by registers and shape, and
    fragments: by registers, where those of an operand lie.
    """

    sets: list[RegisterRange] = field(default_factory=list)
    of: dict[int, RegisterRange] = field(default_factory=dict)
    accumulators: dict[tuple[tuple[int, ...], str], RegisterRange] = field(default_factory=dict)
    fragments: dict[tuple[int, ...], RegisterRange] = field(default_factory=dict)

    def place(self, operands: Sequence[tuple[int, ...]], shapes: Mapping[tuple[int, ...], tuple[str, ...]]) -> None:
        """Gives the registers of a set places side by side, those of the small operands first. shapes: of those
        operands that are accumulators. Accumulators that overlap in part get no place.
        """
        before = sum(1 for one in self.sets if one.name.startswith("accumulator") == bool(shapes))
        name = f"{'accumulator' if shapes else 'matrix_a'}[{before}]"
        start = at = self.sets[-1].stop if self.sets else 0
        order = dict.fromkeys(register for one in sorted(operands, key=len) for register in one)
        alike: dict[tuple[bool, ...], list[int]] = {}
        members = [frozenset(one) for one in operands]
        for register in order:
            alike.setdefault(tuple(register in one for one in members), []).append(register)
        where: dict[int, int] = {}
        for some in alike.values():
            piece = RegisterRange(name, at, at + len(some) * REGISTER_BYTES)
            for register in some:
                self.of[register], where[register] = piece, at
                at += REGISTER_BYTES
        end = at
        for one in operands:
            places = [where[register] for register in one]
            first, last = min(places), max(places) + REGISTER_BYTES
            if last - first != len(one) * REGISTER_BYTES:
                continue
            self.fragments[one] = RegisterRange(name, first, last)
            for number, shape in enumerate(shapes.get(one, ())):
                # ranges of two shapes differ, since wgmmas of two shapes are not ordered by themselves
                if len(shapes) == 1 and (last == at or not number):
                    self.accumulators[one, shape] = RegisterRange(name, first, last + number)
                    end = max(end, last + number)
        self.sets.append(RegisterRange(name, start, end))


def _touched(number: int, one: PtxInstruction, place: Mapping[int, RegisterRange]) -> Iterator[RegisterTouch]:
    found = registers_of(one)
    guard, negated = (None, False) if one.guard is None else (one.guard.register, one.guard.negated)
    for registers, write in ((found.read, False), (found.written, True)):
        for piece in dict.fromkeys(place[register] for register in registers if register in place):
            yield RegisterTouch(number, RegistersTouched(piece, write), guard, negated)
