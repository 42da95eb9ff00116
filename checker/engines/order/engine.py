"""Happens-before of one schedule; what it finds wrong is executed on the Machine before it is called violated."""

from __future__ import annotations

from typing import Literal

from sm90_verify.engines.engine import Answer, Bound, Question, apart
from sm90_verify.engines.order import Outcome, order
from sm90_verify.result import PROPERTIES, UNDETERMINED, VIOLATED, Finding


class OrderEngine:
    """sm90_verify.engines.order."""

    name = "order"
    needs: Literal["programs"] = "programs"
    heeds: tuple[Bound, ...] = ("timeout",)

    def answer(self, question: Question) -> Answer:
        return apart(question, self._answer)

    def _answer(self, question: Question) -> Answer:
        """The Machine is compiled only if there is something to execute on it, or to say what else is possible, or for
        other engines anyway.
        """
        asked = question.properties or PROPERTIES
        outcome = order(question.subject.whole, asked=asked, effort=question.effort)
        if question.together or any(
            failure.property in asked or failure.astray or failure.stuck for failure in outcome.failures
        ):
            findings = _executed(outcome, question)
        else:
            possible = outcome.applies
            if not set(question.properties) <= set(possible):
                possible = (*possible, *question.subject.machine.properties)
            findings = tuple(
                Finding(property, verdict, note=outcome.why_open(property) if verdict == UNDETERMINED else outcome.why)
                for property in question.asked(possible)
                for verdict in (outcome.verdict_on(property),)
            )
        shortest = False if any(one.verdict == VIOLATED for one in findings) else None
        return Answer(self.name, findings, events=outcome.events, shortest=shortest)


def _executed(outcome: Outcome, question: Question) -> tuple[Finding, ...]:
    """What a schedule shows on the machine is violated; what one should have shown and did not is open."""
    from sm90_verify.engines.order.schedule import confirm
    from sm90_verify.engines.shorten import shortened
    from sm90_verify.engines.shown import finding

    machine, asked = question.subject.machine, question.asked()
    violations = confirm(outcome, machine)
    if question.shorter and question.effort.trace_seconds:
        effort = question.effort.for_a_trace()
        violations = {name: shortened(machine, violation, effort) for name, violation in violations.items()}
    findings = []
    for property in asked:
        why = outcome.why
        if outcome.verdict_on(property) == VIOLATED:
            why = "the schedule that should violate it does not"
        elif outcome.verdict_on(property) == UNDETERMINED:
            why = outcome.why_open(property)
        findings.append(finding(machine, property, violations, why))
    return tuple(findings)
