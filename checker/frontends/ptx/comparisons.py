"""Comparison and selection, of integers and of floating-point numbers (PTX ISA 9.7.3.2, 9.7.6 and 9.7.7)."""

from __future__ import annotations

from sm90_verify.frontends.ptx.expressions import COMBINED, WIDTHS, Given, NotKnown, Operands, Writers, mask, unsigned

_SIGNS = {
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
    "lo": "<",
    "ls": "<=",
    "hi": ">",
    "hs": ">=",
}
_ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")
_OF_NUMBERS = (*_ORDERED, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan")
_FLOATS = ("f16", "bf16", "f32", "f64")
_ONE = {"f32": 0x3F800000, "f16": 0x3C00, "bf16": 0x3F80}
"""The bits of 1.0, which `set` gives for true."""


def _compared(o: Operands, modifiers: tuple[str, ...], given: Given) -> str:
    """A bool; the first modifier says which comparison, the last one of what type."""
    kind, comparison = modifiers[-1], modifiers[0]
    if kind in _FLOATS:
        if comparison not in _OF_NUMBERS:
            raise NotKnown
        said = o.texts(given[:2], unsigned(kind), unsigned(kind))
        return f"compared('{comparison}', {said}, '{kind}', {'ftz' in modifiers})"
    if not kind[1:].isdecimal():
        raise NotKnown
    a, b = (o.text(one, kind) for one in given[:2])
    return f"({a} {_SIGNS[comparison]} {b})"


def _setp(o: Operands, modifiers: tuple[str, ...], given: Given) -> tuple[str, ...]:
    """The comparison, and its contrary, each combined with a predicate if one is given."""
    yes = f"int({_compared(o, modifiers, given)})"
    no = f"({yes} ^ 1)"
    if len(given) > 2:
        sign, other = COMBINED[modifiers[1]], o.text(given[2], "pred")
        return f"{yes} {sign} {other}", f"{no} {sign} {other}"
    return yes, no


def _set(o: Operands, modifiers: tuple[str, ...], given: Given) -> str:
    """All ones for true, or 1.0."""
    kind, (yes, _) = modifiers[-2], _setp(o, modifiers, given)
    return f"{_ONE.get(kind, mask(kind))} if {yes} else 0"


def _selp(o: Operands, modifiers: tuple[str, ...], given: Given) -> str:
    kind = unsigned(modifiers[-1])
    yes, no, predicate = (o.text(one, each) for one, each in zip(given, (kind, kind, "pred"), strict=True))
    return f"{yes} if {predicate} else {no}"


def _slct(o: Operands, modifiers: tuple[str, ...], given: Given) -> str:
    """The first operand where the third is at least 0, -0.0 included."""
    kind, by = unsigned(modifiers[-2]), modifiers[-1]
    yes, no = o.text(given[0], kind), o.text(given[1], kind)
    if by == "f32":
        return f"{yes} if compared('ge', {o.text(given[2], 'b32')}, 0, 'f32', {'ftz' in modifiers}) else {no}"
    if by != "s32":
        raise NotKnown
    return f"{yes} if {o.text(given[2], 's32')} >= 0 else {no}"


def _testp(o: Operands, modifiers: tuple[str, ...], given: Given) -> str:
    kind = modifiers[-1]
    return f"int(is_number_of('{modifiers[0]}', {o.text(given[0], f'b{WIDTHS[kind]}')}, '{kind}'))"


COMPARISONS: Writers = {"set": _set, "setp": _setp, "selp": _selp, "slct": _slct, "testp": _testp}
"""PTX ISA 9.7.3.2, 9.7.6 and 9.7.7."""
