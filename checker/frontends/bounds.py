"""Bounds on the answer about something recorded, which is decided in one go: they are applied to what came out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sm90_verify.result import UNDETERMINED, Finding, Result, asked_alone
from sm90_verify.spec.errors import Source, SpecError


def bounded(result: Result, properties: Sequence[str], *, limit: int = 0, timeout: float = 0.0) -> Result:
    """The result for these properties (none: all that it has); open, if it took more than `limit` states or `timeout`
    seconds (0: no bound). SpecError for a property that the result does not speak about, and if it has no more than a
    note about all of them.
    """
    findings = [finding for finding in result.findings if finding.id in properties or not properties]
    known = [*(finding.id for finding in result.findings), *(note.property for note in result.noted)]
    for id in properties:
        if id not in known:
            raise SpecError(f"--property {id}: a log shows nothing about it: use one of {', '.join(known)}")
    if not findings:
        note = result.noted[0]
        raise SpecError(asked_alone(note), Source(note.file, note.line))
    if (limit and result.states > limit) or (timeout and result.seconds > timeout):
        findings = [Finding(finding.id, UNDETERMINED, note="--limit or --timeout was reached") for finding in findings]
    noted = tuple(note for note in result.noted if note.property in properties or not properties)
    return replace(result, findings=tuple(findings), noted=noted)
