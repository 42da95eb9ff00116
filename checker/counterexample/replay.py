"""`verify replay`: takes a counterexample as --format json wrote it, builds its model again, and executes it step by
step.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from typing import Any, TypeVar, get_origin, get_type_hints

from sm90_verify.counterexample.afterwards import MOST_STATES, wait_for_ever
from sm90_verify.counterexample.trace import known_again, run_of, shows_again
from sm90_verify.python_file import load_classes
from sm90_verify.result import SCHEMA, UNDETERMINED, VIOLATED, Blocked, Definition, Finding, Result, Trace, TraceStep
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language import walk
from sm90_verify.spec.language.declarations import without_gone
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.machine import Machine
from sm90_verify.spec.model.words import listed

_Record = TypeVar("_Record", Trace, TraceStep, Blocked)


def replay(path: str) -> Result:
    """Executes the trace in a JSON file again, as `verify ... --format json -o path` wrote it, on the model that the
    file names.

    What a replay wrote can be replayed too. The one finding is violated if the trace ends in its violation,
    undetermined if it can be executed but does not. Raises SpecError for a file that cannot be read, holds several
    results or no trace of a pipeline, or whose trace does not belong to the model.
    """
    if not isinstance(path, str | os.PathLike):
        raise SpecError(f"a {type(path).__name__} is no name of a file: give replay the path of a trace")
    try:
        with open(path, encoding="utf-8") as file:
            written = json.load(file)
    except OSError as error:
        raise SpecError(f"{path}: {error.strerror}") from None
    except (ValueError, RecursionError):
        how = "write one with `verify spec FILE --format json -o trace.json`"
        raise SpecError(f"{path}: not a JSON file: {how}") from None
    try:
        if wrong := _not_one_trace(written):
            raise SpecError(f"{path}: {wrong}")
        trace = trace_of(written["trace"])
        pipeline = pipeline_of(written["model"], written["command"])
    except (KeyError, TypeError, AttributeError):
        raise SpecError(f"{path}: no trace of a pipeline or spec in it: write one with --format json") from None
    model = written["model"]
    definition = Definition(model["file"], model["class"]) if "file" in model else None
    return replace(replay_trace(pipeline, trace), definition=definition)


def _not_one_trace(written: Any) -> str:
    """Why what was written is not about one violation; "" if nothing says so."""
    if not isinstance(written, dict):
        return ""
    if written.get("schema", SCHEMA) != SCHEMA:
        return f"it is written in schema {written['schema']!r}, and this version reads {SCHEMA}: check the model again"
    results = written.get("results")
    if isinstance(results, list):
        names = [one["model"]["name"] for one in results if isinstance(one, dict) and one.get("trace")]
        which = f"of {names[0]}" if names else "with a violation"
        return f"{len(results)} results in it: ask about the one {which} alone, with --format json -o FILE"
    if written.get("trace", "") is None and "verdict" in written:
        return f"no trace in it, its verdict is {written['verdict']}: give what a violation wrote"
    return ""


def replay_trace(pipeline: Pipeline, trace: Trace) -> Result:
    """Executes the trace of a Result again, on a pipeline: on the same one to see it once more, or on a mended one to
    see whether the schedule still ends in the violation.

    The finding is as replay gives it. Raises SpecError if the pipeline has no such steps, or one cannot be taken.
    """
    if not isinstance(trace, Trace):
        raise SpecError(f"a {type(trace).__name__} is no trace: give replay_trace that of a finding of a Result")
    start = time.perf_counter()
    machine = compile_kernel(walk.trace(pipeline))
    why = _not_there(machine, trace)
    if why:
        finding = Finding(trace.property, UNDETERMINED, note=why)
    else:
        finding = Finding(trace.property, VIOLATED, known_again(machine, trace))
    scope = {"trips": machine.parameters.get("trips")}
    seconds = time.perf_counter() - start
    return Result("replay", machine.name, machine.parameters, "replay", (finding,), scope, seconds=seconds)


def _not_there(machine: Machine, trace: Trace) -> str:
    """Why the trace does not show its violation on the machine; "" if it does."""
    if not shows_again(machine, trace):
        return "the trace can be executed, but does not end in the violation"
    if trace.blocked:
        roles = [entry.role for entry in trace.blocked]
        for_ever = wait_for_ever(machine, run_of(machine, trace).last, roles)
        if for_ever == "no":
            return f"the trace can be executed, but {listed(roles)} can go on after it"
        if for_ever == "open":
            return (
                f"whether {listed(roles)} can go on after the trace is open after {MOST_STATES} states: check it again"
            )
    return ""


def pipeline_of(model: dict[str, Any], command: str) -> Pipeline:
    """The model that a result was about, from what the result says of it; KeyError if that is not all there. A replay
    says nothing of the command that its trace was found by.
    """
    if command == "spec" or (command == "replay" and "file" in model):
        (kernel,) = load_classes(model["file"], model["class"])
    else:
        kernel = kernels(*(() if command == "replay" else (command,)))[model["name"]]
    return kernel(**without_gone(model["parameters"]))


def trace_of(written: dict[str, Any]) -> Trace:
    """The trace in a result; KeyError or TypeError for what is none."""
    steps = tuple(_read(TraceStep, step) for step in written["steps"])
    blocked = tuple(_read(Blocked, entry) for entry in written["blocked"])
    following = tuple(_read(TraceStep, step) for step in written.get("next", ()))
    texts = {"property": written["property"], "because": written["because"]}
    return _read(Trace, {**texts, "steps": steps, "blocked": blocked, "next": following})


def _read(record: type[_Record], written: dict[str, Any]) -> _Record:
    """A record whose texts, numbers and changes are what its fields say; TypeError if they are not."""
    for name, type_ in get_type_hints(record).items():
        plain = get_origin(type_) or type_
        if name in written and isinstance(plain, type) and not isinstance(written[name], plain):
            raise TypeError(f"{name} of a {record.__name__}")
    return record(**written)
