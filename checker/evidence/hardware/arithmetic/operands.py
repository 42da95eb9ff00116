"""Random operands in which what is special is common: the edges of types, zeros of both signs, NaN, equal pairs."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

REGISTERS = {
    **{kind: kind for kind in ("b8", "b16", "b32", "b64", "pred")},
    "amount": "b32",
    "few32": "b32",
    "few64": "b64",
    "votes": "pred",
    "lane": "b32",
    "f16": "b16",
    "bf16": "b16",
    "f32": "b32",
    "f64": "b64",
}
"""By the kind of an operand, the type of its register: amount: of a shift, or a place in a word; few32, few64: like
those of other lanes; votes: often the same in a warp; lane: of a warp.
"""
WARP_LANES = 32
_SIZES = {"b8": 8, "b16": 16, "b32": 32, "b64": 64}
_FLOATS = {"f16": (16, 10), "bf16": (16, 7), "f32": (32, 23), "f64": (64, 52)}
"""Bits, and of these the mantissa's."""


def operands_of(random: Random, kinds: Sequence[str], threads: int) -> list[list[int]]:
    """By kind, an operand for each thread."""
    found: list[list[int]] = []
    for number, kind in enumerate(kinds):
        before = [row for row, other in zip(found, kinds[:number], strict=True) if REGISTERS[other] == REGISTERS[kind]]
        if kind in ("few32", "few64", "votes"):
            found.append(_alike(random, kind, threads))
        else:
            found.append([_one(random, kind, [row[thread] for row in before]) for thread in range(threads)])
    return found


def _one(random: Random, kind: str, before: Sequence[int]) -> int:
    """An operand; one in eight is what an earlier operand of the thread is."""
    if before and not _upto(random, 8):
        return before[_upto(random, len(before))]
    if kind == "pred":
        return random.getrandbits(1)
    if kind == "lane":
        return random.getrandbits(5)
    if kind == "amount":
        return _amount(random)
    return _integer(random, _SIZES[kind]) if kind in _SIZES else _float(random, *_FLOATS[kind])


def _upto(random: Random, count: int) -> int:
    """Below the count: from bits alone, which every Python draws alike."""
    return random.getrandbits(32) % count


def _amount(random: Random) -> int:
    if _upto(random, 4):
        return _upto(random, 72)
    return (0xFFFFFFFF, 0x80000000, 255, 256, 257, 128, 0x7FFFFFFF, 0x10000)[_upto(random, 8)]


def _integer(random: Random, bits: int) -> int:
    match _upto(random, 5):
        case 0:
            return random.getrandbits(bits)
        case 1:
            return random.getrandbits(1 + _upto(random, bits))
        case 2:
            return (1 << bits) - 1 - random.getrandbits(1 + _upto(random, bits))
        case 3:
            return ((1 << _upto(random, bits)) + _upto(random, 3) - 1) & ((1 << bits) - 1)
        case _:
            half = 1 << bits - 1
            return (0, 1, half, half - 1, 2 * half - 1, half + 1)[_upto(random, 6)]


def _float(random: Random, bits: int, mantissa: int) -> int:
    sign = random.getrandbits(1) << bits - 1
    infinity = (1 << bits - 1) - (1 << mantissa)
    quiet = 1 << mantissa - 1
    match _upto(random, 5):
        case 0:
            return random.getrandbits(bits)
        case 1:
            return sign | random.getrandbits(mantissa)
        case 2:
            return sign | infinity + random.getrandbits(mantissa)
        case _:
            edges = (0, 1, (1 << mantissa) - 1, 1 << mantissa, infinity - 1, infinity, infinity + 1, infinity + quiet)
            return sign | (*edges, infinity // 2 + quiet)[_upto(random, 9)]


def _alike(random: Random, kind: str, threads: int) -> list[int]:
    """By warp, all lanes alike, one lane unlike the others, or any of a few."""
    found: list[int] = []
    for _ in range(threads // WARP_LANES):
        some = [random.getrandbits(1) if kind == "votes" else _integer(random, int(kind[3:])) for _ in range(3)]
        match _upto(random, 3):
            case 0:
                lanes = some[:1] * WARP_LANES
            case 1:
                odd = _upto(random, WARP_LANES)
                lanes = [some[lane == odd] for lane in range(WARP_LANES)]
            case _:
                lanes = [some[_upto(random, 3)] for _ in range(WARP_LANES)]
        found += lanes
    return found
