"""Results as the JSON object that scripts rely on: schema 1."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from sm90_verify.result import Result, Trace, TraceStep

SCHEMA = 1


def tool_version() -> str:
    try:
        return version("sm90-verify")
    except PackageNotFoundError:
        return "0"


def header(command: str) -> dict[str, Any]:
    """What every object begins with."""
    return {"schema": SCHEMA, "tool": "verify", "version": tool_version(), "command": command}


def to_object(result: Result) -> dict[str, Any]:
    """One JSON-able object for a result; `trace` is that of its most severe violation, and every violated property
    carries its own as well.
    """
    properties = []
    for finding in result.findings:
        entry: dict[str, Any] = {"id": finding.id, "verdict": finding.verdict}
        if finding.note:
            entry["note"] = finding.note
        if finding.trace is not None:
            entry["trace"] = trace_object(finding.trace)
        properties.append(entry)
    extra = {key: value for key, value in result.extra.items() if key not in ("shown", "model")}
    return {
        **header(result.command),
        "model": {"name": result.model, "parameters": result.parameters, **result.extra.get("model", {})},
        "verdict": result.verdict,
        "engine": result.engine,
        "scope": result.scope,
        "states": result.states,
        "transitions": result.transitions,
        "seconds": round(result.seconds, 4),
        "properties": properties,
        "trace": None if result.trace is None else trace_object(result.trace),
        "notes": list(result.notes),
        **extra,
    }


def trace_object(trace: Trace) -> dict[str, Any]:
    """One JSON-able object for a trace."""
    return {
        "property": trace.property,
        "because": trace.because,
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
    }
