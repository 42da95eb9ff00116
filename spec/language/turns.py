"""The iterations of loops that do not come back to where they have been."""

from __future__ import annotations

from collections.abc import Hashable

from sm90_verify.spec.errors import Source, SpecError
from sm90_verify.spec.language.snapshot import Frames, always_other

MAX_TURNS = 2_500
"""Iterations of one loop in a run, all of which differ. Rings of 3, 5, 7 and 8 stages come back after 1,680."""


class Turns:
    """Those of one run, by loop: what was on the stack."""

    def __init__(self) -> None:
        self._before: dict[Hashable, list[Frames]] = {}

    def add(self, loop: Hashable, frames: Frames, place: Source, *, counted: bool) -> None:
        """Ends a loop that never comes back to where it has been, and says why. counted: the number of the iteration is
        used, so that the period of the loop may be any.
        """
        before = self._before.setdefault(loop, [])
        before.append(frames)
        if len(before) < MAX_TURNS or counted:
            return
        what = f"a loop without end that has not come back to where it was in {MAX_TURNS} iterations"
        how = "check one number of iterations (trips=8, --trips 8)"
        if names := always_other(before):
            what = f"{what}: the value of {' and '.join(map(repr, names))} never recurs"
            how = f"use the number that self.loop() gives, or count modulo what matters, or {how}"
        raise SpecError(f"{what}; {how}", place)
