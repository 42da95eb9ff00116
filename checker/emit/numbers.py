"""Numbers of a sentence that change from one iteration, warp or CTA to the next, and how they are written in Python."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal, NamedTuple, TypeAlias

HowShown: TypeAlias = Literal["plain", "index", "parity"]


class Hole(NamedTuple):
    """A place in a sentence for its number `which`. slots: of the ring that it counts through.

    "plain": the number itself. "index": modulo the slots. "parity": of the lap, so that a number modulo twice the
    slots says which barrier and which parity.
    """

    which: int
    how: HowShown = "plain"
    slots: int = 1


class Affine(NamedTuple):
    """base + the sum of each coefficient times its variable, modulo `modulus` (0: exactly). The variables are the warp
    of the role, those of the loops around it, innermost first, and the rank of the CTA.
    """

    modulus: int
    base: int
    factors: tuple[int, ...] = ()

    def by(self, factor: int) -> Affine:
        """The same with one more variable, behind those that there are."""
        return self._replace(factors=(*self.factors, factor))


def step(modulus: int, values: Sequence[int]) -> int | None:
    """The difference from one value to the next if it is one for all of them, modulo the modulus; None if not."""
    differences = {second - first for first, second in itertools.pairwise(values)}
    if modulus:
        differences = {one % modulus for one in differences}
    return differences.pop() if len(differences) == 1 else None


def written(number: Affine, hole: Hole, variables: Sequence[str]) -> str:
    """The number as Python, in the place of a hole. variables: the names, as the factors have them."""
    match hole.how:
        case "plain":
            return _sum(number.base, number.factors, variables)
        case "index":
            factors = [one % hole.slots for one in number.factors]
            if not any(factors):
                return str(number.base % hole.slots)
            return f"{_within(number.base % hole.slots, factors, variables)} % {hole.slots}"
        case "parity":
            if not any(number.factors):
                return str(number.base // hole.slots & 1)
            if hole.slots == 1:
                return f"{_within(number.base & 1, number.factors, variables)} % 2"
            return f"{_within(number.base, number.factors, variables)} // {hole.slots} % 2"


def _within(base: int, factors: Sequence[int], variables: Sequence[str]) -> str:
    text = _sum(base, factors, variables)
    return f"({text})" if " + " in text or " - " in text else text


def _sum(base: int, factors: Sequence[int], variables: Sequence[str]) -> str:
    parts = []
    for factor, name in sorted(zip(factors, variables, strict=True), key=lambda one: one[1], reverse=False):
        if factor:
            sign = "-" if factor < 0 else "+"
            parts.append((sign, name if abs(factor) == 1 else f"{abs(factor)} * {name}"))
    if base or not parts:
        parts.append(("-" if base < 0 else "+", str(abs(base))))
    if parts[0][0] == "-" and parts[-1][0] == "+":
        parts.insert(0, parts.pop())
    first = ("-" if parts[0][0] == "-" else "") + parts[0][1]
    return " ".join([first, *(f"{sign} {text}" for sign, text in parts[1:])])
