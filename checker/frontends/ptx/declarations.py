"""Variables and parameters of a PTX file: sizes, alignments, addresses, and what they hold at first (PTX ISA 5.4)."""

from __future__ import annotations

from collections.abc import Sequence

from sm90_verify.frontends.ptx.cursor import Cursor
from sm90_verify.frontends.ptx.instruction import Parameter, PtxVariable
from sm90_verify.frontends.ptx.tokens import integer

BYTES = {
    **{f"{kind}{bits}": bits // 8 for kind in "bus" for bits in (8, 16, 32, 64)},
    "f16": 2,
    "f32": 4,
    "f64": 8,
    "f16x2": 4,
    "bf16": 2,
    "bf16x2": 4,
    "tf32": 4,
    "b128": 16,
    "e4m3x2": 2,
    "e5m2x2": 2,
}
"""Of one element of a type."""
REGISTER_TYPES = ("pred", *BYTES)
MOST = 1 << 31
"""Bytes of one variable."""
_ATTRIBUTES = ("ptr", "global", "shared", "const", "local", "param", "texref", "samplerref", "surfref")
"""Words of a declaration that say nothing about its bytes."""


def aligned(address: int, align: int) -> int:
    """The next multiple."""
    return -(-address // align) * align


def parameters(at: Cursor) -> tuple[Parameter, ...]:
    """A list in parentheses."""
    found: list[Parameter] = []
    at.expect("(")
    offset = 0
    while at.peek() != ")":
        if found:
            at.expect(",")
        space = at.peek()
        if space not in (".param", ".reg"):
            raise at.wrong(f"{space!r} where a parameter should stand")
        at.next()
        if space == ".reg":
            kind = at.name()[1:]
            if kind not in REGISTER_TYPES:
                raise at.wrong_before(f".reg .{kind} is not known")
            found.append(Parameter(at.name(), 0, 0, 1, kind))
            continue
        align, size = _type(at)
        name, count, _ = _name_and_count(at)
        offset = aligned(offset, align)
        found.append(Parameter(name, offset, size * count, align))
        offset += size * count
    at.expect(")")
    return tuple(found)


def variables(at: Cursor, others: Sequence[PtxVariable]) -> list[PtxVariable]:
    """Those of one declaration; the address of each follows those of its space before it."""
    space = at.next()[1:]
    align, size = _type(at)
    found: list[PtxVariable] = []
    while True:
        line = at.line
        name, count, unbounded = _name_and_count(at)
        initial = None
        if at.peek() == "=":
            at.next()
            initial = _initial(at, size)
            if unbounded and initial is not None:
                count, unbounded = len(initial) // size, False
        last = next((one for one in (*reversed(found), *reversed(others)) if one.space == space), None)
        address = aligned(last.address + last.size if last else 0, align)
        found.append(PtxVariable(name, space, align, 0 if unbounded else size * count, address, line, initial))
        if at.peek() != ",":
            at.expect(";")
            return found
        at.next()


def _type(at: Cursor) -> tuple[int, int]:
    """Alignment and bytes of an element."""
    align = size = 0
    vector = 1
    while at.peek().startswith("."):
        word = at.next()[1:]
        if word == "align":
            align = at.number()
            if align < 1 or align & (align - 1) or align > MOST:
                raise at.wrong_before(f".align {align}: use a power of two")
        elif word in ("v2", "v4"):
            vector = int(word[1:])
        elif word in BYTES:
            size = BYTES[word]
        elif word == "attribute":
            at.skip_past(")")
        elif word not in _ATTRIBUTES:
            raise at.wrong_before(f".{word} in a declaration is not known")
    if not size:
        raise at.wrong("a declaration without a type")
    return align or size * vector, size * vector


def _name_and_count(at: Cursor) -> tuple[str, int, bool]:
    """The name, the number of elements, and whether that is left open."""
    name, count, unbounded = at.name(), 1, False
    while at.peek() == "[":
        at.next()
        if at.peek() == "]":
            unbounded = True
        else:
            count *= at.number()
        at.expect("]")
        if not 0 <= count <= MOST:
            raise at.wrong_before(f"{name} has {count} elements")
    return name, count, unbounded


def _initial(at: Cursor, size: int) -> bytes | None:
    """Numbers, in braces or not; None where addresses are among them, or numbers that are not written as bits."""
    found, depth, known = bytearray(), 0, True
    while True:
        word = at.next()
        depth += (word == "{") - (word == "}")
        if word not in "{},":
            sign = -1 if word == "-" else 1
            text = at.next() if word == "-" else word
            try:
                found += (sign * integer(text) & ((1 << 8 * size) - 1)).to_bytes(size, "little")
            except ValueError:
                known = False
        if depth <= 0 and at.peek() in (";", ","):
            return bytes(found) if known else None
