"""What integer instructions compute, as Python expressions over their operands (PTX ISA 9.7.1, 9.7.6 to 9.7.9).

An expression is of unsigned integers and gives one, in the width of the type; `expressions_of` writes one for each
register that an instruction writes. What needs more than an operator is a function of `FUNCTIONS`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from sm90_verify.frontends.ptx.bits import FUNCTIONS
from sm90_verify.frontends.ptx.instruction import (
    Immediate,
    Instruction,
    Memory,
    Negated,
    Operand,
    Pair,
    Register,
    Sink,
    Special,
    Sum,
    Symbol,
    Vector,
)
from sm90_verify.frontends.ptx.opcodes import FLOATING, is_opaque, parts_of

WIDTHS = {
    **{f"{kind}{bits}": bits for kind in "bus" for bits in (8, 16, 32, 64)},
    "pred": 1,
    "f16": 16,
    "bf16": 16,
    "f32": 32,
    "f64": 64,
    "f16x2": 32,
    "bf16x2": 32,
    "tf32": 32,
    "b128": 128,
}
"""Bits of a type."""

CARRY = -2
"""The number of the carry flag, as a register."""


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

    def __init__(self, one: Instruction, types: tuple[str, ...], address: Callable[[str], int | None]) -> None:
        self.one, self.types, self.address = one, types, address
        self.reads: dict[int, None] = {}
        self.specials: list[str] = []

    def text(self, operand: Operand, kind: str) -> str:
        """Its value, unsigned, in the width of the type; of a signed type, with a sign."""
        bits = WIDTHS[kind]
        match operand:
            case Register(number):
                self.reads[number] = None
                wide = WIDTHS[self.types[number]]
                said = f"r{number}" if wide <= bits else f"(r{number} & {(1 << bits) - 1})"
            case Immediate(value):
                value &= (1 << bits) - 1
                return str(value - (1 << bits) if kind[0] == "s" and value >> (bits - 1) else value)
            case Special(name):
                return self._special(name)
            case Symbol(name):
                return str(self._address(name))
            case Sum(base, offset):
                return f"(({self.text(base, kind)} + {offset}) & {(1 << bits) - 1})"
            case Negated(inner) if kind == "pred":
                return f"({self.text(inner, kind)} ^ 1)"
            case Negated(inner):
                said = f"(-{self.text(inner, 'u' + kind[1:])} & {(1 << bits) - 1})"
            case Vector(parts):
                each = bits // len(parts)
                words = [f"({self.text(part, f'b{each}')} << {each * number})" for number, part in enumerate(parts)]
                return f"({' | '.join(words)})"
            case Memory(inner, _):
                return self.text(inner, kind)
            case Sink():
                return "0"
            case Pair():
                raise NotKnown
        if kind[0] == "s":
            half = 1 << (bits - 1)
            return f"(({said} ^ {half}) - {half})"
        return said

    def _special(self, name: str) -> str:
        if name not in self.specials:
            self.specials.append(name)
        return f"s{self.specials.index(name)}"

    def _address(self, name: str) -> int:
        found = self.address(name)
        if found is None:
            raise NotKnown
        return found


def expressions_of(operands: Operands) -> tuple[Expression, ...]:
    """What the instruction writes. Raises NotKnown if that is not known here."""
    one = operands.one
    if one.opcode not in ("ld", "ldu") and is_opaque(one):
        return tuple(Expression(number, None, ()) for number in _written(one.operands[0]))
    writer = _WRITERS.get(one.opcode)
    if writer is None or not one.operands:
        raise NotKnown
    try:
        found = writer(operands, one.modifiers, one.operands[1:])
    except (KeyError, IndexError, ValueError) as error:
        raise NotKnown from error
    if isinstance(found, str):
        found = (found,)
    first = one.operands[0]
    if isinstance(first, Pair):
        targets = [*_written(first.first), *_written(first.second)]
    elif isinstance(first, Vector) and one.opcode == "mov":
        return _unpacked(operands, first, found[0])
    else:
        targets = list(_written(first))
    if "cc" in one.modifiers:
        targets.append(CARRY)
    reads = tuple(operands.reads)
    return tuple(Expression(number, text, reads) for number, text in zip(targets, found, strict=False) if number != -1)


def _written(operand: Operand) -> tuple[int, ...]:
    return tuple(part.number if isinstance(part, Register) else -1 for part in parts_of(operand))


def _unpacked(operands: Operands, into: Vector, text: str) -> tuple[Expression, ...]:
    """mov.b64 {a, b}, c"""
    targets = _written(into)
    bits = WIDTHS[operands.one.type] // len(targets)
    reads = tuple(operands.reads)
    return tuple(
        Expression(number, f"(({text}) >> {bits * index}) & {(1 << bits) - 1}", reads)
        for index, number in enumerate(targets)
        if number != -1
    )


Writer = Callable[[Operands, tuple[str, ...], tuple[Operand, ...]], str | tuple[str, ...]]


def _mask(kind: str) -> int:
    return (1 << WIDTHS[kind]) - 1


def _unsigned(kind: str) -> str:
    return ("b" if kind[0] in "su" else kind[0]) + kind[1:] if kind[0] in "sub" else kind


def _sum(sign: str, carried: bool) -> Writer:
    def write(o: Operands, modifiers: tuple[str, ...], given: tuple[Operand, ...]) -> str | tuple[str, ...]:
        kind = modifiers[-1]
        if "sat" in modifiers:
            raise NotKnown
        a, b = (o.text(one, _unsigned(kind)) for one in given)
        flag = ""
        if carried:
            o.reads[CARRY] = None
            flag = f" {sign} rc"
        total = f"({a} {sign} {b}{flag})"
        if "cc" in modifiers:
            return f"{total} & {_mask(kind)}", f"({total} >> {WIDTHS[kind]}) & 1"
        return f"{total} & {_mask(kind)}"

    return write


def _mul(o: Operands, modifiers: tuple[str, ...], given: tuple[Operand, ...]) -> str | tuple[str, ...]:
    """mul and mad; .wide, .lo, .hi."""
    kind = modifiers[-1]
    a, b = o.text(given[0], kind), o.text(given[1], kind)
    bits = WIDTHS[kind]
    if "24" in o.one.opcode:
        raise NotKnown
    if "wide" in modifiers:
        wide = kind[0] + str(2 * bits)
        more = f" + {o.text(given[2], wide)}" if len(given) > 2 else ""
        return f"({a} * {b}{more}) & {_mask(wide)}"
    part = f"(({a} * {b}) >> {bits})" if "hi" in modifiers else f"({a} * {b})"
    if len(given) == 2:
        return f"{part} & {_mask(kind)}"
    part = f"({part} & {_mask(kind)}) + {o.text(given[2], _unsigned(kind))}"
    if o.one.opcode == "madc":
        o.reads[CARRY] = None
        part += " + rc"
    if "cc" in modifiers:
        return f"({part}) & {_mask(kind)}", f"(({part}) >> {bits}) & 1"
    return f"({part}) & {_mask(kind)}"


def _called(name: str, *, signs: bool = True) -> Writer:
    """A function of FUNCTIONS, with the width as its last argument."""

    def write(o: Operands, modifiers: tuple[str, ...], given: tuple[Operand, ...]) -> str:
        kind = modifiers[-1] if signs else _unsigned(modifiers[-1])
        said = ", ".join(o.text(one, kind) for one in given)
        return f"{name}({said}, {WIDTHS[kind]})"

    return write


def _least(name: str) -> Writer:
    def write(o: Operands, modifiers: tuple[str, ...], given: tuple[Operand, ...]) -> str:
        kind = modifiers[-1]
        return f"{name}({', '.join(o.text(one, kind) for one in given)}) & {_mask(kind)}"

    return write


def _bitwise(sign: str) -> Writer:
    def write(o: Operands, modifiers: tuple[str, ...], given: tuple[Operand, ...]) -> str:
        a, b = (o.text(one, modifiers[-1]) for one in given)
        return f"{a} {sign} {b}"

    return write


def _not(o: Operands, modifiers: tuple[str, ...], given: tuple[Operand, ...]) -> str:
    return f"{o.text(given[0], modifiers[-1])} ^ {_mask(modifiers[-1])}"


def _neg(o: Operands, modifiers: tuple[str, ...], given: tuple[Operand, ...]) -> str:
    kind = modifiers[-1]
    said = o.text(given[0], kind)
    return f"{'abs(' + said + ')' if o.one.opcode == 'abs' else '-' + said} & {_mask(kind)}"


def _shift(o: Operands, modifiers: tuple[str, ...], given: tuple[Operand, ...]) -> str:
    """Amounts beyond the width are clamped (9.7.8.7, .8)."""
    kind = modifiers[-1]
    amount, bits = o.text(given[1], "u32"), WIDTHS[kind]
    if isinstance(given[1], Immediate):
        amount = str(min(int(amount), bits))
    else:
        amount = f"min({amount}, {bits})"
    if o.one.opcode == "shl":
        return f"({o.text(given[0], kind)} << {amount}) & {_mask(kind)}"
    return f"({o.text(given[0], kind)} >> {amount}) & {_mask(kind)}"


def _mov(o: Operands, modifiers: tuple[str, ...], given: tuple[Operand, ...]) -> str:
    kind = modifiers[-1]
    if kind == "pred" and isinstance(given[0], Immediate):
        return str(int(given[0].value != 0))
    return o.text(given[0], _unsigned(kind))


def _selp(o: Operands, modifiers: tuple[str, ...], given: tuple[Operand, ...]) -> str:
    kind = _unsigned(modifiers[-1])
    yes, no, predicate = o.text(given[0], kind), o.text(given[1], kind), o.text(given[2], "pred")
    return f"{yes} if {predicate} else {no}"


def _slct(o: Operands, modifiers: tuple[str, ...], given: tuple[Operand, ...]) -> str:
    if modifiers[-1] != "s32":
        raise NotKnown
    kind = _unsigned(modifiers[-2])
    return f"{o.text(given[0], kind)} if {o.text(given[2], 's32')} >= 0 else {o.text(given[1], kind)}"


_SIGNS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "lo": "<", "ls": "<=", "hi": ">"}


def _compared(o: Operands, modifiers: tuple[str, ...], given: tuple[Operand, ...]) -> str:
    kind, comparison = modifiers[-1], modifiers[0]
    if kind in FLOATING:
        a, b = o.text(given[0], "b" + str(WIDTHS[kind])), o.text(given[1], "b" + str(WIDTHS[kind]))
        return f"compared('{comparison}', {a}, {b}, '{kind}')"
    sign = ">=" if comparison == "hs" else _SIGNS[comparison]
    return f"({o.text(given[0], kind)} {sign} {o.text(given[1], kind)})"


def _setp(o: Operands, modifiers: tuple[str, ...], given: tuple[Operand, ...]) -> tuple[str, ...]:
    yes = f"int({_compared(o, modifiers, given)})"
    no = f"({yes} ^ 1)"
    if len(given) > 2:
        sign = {"and": "&", "or": "|", "xor": "^"}[modifiers[1]]
        other = o.text(given[2], "pred")
        return f"{yes} {sign} {other}", f"{no} {sign} {other}"
    return yes, no


def _set(o: Operands, modifiers: tuple[str, ...], given: tuple[Operand, ...]) -> str:
    kind = modifiers[-2]
    if kind in FLOATING or len(given) > 2:
        raise NotKnown
    return f"{_mask(kind)} if {_compared(o, modifiers, given)} else 0"


def _cvt(o: Operands, modifiers: tuple[str, ...], given: tuple[Operand, ...]) -> str:
    """From one integer type to another."""
    if "sat" in modifiers or "pack" in modifiers:
        raise NotKnown
    into, kind = modifiers[-2], modifiers[-1]
    first = o.one.operands[0]
    wide = WIDTHS[o.types[first.number]] if isinstance(first, Register) and into[0] == "s" else WIDTHS[into]
    said = o.text(given[0], kind)
    if kind[0] == "s" and WIDTHS[into] < WIDTHS[kind]:
        said = f"signed(({said}) & {_mask(into)}, {WIDTHS[into]})" if into[0] == "s" else said
    return f"{said} & {(1 << wide) - 1}"


def _cvta(o: Operands, modifiers: tuple[str, ...], given: tuple[Operand, ...]) -> str:
    to = "to" in modifiers
    space = next(word for word in modifiers if word not in ("to", "u64", "u32"))
    return f"{'from' if to else 'to'}_generic('{space}', {o.text(given[0], 'u64')})"


def _isspacep(o: Operands, modifiers: tuple[str, ...], given: tuple[Operand, ...]) -> str:
    return f"is_space('{modifiers[0]}', {o.text(given[0], 'u64')})"


def _mapa(o: Operands, modifiers: tuple[str, ...], given: tuple[Operand, ...]) -> str:
    if "u64" in modifiers and not any("shared" in word for word in modifiers):
        return f"mapped_generic({o.text(given[0], 'u64')}, {o.text(given[1], 'u32')})"
    return f"mapped({o.text(given[0], 'u32')}, {o.text(given[1], 'u32')})"


def _ld_param(o: Operands, modifiers: tuple[str, ...], given: tuple[Operand, ...]) -> tuple[str, ...]:
    """A vector is read part by part."""
    kind = modifiers[-1]
    address = o.text(given[0], "u64")
    into = parts_of(o.one.operands[0])
    wide = WIDTHS[o.types[into[0].number]] if isinstance(into[0], Register) else WIDTHS[kind]
    step = WIDTHS[kind] // 8
    sign = kind[0] == "s"
    return tuple(f"parameter({address} + {step * number}, {step}, {sign}, {wide})" for number in range(len(into)))


_WRITERS: Mapping[str, Writer] = {
    "add": _sum("+", False),
    "addc": _sum("+", True),
    "sub": _sum("-", False),
    "subc": _sum("-", True),
    "mul": _mul,
    "mad": _mul,
    "madc": _mul,
    "div": _called("divided"),
    "rem": _called("remainder"),
    "min": _least("min"),
    "max": _least("max"),
    "and": _bitwise("&"),
    "or": _bitwise("|"),
    "xor": _bitwise("^"),
    "not": _not,
    "cnot": lambda o, m, g: f"int({o.text(g[0], m[-1])} == 0)",
    "neg": _neg,
    "abs": _neg,
    "shl": _shift,
    "shr": _shift,
    "mov": _mov,
    "selp": _selp,
    "slct": _slct,
    "setp": _setp,
    "set": _set,
    "cvt": _cvt,
    "cvta": _cvta,
    "isspacep": _isspacep,
    "mapa": _mapa,
    "ld": _ld_param,
    "popc": lambda o, m, g: f"({o.text(g[0], m[-1])}).bit_count()",
    "clz": lambda o, m, g: f"{WIDTHS[m[-1]]} - ({o.text(g[0], m[-1])}).bit_length()",
    "brev": _called("reversed_bits"),
    "bfind": lambda o, m, g: f"highest({o.text(g[0], m[-1])}, {WIDTHS[m[-1]]}, {'shiftamt' in m})",
    "bfe": lambda o, m, g: (
        f"extracted({o.text(g[0], _unsigned(m[-1]))}, {o.text(g[1], 'u32')}, {o.text(g[2], 'u32')}, "
        f"{WIDTHS[m[-1]]}, {m[-1][0] == 's'})"
    ),
    "bfi": lambda o, m, g: (
        f"inserted({o.text(g[0], m[-1])}, {o.text(g[1], m[-1])}, {o.text(g[2], 'u32')}, {o.text(g[3], 'u32')}, "
        f"{WIDTHS[m[-1]]})"
    ),
    "lop3": lambda o, m, g: (
        f"looked_up({o.text(g[0], 'b32')}, {o.text(g[1], 'b32')}, {o.text(g[2], 'b32')}, {o.text(g[3], 'u32')})"
    ),
    "shf": lambda o, m, g: (
        f"funnel({o.text(g[0], 'b32')}, {o.text(g[1], 'b32')}, {o.text(g[2], 'u32')}, {m[0] == 'l'}, {'wrap' in m})"
    ),
    "prmt": lambda o, m, g: (
        f"permuted({o.text(g[0], 'b32')}, {o.text(g[1], 'b32')}, {o.text(g[2], 'u32')}, '{'' if m[0] == 'b32' else m[1]}')"
    ),
    "sad": lambda o, m, g: (
        f"(abs({o.text(g[0], m[-1])} - {o.text(g[1], m[-1])}) + {o.text(g[2], m[-1])}) & {_mask(m[-1])}"
    ),
    "szext": lambda o, m, g: f"extended({o.text(g[0], 'b32')}, {o.text(g[1], 'u32')}, {m[-1] == 's32'}, {'wrap' in m})",
    "bmsk": lambda o, m, g: f"bit_mask({o.text(g[0], 'u32')}, {o.text(g[1], 'u32')}, {'wrap' in m})",
}

__all__ = ["CARRY", "FUNCTIONS", "Expression", "NotKnown", "Operands", "expressions_of"]
