"""The report on claims that are settled."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import Any

from sm90_verify.evidence.claims.claim import DEPENDS, OPEN, Evidence, Settled, place
from sm90_verify.report.as_json import to_object, trace_object
from sm90_verify.report.of_result import sections_of
from sm90_verify.report.sections import Break, Column, JsonValues, Nested, Paragraph, Report, Section, Table, Tally

LIST = (Column(width=4, right=True), Column(width=12, gap=2), Column(gap=2))
DETAIL = (Column(width=10), Column(gap=2))


def exit_code(settled: Sequence[Settled]) -> int:
    """0 if every claim is settled, whichever way; 3 if some is not."""
    return 3 if any(one.verdict == OPEN for one in settled) else 0


def report(settled: Sequence[Settled], *, detailed: bool, every_step: bool = False) -> Report:
    """A row for each claim (two where a condition belongs to it); in detail, its runs and the trace as well."""
    sections: list[Section] = []
    for one in settled:
        sections.append(Table(LIST, tuple(_headline(one))))
        if detailed:
            sections += [Table(DETAIL, tuple(_detail(one)), indent=6), Break()]
            if one.shown is not None and one.shown.result.trace is not None:
                sections += [Paragraph(f"the run at {place(one.shown)}:"), Break()]
                sections += [Nested(_shown(one.shown, every_step)), Break()]
    return (*sections, _tally(settled), JsonValues("claims", _values(settled)))


def _tally(settled: Sequence[Settled]) -> Tally:
    """verify: SETTLED 58 claims: 30 hold, 20 refuted, 8 depend  412 runs  61.20 s"""
    counts = [sum(one.verdict == verdict for one in settled) for verdict in ("holds", "refuted", "depends", OPEN)]
    words = f"{counts[0]} hold, {counts[1]} refuted, {counts[2]} depend"
    state, rest = ("SETTLED", "") if not counts[3] else ("UNDETERMINED", f", {counts[3]} undetermined")
    runs = sum(len(one.evidence) for one in settled)
    seconds = sum(one.seconds for one in settled)
    return Tally(state, f"{len(settled)} claims: {words}{rest}", (f"{runs} runs", f"{seconds:.2f} s"))


def _headline(one: Settled) -> Iterator[tuple[str, ...]]:
    yield str(one.claim.id), one.verdict, one.claim.text
    if one.verdict == DEPENDS:
        yield "", "", f"if {one.condition}"
    if one.claim.scope:
        yield "", "", f"scope: {one.claim.scope}"


def _detail(one: Settled) -> Iterator[tuple[str, ...]]:
    yield "statement", one.claim.statement
    yield "because", one.because
    for label, wanted in (("runs", False), ("beyond", True)):
        for evidence in one.evidence:
            if evidence.point.beyond == wanted:
                yield label, _run(evidence)
                label = ""


def _run(evidence: Evidence) -> str:
    result = evidence.result
    what = f" {result.trace.property}" if result.trace is not None else ""
    size = f"  {result.states} states" if result.states else ""
    mark = "" if evidence.agrees else "  (the claim says otherwise)"
    return f"{place(evidence)}: {result.verdict}{what}{size}{mark}"


def _shown(evidence: Evidence, every_step: bool) -> Report:
    """The counterexample; where a file holds its model, with the command that finds it again."""
    result = evidence.result
    again = ""
    if result.definition is not None:
        file, name = os.path.relpath(result.definition.file), result.definition.name
        values = ((key, result.parameters[key]) for key in result.shown)
        settings = "".join(f" --set {key}={int(value) if isinstance(value, bool) else value}" for key, value in values)
        again = f"verify spec {file}:{name}{settings}"
    return sections_of(result, every_step=every_step, again=again)


def _values(settled: Sequence[Settled]) -> dict[str, Any]:
    return {
        "settled": not exit_code(settled),
        "seconds": round(sum(one.seconds for one in settled), 4),
        "claims": [_claim_object(one) for one in settled],
    }


def _claim_object(one: Settled) -> dict[str, Any]:
    shown = one.shown.result.trace if one.shown is not None else None
    return {
        "id": one.claim.id,
        "claim": one.claim.text,
        "statement": one.claim.statement,
        "verdict": one.verdict,
        "condition": one.condition or None,
        "scope": one.claim.scope or None,
        "because": one.because,
        "seconds": round(one.seconds, 4),
        "evidence": [_evidence_object(evidence) for evidence in one.evidence],
        "trace": None if shown is None else trace_object(shown),
    }


def _evidence_object(evidence: Evidence) -> dict[str, Any]:
    result = to_object(evidence.result)
    kept = ("model", "verdict", "engine", "scope", "states", "transitions", "seconds", "trace")
    found = {key: result[key] for key in kept}
    return {
        "at": evidence.point.at,
        "predicts": evidence.point.predicts,
        "agrees": evidence.agrees,
        "beyond": evidence.point.beyond,
        **found,
    }
