"""Integer instructions that need more than an operator, as functions of unsigned integers."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from sm90_verify.frontends.ptx.values import signed

_FORMATS = {"f16": "e", "f32": "f", "f64": "d"}


def divided(a: int, b: int, bits: int) -> int:
    """Towards zero; by zero, all ones, which is what the hardware gives (the ISA leaves it open)."""
    if b == 0:
        return (1 << bits) - 1
    quotient = abs(a) // abs(b)
    return (quotient if (a < 0) == (b < 0) else -quotient) & ((1 << bits) - 1)


def remainder(a: int, b: int, bits: int) -> int:
    """With the sign of the dividend."""
    if b == 0:
        return a & ((1 << bits) - 1)
    left = abs(a) % abs(b)
    return (-left if a < 0 else left) & ((1 << bits) - 1)


def reversed_bits(a: int, bits: int) -> int:
    """brev"""
    return int(f"{a:0{bits}b}"[::-1], 2)


def highest(a: int, bits: int, shift: bool) -> int:
    """bfind: the highest bit that is not the sign; all ones if there is none."""
    a = ~a if a < 0 else a
    found = a.bit_length() - 1
    if found < 0:
        return 0xFFFFFFFF
    return bits - 1 - found if shift else found


def extracted(a: int, position: int, length: int, bits: int, sign: bool) -> int:
    """bfe"""
    position, length, mask = position & 255, length & 255, (1 << bits) - 1
    if length == 0:
        return 0
    upper = bool(a >> min(position + length - 1, bits - 1) & 1) if sign else False
    field = (a >> position) & ((1 << length) - 1) if position < bits else 0
    have = max(0, min(length, bits - position))
    if upper:
        field |= mask & ~((1 << have) - 1)
    return field & mask


def inserted(a: int, b: int, position: int, length: int, bits: int) -> int:
    """bfi: the low bits of a, in b."""
    position, length = position & 255, length & 255
    field = ((1 << length) - 1) << position & ((1 << bits) - 1) if position < bits else 0
    return (b & ~field) | (a << position & field)


def looked_up(a: int, b: int, c: int, table: int) -> int:
    """lop3"""
    found = 0
    for number in range(8):
        if table >> number & 1:
            x = a if number & 4 else ~a
            y = b if number & 2 else ~b
            z = c if number & 1 else ~c
            found |= x & y & z
    return found & 0xFFFFFFFF


def funnel(a: int, b: int, amount: int, left: bool, wrap: bool) -> int:
    """shf of b:a"""
    amount = amount & 31 if wrap else min(amount, 32)
    both = b << 32 | a
    return (both << amount >> 32 if left else both >> amount) & 0xFFFFFFFF


def permuted(a: int, b: int, selector: int, mode: str) -> int:
    """prmt"""
    them = (b << 32 | a).to_bytes(8, "little")
    low = selector & 3
    match mode:
        case "f4e":
            picks = [low + number for number in range(4)]
        case "b4e":
            picks = [(low - number) & 7 for number in range(4)]
        case "rc8":
            picks = [low] * 4
        case "ecl":
            picks = [max(low, number) for number in range(4)]
        case "ecr":
            picks = [min(low, number) for number in range(4)]
        case "rc16":
            picks = [0, 1, 0, 1] if not selector & 1 else [2, 3, 2, 3]
        case _:
            picks = [selector >> 4 * number & 15 for number in range(4)]
    found = 0
    for number, pick in enumerate(picks):
        byte = them[pick & 7]
        if pick & 8:
            byte = 255 if byte & 128 else 0
        found |= byte << 8 * number
    return found


def extended(a: int, length: int, sign: bool, wrap: bool) -> int:
    """szext"""
    length = length & 31 if wrap else min(length, 32)
    if length == 0:
        return 0
    low = a & ((1 << length) - 1)
    return (signed(low, length) if sign else low) & 0xFFFFFFFF


def bit_mask(position: int, length: int, wrap: bool) -> int:
    """bmsk"""
    position, length = (position & 31, length & 31) if wrap else (min(position, 32), min(length, 32))
    return ((1 << length) - 1) << position & 0xFFFFFFFF


def compared(comparison: str, a: int, b: int, kind: str) -> bool:
    """Floating-point numbers of these bits."""
    x, y = (_number(one, kind) for one in (a, b))
    unordered = x != x or y != y
    if comparison == "num":
        return not unordered
    if comparison == "nan":
        return unordered
    if unordered:
        return len(comparison) == 3
    plain = comparison[:2]
    return {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y}[plain]


def _number(bits: int, kind: str) -> float:
    if kind == "bf16":
        bits, kind = bits << 16, "f32"
    size = {"f16": 2, "f32": 4, "f64": 8}[kind]
    found: float = struct.unpack("<" + _FORMATS[kind], bits.to_bytes(size, "little"))[0]
    return found


FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    one.__name__: one
    for one in (
        divided,
        remainder,
        reversed_bits,
        highest,
        extracted,
        inserted,
        looked_up,
        funnel,
        permuted,
        extended,
        bit_mask,
        compared,
        signed,
    )
}
"""By name."""
