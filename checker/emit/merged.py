"""What the parts of a role do as one text: sentences that they have in common stand once, others say whose they are.

The parts are warps, or lanes of warps, that execute the same code and part ways now and then: where two of them differ,
the shortest way on to sentences that they have in common again is taken. Sentences of different parts have no order, so
that any such text says what each part does in the order in which it does it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from sm90_verify.emit.numbers import Affine
from sm90_verify.emit.rolling import Sentence

AHEAD = 200
"""Sentences that are left out of two parts together before they are taken to have nothing more in common."""


@dataclass(frozen=True)
class PartText:
    """What one part of a role does. index: of the part; warp: its warp in the role."""

    index: int
    warp: int
    sentences: tuple[Sentence, ...]


Row = tuple[object, dict[int, Sentence]]
"""A sentence without its numbers, with its line, and by part the sentence."""


def merged(parts: Sequence[PartText], of: int) -> tuple[Sentence, ...]:
    """The sentences of all parts, each with the parts that it is of (none, if they are all the role's parts: `of`). All
    numbers have a factor, that of the warp.
    """
    rows: list[Row] = []
    for part in parts:
        rows = list(_merged(rows, [((one.shape, one.line), {part.index: one}) for one in part.sentences]))
    warps = {part.index: part.warp for part in parts}
    return tuple(sentence for _, found in rows for sentence in _of_row(found, warps, of))


def _merged(rows: Sequence[Row], more: Sequence[Row]) -> Iterator[Row]:
    at, other = 0, 0
    while at < len(rows) and other < len(more):
        if rows[at][0] == more[other][0]:
            yield rows[at][0], {**rows[at][1], **more[other][1]}
            at, other = at + 1, other + 1
            continue
        first, second = _next_in_common(rows, more, at, other)
        yield from rows[at:first]
        yield from more[other:second]
        at, other = first, second
    yield from rows[at:]
    yield from more[other:]


def _next_in_common(rows: Sequence[Row], more: Sequence[Row], at: int, other: int) -> tuple[int, int]:
    for left_out in range(1, AHEAD):
        for first in range(left_out + 1):
            left, right = at + first, other + left_out - first
            if left >= len(rows) or right >= len(more):
                continue
            if rows[left][0] == more[right][0]:
                return left, right
    return len(rows), len(more)


def _of_row(found: dict[int, Sentence], warps: dict[int, int], of: int) -> Iterator[Sentence]:
    numbers = joined([warps[index] for index in found], [one.numbers for one in found.values()])
    if numbers is not None:
        first = next(iter(found.values()))
        yield replace(first, numbers=numbers, parts=() if len(found) == of else tuple(found))
        return
    for index, one in found.items():
        yield replace(one, numbers=tuple(number.by(0) for number in one.numbers), parts=() if of == 1 else (index,))


def joined(ranks: Sequence[int], columns: Iterable[Sequence[Affine]]) -> tuple[Affine, ...] | None:
    """Numbers that differ from one rank to the next, as ones with a factor more, that of the rank; None if they do not
    go on by one step.
    """
    found: list[Affine] = []
    for numbers in zip(*columns, strict=True):
        modulus = numbers[0].modulus
        factor = _factor(ranks, [one.base for one in numbers], modulus)
        if factor is None:
            return None
        base = numbers[0].base - factor * ranks[0]
        found.append(numbers[0]._replace(base=base % modulus if modulus else base).by(factor))
    return tuple(found)


def _factor(ranks: Sequence[int], bases: Sequence[int], modulus: int) -> int | None:
    """f, where each base is that of the first rank and f for every rank more."""
    if len(set(bases)) == 1:
        return 0
    steps = [(rank - last, base - before) for (last, before), (rank, base) in pairwise(zip(ranks, bases, strict=True))]
    apart = next(((ranks_on, more) for ranks_on, more in steps if ranks_on), None)
    if apart is None or apart[1] % apart[0]:
        return None
    factor = apart[1] // apart[0]
    over = (more - factor * ranks_on for ranks_on, more in steps)
    return factor if all(one % modulus == 0 if modulus else one == 0 for one in over) else None
