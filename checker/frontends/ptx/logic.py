"""Logic and shifts (PTX ISA 9.7.8)."""

from __future__ import annotations

from sm90_verify.frontends.ptx.expressions import COMBINED, WIDTHS, Given, Operands, Writer, Writers, mask
from sm90_verify.frontends.ptx.instruction import Immediate


def _bitwise(sign: str) -> Writer:
    def write(o: Operands, modifiers: tuple[str, ...], given: Given) -> str:
        a, b = (o.text(one, modifiers[-1]) for one in given)
        return f"{a} {sign} {b}"

    return write


def _lop3(o: Operands, modifiers: tuple[str, ...], given: Given) -> str | tuple[str, ...]:
    """Any function of three bits. With an operation its second result is whether any bit is set, combined with a
    predicate.
    """
    said = f"looked_up({o.texts(given[:4], 'b32', 'b32', 'b32', 'u32')})"
    if modifiers[0] not in COMBINED:
        return said
    return said, f"int({said} != 0) {COMBINED[modifiers[0]]} {o.text(given[4], 'pred')}"


def _shift(o: Operands, modifiers: tuple[str, ...], given: Given) -> str:
    """Amounts beyond the width are clamped."""
    kind = modifiers[-1]
    amount, bits = o.text(given[1], "u32"), WIDTHS[kind]
    amount = str(min(int(amount), bits)) if isinstance(given[1], Immediate) else f"min({amount}, {bits})"
    return f"({o.text(given[0], kind)} {'<<' if o.one.opcode == 'shl' else '>>'} {amount}) & {mask(kind)}"


LOGIC: Writers = {
    **{name: _bitwise(sign) for name, sign in COMBINED.items()},
    "not": lambda o, m, g: f"{o.text(g[0], m[-1])} ^ {mask(m[-1])}",
    "cnot": lambda o, m, g: f"int({o.text(g[0], m[-1])} == 0)",
    "lop3": _lop3,
    "shl": _shift,
    "shr": _shift,
    "shf": lambda o, m, g: f"funnel({o.texts(g, 'b32', 'b32', 'u32')}, {m[0] == 'l'}, {'wrap' in m})",
}
"""PTX ISA 9.7.8."""
