"""Variables in .param, by which functions are passed arguments and results, as registers (PTX ISA 5.1.6.4).

A variable becomes as many registers as its accesses tell apart: each has the bytes that divide all of their places and
sizes. An access becomes moves of these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import gcd

from sm90_verify.frontends.ptx.declarations import BYTES
from sm90_verify.frontends.ptx.expressions import WIDTHS
from sm90_verify.frontends.ptx.instruction import (
    AddressOperand,
    Function,
    Operand,
    PtxInstruction,
    Register,
    Sum,
    Symbol,
    Vector,
)
from sm90_verify.frontends.ptx.opcodes import parts_of
from sm90_verify.spec.errors import Source, SpecError

MOST_PASSED = 4096
"""Bytes of one variable."""


@dataclass(frozen=True)
class _Passed:
    """each: bytes of a register; first: the number of the first."""

    each: int
    first: int

    def at(self, offset: int, size: int) -> Operand:
        """The registers with these bytes."""
        start = self.first + offset // self.each
        some = tuple(Register(number) for number in range(start, start + size // self.each))
        return some[0] if len(some) == 1 else Vector(some)


def in_registers(function: Function, path: str) -> Function:
    """The function without its variables in .param. Raises SpecError, with the line, where one is used otherwise than
    by ld.param and st.param at known places, or as an argument.
    """
    sizes = {one.name: one.size for one in function.variables if one.space == "param"}
    each: dict[str, int] = {}
    for one in function.code:
        if one.opcode == "call":
            continue
        found = _access(one, sizes, path)
        if found is not None:
            name, offset, size, count = found
            each[name] = gcd(each.get(name, 0), offset, size)
            if not 0 <= offset <= offset + size * count <= sizes[name]:
                raise SpecError(f"{one.name}: bytes {offset} on of {name}, which has {sizes[name]}", _line(one, path))
    types = list(function.types)
    variables: dict[str, _Passed] = {}
    for name, size in each.items():
        variables[name] = _Passed(size, len(types))
        types += [f"b{8 * size}"] * (sizes[name] // size)
    code: list[PtxInstruction] = []
    starts: list[int] = []
    for one in function.code:
        starts.append(len(code))
        found = None if one.opcode == "call" else _access(one, sizes, path)
        if found is None:
            code.append(one)
        else:
            code += _moves(one, variables[found[0]], found[1], types)
    starts.append(len(code))
    return replace(
        function,
        types=tuple(types),
        code=tuple(_with_targets(one, starts) for one in code),
        variables=tuple(one for one in function.variables if one.space != "param"),
    )


def _line(one: PtxInstruction, path: str) -> Source:
    return Source(path, one.line)


def _access(one: PtxInstruction, sizes: dict[str, int], path: str) -> tuple[str, int, int, int] | None:
    """The variable, the first byte, the bytes of an element and the number of elements."""
    used = next((name for operand in one.operands for name in _symbols(operand) if name in sizes), "")
    if not used or one.opcode in ("bra", "brx"):
        return None
    place = next((operand.address for operand in one.operands if isinstance(operand, AddressOperand)), None)
    base, offset = (place.base, place.offset) if isinstance(place, Sum) else (place, 0)
    known = one.opcode in ("ld", "st") and "param" in [word.split("::")[0] for word in one.modifiers]
    if not known or not isinstance(base, Symbol) or one.type not in BYTES:
        raise SpecError(f"{one.name}: the address of {used} is taken, which is not followed", _line(one, path))
    values = one.operands[0 if one.opcode == "ld" else 1]
    if sizes[used] > MOST_PASSED:
        raise SpecError(f"{used} has {sizes[used]} bytes, of which {MOST_PASSED} are followed", _line(one, path))
    return used, offset, BYTES[one.type], len(parts_of(values))


def _symbols(operand: Operand) -> Iterator[str]:
    match operand:
        case Symbol(name):
            yield name
        case Sum(inner, _) | AddressOperand(inner, _):
            yield from _symbols(inner)
        case Vector(parts):
            for one in parts:
                yield from _symbols(one)
        case _:
            return


def _moves(one: PtxInstruction, variable: _Passed, offset: int, types: list[str]) -> Iterator[PtxInstruction]:
    """A load or a store as moves, one for each element."""
    size, loads = BYTES[one.type], one.opcode == "ld"
    for number, part in enumerate(parts_of(one.operands[0 if loads else 1])):
        passed = variable.at(offset + number * size, size)
        into, value = (part, passed) if loads else (passed, part)
        wide = WIDTHS[types[part.number]] if isinstance(part, Register) else 0
        if loads and one.type[0] == "s" and wide > 8 * size:
            yield replace(one, opcode="cvt", modifiers=(f"s{wide}", one.type), operands=(into, value))
        else:
            yield replace(one, opcode="mov", modifiers=(f"b{8 * size}",), operands=(into, value))


def _with_targets(one: PtxInstruction, starts: list[int]) -> PtxInstruction:
    if one.target < 0 and not one.targets:
        return one
    target = starts[one.target] if one.target >= 0 else -1
    return replace(one, target=target, targets=tuple(starts[each] for each in one.targets))
