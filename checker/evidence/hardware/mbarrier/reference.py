"""The answers that the specification gives to a sequence of operations on one mbarrier, known in numbers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from sm90_verify.evidence.hardware.mbarrier.menu import OTHER_VERBS, WAITS, Operation, operation, records
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.mbarrier import NONE_PENDING
from sm90_verify.spec.ptx.numbers import DEAD, Breach, KnownBarrier, apply

Reply = int | Breach | None
"""Whether a wait passes; the pending count before an arrival; what is illegal; None where there is nothing to see."""
LONG_AGO = 254
"""The age of a token that no arrival has returned: so old that its wait is not defined."""


@dataclass
class Reference:
    """One mbarrier.

    state: as the spec has it. unseen: phases that completed since the waiting thread saw one complete. ages: by the
    position of the arrival that returned the token, the phases that completed since.
    """

    state: KnownBarrier = DEAD
    unseen: int = 0
    ages: dict[int, int] = field(default_factory=dict)
    position: int = 0

    def run_sequence(self, names: Iterable[str]) -> list[Reply]:
        """The answers to operations by name, up to the first that is illegal."""
        answers: list[Reply] = []
        for name in names:
            answers.append(self.take(operation(name)))
            if isinstance(answers[-1], Breach):
                break
        return answers

    def take(self, one: Operation) -> Reply:
        """Takes one step, unless it is illegal. A wait whose distance is not given is meant for the phase that its
        parity can stand for: the current one or the one before.
        """
        here, self.position = self.position, self.position + 1
        if (one.verb in OTHER_VERBS and one.verb != "bulk") or one.place.startswith("peer"):
            return None
        if one.verb.endswith(".parity") and one.distance is None:
            one = replace(one, distance=self.unseen + (one.operand == self.state.phase))
        after, passes, completes = self.state, True, False
        for record in records(one):
            try:
                applied = apply(after, record, True, self.unseen, one.distance or 0, self._age(one))
            except SpecError as error:
                return Breach("arrival-count", error.what)
            if applied.violates:
                return applied.violates[0]
            after, passes, completes = applied.barrier, applied.runs, completes or applied.completes
        pending = self.state.pending or NONE_PENDING
        self._move(one, here, after, passes, completes)
        return int(passes) if one.verb in WAITS else pending if one.has_token else None

    def _move(self, one: Operation, here: int, after: KnownBarrier, passes: bool, completes: bool) -> None:
        """Takes over the barrier as it is afterwards, and what follows for the ghosts."""
        if not passes:
            return
        self.state = after
        self.unseen += completes
        self.ages = {position: age + completes for position, age in self.ages.items()}
        if one.verb == "init":
            self.unseen, self.ages = 0, {}
        elif one.verb in WAITS and one.place != "other":
            self.unseen = 0
        elif one.has_token:
            self.ages[here] = int(completes)

    def _age(self, one: Operation) -> int:
        position = one.operand if one.operand is not None else max(self.ages, default=-1)
        return self.ages.get(position, LONG_AGO)
