"""Reports as the JSON object that scripts rely on: schema 1."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from importlib.metadata import PackageNotFoundError, version
from typing import Any, TypeVar

from sm90_verify.made_of import KernelTable, LeftOut
from sm90_verify.report.of_result import sections_of
from sm90_verify.report.sections import (
    Execution,
    Findings,
    JsonValues,
    Noted,
    Notes,
    Redundant,
    Report,
    Section,
    Verdict,
)
from sm90_verify.result import SCHEMA, Finding, HangState, Recovered, Result, Trace, TraceStep, worst

TOGETHER = ("schema", "tool", "version", "command")
"""What the object about several results has of each."""


def tool_version() -> str:
    try:
        return version("sm90-verify")
    except PackageNotFoundError:
        return "0"


def text(reports: Iterable[Report]) -> str:
    """One object: that of the only report, or one about all of them."""
    objects = [object_of(report) for report in reports]
    if len(objects) == 1:
        return json.dumps(objects[0], indent=1)
    together = {key: objects[0][key] for key in TOGETHER}
    verdict = worst(one["verdict"] for one in objects)
    return json.dumps({**together, "verdict": verdict, "results": objects}, indent=1)


def to_object(result: Result) -> dict[str, Any]:
    """One JSON-able object for a result."""
    return object_of(sections_of(result))


def object_of(report: Report) -> dict[str, Any]:
    """One JSON-able object for a report; `trace` is that of its most severe violation, and every violated property
    carries its own as well.
    """
    record = _only(report, JsonValues)
    if record is not None:
        return {**_header(record.command), **record.values}
    verdict, findings, notes = _known(report, Verdict), _known(report, Findings), _known(report, Notes)
    execution, recovered = _only(report, Execution), _only(report, Recovered)
    left_out = _only(report, Redundant)
    hang, table = _only(report, HangState), _only(report, KernelTable)
    definition = verdict.definition
    written = {} if definition is None else {"file": definition.file, "class": definition.name}
    said = {"reduced": verdict.reduced, "shortest": verdict.shortest}
    why = {"asked": verdict.asked, "because": verdict.because, "events": verdict.events}
    barriers = [] if recovered is None else [asdict(row) for row in recovered.barriers]
    roles = [] if recovered is None else [asdict(row) for row in recovered.roles]
    return {
        **_header(verdict.command),
        "model": {"name": verdict.model, "parameters": verdict.parameters, **written},
        "verdict": verdict.verdict,
        "engine": verdict.engine,
        **{key: value for key, value in why.items() if value},
        "scope": verdict.scope,
        "states": verdict.states,
        "transitions": verdict.transitions,
        "seconds": round(verdict.seconds, 4),
        "properties": [_property(finding) for finding in findings.findings],
        "trace": None if execution is None else trace_object(execution.trace),
        "notes": list(notes.notes),
        "noted": [_note(section) for section in report if isinstance(section, Noted)],
        **{key: value for key, value in said.items() if value is not None},
        **({} if recovered is None else {"table": barriers, "roles": roles}),
        **({} if hang is None else {"hang": asdict(hang)}),
        **({} if table is None else {"kernel": asdict(table)}),
        **({} if left_out is None else {"redundant": [_left_out(one) for one in left_out.operations]}),
    }


def trace_object(trace: Trace) -> dict[str, Any]:
    """One JSON-able object for a trace."""
    return {
        "property": trace.property,
        "because": trace.because,
        **({"advice": trace.advice} if trace.advice else {}),
        "steps": [_step(step) for step in trace.steps],
        "next": [_step(step) for step in trace.next],
        "blocked": [
            {
                "role": entry.role,
                "waits_for": entry.waits_for,
                "phase": entry.phase,
                "missing": entry.missing,
                "file": entry.file,
                "line": entry.line,
                "to_blame": entry.to_blame,
                **({"origin": list(entry.origin)} if entry.origin else {}),
            }
            for entry in trace.blocked
        ],
    }


def _step(step: TraceStep) -> dict[str, Any]:
    return {
        "role": step.role,
        "op": step.op,
        "object": step.object,
        "file": step.file,
        "line": step.line,
        "changes": step.changes,
        "action": step.action,
        **({"origin": list(step.origin)} if step.origin else {}),
    }


def _header(command: str) -> dict[str, Any]:
    """What every object begins with."""
    return {"schema": SCHEMA, "tool": "verify", "version": tool_version(), "command": command}


def _note(section: Noted) -> dict[str, Any]:
    note = section.note
    said = {"property": note.property, "because": note.because, "rule": section.rule}
    origin = {"origin": list(note.origin)} if note.origin else {}
    return {**said, "role": note.role, "file": note.file, "line": note.line, **origin}


def _left_out(one: LeftOut) -> dict[str, Any]:
    return {key: value for key, value in asdict(one).items() if key != "origin" or value}


def _property(finding: Finding) -> dict[str, Any]:
    entry: dict[str, Any] = {"id": finding.id, "verdict": finding.verdict}
    if finding.note:
        entry["note"] = finding.note
    if finding.trace is not None:
        entry["trace"] = trace_object(finding.trace)
    return entry


Kind = TypeVar("Kind", bound=Section)


def _only(report: Report, kind: type[Kind]) -> Kind | None:
    return next((section for section in report if isinstance(section, kind)), None)


def _known(report: Report, kind: type[Kind]) -> Kind:
    found = _only(report, kind)
    if found is None:
        raise ValueError(f"a report without its {kind.__name__.lower()}")
    return found
