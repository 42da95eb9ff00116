"""Settled claims as text and as JSON."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

from sm90_verify.evidence.claims.claim import DEPENDS, OPEN, Evidence, Settled, place
from sm90_verify.report.as_json import header, to_object, trace_object
from sm90_verify.report.text import render, wrap

REPLAY = "     replay: "
"""Where a report says how to replay a trace that has been written to a file; that of a claim has not."""


def exit_code(settled: Sequence[Settled]) -> int:
    """0 if every claim is settled, whichever way; 3 if some is not."""
    return 3 if any(one.verdict == OPEN for one in settled) else 0


def text(settled: Sequence[Settled], *, detailed: bool, every_step: bool = False) -> str:
    """A line for each claim (two where a condition belongs to it); in detail, its runs and the trace as well."""
    lines: list[str] = []
    for one in settled:
        lines += _headline(one)
        if detailed:
            lines += [*_detail(one), ""]
            if one.shown is not None and one.shown.result.trace is not None:
                lines += [f"the run at {place(one.shown)}:", "", _shown(one.shown, every_step), ""]
    lines.append(summary(settled))
    return "\n".join(lines)


def summary(settled: Sequence[Settled]) -> str:
    """verify: SETTLED 58 claims: 30 hold, 20 refuted, 8 depend  412 runs  61.20 s"""
    counts = [sum(one.verdict == verdict for one in settled) for verdict in ("holds", "refuted", "depends", OPEN)]
    words = f"{counts[0]} hold, {counts[1]} refuted, {counts[2]} depend"
    state, rest = ("SETTLED", "") if not counts[3] else ("UNDETERMINED", f", {counts[3]} undetermined")
    runs = sum(len(one.evidence) for one in settled)
    seconds = sum(one.seconds for one in settled)
    return f"verify: {state} {len(settled)} claims: {words}{rest}  {runs} runs  {seconds:.2f} s"


def _headline(one: Settled) -> list[str]:
    lines = wrap(f"{one.claim.id:4d}  {one.verdict:<12}  {one.claim.text}", " " * 20)
    if one.verdict == DEPENDS:
        lines += wrap(f"{'':20}if {one.condition}", " " * 20)
    if one.claim.scope:
        lines += wrap(f"{'':20}scope: {one.claim.scope}", " " * 20)
    return lines


def _detail(one: Settled) -> list[str]:
    lines = wrap(f"      statement   {one.claim.statement}", " " * 18)
    lines += wrap(f"      because     {one.because}", " " * 18)
    for label, wanted in (("runs", False), ("beyond", True)):
        for evidence in one.evidence:
            if evidence.point.beyond == wanted:
                lines += wrap(f"      {label:<10}  {_run(evidence)}", " " * 18)
                label = ""
    return lines


def _run(evidence: Evidence) -> str:
    result = evidence.result
    what = f" {result.trace.property}" if result.trace is not None else ""
    size = f"  {result.states} states" if result.states else ""
    mark = "" if evidence.agrees else "  (the claim says otherwise)"
    return f"{place(evidence)}: {result.verdict}{what}{size}{mark}"


def _shown(evidence: Evidence, every_step: bool) -> str:
    """The counterexample; where a file holds its model, with the command that finds it again."""
    result = evidence.result
    again = ""
    if "model" in result.extra:
        file, name = os.path.relpath(result.extra["model"]["file"]), result.extra["model"]["class"]
        values = ((key, result.parameters[key]) for key in result.extra["shown"])
        settings = "".join(f" --set {key}={int(value) if isinstance(value, bool) else value}" for key, value in values)
        again = f"\n  again: verify spec {file}:{name}{settings}"
    lines = render(result, every_step=every_step).splitlines()
    return "\n".join(line.split(REPLAY)[0] + again if REPLAY in line else line for line in lines)


def to_json(settled: Sequence[Settled]) -> dict[str, Any]:
    """One object, schema 1."""
    return {
        **header("claims"),
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
