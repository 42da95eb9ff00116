"""Integer instructions that need more than an operator, as functions of unsigned integers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from sm90_verify.frontends.ptx.values import signed


def divided(a: int, b: int, bits: int) -> int:
    """Towards zero; by zero, all ones, which is what an H200 gives (the ISA leaves it open)."""
    if b == 0:
        return (1 << bits) - 1
    quotient = abs(a) // abs(b)
    return (quotient if (a < 0) == (b < 0) else -quotient) & ((1 << bits) - 1)


def remainder(a: int, b: int, bits: int) -> int:
    """With the sign of the dividend; of a division by zero, all ones."""
    if b == 0:
        return (1 << bits) - 1
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


def _field(position: int, length: int, bits: int) -> tuple[int, int]:
    """Of bfe and bfi. An H200 reads 8 bits of both for words of 32, and all for words of 64 (the ISA says 8)."""
    return (position & 255, length & 255) if bits == 32 else (min(position, bits), min(length, bits))


def extracted(a: int, position: int, length: int, bits: int, sign: bool) -> int:
    """bfe"""
    position, length = _field(position, length, bits)
    mask = (1 << bits) - 1
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
    position, length = _field(position, length, bits)
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


def low_24(a: int, sign: bool) -> int:
    """An operand of mul24."""
    return signed(a & 0xFFFFFF, 24) if sign else a & 0xFFFFFF


def saturated(a: int, bits: int, sign: bool) -> int:
    """The nearest number of a type."""
    least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if sign else (0, (1 << bits) - 1)
    return min(max(a, least), most)


def packed(a: int, b: int, c: int, bits: int, sign: bool) -> int:
    """cvt.pack.sat"""
    high, low = (saturated(one, bits, sign) & ((1 << bits) - 1) for one in (a, b))
    return (c << 2 * bits | high << bits | low) & 0xFFFFFFFF


def in_halves(name: str, a: int, b: int, sign: bool) -> int:
    """add, sub, min or max of both pairs of 16 bits."""
    found = 0
    for number in range(2):
        x, y = ((one >> 16 * number) & 0xFFFF for one in (a, b))
        if sign:
            x, y = signed(x, 16), signed(y, 16)
        each = {"add": x + y, "sub": x - y, "min": min(x, y), "max": max(x, y)}[name]
        found |= (each & 0xFFFF) << 16 * number
    return found


def nth_set(a: int, base: int, offset: int) -> int:
    """fns: the place of the nth bit that is set, from a base upwards, or downwards for an offset below 0."""
    if offset == -(1 << 31):
        return 0
    places = range(base, 32) if offset > 0 else range(base, -1, -1) if offset else range(base, base + 1)
    found = [place for place in places if a >> place & 1] if base < 32 else []
    count = max(abs(offset), 1)
    return found[count - 1] if len(found) >= count else 0xFFFFFFFF


def dot_4(a: int, b: int, c: int, a_sign: bool, b_sign: bool) -> int:
    """dp4a"""
    products = (_part(a, place, 8, a_sign) * _part(b, place, 8, b_sign) for place in range(4))
    return (c + sum(products)) & 0xFFFFFFFF


def dot_2(a: int, b: int, c: int, a_sign: bool, b_sign: bool, high: bool) -> int:
    """dp2a: the halves of a, and the two low or high bytes of b."""
    first = 2 if high else 0
    products = (_part(a, place, 16, a_sign) * _part(b, first + place, 8, b_sign) for place in range(2))
    return (c + sum(products)) & 0xFFFFFFFF


def _part(a: int, place: int, bits: int, sign: bool) -> int:
    found = a >> bits * place & ((1 << bits) - 1)
    return signed(found, bits) if sign else found


_MANTISSA = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}
_BITS = {"f16": 16, "bf16": 16, "f32": 32, "f64": 64}


def compared(comparison: str, a: int, b: int, kind: str, flush: bool) -> bool:
    """Floating-point numbers of these bits; NaN is unordered. flush: .ftz."""
    if comparison == "num":
        return not (_is_nan(a, kind) or _is_nan(b, kind))
    if _is_nan(a, kind) or _is_nan(b, kind):
        return len(comparison) == 3  # equ, neu, ltu, …, and nan
    x, y = (_ordered(one, kind, flush) for one in (a, b))
    plain = comparison[:2]
    return {"eq": x == y, "ne": x != y, "lt": x < y, "le": x <= y, "gt": x > y, "ge": x >= y, "na": False}[plain]


def is_number_of(what: str, a: int, kind: str) -> bool:
    """testp; zeros are normal."""
    size = abs(_ordered(a, kind, False))
    infinity = _infinity(kind)
    match what:
        case "finite":
            return size < infinity
        case "infinite":
            return size == infinity
        case "number":
            return size <= infinity
        case "notanumber":
            return size > infinity
        case "subnormal":
            return 0 < size < 1 << _MANTISSA[kind]
        case _:
            return size == 0 or 1 << _MANTISSA[kind] <= size < infinity


def _infinity(kind: str) -> int:
    mantissa = _MANTISSA[kind]
    return (1 << _BITS[kind] - 1 - mantissa) - 1 << mantissa


def _is_nan(a: int, kind: str) -> bool:
    return abs(_ordered(a, kind, False)) > _infinity(kind)


def _ordered(a: int, kind: str, flush: bool) -> int:
    """An integer in whose order the numbers are: the bits without the sign, and below 0 with it. -0.0 is 0."""
    sign = 1 << _BITS[kind] - 1
    size = a & (sign - 1)
    if flush and size < 1 << _MANTISSA[kind]:
        return 0
    return -size if a & sign else size


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
        low_24,
        saturated,
        packed,
        in_halves,
        nth_set,
        dot_4,
        dot_2,
        compared,
        is_number_of,
        signed,
    )
}
"""By name."""
