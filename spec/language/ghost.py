"""Which phase a wait is meant for: a bit of parity does not say it, but the program that waits does.

What a plain parity means can be read off the graph of a program, see spec.model.annotate; what a PipelineState means
only while it is followed from its start.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.state import LAPS, PipelineState
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.phase import Lineage, Phase, phases_ahead

FAR = 4 * LAPS
"""Distances between waits are followed exactly up to here."""


def answer_of(operation: op.Operation, answer: Hashable) -> Hashable:
    """The value of the yield of an operation: an option of a choice, the tag of what a read finds, the token of an
    arrival, or the answer itself.
    """
    effects = effects_of(operation)
    if effects.chooses is not None:
        return effects.chooses.options[int(str(answer))]
    if effects.finds is not None:
        return effects.finds.tags[int(str(answer))]
    if isinstance(effects.signal, op.Arrive):
        return None if effects.signal.also else op.Token(effects.signal.barrier)
    return answer


class Ghost:
    """What the role has waited for so far, in exact numbers."""

    def __init__(self) -> None:
        self.observed: dict[str, int] = {}
        self.rebase: dict[tuple[Lineage, str], int] = {}

    def target(self, wait: op.Wait) -> int:
        """The number of the phase that a wait is meant for, -1 being the one before the first.

        A state says it: its lap. A state that was made afresh starts over at the next phase of its parity that the role
        has not gone beyond; so does a plain parity, at every wait (phases_ahead): nobody waits for the past.
        """
        last = self.observed.get(wait.barrier, -1)
        phase = wait.phase
        if isinstance(phase, Phase):
            base = self.rebase.get((phase.lineage, wait.barrier))
            if base is None:
                base = max(0, last - phase.lap + 1) // 2 * 2
                self.rebase[phase.lineage, wait.barrier] = base
            return phase.lap + base
        return last + phases_ahead(last, phase) if isinstance(phase, int) else last

    def distance(self, wait: op.Wait) -> int:
        """How many phases after the last one that the role has seen there the wait is meant for; 0 with a token."""
        if isinstance(wait.phase, op.Token):
            return 0
        distance = self.target(wait) - self.observed.get(wait.barrier, -1)
        if distance < 0:
            raise SpecError(f"a wait on {wait.barrier} for a phase that this role has already gone beyond")
        if distance >= FAR:
            what = f"a wait on {wait.barrier} skips {distance} phases that this role has not waited for"
            how = "wait in each iteration too, or check one number of iterations (trips=8, --trips 8)"
            raise SpecError(f"{what}, too many to follow across a loop without end: {how}")
        return distance

    def is_first(self, wait: op.Wait) -> bool:
        """No state of this lineage has waited there, so that its laps have counted for nothing yet."""
        return isinstance(wait.phase, Phase) and (wait.phase.lineage, wait.barrier) not in self.rebase

    def passed(self, wait: op.Wait) -> None:
        """The role has seen the phase that the wait is meant for."""
        if not isinstance(wait.phase, op.Token):
            self.observed[wait.barrier] = self.target(wait)

    def key(self, states: Iterable[PipelineState | Phase]) -> Hashable:
        """The distances of all waits to come: exact for states that live on, by parity for what is made afresh."""
        exact = tuple(
            (barrier, min(FAR, max(-FAR, state.lap + self.rebase.get((state.lineage, barrier), 0) - last)))
            for state in states
            for barrier, last in self.observed.items()
            if (state.lineage, barrier) in self.rebase or state.lap > last
        )
        return exact, tuple((barrier, last & 1) for barrier, last in self.observed.items())
