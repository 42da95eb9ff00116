"""Operands and results of instructions that compute, as text of Python expressions.

Every expression is of integers. A register holds bits without a sign, in its width; where the type of an instruction
has a sign, the text of an operand has it too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeAlias

from sm90_verify.frontends.ptx.declarations import BYTES
from sm90_verify.frontends.ptx.instruction import (
    AddressOperand,
    Immediate,
    Negated,
    Operand,
    Pair,
    PtxInstruction,
    Register,
    Sink,
    Special,
    Sum,
    Symbol,
    Vector,
)
from sm90_verify.frontends.ptx.opcodes import CARRY

WIDTHS = {"pred": 1, **{kind: 8 * size for kind, size in BYTES.items()}}
"""Bits of a type."""

COMBINED = {"and": "&", "or": "|", "xor": "^"}
"""How Python combines bits."""


class Expression(NamedTuple):
    """register: what is written, CARRY for the flag; text: with `r7` for register 7 and `s3` for the third special
    value; reads: the registers in it; None as text: not followed.
    """

    register: int
    text: str | None
    reads: tuple[int, ...]


class NotKnown(ValueError):
    """An instruction that nobody knows."""


class Operands:
    """Writes operands of one instruction as text, and remembers what it reads."""

    def __init__(self, one: PtxInstruction, types: tuple[str, ...], address: Callable[[str], int | None]) -> None:
        self.one, self.types, self.address = one, types, address
        self.reads: dict[int, None] = {}
        self.specials: list[str] = []

    def text(self, operand: Operand, kind: str) -> str:
        """Its value in the width of a type: unsigned, or with a sign if the type has one."""
        bits = WIDTHS[kind]
        if isinstance(operand, Immediate):
            value = operand.value & ones(bits)
            return str(value - (1 << bits) if kind[0] == "s" and value >> (bits - 1) else value)
        said = self._unsigned(operand, bits)
        if kind[0] == "s":
            half = 1 << (bits - 1)
            return f"(({said} ^ {half}) - {half})"
        return said

    def texts(self, operands: tuple[Operand, ...], *kinds: str) -> str:
        """Several, as arguments of a function."""
        return ", ".join(self.text(one, kind) for one, kind in zip(operands, kinds, strict=True))

    def carry(self) -> str:
        """The carry flag."""
        self.reads[CARRY] = None
        return "rc"

    def _unsigned(self, operand: Operand, bits: int) -> str:
        match operand:
            case Register(number):
                self.reads[number] = None
                return self._fitted(f"r{number}", WIDTHS[self.types[number]], bits)
            case Immediate(value):
                return str(value & ones(bits))
            case Special(name):
                return self._fitted(self._special(name), 64, bits)
            case Symbol(name):
                return str(self._address(name) & ones(bits))
            case Sum(base, offset):
                return f"(({self._unsigned(base, bits)} + {offset}) & {ones(bits)})"
            case Negated(inner) if bits == 1:
                return f"({self._unsigned(inner, bits)} ^ 1)"
            case Negated(inner):
                return f"(-{self._unsigned(inner, bits)} & {ones(bits)})"
            case Vector(parts):
                if not parts or bits % len(parts):
                    raise NotKnown
                each = bits // len(parts)
                words = [f"({self._unsigned(part, each)} << {each * number})" for number, part in enumerate(parts)]
                return f"({' | '.join(words)})"
            case AddressOperand(inner, _):
                return self._unsigned(inner, bits)
            case Sink():
                return "0"
            case Pair():
                raise NotKnown

    def _fitted(self, said: str, wide: int, bits: int) -> str:
        return said if wide <= bits else f"({said} & {ones(bits)})"

    def _special(self, name: str) -> str:
        if name not in self.specials:
            self.specials.append(name)
        return f"s{self.specials.index(name)}"

    def _address(self, name: str) -> int:
        found = self.address(name)
        if found is None:
            raise NotKnown
        return found


Given: TypeAlias = tuple[Operand, ...]
"""The operands that an instruction reads."""
Writer: TypeAlias = Callable[[Operands, tuple[str, ...], Given], str | tuple[str, ...]]
"""Gives the value of each result of an instruction, from its operands, its modifiers and what it reads. Raises
NotKnown, KeyError, IndexError or ValueError for a form that it does not know.
"""
Writers: TypeAlias = Mapping[str, Writer]
"""By opcode."""


def ones(bits: int) -> int:
    """So many bits that are 1."""
    return (1 << bits) - 1


def mask(kind: str) -> int:
    """All bits of a type."""
    return ones(WIDTHS[kind])


def unsigned(kind: str) -> str:
    """The type without a sign, of the same width."""
    return f"b{WIDTHS[kind]}"


def calls(name: str, *kinds: str, sized: bool = False) -> Writer:
    """Writes a call of a function of the operands. kinds: the type in which each is read: "type" for that of the
    instruction, "bits" for the same without a sign. sized: the width is a last argument.
    """

    def write(o: Operands, modifiers: tuple[str, ...], given: Given) -> str:
        own = {"type": modifiers[-1], "bits": unsigned(modifiers[-1])}
        said = o.texts(given, *(own.get(kind, kind) for kind in kinds))
        return f"{name}({said}, {WIDTHS[modifiers[-1]]})" if sized else f"{name}({said})"

    return write
