"""What a role has done before, after which answers: it does the same whenever it is run again, or is refused.

A role is run once for each of its branches, and again from the start when its loops must be looked at more closely.
What is known of an operation from an earlier run (that it is one, where it stands) need not be found out again.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple

from sm90_verify.spec.errors import Source
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.phase import Phase


class Passed(NamedTuple):
    """One step of a role: an operation, its end (None), or the head of a trip-count loop (None, with its name).

    answers: of the operation. phase: what it waits for, if that is the phase of a state.
    """

    operation: op.Operation | None
    loop: str
    source: Source
    answers: tuple[Hashable, ...]
    phase: Phase | None

    @staticmethod
    def by(operation: op.Operation | None, loop: str, source: Source) -> Passed:
        return Passed(operation, loop, source, effects_of(operation).answers, phase_of(operation))

    def is_again(self, operation: op.Operation | None, loop: str) -> bool:
        """Whether a step of another run is the same; of a phase, not its bit alone."""
        if self.operation != operation or self.loop != loop:
            return False
        if self.phase is None:
            return True
        phase = phase_of(operation)
        return phase is not None and phase._lap == self.phase._lap


def phase_of(operation: op.Operation | None) -> Phase | None:
    """The phase of a state that an operation waits for."""
    return operation.phase if isinstance(operation, op.Wait) and isinstance(operation.phase, Phase) else None


class _Stretch:
    """Steps up to one that is answered, and by answer the stretch after that."""

    __slots__ = ("after", "steps")

    def __init__(self) -> None:
        self.steps: list[Passed] = []
        self.after: dict[Hashable, _Stretch] = {}


class Trail:
    """The steps of all runs of a role. next: the step to come, if the role has gone this way before."""

    def __init__(self) -> None:
        self._first = _Stretch()
        self.next: Passed | None
        self.begin()

    def begin(self) -> None:
        """Called before each run of the role."""
        self._enter(self._first)

    def go_on(self) -> None:
        """Past the step to come, which is known."""
        self._at += 1
        self.next = self._steps[self._at] if self._at < len(self._steps) else None

    def add(self, step: Passed) -> Passed:
        """A step that was not known is taken."""
        self._steps.append(step)
        self._at += 1
        return step

    def answered(self, answer: Hashable) -> None:
        """The step that was taken last got this answer."""
        after = self._stretch.after
        if answer not in after:
            after[answer] = _Stretch()
        self._enter(after[answer])

    def _enter(self, stretch: _Stretch) -> None:
        self._stretch, self._steps, self._at = stretch, stretch.steps, 0
        self.next = stretch.steps[0] if stretch.steps else None
