"""From the violations that an engine found to findings with a trace, the same for every engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sm90_verify.counterexample import waiting
from sm90_verify.counterexample.trace import execute, make_trace
from sm90_verify.engines.violation import Violation
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED, Finding, severity
from sm90_verify.spec.model.machine import Machine


def finding(machine: Machine, property: str, violations: Mapping[str, Violation], why: str) -> Finding:
    """Violated with its trace, else undetermined if `why` says so, else proved.

    Whether a barrier can starve for ever is read off one deadlock; where that one does not show it, another one could.
    """
    if property == "arrival-count" and "deadlock" in violations:
        why = why or "the deadlock that is shown starves no barrier from its first phase on; another one could"
    violation = violations.get(property) or _at_the_end(machine, property, violations.get("deadlock"))
    if violation is not None:
        trace = make_trace(machine, property, violation.because, violation.actions, violation.stuck)
        return Finding(property, VIOLATED, trace)
    return Finding(property, UNDETERMINED, note=why) if why else Finding(property, PROVED)


def _at_the_end(machine: Machine, property: str, deadlock: Violation | None) -> Violation | None:
    """The violation that a deadlock shows besides itself: a barrier that has never completed a phase, and cannot."""
    if deadlock is None or property != "arrival-count":
        return None
    run = execute(machine, deadlock.actions, every=False)
    barrier = waiting.never_enough(machine, run.last, deadlock.stuck)
    if barrier is None or any(step.before[barrier.phase] != run.last[barrier.phase] for step in run.steps):
        return None
    return Violation(property, "", barrier.name, deadlock.actions, False, deadlock.stuck)


def leads(findings: Sequence[Finding]) -> str:
    """The property of which a report tells the trace: the most severe that is violated, "" if none is."""
    return min((one.id for one in findings if one.verdict == VIOLATED), key=severity, default="")
