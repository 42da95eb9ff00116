"""Integer arithmetic, with the carry flag where there is one (PTX ISA 9.7.1 and 9.7.2)."""

from __future__ import annotations

from sm90_verify.frontends.ptx.expressions import (
    WIDTHS,
    Given,
    NotKnown,
    Operands,
    Writer,
    Writers,
    calls,
    mask,
    unsigned,
)

_OF_DOTS = ("u32", "s32")
"""Types of the operands of dp4a and dp2a."""


def _sum(sign: str) -> Writer:
    """add, sub, addc and subc; the flag is a carry of sums and a borrow of differences."""

    def write(o: Operands, modifiers: tuple[str, ...], given: Given) -> str | tuple[str, ...]:
        kind = modifiers[-1]
        if kind.endswith("x2"):
            return f"in_halves('{'add' if sign == '+' else 'sub'}', {o.texts(given, 'u32', 'u32')}, False)"
        if "sat" in modifiers:
            a, b = (o.text(one, "s32") for one in given)
            return _limited(f"{a} {sign} {b}", kind)
        a, b = (o.text(one, unsigned(kind)) for one in given)
        total = f"({a} {sign} {b}{f' {sign} {o.carry()}' if o.one.opcode.endswith('c') else ''})"
        if "cc" in modifiers:
            return f"{total} & {mask(kind)}", f"({total} >> {WIDTHS[kind]}) & 1"
        return f"{total} & {mask(kind)}"

    return write


def _limited(said: str, kind: str) -> str:
    """.sat, which only .s32 has."""
    if kind != "s32":
        raise NotKnown
    return f"saturated({said}, 32, True) & {mask(kind)}"


def _product(o: Operands, modifiers: tuple[str, ...], given: Given) -> str | tuple[str, ...]:
    """mul, mad and madc, with .wide, .lo or .hi."""
    kind = modifiers[-1]
    a, b, bits = o.text(given[0], kind), o.text(given[1], kind), WIDTHS[kind]
    if "wide" in modifiers:
        wide = kind[0] + str(2 * bits)
        more = f" + {o.text(given[2], unsigned(wide))}" if len(given) > 2 else ""
        return f"({a} * {b}{more}) & {mask(wide)}"
    part = f"(({a} * {b}) >> {bits})" if "hi" in modifiers else f"({a} * {b})"
    if len(given) == 2:
        return f"{part} & {mask(kind)}"
    if "sat" in modifiers:
        return _limited(f"{part} + {o.text(given[2], kind)}", kind)
    part = f"({part} & {mask(kind)}) + {o.text(given[2], unsigned(kind))}"
    if o.one.opcode == "madc":
        part += f" + {o.carry()}"
    if "cc" in modifiers:
        return f"({part}) & {mask(kind)}", f"({part}) >> {bits}"
    return f"({part}) & {mask(kind)}"


def _product_24(o: Operands, modifiers: tuple[str, ...], given: Given) -> str:
    """mul24 and mad24: the low 24 bits of each operand; .hi gives bits 16 to 47 of the product."""
    kind = modifiers[-1]
    a, b = (f"low_24({o.text(one, 'u32')}, {kind[0] == 's'})" for one in given[:2])
    part = f"(({a} * {b}) >> 16)" if "hi" in modifiers else f"({a} * {b})"
    if len(given) == 2:
        return f"{part} & {mask(kind)}"
    if "sat" in modifiers:
        return _limited(f"{part} + {o.text(given[2], kind)}", kind)
    return f"({part} + {o.text(given[2], unsigned(kind))}) & {mask(kind)}"


def _least(o: Operands, modifiers: tuple[str, ...], given: Given) -> str:
    """min and max; .relu: what is below 0 becomes 0."""
    kind, name = modifiers[-1], o.one.opcode
    if kind.endswith("x2"):
        least = f"in_halves('{name}', {o.texts(given, 'u32', 'u32')}, {kind[0] == 's'})"
        return f"in_halves('max', {least}, 0, True)" if "relu" in modifiers else least
    said = f"{name}({o.texts(given, kind, kind)})"
    return f"{f'max({said}, 0)' if 'relu' in modifiers else said} & {mask(kind)}"


def _neg(o: Operands, modifiers: tuple[str, ...], given: Given) -> str:
    """neg and abs"""
    kind = modifiers[-1]
    said = o.text(given[0], kind)
    return f"{f'abs({said})' if o.one.opcode == 'abs' else f'-{said}'} & {mask(kind)}"


def _sad(o: Operands, modifiers: tuple[str, ...], given: Given) -> str:
    kind = modifiers[-1]
    a, b, c = (o.text(one, each) for one, each in zip(given, (kind, kind, unsigned(kind)), strict=True))
    return f"(abs({a} - {b}) + {c}) & {mask(kind)}"


def _dot(o: Operands, modifiers: tuple[str, ...], given: Given) -> str:
    """dp4a, and dp2a with .lo or .hi"""
    a, b = modifiers[-2:]
    if a not in _OF_DOTS or b not in _OF_DOTS:
        raise NotKnown
    said = f"{o.texts(given, 'u32', 'u32', 'u32')}, {a == 's32'}, {b == 's32'}"
    return f"dot_4({said})" if o.one.opcode == "dp4a" else f"dot_2({said}, {modifiers[0] == 'hi'})"


def _bits_in(o: Operands, modifiers: tuple[str, ...], given: Given) -> str:
    """popc and clz"""
    kind = modifiers[-1]
    said = o.text(given[0], kind)
    return f"({said}).bit_count()" if o.one.opcode == "popc" else f"{WIDTHS[kind]} - ({said}).bit_length()"


INTEGERS: Writers = {
    "add": _sum("+"),
    "addc": _sum("+"),
    "sub": _sum("-"),
    "subc": _sum("-"),
    "mul": _product,
    "mad": _product,
    "madc": _product,
    "mul24": _product_24,
    "mad24": _product_24,
    "sad": _sad,
    "div": calls("divided", "type", "type", sized=True),
    "rem": calls("remainder", "type", "type", sized=True),
    "abs": _neg,
    "neg": _neg,
    "min": _least,
    "max": _least,
    "popc": _bits_in,
    "clz": _bits_in,
    "bfind": lambda o, m, g: f"highest({o.text(g[0], m[-1])}, {WIDTHS[m[-1]]}, {'shiftamt' in m})",
    "fns": calls("nth_set", "u32", "u32", "s32"),
    "brev": calls("reversed_bits", "bits", sized=True),
    "bfe": lambda o, m, g: (
        f"extracted({o.texts(g, unsigned(m[-1]), 'u32', 'u32')}, {WIDTHS[m[-1]]}, {m[-1][0] == 's'})"
    ),
    "bfi": calls("inserted", "bits", "bits", "u32", "u32", sized=True),
    "szext": lambda o, m, g: f"extended({o.texts(g, 'u32', 'u32')}, {m[-1] == 's32'}, {'wrap' in m})",
    "bmsk": lambda o, m, g: f"bit_mask({o.texts(g, 'u32', 'u32')}, {'wrap' in m})",
    "dp4a": _dot,
    "dp2a": _dot,
}
"""PTX ISA 9.7.1 and 9.7.2."""
