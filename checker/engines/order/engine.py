"""Happens-before of one schedule; what it finds wrong is executed on the Machine before it is called violated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from sm90_verify.engines.engine import Answer, Bound, Question
from sm90_verify.engines.order import Outcome, order
from sm90_verify.result import UNDETERMINED, VIOLATED, Finding

if TYPE_CHECKING:
    from sm90_verify.spec.model.machine import Machine


class OrderEngine:
    """sm90_verify.engines.order."""

    name = "order"
    needs: Literal["programs"] = "programs"
    heeds: tuple[Bound, ...] = ("timeout",)

    def answer(self, question: Question) -> Answer:
        """The Machine is compiled only if there is something to execute on it, or for other engines anyway."""
        outcome = order(question.subject.whole, timeout=question.timeout)
        if outcome.failures or question.together:
            findings = _executed(outcome, question.subject.machine, question.asked())
        else:
            findings = tuple(
                Finding(property, outcome.verdict_on(property), note=outcome.why)
                for property in question.asked(outcome.applies)
            )
        return Answer(self.name, findings, events=outcome.events)


def _executed(outcome: Outcome, machine: Machine, asked: tuple[str, ...]) -> tuple[Finding, ...]:
    """What a schedule shows on the machine is violated; what one should have shown and did not is open."""
    from sm90_verify.engines.order.schedule import confirm
    from sm90_verify.engines.shown import finding

    violations = confirm(outcome, machine)
    findings = []
    for property in asked:
        why = outcome.why
        if outcome.verdict_on(property) == VIOLATED:
            why = "the schedule that should violate it does not"
        elif outcome.verdict_on(property) == UNDETERMINED:
            why = why or "it depends on what a race leaves behind"
        findings.append(finding(machine, property, violations, why))
    return tuple(findings)
