"""Moves and conversions (PTX ISA 9.7.9): what does not change a value, or only its type or its address space."""

from __future__ import annotations

from sm90_verify.frontends.ptx.expressions import WIDTHS, Given, NotKnown, Operands, Writers, ones, unsigned
from sm90_verify.frontends.ptx.instruction import Immediate, Register
from sm90_verify.frontends.ptx.opcodes import parts_of

_PACKED = {f"{sign}{bits}": bits for sign in "us" for bits in (2, 4, 8, 16)}
"""Bits of what cvt.pack makes of each of its operands."""


def _mov(o: Operands, modifiers: tuple[str, ...], given: Given) -> str:
    kind = modifiers[-1]
    if kind == "pred" and isinstance(given[0], Immediate):
        return str(int(given[0].value != 0))
    return o.text(given[0], "pred" if kind == "pred" else unsigned(kind))


def _prmt(o: Operands, modifiers: tuple[str, ...], given: Given) -> str:
    mode = modifiers[1] if len(modifiers) > 1 else ""
    return f"permuted({o.texts(given, 'b32', 'b32', 'u32')}, '{mode}')"


def _cvt(o: Operands, modifiers: tuple[str, ...], given: Given) -> str:
    """From one integer type to another: with a sign, in the whole width of its register."""
    if "pack" in modifiers:
        return _cvt_pack(o, modifiers, given)
    into, kind = modifiers[-2], modifiers[-1]
    said, bits, signs = o.text(given[0], kind), WIDTHS[into], into[0] == "s"
    first = o.one.operands[0]
    wide = WIDTHS[o.types[first.number]] if isinstance(first, Register) else bits
    if "sat" in modifiers:
        said = f"saturated({said}, {bits}, {signs})"
    elif signs and wide > bits:
        said = f"signed({said} & {ones(bits)}, {bits})"
    return f"{said} & {ones(wide if signs else bits)}"


def _cvt_pack(o: Operands, modifiers: tuple[str, ...], given: Given) -> str:
    """cvt.pack.sat: two integers, limited to a type, below the low bits of a third operand."""
    into, kind = modifiers[2:4]
    if "sat" not in modifiers or kind != "s32":
        raise NotKnown
    third = o.text(given[2], "b32") if len(given) > 2 else "0"
    return f"packed({o.texts(given[:2], kind, kind)}, {third}, {_PACKED[into]}, {into[0] == 's'})"


def _cvta(o: Operands, modifiers: tuple[str, ...], given: Given) -> str:
    to = "to" in modifiers
    space = next(word for word in modifiers if word not in ("to", "u64", "u32"))
    return f"{'from' if to else 'to'}_generic('{space}', {o.text(given[0], 'u64')})"


def _mapa(o: Operands, modifiers: tuple[str, ...], given: Given) -> str:
    if "u64" in modifiers and not any("shared" in word for word in modifiers):
        return f"mapped_generic({o.texts(given, 'u64', 'u32')})"
    return f"mapped({o.texts(given, 'u32', 'u32')})"


def _ld_param(o: Operands, modifiers: tuple[str, ...], given: Given) -> tuple[str, ...]:
    """A vector is read part by part."""
    kind = modifiers[-1]
    address = o.text(given[0], "u64")
    into = parts_of(o.one.operands[0])
    wide = WIDTHS[o.types[into[0].number]] if isinstance(into[0], Register) else WIDTHS[kind]
    step = WIDTHS[kind] // 8
    sign = kind[0] == "s"
    return tuple(f"parameter({address} + {step * number}, {step}, {sign}, {wide})" for number in range(len(into)))


MOVES: Writers = {
    "mov": _mov,
    "prmt": _prmt,
    "cvt": _cvt,
    "cvta": _cvta,
    "isspacep": lambda o, m, g: f"is_space('{m[0]}', {o.text(g[0], 'u64')})",
    "mapa": _mapa,
    "ld": _ld_param,
    "ldu": _ld_param,
}
"""PTX ISA 9.7.9."""
