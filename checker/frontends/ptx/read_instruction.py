"""One instruction: its guard, its name and its operands (PTX ISA 4.3 and 6)."""

from __future__ import annotations

import re
import struct

from sm90_verify.frontends.ptx.cursor import Cursor
from sm90_verify.frontends.ptx.instruction import (
    AddressOperand,
    Guard,
    Immediate,
    Negated,
    Operand,
    Pair,
    Place,
    PtxInstruction,
    Register,
    Sink,
    Special,
    Sum,
    Symbol,
    Vector,
)
from sm90_verify.frontends.ptx.scopes import PARTS, Scopes
from sm90_verify.frontends.ptx.tokens import integer

DEEPEST_OPERAND = 8
"""Operands within operands."""
SPECIALS = re.compile(
    r"%((tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)(\.[xyzw])?"
    r"|laneid|warpid|nwarpid|smid|nsmid|gridid|cluster_ctarank|cluster_nctarank|is_explicit_cluster"
    r"|lanemask_(eq|le|lt|ge|gt)|clock(_hi|64)?|pm\d(_64)?|envreg\d+|globaltimer(_lo|_hi)?"
    r"|reserved_smem_offset_(begin|end|cap|[01])|(total|aggr|dynamic)_smem_size|current_graph_exec)"
)
"""Special registers (PTX ISA 10)."""


def read_instruction(at: Cursor, scopes: Scopes, place: Place | None) -> tuple[PtxInstruction, str]:
    """The instruction up to its semicolon, and the name of the label that it jumps to, "" if it is no jump."""
    reader = _InstructionReader(at, scopes)
    guard = reader.guard()
    line = at.line
    name = at.name()
    if not name[0].isalpha():
        raise at.wrong_before(f"{name!r} where an instruction should begin")
    while at.peek().startswith("."):
        name += at.name()  # `lop3 .b32`, as people write it
    opcode, *modifiers = name.split(".")
    reader.modifiers = modifiers
    operands = reader.operands()
    at.expect(";")
    one = PtxInstruction(opcode, tuple(modifiers), operands, line, guard, place)
    if opcode not in ("bra", "brx"):
        return one, ""
    last = operands[-1] if operands else None
    if not isinstance(last, Symbol):
        raise scopes.wrong(f"{name} to no label", line)
    return one, last.name


class _InstructionReader:
    def __init__(self, at: Cursor, scopes: Scopes) -> None:
        self.at, self.scopes, self.modifiers = at, scopes, list[str]()

    def guard(self) -> Guard | None:
        """`@p` or `@!p`"""
        at = self.at
        if at.peek() != "@":
            return None
        at.next()
        negated = at.peek() == "!"
        if negated:
            at.next()
        found = self.scopes.find(at.name())
        if not isinstance(found, Register) or self.scopes.types[found.number] != "pred":
            raise at.wrong_before("a guard that is no predicate register")
        return Guard(found.number, negated)

    def operands(self) -> tuple[Operand, ...]:
        """What is between the name and the semicolon. The results and arguments of a call are vectors."""
        at, found = self.at, list[Operand]()
        while at.peek() != ";":
            if found:
                at.expect(",")
            found.append(self._operand(0))
        return tuple(found)

    def _operand(self, depth: int) -> Operand:
        at = self.at
        if depth > DEEPEST_OPERAND:
            raise at.wrong(f"an operand within more than {DEEPEST_OPERAND} others")
        word = at.peek()
        match word:
            case "[":
                return self._address(depth + 1)
            case "{":
                return Vector(self._list("{", "}", depth + 1))
            case "(":
                return Vector(self._list("(", ")", depth + 1))
            case "!":
                at.next()
                return Negated(self._operand(depth + 1))
            case "-":
                at.next()
                operand = self._operand(depth + 1)
                return Immediate(-operand.value) if isinstance(operand, Immediate) else Negated(operand)
            case _:
                operand = self._simple()
        match at.peek():
            case "|":
                at.next()
                return Pair(operand, self._operand(depth + 1))
            case "+" | "-" as sign:
                at.next()
                offset = at.number()
                return Sum(operand, offset if sign == "+" else -offset)
            case _:
                return operand

    def _simple(self) -> Operand:
        at = self.at
        kind, text = at.kind, at.next()
        if kind == "number":
            return Immediate(self._number(text))
        if kind != "word":
            raise at.wrong_before(f"{text!r} where an operand should stand")
        found = self.scopes.find(text)
        if found is not None:
            return found
        if text == "_":
            return Sink()
        if text == "WARP_SZ":
            return Immediate(32)
        if isinstance(vector := self.scopes.find(text.rpartition(".")[0]), Vector):
            elements = ", ".join(f".{part}" for part in list(PARTS)[: len(vector.parts)])
            raise at.wrong_before(f"{text}: the register has {len(vector.parts)} elements, which are {elements}")
        if text.startswith("%"):
            if SPECIALS.fullmatch(text) is None:
                raise at.wrong_before(f"no register {text} in this scope")
            return Special(text)
        return Symbol(text)

    def _number(self, text: str) -> int:
        """An integer, or the bits of a floating-point number: of a decimal or a double one, in the type in which the
        instruction reads it.
        """
        kind = next((word for word in reversed(self.modifiers) if word in ("f32", "f64")), "")
        kind = "f32" if self.modifiers[:1] == ["fractional"] else kind  # of createpolicy, which names another type
        try:
            found = integer(text)
            if kind != "f32" or text[:2] not in ("0d", "0D"):
                return found
            value = struct.unpack("<d", found.to_bytes(8, "little"))[0]
        except (ValueError, OverflowError):
            value = text
        try:
            packed = struct.pack({"f32": "<f", "f64": "<d"}[kind], float(value))
        except (KeyError, ValueError, OverflowError):
            raise self.at.wrong_before(f"{text} is no number of the type of the instruction") from None
        return int.from_bytes(packed, "little")

    def _address(self, depth: int) -> AddressOperand:
        """`[address]`, or `[tensormap, {coordinates}]`"""
        at = self.at
        at.expect("[")
        address, coordinates = self._operand(depth), tuple[Operand, ...]()
        if at.peek() == ",":
            at.next()
            coordinates = self._list("{", "}", depth)
        at.expect("]")
        return AddressOperand(address, coordinates)

    def _list(self, opening: str, closing: str, depth: int) -> tuple[Operand, ...]:
        at = self.at
        at.expect(opening)
        parts: list[Operand] = []
        while at.peek() != closing:
            if parts:
                at.expect(",")
            parts.append(self._operand(depth))
        at.expect(closing)
        return tuple(parts)
