"""Loops in what a role does: runs of the same sentences whose numbers go on by the same step, each time around.

The innermost first: a run becomes one item, a loop, and loops that are alike can be rolled again. Nothing is claimed of
other trip counts: the loops that come out say what was there, sentence by sentence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeAlias

from sm90_verify.emit.numbers import Affine, Hole, step

LONGEST = 400
"""Sentences of a body that is looked for."""

Template: TypeAlias = tuple[str | Hole, ...]


@dataclass(frozen=True)
class Sentence:
    """One operation as Python, with holes for its numbers; line: of the file that the kernel was recovered from. parts:
    those of its role that do it, () for all.
    """

    template: Template
    numbers: tuple[Affine, ...]
    line: int = 0
    parts: tuple[int, ...] = ()

    @cached_property
    def shape(self) -> object:
        """Equal for sentences that differ in the bases of their numbers alone."""
        return self.template, self.parts, tuple((one.modulus, one.factors) for one in self.numbers)

    @property
    def affine(self) -> tuple[Affine, ...]:
        """Its numbers."""
        return self.numbers

    def with_affine(self, numbers: Iterator[Affine]) -> Sentence:
        """The same with the next ones of these numbers."""
        return replace(self, numbers=tuple(next(numbers) for _ in self.numbers))


@dataclass(frozen=True)
class Loop:
    """`for i in range(count):` around a body."""

    count: int
    body: tuple[Item, ...]

    @cached_property
    def shape(self) -> object:
        """As for a Sentence."""
        return self.count, tuple(one.shape for one in self.body)

    @cached_property
    def parts(self) -> tuple[int, ...] | None:
        """Those that do all of it; None if some of it is done by others."""
        found = {one.parts for one in self.body}
        return found.pop() if len(found) == 1 else None

    @cached_property
    def affine(self) -> tuple[Affine, ...]:
        """The numbers of all its sentences, in order."""
        return tuple(number for one in self.body for number in one.affine)

    def with_affine(self, numbers: Iterator[Affine]) -> Loop:
        """As for a Sentence."""
        return Loop(self.count, tuple(one.with_affine(numbers) for one in self.body))


@dataclass(frozen=True)
class OpenLoop:
    """`for _ in self.loop():` around a body that is the same each time: any number of rounds is meant."""

    name: str
    body: tuple[Item, ...]
    parts: tuple[int, ...]

    @cached_property
    def shape(self) -> object:
        """As for a Sentence."""
        return self.name, self.parts, tuple(one.shape for one in self.body)

    @cached_property
    def affine(self) -> tuple[Affine, ...]:
        """As for a Loop."""
        return tuple(number for one in self.body for number in one.affine)

    def with_affine(self, numbers: Iterator[Affine]) -> OpenLoop:
        """As for a Sentence."""
        return replace(self, body=tuple(one.with_affine(numbers) for one in self.body))


Item: TypeAlias = Sentence | Loop | OpenLoop


def rolled(items: Sequence[Item], tick: Callable[[int], None]) -> tuple[Item, ...]:
    """The same with loops. tick: called now and then, with the number of items that are left."""
    now = list(items)
    period = 1
    while 2 * period <= len(now) and period <= LONGEST:
        tick(len(now))
        shorter = _rolled_by(now, period)
        period = 1 if len(shorter) < len(now) else period + 1
        now = shorter
    return tuple(now)


def _rolled_by(items: list[Item], period: int) -> list[Item]:
    shapes: dict[object, int] = {}
    alike = [shapes.setdefault(one.shape, len(shapes)) for one in items]
    runs = [0] * (len(items) + 1)
    for at in range(len(items) - period - 1, -1, -1):
        runs[at] = runs[at + 1] + 1 if alike[at] == alike[at + period] else 0
    found: list[Item] = []
    at = 0
    while at < len(items):
        loop = _loop(items, at, period, runs[at] // period + 1) if runs[at] >= period else None
        if loop is None:
            found.append(items[at])
            at += 1
        else:
            found.append(loop)
            at += loop.count * period
    return found


def _loop(items: Sequence[Item], at: int, period: int, most: int) -> Loop | None:
    """The longest loop that begins there with a body of so many items, if it says less than it replaces."""
    body = items[at : at + period]
    numbers = [number for one in body for number in one.affine]
    values = [[number.base] for number in numbers]
    count = 1
    while count < most:
        start = at + count * period
        more = [number.base for one in items[start : start + period] for number in one.affine]
        if count > 1 and any(
            step(number.modulus, (*some[-2:], next)) is None
            for number, some, next in zip(numbers, values, more, strict=True)
        ):
            break
        for some, next in zip(values, more, strict=True):
            some.append(next)
        count += 1
    if count < 2 or (count - 1) * period < (3 if count > 2 else 8):
        return None
    steps = [step(number.modulus, some) for number, some in zip(numbers, values, strict=True)]
    inside = iter(number.by(factor or 0) for number, factor in zip(numbers, steps, strict=True))
    return Loop(count, tuple(one.with_affine(inside) for one in body))
