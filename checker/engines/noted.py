"""What is only noted (spec.model.properties.NOTED): from findings of engines to notes beside the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sm90_verify.engines.engine import Subject
from sm90_verify.result import UNDETERMINED, VIOLATED, Finding, Note, asked_alone
from sm90_verify.spec.errors import Source, SpecError


class Sorted(NamedTuple):
    """The findings that make the verdict, what is noted beside it, and a sentence if that is open."""

    findings: tuple[Finding, ...]
    noted: tuple[Note, ...] = ()
    sentences: tuple[str, ...] = ()


def set_aside(subject: Subject, findings: Sequence[Finding]) -> Sorted:
    """Takes out of the findings what only a strict kernel would violate, and leaves it open only where something else
    is open, too. That it never happens is a proof like others.

    Raises SpecError if nothing else was asked: then neither answer would be true.
    """
    kept: list[Finding] = []
    noted: list[Note] = []
    sentences: list[str] = []
    others = [finding.verdict for finding in findings if finding.id not in subject.noted]
    for finding in findings:
        if finding.id not in subject.noted:
            kept.append(finding)
        elif finding.verdict == VIOLATED:
            noted.append(note_of(finding))
        elif finding.verdict == UNDETERMINED and others and UNDETERMINED not in others:
            sentences.append(f"whether there is something to note of {finding.id} is open: {finding.note}")
        else:
            kept.append(finding)
    if not kept:
        (note,) = noted
        raise SpecError(asked_alone(note), Source(note.file, note.line))
    return Sorted(tuple(kept), tuple(noted), tuple(sentences))


def note_of(finding: Finding) -> Note:
    """From the trace of the violation that it would be; its last step is the one."""
    assert finding.trace is not None, "an engine that finds a violation shows it"
    step = finding.trace.steps[-1]
    return Note(finding.id, finding.trace.because, step.role, step.file, step.line)
