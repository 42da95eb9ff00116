"""Which phase a wait is meant for: a bit of parity does not say it, but the program that waits does.

What a plain parity means can be read off the graph of a program, see spec.model.annotate; what a PipelineState means
only while it is followed from its start.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.state import LAPS, PipelineState
from sm90_verify.spec.model.kernel import SKIPPED
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.phase import Lineage, Phase, phases_ahead

K = TypeVar("K")
Laps: TypeAlias = Mapping[str, int]
"""By barrier, for how many laps a state is followed that has not waited there; "": at all others."""

_State: TypeAlias = PipelineState | Phase

FAR = 4 * LAPS
"""Distances between waits are followed exactly up to here."""
NO_LAP = 1 << 60
"""A lap that no state comes to."""


def answer_of(operation: op.Operation, answer: Hashable) -> Hashable:
    """The value of the yield of an operation: an option of a choice, the tag of what a read finds, the token of an
    arrival, or the answer itself.
    """
    if isinstance(operation, op.Choose):
        return operation.options[int(str(answer))]
    if isinstance(operation, op.Find):
        return operation.tags[int(str(answer))]
    if isinstance(operation, op.Arrive):
        return None if operation.also else op.Token(operation.barrier)
    return answer


def laps_at(laps: Laps, barrier: str) -> int:
    """For how many laps a lineage that has not waited there is followed."""
    return laps.get(barrier, laps[""])


class Unfollowed(SpecError):
    """A wait may be for any number of phases after the last one that its role has seen, in a loop without end."""


class Ghost:
    """What the role has waited for so far, in exact numbers. recent: by lineage, the lap that it has waited for last.

    Where a loop is closed, not all of that is known any more, but for its parity. A state that is too far from the
    others of its lineage is put in doubt, and with it what is made of it (Phase.doubt). loose: of these lineages it is
    not known how far they are from a barrier (None: from all that are not in `keyed`). low: it is known besides that a
    state of that lap is not further than so many phases after what the role has seen. keyed: the barriers that the role
    had waited at where a loop was looked at last.

    skipping: by barrier where it is the machine that knows how far the role is, the number of the lineage that waits
    there now and then. numbers: lineages in the order in which they were met. at: by lineage, the lap of its newest
    state where a loop was looked at last, once there is an operation that can tell the machine (`begun`); moved: by
    such barrier, by how many phases that changed in all. chosen: the role has got answers, so that what is followed far
    makes its program long. counted: by barrier, up to which phase it is told exactly what the role has seen. looked_at:
    the lineages that were told when a loop was looked at last, None before.
    """

    def __init__(self, skipping: Mapping[str, int], counted: Mapping[str, int] | None = None) -> None:
        self.skipping, self.counted = skipping, counted or {}
        self.looked_at: frozenset[Lineage] | None = None
        self.begun = self.chosen = False
        self.numbers: dict[Lineage, int] = {}
        self.at: dict[Lineage, int] = {}
        self.moved = dict.fromkeys(skipping, 0)
        self.observed: dict[str, int] = {}
        self.rebase: dict[tuple[Lineage, str], int] = {}
        self.recent: dict[Lineage, int] = {}
        self.loose: set[tuple[Lineage, str | None]] = set()
        self.low: dict[tuple[Lineage, str], tuple[int, int]] = {}
        self.keyed: frozenset[str] = frozenset()

    def again(self, lineages: Mapping[Lineage, Lineage]) -> Ghost:
        """The same of another run, where these lineages have others in their place."""
        now = Ghost(self.skipping, self.counted)
        now.begun, now.chosen, now.keyed = self.begun, self.chosen, self.keyed
        now.moved, now.observed = dict(self.moved), dict(self.observed)
        if self.looked_at is not None:
            now.looked_at = frozenset(lineages.get(one, one) for one in self.looked_at)
        now.numbers = {lineages.get(one, one): number for one, number in self.numbers.items()}
        now.at = {lineages.get(one, one): lap for one, lap in self.at.items()}
        now.recent = {lineages.get(one, one): lap for one, lap in self.recent.items()}
        now.rebase = {(lineages.get(one, one), barrier): base for (one, barrier), base in self.rebase.items()}
        now.low = {(lineages.get(one, one), barrier): low for (one, barrier), low in self.low.items()}
        now.loose = {(lineages.get(one, one), barrier) for one, barrier in self.loose}
        return now

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
                base = max(0, last - phase._lap + 1) // 2 * 2
                self.rebase[phase.lineage, wait.barrier] = base
            return phase._lap + base
        return last + phases_ahead(last, phase) if isinstance(phase, int) else last

    def distance(self, wait: op.Wait) -> int:
        """How many phases after the last one that the role has seen there the wait is meant for; 0 with a token."""
        if isinstance(wait.phase, op.Token):
            return 0
        if isinstance(wait.phase, Phase) and self.skips(wait):
            return SKIPPED + 1 + self._from_newest(wait.phase)
        distance = self._ahead(wait)
        if distance < 0:
            what = f"a wait on {wait.barrier} for a phase that this role has already gone beyond"
            how = "`phase ^ 1` and `flip()` of a consumer's state give the phase before: toggle a plain 0 or 1"
            raise SpecError(f"{what}; {how}")
        if distance >= FAR:
            raise unfollowed(wait.barrier)
        return distance

    def skips(self, wait: op.Wait) -> bool:
        """It is the machine that knows how far the wait is from the barrier. Raises Unfollowed if it is on such a
        barrier, and for no phase of the lineage that waits there, or of too old or new a state.
        """
        phase = wait.phase
        if wait.barrier not in self.skipping or isinstance(phase, op.Token):
            return False
        if isinstance(phase, Phase) and self.number(phase.lineage) == self.skipping[wait.barrier]:
            near = abs(self._from_newest(phase)) < FAR // 2 and phase.doubt is not self
            if near and self.target(wait) == phase._lap:
                return True
        raise unfollowed(wait.barrier)

    def number(self, lineage: Lineage) -> int:
        """Which it is of those that the role has shown so far."""
        return self.numbers.setdefault(lineage, len(self.numbers))

    def skips_elsewhere(self, wait: op.Wait) -> bool:
        """The machine knows how far the role is at another barrier where states of this lineage wait."""
        return isinstance(wait.phase, Phase) and self.number(wait.phase.lineage) in self.skipping.values()

    def waits_alone(self, wait: op.Wait) -> bool:
        """No other lineage has waited there, nor is the phase of none."""
        others = {lineage for lineage, barrier in self.rebase if barrier == wait.barrier}
        return isinstance(wait.phase, Phase) and others <= {wait.phase.lineage}

    def _from_newest(self, phase: Phase) -> int:
        return phase._lap - self.at.get(phase.lineage, 0)

    def _move(self, lineage: Lineage, newest: int) -> int:
        """Tells the machine how far the lineage is now, if it can; how much further it is than it has been told."""
        further = newest - self.at.get(lineage, 0)
        if not self.begun:
            return further
        self.at[lineage] = newest
        for barrier, number in self.skipping.items():
            if number == self.number(lineage):
                self.moved[barrier] += further
        return 0

    def is_loose(self, wait: op.Wait) -> bool:
        """Whether it is not known how far the wait is from what the role has seen there."""
        if not isinstance(wait.phase, Phase):
            return False
        lineage, barrier, lap = wait.phase.lineage, wait.barrier, wait.phase._lap
        pair = lineage, barrier
        if wait.phase.doubt is self or pair in self.loose:
            return True
        if pair in self.rebase:
            return False
        if pair in self.low:
            most, known = self.low[pair]
            return most + lap - known > 1
        return barrier not in self.keyed and (lineage, None) in self.loose

    def counts_up_to(self, wait: op.Wait) -> int:
        """Up to which phase it must be told exactly what the role has seen there. A state that was made since a loop
        was looked at last may be for a later phase than the next one, counted from the first; of what has been seen
        beyond that, parity says enough.
        """
        phase = wait.phase
        if not isinstance(phase, Phase) or self.looked_at is None or phase.lineage in self.looked_at:
            return 0
        return 0 if self.is_followed(wait) else max(0, phase._lap - 1)

    def is_far(self, wait: op.Wait) -> bool:
        """It is too far after what the role has seen there."""
        return self._ahead(wait) >= FAR

    def _ahead(self, wait: op.Wait) -> int:
        return self.target(wait) - self.observed.get(wait.barrier, -1)

    def is_followed(self, wait: op.Wait) -> bool:
        """A state of this lineage has waited there."""
        return isinstance(wait.phase, Phase) and (wait.phase.lineage, wait.barrier) in self.rebase

    def passed(self, wait: op.Wait) -> None:
        """The role has seen the phase that the wait is meant for."""
        if isinstance(wait.phase, Phase):
            self.recent[wait.phase.lineage] = wait.phase._lap
        if not isinstance(wait.phase, op.Token):
            self.observed[wait.barrier] = self.target(wait)

    def key(self, states: Sequence[_State], laps: Laps, far: int = FAR) -> Hashable:
        """The distances of all waits to come, of states that live on: by parity alone for what is made afresh.

        A lineage that has waited at a barrier is followed up to `far` phases there. One that has not, as most never
        will, is followed for less than `laps` laps of the barrier: once it is too far ahead it is loose there.
        """
        most = max(laps.values())
        every = dict.fromkeys(state.lineage for state in states)
        known = {one: self._known(one, [state for state in states if state.lineage is one], far) for one in every}
        lineages = {lineage: [state._lap for state in ones] for lineage, ones in known.items()}
        told: list[Hashable] = []
        for state in states:
            index, ones = tuple(lineages).index(state.lineage), lineages[state.lineage]
            apart = None if state.doubt is self else state._lap - self._reference(state.lineage, ones)
            told.append((index, min(_laps_gone(state), most), apart))
        for index, (lineage, ones) in enumerate(lineages.items()):
            if ones and self.number(lineage) in self.skipping.values():
                told.append((index, self.numbers[lineage], self._move(lineage, max(ones))))
        seen = dict.fromkeys((*self.observed, *(barrier for _, barrier in self.rebase)))
        barriers = [barrier for barrier in seen if barrier not in self.skipping]
        for lineage, ones in lineages.items():
            told += [self._followed(lineage, ones, barrier, laps_at(laps, barrier), far) for barrier in barriers]
        for lineage, left in known.items():
            if all(_laps_gone(state) >= most for state in left):
                self.loose.add((lineage, None))
        self.keyed, self.looked_at = frozenset(barriers), frozenset(every)
        return tuple(told), tuple((one, self._seen(one)) for one in self.observed if one not in self.skipping)

    def _seen(self, barrier: str) -> int:
        """Which phase the role has seen last, or one of its parity where that says enough."""
        last, exact = self.observed[barrier], self.counted.get(barrier, 0)
        return last if exact and last < exact else exact + (last - exact & 1)

    def _known(self, lineage: Lineage, states: Sequence[_State], far: int) -> list[_State]:
        """Those of a lineage's states that are known; puts those in doubt that are too far from the others."""
        laps = [state._lap for state in states if state.doubt is not self]
        for state in states:
            if state.doubt is not self and abs(state._lap - self._reference(lineage, laps)) >= far:
                object.__setattr__(state, "doubt", self)
        return [state for state in states if state.doubt is not self]

    def _reference(self, lineage: Lineage, ones: Sequence[int]) -> int:
        """The lap from which those of a lineage are counted."""
        if self.number(lineage) in self.skipping.values():
            return max(ones)
        return self.recent[lineage] if lineage in self.recent else min(ones)

    def _followed(self, lineage: Lineage, ones: Sequence[int], barrier: str, laps: int, far: int) -> Hashable:
        """What is known of how far ahead a lineage is at a barrier; ones: the laps of its states that are known."""
        pair, last = (lineage, barrier), self.observed.get(barrier, -1)
        if pair not in self.rebase and barrier not in self.keyed and (lineage, None) in self.loose:
            self.loose.add(pair)
        if pair in self.loose or not ones:
            return "loose"
        if pair in self.rebase:
            ahead = self._reference(lineage, ones) + self.rebase[pair] - last
            most = min(far, LAPS - 1) if self.number(lineage) in self.skipping.values() else far
            return ahead if -most < ahead < most else self._is_loose_now(pair)
        lap = max(ones)
        if pair not in self.low and lap - last >= laps:
            return self._is_loose_now(pair)
        if pair not in self.low and -laps < lap - last and laps > 1:
            return lap - last
        ahead = self.low[pair][0] + lap - self.low[pair][1] if pair in self.low else max(lap - last, 1 - laps)
        if ahead >= laps:
            return self._is_loose_now(pair)
        self.low[pair] = ahead, lap
        return "at most", ahead

    def _is_loose_now(self, pair: tuple[Lineage, str]) -> Hashable:
        self.loose.add(pair)
        return "loose"


def _laps_gone(state: PipelineState | Phase) -> int:
    """How often a state has gone round; of a phase alone, which lap it is, if it is not the first or the one before."""
    if isinstance(state, PipelineState):
        return state._number // max(1, state.stages)
    return max(state._lap, -1 - state._lap)


def unfollowed(barrier: str) -> Unfollowed:
    """What is wrong with a wait that is too far from the last one of its role there."""
    what = f"a wait on {barrier} skips {FAR} or more phases that this role has not waited for"
    how = "wait in each iteration too, or check one number of iterations (trips=8, --trips 8)"
    return Unfollowed(f"{what}, too many to follow across a loop without end: {how}")
