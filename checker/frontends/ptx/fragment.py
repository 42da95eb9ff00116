"""Lanes of a warp that are at the same instruction, with their registers; they part at branches and join again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce

from sm90_verify.frontends.ptx.events import LaneEvent
from sm90_verify.frontends.ptx.values import One, Unknown, Value, lane, together

UNWRITTEN = Unknown(0, "a register that was never written")


@dataclass(slots=True)
class Fragment:
    """lanes: in order. registers: by slot; a tuple has a value for each of `lanes`. block, step: where it is.

    entered: its generation of a barrier of threads that it waits inside. waits: it could not go on when it was tried
    last; stands_at: the event that it would be, None where that is one already. met: the lanes that have all come to a
    bar.warp.sync, of which this is one that it has not passed yet; 0: not so. mask: a bit for each lane; places: of all
    lanes.
    """

    lanes: tuple[int, ...]
    registers: list[Value]
    block: int = 0
    step: int = 0
    entered: int = -1
    waits: bool = False
    stands_at: LaneEvent | None = None
    met: int = 0
    mask: int = 0
    places: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        self._have(self.lanes)

    def _have(self, lanes: tuple[int, ...]) -> None:
        self.lanes, self.mask, self.places = lanes, mask_of(lanes), tuple(range(len(lanes)))

    def mask_at(self, places: Sequence[int]) -> int:
        """The lanes at these places."""
        return self.mask if places is self.places else mask_of([self.lanes[index] for index in places])

    def joins(self, other: Fragment) -> bool:
        """Both are at the same place, and have the same to do there."""
        mine, theirs = (self.entered, self.met), (other.entered, other.met)
        return self.block == other.block and self.step == other.step and mine == theirs

    def split(self, mask: int) -> Fragment:
        """The lanes of the mask, which leave it. Both parts have lanes."""
        mine = [index for index, one in enumerate(self.lanes) if not mask >> one & 1]
        theirs = [index for index, one in enumerate(self.lanes) if mask >> one & 1]
        lanes, registers = self.lanes, self.registers
        other = Fragment(
            tuple(lanes[index] for index in theirs),
            [_part(value, theirs) for value in registers],
            self.block,
            self.step,
        )
        self.registers = [_part(value, mine) for value in registers]
        self._have(tuple(lanes[index] for index in mine))
        return other

    def join(self, other: Fragment) -> None:
        """The lanes of another fragment at the same place become part of it."""
        places = {one: index for index, one in enumerate(self.lanes)}
        others = {one: index for index, one in enumerate(other.lanes)}
        lanes = tuple(sorted((*self.lanes, *other.lanes)))
        picks = [(True, places[one]) if one in places else (False, others[one]) for one in lanes]
        self.registers = [
            mine if mine is theirs or _plainly_equal(mine, theirs) else _merged(mine, theirs, picks)
            for mine, theirs in zip(self.registers, other.registers, strict=True)
        ]
        self._have(lanes)


def mask_of(lanes: Sequence[int]) -> int:
    """A bit for each lane."""
    return reduce(lambda mask, one: mask | 1 << one, lanes, 0)


def lanes_of(mask: int) -> tuple[int, ...]:
    """The lanes of a mask, in order."""
    return tuple(one for one in range(32) if mask >> one & 1)


def _plainly_equal(one: Value, other: Value) -> bool:
    return type(one) is int and type(other) is int and one == other


def _part(value: Value, indices: Sequence[int]) -> Value:
    return together([value[index] for index in indices]) if isinstance(value, tuple) else value


def _merged(mine: Value, theirs: Value, picks: Sequence[tuple[bool, int]]) -> Value:
    found: list[One] = [lane(mine if here else theirs, index) for here, index in picks]
    return together(found)
