"""A phase bit, as a wait is given it: a plain parity, or a bit that remembers which phase it stands for."""

from __future__ import annotations

from typing import Any


class Lineage:
    """The identity shared by a PipelineState and all states advanced from it. asked: how closely somebody has looked at
    the number of one of them: 0 not at all, RECURS as far as it recurs, EXACT at the number itself.
    """

    __slots__ = ("asked",)

    def __init__(self) -> None:
        self.asked = 0


RECURS, EXACT = 1, 2
"""What Lineage.asked says."""


class Phase(int):
    """A phase bit that remembers which phase it stands for: number `lap` of a state's barriers, -1 being the one before
    the first. flipped: the state started in the producer's phase, or the bit was inverted since. doubt: the tracing of
    a role that does not know any more which phase it is, only the bit.
    """

    _lap: int
    lineage: Lineage
    flipped: bool
    doubt: object

    def __new__(cls, lap: int, lineage: Lineage, flipped: bool, doubt: object = None) -> Phase:
        self = super().__new__(cls, lap & 1)
        self._lap, self.lineage, self.flipped, self.doubt = lap, lineage, flipped, doubt
        return self

    @property
    def lap(self) -> int:
        """The number of the phase that it stands for, which does not recur: a role that asks for it is remembered."""
        if isinstance(self.lineage, Lineage):
            self.lineage.asked = EXACT
        return self._lap

    def __deepcopy__(self, memo: object) -> Phase:
        """Itself, as a value: a copy of its lineage would be another one, and of the doubt, none."""
        return self

    def __getnewargs__(self) -> tuple[int, Lineage, bool]:  # type: ignore[override]
        """What copies are made of, also of those that are pickled."""
        return self._lap, self.lineage, self.flipped

    def __xor__(self, other: int) -> Any:
        """`phase ^ 1`: the phase before, or for a state that started in the producer's phase, the phase after."""
        if other == 1:
            return Phase(self._lap + (1 if self.flipped else -1), self.lineage, not self.flipped, self.doubt)
        return int(self) ^ other if other else self


def phases_ahead(seen: int, parity: int) -> int:
    """How many phases after number `seen` the next one of that parity is, itself included: 0 or 1. What a wait for a
    plain parity means: nobody waits for the past.
    """
    return (seen ^ parity) & 1
