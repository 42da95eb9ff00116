"""Where a role stood when it was answered: what was known of it then, for runs that go on with another answer.

Such a run takes the operations before without looking at them. Everything that its future depends on is on its stack
once it has yielded (see closing.py), and these are the values of the earlier run, but for their identity: the lineages
of its states are its own. What was known of a lineage is known of the one in its place.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from sm90_verify.spec.language.ghost import Ghost
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.ptx.phase import Lineage, Phase

Asked: TypeAlias = Mapping[tuple[Lineage, int], int]
"""Lineages and stages of the states that were looked at, and how closely somebody has looked since."""


class Standing(NamedTuple):
    """position: how many answers it had got before. states: those that were on its stack, and whether they were in
    doubt. waited: phases that it had waited for, in order.
    """

    position: int
    ghost: Ghost
    states: tuple[tuple[PipelineState | Phase, bool], ...]
    asked: Asked
    waited: tuple[Phase, ...]

    def lineages(
        self, states: Sequence[PipelineState | Phase], waited: Sequence[Phase]
    ) -> Mapping[Lineage, Lineage] | None:
        """By lineage, that of another run that stands at the same place; None if that is not the same after all."""
        if len(states) != len(self.states) or len(waited) != len(self.waited):
            return None
        found: dict[Lineage, Lineage] = {}
        for before, now in (*zip((state for state, _ in self.states), states), *zip(self.waited, waited)):
            if _told(before) != _told(now) or found.setdefault(before.lineage, now.lineage) is not now.lineage:
                return None
        return found if len({*found.values()}) == len(found) else None

    def ghost_of(self, lineages: Mapping[Lineage, Lineage], states: Sequence[PipelineState | Phase]) -> Ghost:
        """What the other run has waited for, that has these lineages; puts its states in doubt where they were."""
        ghost = self.ghost.again(lineages)
        for state, (_, doubted) in zip(states, self.states, strict=True):
            if doubted:
                object.__setattr__(state, "doubt", ghost)
        return ghost


def _told(state: PipelineState | Phase) -> tuple[object, ...]:
    """A state but for its identity, without asking it for its number."""
    if isinstance(state, PipelineState):
        return state.stages, state.index, state._lap, state._number, state.flipped
    return int(state), state._lap, state.flipped


class Branch(NamedTuple):
    """A run to come. answers: those to give, node: the place that gets the last of them, standing: the last one on the
    way that can be gone on from.
    """

    answers: tuple[Hashable, ...] = ()
    node: int = -1
    standing: Standing | None = None
