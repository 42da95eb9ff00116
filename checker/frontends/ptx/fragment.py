"""Lanes of a warp that are at the same instruction, with their registers; they part at branches and join again."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import itemgetter

from sm90_verify.frontends.ptx.events import LaneEvent
from sm90_verify.frontends.ptx.values import One, Unknown, Value, together

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
        keep, leave = _picker(mine), _picker(theirs)
        other = Fragment(
            tuple(lanes[index] for index in theirs),
            [leave(value) if type(value) is tuple else value for value in registers],
            self.block,
            self.step,
        )
        self.registers = [keep(value) if type(value) is tuple else value for value in registers]
        self._have(tuple(lanes[index] for index in mine))
        return other

    def join(self, other: Fragment) -> None:
        """The lanes of another fragment at the same place become part of it."""
        both = (*self.lanes, *other.lanes)
        lanes, few, more = tuple(sorted(both)), len(self.lanes), len(other.lanes)
        in_order = itemgetter(*(both.index(one) for one in lanes))

        def merged(mine: Value, theirs: Value) -> Value:
            ours = mine if isinstance(mine, tuple) else (mine,) * few
            return together(in_order(ours + (theirs if isinstance(theirs, tuple) else (theirs,) * more)))

        self.registers = [
            mine
            if mine is theirs or (type(mine) is int and type(theirs) is int and mine == theirs)
            else merged(mine, theirs)
            for mine, theirs in zip(self.registers, other.registers, strict=True)
        ]
        self._have(lanes)


def mask_of(lanes: Sequence[int]) -> int:
    """A bit for each lane."""
    return reduce(lambda mask, one: mask | 1 << one, lanes, 0)


def lanes_of(mask: int) -> tuple[int, ...]:
    """The lanes of a mask, in order."""
    return tuple(one for one in range(32) if mask >> one & 1)


def _picker(places: Sequence[int]) -> Callable[[tuple[One, ...]], Value]:
    """What takes the values at these places, as one where they agree."""
    if len(places) == 1:
        return itemgetter(*places)
    pick = itemgetter(*places)
    return lambda values: together(pick(values))
