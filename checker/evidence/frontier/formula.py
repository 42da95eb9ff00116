"""The simplest condition on a few numbers that is true of exactly some points of a box.

Nothing is approximated: a formula is given only if it agrees with every point, and what it says beyond the box is a
guess like any other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

MOST_PARTS = 4


@dataclass(frozen=True)
class Formula:
    """A condition as text, with a bit for each point at which it holds."""

    text: str
    points: int
    comparisons: int = 1

    def holds_at(self, index: int) -> bool:
        return bool(self.points >> index & 1)


def simplest(points: Sequence[Mapping[str, int]], truth: Sequence[bool]) -> Formula | None:
    """A short formula that is true exactly where `truth` is; None if none of the tried ones is.

    Tried are conjunctions of up to `MOST_PARTS` parts, each a comparison or two of them joined by `or`, and the same
    with `and` and `or` exchanged; the one with the fewest comparisons wins, a conjunction if both have as many.
    """
    wanted = sum(1 << index for index, true in enumerate(truth) if true)
    everywhere = (1 << len(points)) - 1
    if wanted == everywhere:
        return Formula("always", wanted)
    if not wanted:
        return Formula("never", wanted)
    atoms = _comparisons(points, everywhere)
    both = _cover(_parts(atoms, wanted, " or "), everywhere & ~wanted)
    excluding = [Formula(atom.text, everywhere & ~atom.points) for atom in atoms]
    either = _cover(_parts(excluding, everywhere & ~wanted, " and "), wanted)
    found = [(parts, word) for parts, word in ((both, " and "), (either, " or ")) if parts]
    if not found:
        return None
    parts, word = min(found, key=lambda one: sum(part.comparisons for part in one[0]))
    text = word.join(f"({part.text})" if part.comparisons > 1 and len(parts) > 1 else part.text for part in parts)
    return Formula(text, wanted, sum(part.comparisons for part in parts))


def _parts(atoms: Sequence[Formula], wanted: int, word: str) -> list[Formula]:
    """Comparisons, and pairs of them, that hold wherever they are wanted: fewest first, without those that another one
    makes pointless.
    """
    found: dict[int, Formula] = {}
    for atom in atoms:
        if wanted & ~atom.points == 0:
            found.setdefault(atom.points, atom)
    for one, other in combinations(atoms, 2):
        points = one.points | other.points
        if wanted & ~points == 0 and points not in found:
            found[points] = Formula(f"{one.text}{word}{other.text}", points, 2)
    kept: list[Formula] = []
    for part in found.values():
        if not any(other.points & ~part.points == 0 and other.comparisons <= part.comparisons for other in kept):
            kept.append(part)
    return kept


def _cover(parts: Sequence[Formula], excluded: int) -> tuple[Formula, ...]:
    """The fewest parts that between them are false wherever they must be; () if all together are not."""
    best: tuple[Formula, ...] = ()
    for size in range(1, MOST_PARTS + 1):
        for chosen in _choices(parts, excluded, size):
            if not best or sum(p.comparisons for p in chosen) < sum(p.comparisons for p in best):
                best = chosen
        if best:
            return best
    return best


def _choices(parts: Sequence[Formula], excluded: int, size: int) -> Iterator[tuple[Formula, ...]]:
    """Every choice of `size` parts that excludes all: the first point that is left decides which parts can be next."""
    if not excluded:
        yield ()
    elif size:
        point = excluded & -excluded
        for part in parts:
            if not part.points & point:
                for rest in _choices(parts, excluded & part.points, size - 1):
                    yield (part, *rest)


def _comparisons(points: Sequence[Mapping[str, int]], everywhere: int) -> list[Formula]:
    """`x >= y + k`, `x >= k` and `x < k` for all numbers, the simplest of those that say the same of the points.

    Numbers of which one is in the name of the other, as in a product, are not compared.
    """
    names = list(points[0])
    found: dict[int, Formula] = {}

    def add(text: str, holds: Sequence[bool]) -> None:
        bits = sum(1 << index for index, true in enumerate(holds) if true)
        if bits not in (0, everywhere) and bits not in found:
            found[bits] = Formula(text, bits)

    for x in names:
        if {point[x] for point in points} == {0, 1}:
            add(x, [point[x] == 1 for point in points])
            add(f"not {x}", [point[x] == 0 for point in points])
    names = [x for x in names if {point[x] for point in points} - {0, 1}]
    for shift, tail in ((0, ""), (1, " + 1"), (-1, " - 1"), (2, " + 2"), (-2, " - 2")):
        for x in names:
            for y in names:
                if x not in y and y not in x:
                    text = f"{x} >= {y}{tail}"
                    add(text, [point[x] >= point[y] + shift for point in points])
    for x in names:
        for value in sorted({point[x] for point in points})[1:]:
            add(f"{x} >= {value}", [point[x] >= value for point in points])
            add(f"{x} < {value}", [point[x] < value for point in points])
    return list(found.values())
