"""Z3: proofs for every number of steps."""

from __future__ import annotations

from typing import Literal

from sm90_verify.engines.engine import Answer, Bound, Question, apart
from sm90_verify.engines.shown import finding
from sm90_verify.engines.smt.induction import Proof, prove
from sm90_verify.result import PROVED, UNDETERMINED, Finding
from sm90_verify.spec.model.machine import Machine

PROOF_TIMEOUT = 60.0
"""Seconds for a proof unless the question says otherwise."""


class SmtEngine:
    """sm90_verify.engines.smt. Where deadlock is not proved, a barrier could starve: then neither is arrival-count."""

    name = "smt"
    needs: Literal["machine"] = "machine"
    heeds: tuple[Bound, ...] = ("timeout",)

    def answer(self, question: Question) -> Answer:
        return apart(question, self._answer)

    def _answer(self, question: Question) -> Answer:
        machine, asked = question.subject.machine, question.asked()
        needed = "arrival-count" in asked and "deadlock" in machine.properties and "deadlock" not in asked
        names = (*asked, "deadlock") if needed else asked
        proof = prove(machine, names, timeout=question.timeout or PROOF_TIMEOUT, covered=question.covered)
        findings = []
        for property in asked:
            one = finding(machine, property, proof.violations, proof.reasons.get(property, ""))
            if one.verdict == PROVED and proof.verdicts[property] != PROVED:
                one = Finding(property, UNDETERMINED, note=proof.reasons.get(property, "Z3 decides nothing"))
            if one.verdict == PROVED and property == "arrival-count" and proof.verdicts.get("deadlock") != PROVED:
                one = Finding(
                    property, UNDETERMINED, note="a role may wait for ever for arrivals that nobody can bring"
                )
            findings.append(one)
        return Answer(self.name, tuple(findings), tuple(proof.notes), shortest=_shortest(machine, proof))


def _shortest(machine: Machine, proof: Proof) -> bool:
    """Whether there is a violation and no shorter one of its property: bounded search looks at lengths in their order,
    but does not see a role that polls for ever, so that where one could, a deadlock may have a shorter schedule.
    """
    polls = "deadlock" in proof.violations and any(action.fails for action in machine.actions)
    return bool(proof.violations) and not proof.long and not polls
