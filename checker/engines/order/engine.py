"""Happens-before of one schedule; what it finds wrong is executed on the Machine before it is called violated."""

from __future__ import annotations

from typing import Literal

from sm90_verify.engines.engine import Answer, Bound, Question, apart
from sm90_verify.engines.order import Outcome, order
from sm90_verify.engines.order.cut import is_large, machines
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
        other engines anyway. A large kernel that is asked of nobody else is followed to its end only where its first
        violations are none.
        """
        subject = question.subject
        asked = question.properties or PROPERTIES
        brief = not question.together and is_large(subject.whole)
        stopping = [one for one in asked if one not in subject.noted] if brief else ()
        outcome = order(subject.whole, asked=asked, effort=question.effort, stopping=stopping)
        found = _findings(outcome, question)
        if outcome.stopped and not any(one.verdict == VIOLATED for one in found):
            outcome = order(subject.whole, asked=asked, effort=question.effort)
            found = _findings(outcome, question)
        shortest = False if any(one.verdict == VIOLATED for one in found) else None
        return Answer(self.name, found, events=outcome.events, shortest=shortest)


def _findings(outcome: Outcome, question: Question) -> tuple[Finding, ...]:
    asked = question.properties or PROPERTIES
    if question.together or any(one.property in asked or one.astray or one.stuck for one in outcome.failures):
        return _executed(outcome, question)
    return tuple(
        Finding(property, verdict, note=outcome.why_open(property) if verdict == UNDETERMINED else outcome.why)
        for property in question.asked(_possible(outcome, question))
        for verdict in (outcome.verdict_on(property),)
    )


def _possible(outcome: Outcome, question: Question) -> tuple[str, ...]:
    if set(question.properties) <= set(outcome.applies):
        return outcome.applies
    return (*outcome.applies, *question.subject.machine.properties)


def _executed(outcome: Outcome, question: Question) -> tuple[Finding, ...]:
    """What a schedule shows on the machine is violated; what one should have shown and did not is open."""
    from sm90_verify.engines.order.schedule import CutOff, confirm
    from sm90_verify.engines.shorten import shortened
    from sm90_verify.engines.shown import finding

    for machine in machines(outcome, question):
        try:
            violations = confirm(outcome, machine)
        except CutOff:
            continue
        if violations:
            break
    if machine.cut is None:
        asked = question.asked(machine.properties)
    else:
        asked = question.asked((*_possible(outcome, question), *violations))
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
