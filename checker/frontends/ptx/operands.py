"""Operands of instructions that synchronise, as functions that give their values in a fragment."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from sm90_verify.frontends.ptx.code import Code
from sm90_verify.frontends.ptx.fragment import UNWRITTEN, Fragment
from sm90_verify.frontends.ptx.instruction import (
    AddressOperand,
    Immediate,
    Operand,
    PtxInstruction,
    Register,
    Sink,
    Sum,
    Symbol,
)
from sm90_verify.frontends.ptx.spaces import WINDOWS, space_of
from sm90_verify.frontends.ptx.values import OfPeriods, Unknown, Value
from sm90_verify.spec.errors import Source, SpecError

Getter: TypeAlias = Callable[[Fragment], Value]
Indices: TypeAlias = Sequence[int]
"""Places of lanes in a fragment."""


class Undetermined(SpecError):
    """What the kernel does depends on a value that the launch does not say."""


class OperandReader:
    """Makes the getters of one instruction."""

    def __init__(self, code: Code, number: int, address: Callable[[str], int | None]) -> None:
        self.code, self.number, self.address = code, number, address
        self.one: PtxInstruction = code.function.code[number]
        self.source = code.source(number)

    def get(self, operand: Operand, bits: int = 32) -> Getter:
        """The value of an operand, unsigned, in a width."""
        mask = (1 << bits) - 1
        match operand:
            case Register(number):
                slot = self.code.slots.get(number)
                if slot is None:
                    unknown = Unknown(self.one.line, "a register that nobody writes")
                    return lambda fragment: unknown
                return lambda fragment: fragment.registers[slot]
            case Immediate(value):
                constant = value & mask
                return lambda fragment: constant
            case Symbol(name):
                found = self.address(name)
                if found is None:
                    raise SpecError(f"nothing is called {name}", self.source)
                return lambda fragment: found
            case Sum(base, offset):
                inner = self.get(base, bits)
                return lambda fragment: plus(inner(fragment), offset, mask)
            case AddressOperand(inside, _):
                return self.get(inside, bits)
            case Sink():
                return lambda fragment: 0
            case _:
                raise SpecError(f"{self.one.name}: an operand of a form that is not known here", self.source)

    def shared(self, operand: Operand) -> Getter:
        """The address of shared memory that an operand is: in its window, or among generic addresses."""
        if any(word.startswith("shared") for word in self.one.modifiers):
            return self.get(operand)
        inner = self.get(operand, 64)
        return lambda fragment: out_of_window(inner(fragment))

    def known(self, value: Value, lanes: Indices, what: str) -> int | list[int]:
        """The value in these lanes, which must be known there: one, or one for each. Raises Undetermined otherwise."""
        if type(value) is int:
            return value
        values = [value[index] for index in lanes] if isinstance(value, tuple) else [value]
        found: list[int] = []
        for one in values:
            if isinstance(one, Unknown):
                raise depends(self.source, self.one.name, what, one)
            assert isinstance(one, int)
            found.append(one)
        return found[0] if not isinstance(value, tuple) or len(set(found)) == 1 else found

    def one_value(self, value: Value, lanes: Indices, what: str) -> int:
        """The value that all these lanes have. Raises Undetermined if they have several."""
        found = self.known(value, lanes, what)
        if isinstance(found, int):
            return found
        raise Undetermined(f"{self.one.name}: {what} differs between the lanes that execute it together", self.source)

    def by_value(self, lanes: Indices, *values: tuple[Value, str]) -> list[tuple[tuple[int, ...], Indices]]:
        """Each combination of values that lanes have, with these lanes."""
        found = [self.known(value, lanes, what) for value, what in values]
        if all(isinstance(one, int) for one in found):
            return [(tuple(one for one in found if isinstance(one, int)), lanes)]
        spread = [[one] * len(lanes) if isinstance(one, int) else one for one in found]
        places: dict[tuple[int, ...], list[int]] = {}
        for index, some in zip(lanes, zip(*spread, strict=True), strict=True):
            places.setdefault(some, []).append(index)
        return list(places.items())


def depends(where: Source, name: str, what: str, unknown: Unknown) -> Undetermined:
    """The error for a value that is needed and not known."""
    source = f", from line {unknown.line}" if unknown.line and unknown.line != where.line else ""
    advice = f'say what it gives with {{"line": {unknown.line}, "value": …}} in `assume` of the launch file'
    if not unknown.line:
        advice = "write it before it is read" if unknown == UNWRITTEN else "let it depend on what a launch says"
    if isinstance(unknown, OfPeriods):
        advice = "no other number of periods is known to do the same"
    return Undetermined(f"{name}: {what} depends on {unknown.why}{source}: {advice}", where)


def plus(value: Value, offset: int, mask: int) -> Value:
    """The sum, in each lane."""
    if type(value) is int:
        return value + offset & mask
    if isinstance(value, tuple):
        return tuple(one + offset & mask if isinstance(one, int) else one.plain() for one in value)
    return value.plain() if isinstance(value, Unknown) else value


def out_of_window(value: Value) -> Value:
    """A generic address as one of shared memory; others, global ones, become -1."""
    if isinstance(value, tuple):
        found = [out_of_window(one) for one in value]
        return tuple(one for one in found if not isinstance(one, tuple))
    if isinstance(value, int):
        return value - WINDOWS["shared"] if space_of(value) == "shared" else -1
    return value.plain() if isinstance(value, Unknown) else value
