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
    """Those of a wgmma.mma_async: into which it accumulates, and that hold the matrix A, if registers do. shape: as the
    instruction says it.
    """

    into: RegisterRange
    of_a: RegisterRange | None
    shape: str


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
            mask = fragment.mask
            if one.guard is not None and sure:
                mask, sure = _guarded(one, fragment, slots)
            if mask:
                warp.events.append(LaneEvent(one.number, mask, one.what if sure else one.what._replace(sure=False)))


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
    operands: dict[tuple[int, ...], bool] = {}
    multiplying: list[tuple[int, tuple[int, ...], tuple[int, ...]]] = []
    for number, one in enumerate(function.code):
        if _multiplies(one):
            into, of_a = _vector(one, 0), _vector(one, 1)
            if not into:
                continue
            multiplying.append((number, into, of_a))
            operands[into] = True
            if of_a:
                operands.setdefault(of_a, False)
    if not operands:
        return WgmmaRegisters()
    sets: list[RegisterRange] = []
    place: dict[int, RegisterRange] = {}
    whole: dict[tuple[int, ...], RegisterRange | None] = {}
    counts = {True: 0, False: 0}
    for some in _connected(tuple(operands)):
        accumulates = any(operands[one] for one in some)
        name = f"{'accumulator' if accumulates else 'matrix_a'}[{counts[accumulates]}]"
        counts[accumulates] += 1
        sets.append(_placed(name, sets[-1].stop if sets else 0, some, place, whole))
    used: dict[int, UsedRegisters | None] = {}
    for number, into, of_a in multiplying:
        target, source = whole[into], whole[of_a] if of_a else None
        known = target is not None and (not of_a or source is not None)
        shape = next((word for word in function.code[number].modifiers if word.startswith("m64n")), "")
        used[number] = UsedRegisters(target, source, shape) if known and target is not None else None
    touches = {
        number: found
        for number, one in enumerate(function.code)
        if not _multiplies(one) and (found := tuple(_touched(number, one, place)))
    }
    return WgmmaRegisters(tuple(sets), used, touches)


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


def _placed(
    name: str,
    start: int,
    operands: Sequence[tuple[int, ...]],
    place: dict[int, RegisterRange],
    whole: dict[tuple[int, ...], RegisterRange | None],
) -> RegisterRange:
    """Gives the registers of a set places side by side, those of the small operands first; from `start` on."""
    order = dict.fromkeys(register for one in sorted(operands, key=len) for register in one)
    alike: dict[tuple[bool, ...], list[int]] = {}
    members = [frozenset(one) for one in operands]
    for register in order:
        alike.setdefault(tuple(register in one for one in members), []).append(register)
    at = start
    where: dict[int, int] = {}
    for some in alike.values():
        piece = RegisterRange(name, at, at + len(some) * REGISTER_BYTES)
        for register in some:
            place[register] = piece
            where[register] = at
            at += REGISTER_BYTES
    for one in operands:
        places = [where[register] for register in one]
        first, last = min(places), max(places) + REGISTER_BYTES
        together = last - first == len(one) * REGISTER_BYTES
        whole[one] = RegisterRange(name, first, last) if together else None
    return RegisterRange(name, start, at)


def _touched(number: int, one: PtxInstruction, place: Mapping[int, RegisterRange]) -> Iterator[RegisterTouch]:
    found = registers_of(one)
    guard, negated = (None, False) if one.guard is None else (one.guard.register, one.guard.negated)
    for registers, write in ((found.read, False), (found.written, True)):
        for piece in dict.fromkeys(place[register] for register in registers if register in place):
            yield RegisterTouch(number, RegistersTouched(piece, write), guard, negated)
