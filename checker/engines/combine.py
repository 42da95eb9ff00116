"""The answers of several engines as one: they may leave a property open, but never contradict each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from sm90_verify.engines.engine import Answer
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED, Finding


class Contradiction(AssertionError):
    """Two engines decide one property differently: one of them is wrong, whichever."""


def combine(answers: Sequence[Answer]) -> Answer:
    """One answer to the question that all of these answer. A violation that any engine shows wins, since its schedule
    was executed; then what any of them leaves open. Raises Contradiction.

    The figures are those of the first engine.
    """
    if len(answers) == 1:
        return answers[0]
    for one, other in combinations(answers, 2):
        _compare(one, other)
    findings: list[Finding] = []
    shown: list[Answer] = []
    for row in zip(*(answer.findings for answer in answers), strict=True):
        worst = next(
            (number for verdict in (VIOLATED, UNDETERMINED) for number, f in enumerate(row) if f.verdict == verdict), 0
        )
        finding, answer = row[worst], answers[worst]
        if finding.verdict == UNDETERMINED:
            finding = Finding(finding.id, UNDETERMINED, note=f"{answer.engine}: {finding.note}")
        if finding.verdict == VIOLATED:
            shown.append(answer)
        findings.append(finding)
    first = answers[0]
    return Answer(
        "+".join(answer.engine for answer in answers),
        tuple(findings),
        tuple(dict.fromkeys(note for answer in answers for note in answer.notes)),
        first.states,
        first.transitions,
        first.events,
        next((answer.reduced for answer in answers if answer.reduced is not None), None),
        all(answer.shortest for answer in shown)
        if shown
        else next((answer.shortest for answer in answers if answer.shortest is not None), None),
    )


def settled(closer: Answer, other: Answer) -> Answer:
    """What the first answer says, and of what it leaves open what the other one says. Raises Contradiction.

    It is called after those of whom something is in it. Which properties it is about is for the first one to say.
    """
    findings: list[Finding] = []
    engines = {closer.engine: None}
    known = {finding.id: finding for finding in other.findings}
    for mine in closer.findings:
        others = known.get(mine.id, mine)
        _must_agree(closer, mine, other, others)
        if mine.verdict != UNDETERMINED:
            findings.append(mine)
        elif others.verdict != UNDETERMINED:
            findings.append(others)
            engines[other.engine] = None
        else:
            both = f"{closer.engine}: {mine.note}; {other.engine}: {others.note}"
            note = mine.note if mine.note == others.note else both
            findings.append(Finding(mine.id, UNDETERMINED, note=note))
    notes = tuple(dict.fromkeys((*closer.notes, *other.notes)))
    return closer._replace(
        engine="+".join(engines), findings=tuple(findings), notes=notes, events=other.events or closer.events
    )


def _compare(one: Answer, other: Answer) -> None:
    for here, there in zip(one.findings, other.findings, strict=True):
        if here.id != there.id:
            raise Contradiction(f"{one.engine} answers on {here.id} where {other.engine} does on {there.id}")
        _must_agree(one, here, other, there)


def _must_agree(one: Answer, here: Finding, other: Answer, there: Finding) -> None:
    if {here.verdict, there.verdict} == {PROVED, VIOLATED}:
        raise Contradiction(f"{one.engine} and {other.engine} contradict each other on {here.id}")
