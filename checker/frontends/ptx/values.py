"""What a register holds: an integer where all lanes agree, a tuple of one for each lane that is there, or Unknown.

Integers are the bits, without a sign, in the width of the register; a predicate is 0 or 1.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias


class Unknown:
    """A value that the launch does not determine. line: of the instruction that it comes from; why: in a few words.
    awaited: others may write it, so that a loop that reads it again may wait for them.
    """

    __slots__ = ("awaited", "line", "why")

    def __init__(self, line: int, why: str, awaited: bool = False) -> None:
        self.line, self.why, self.awaited = line, why, awaited

    def __repr__(self) -> str:
        return f"Unknown({self.line}, {self.why!r})"

    def plain(self) -> Unknown:
        """A value of which no more is known than why it is not: what becomes of this one where nobody computes it."""
        return self

    def result_of(self, function: Callable[..., One], some: tuple[One, ...]) -> One:
        """What a function gives of values of which this is one."""
        return self


class OfPeriods(Unknown):
    """A value that depends on how many periods of a loop there are, see sm90_verify.frontends.ptx.counted."""

    __slots__ = ()


One: TypeAlias = int | Unknown
Value: TypeAlias = int | Unknown | tuple[One, ...]


def together(values: Sequence[One]) -> Value:
    """The values of the lanes, as one where they agree."""
    first = values[0]
    return first if values.count(first) == len(values) else tuple(values)


def lane_by_lane(function: Callable[..., One], *values: Value) -> Value:
    """The function of the values, for each lane; of an unknown value it is unknown."""
    lanes = 0
    for one in values:
        if isinstance(one, tuple):
            lanes = len(one)
        elif isinstance(one, Unknown) and not isinstance(one, OfPeriods):
            return one
    if not lanes:
        return _of_one(function, values)  # type: ignore[arg-type]
    spread = [one if isinstance(one, tuple) else (one,) * lanes for one in values]
    found: list[One] = []
    for some in zip(*spread, strict=True):
        found.append(_of_one(function, some))
    return together(found)


def _of_one(function: Callable[..., One], some: tuple[One, ...]) -> One:
    unknown = None
    for one in some:
        if isinstance(one, Unknown):
            if not isinstance(one, OfPeriods):
                return one
            unknown = one if unknown is None or type(unknown) is not OfPeriods else unknown
    return function(*some) if unknown is None else unknown.result_of(function, some)


def selected(predicate: Value, yes: Value, no: Value) -> Value:
    """`yes` in the lanes where the predicate is 1, `no` in the others."""
    if isinstance(predicate, int):
        return yes if predicate else no
    if isinstance(predicate, Unknown):
        return predicate.plain() if not _same(yes, no) else yes
    lanes = len(predicate)
    ups = yes if isinstance(yes, tuple) else (yes,) * lanes
    downs = no if isinstance(no, tuple) else (no,) * lanes
    found: list[One] = []
    for one, up, down in zip(predicate, ups, downs, strict=True):
        if isinstance(one, Unknown):
            found.append(up if _same(up, down) else one.plain())
        else:
            found.append(up if one else down)
    return together(found)


def _same(one: Value, other: Value) -> bool:
    return one is other or (not isinstance(one, Unknown) and one == other)


def lane(value: Value, index: int) -> One:
    """Of the lane at an index."""
    return value[index] if isinstance(value, tuple) else value


def signed(value: int, bits: int) -> int:
    """The two's complement."""
    return value - (1 << bits) if value >> (bits - 1) else value
