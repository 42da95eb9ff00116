"""The answers that the specification gives to a sequence of operations on one mbarrier, by evaluating its Steps."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from sm90_verify.evidence.hardware.mbarrier.generate import PARTS
from sm90_verify.evidence.hardware.mbarrier.menu import OTHER_VERBS, WAITS, Operation, operation, step_of
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.expr import TRUE, Expr, Lit, evaluate
from sm90_verify.spec.ptx.mbarrier import NONE_PENDING, Mbarrier
from sm90_verify.spec.ptx.step import Illegal, Step

Answer = int | Illegal | None
"""Whether a wait passes; the pending count before an arrival; what is illegal; None where there is nothing to see."""
GHOST_WIDTH = 8
LONG_AGO = (1 << GHOST_WIDTH) - 2
DEAD = {**dict.fromkeys(PARTS, 0), "observed": 1}


@dataclass
class Reference:
    """One mbarrier.

    state: as the spec has it. unseen: phases that completed since the waiting thread saw one complete. ages: by the
    position of the arrival that returned the token, the phases that completed since.
    """

    state: dict[str, int] = field(default_factory=DEAD.copy)
    unseen: int = 0
    ages: dict[int, int] = field(default_factory=dict)
    position: int = 0

    def run_sequence(self, names: Iterable[str]) -> list[Answer]:
        """The answers to operations by name, up to the first that is illegal."""
        answers: list[Answer] = []
        for name in names:
            answers.append(self.take(operation(name)))
            if isinstance(answers[-1], Illegal):
                break
        return answers

    def take(self, one: Operation) -> Answer:
        """Takes one step, unless it is illegal. A wait whose distance is not given is meant for the phase that its
        parity can stand for: the current one or the one before.
        """
        here, self.position = self.position, self.position + 1
        if (one.verb in OTHER_VERBS and one.verb != "bulk") or one.place.startswith("peer"):
            return None
        if one.verb.endswith(".parity") and one.distance is None:
            one = replace(one, distance=self.unseen + (one.operand == self.state["phase"]))
        try:
            step = step_of(one, self._barrier(), Lit(min(self.unseen, LONG_AGO), GHOST_WIDTH), self._age(one))
        except SpecError as error:
            return Illegal("arrival-count", TRUE, error.what)
        for part in step.illegal:
            if self._value(part.when):
                return part
        return self._move(one, step, here)

    def _move(self, one: Operation, step: Step, here: int) -> Answer:
        passes, completes = self._value(step.when), self._value(step.completes)
        answer = passes if one.verb in WAITS else self._pending_count() if one.has_token else None
        if not passes:
            return answer
        after = {name: self._value(expr) for name, expr in step.then.items() if name in PARTS}
        self.state = {**self.state, **after}
        self.unseen += completes
        self.ages = {position: age + completes for position, age in self.ages.items()}
        if one.verb == "init":
            self.unseen, self.ages = 0, {}
        elif one.verb in WAITS and one.place != "other":
            self.unseen = 0
        elif one.has_token:
            self.ages[here] = completes
        return answer

    def _pending_count(self) -> int:
        return self.state["pending"] or NONE_PENDING

    def _age(self, one: Operation) -> Lit:
        position = one.operand if one.operand is not None else max(self.ages, default=-1)
        return Lit(min(self.ages.get(position, LONG_AGO), LONG_AGO), GHOST_WIDTH)

    def _barrier(self) -> Mbarrier:
        return Mbarrier(**{name: Lit(self.state[name], width) for name, width in PARTS.items()})

    @staticmethod
    def _value(expr: Expr) -> int:
        return evaluate(expr, {})
