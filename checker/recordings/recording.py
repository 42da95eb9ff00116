"""Recordings: what runs of a pipeline did on a GPU, as compressed JSON lines that name everything they depend on.

The first line describes the machine, the pipeline and its parameters, and the clock; every further line is one run:
for each role where it was when the run ended, and per node of its program the clock before and after, whether it had
to wait, and the words that its reads found. Times count from the first event of a run.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sm90_verify.files import write_whole
from sm90_verify.recordings.lines import packed
from sm90_verify.recordings.plan import ExecutorPlan
from sm90_verify.recordings.run import Event, GpuRun, RoleRun
from sm90_verify.spec.errors import Source, SpecError

VERSION = 1
KIND = "sm90-recording"


@dataclass(frozen=True)
class Recording:
    """Runs of one pipeline. gpu: name, driver and so on. resolution: of the clock, in its units. file: where the class
    of that name is, if it is none of the library.
    """

    gpu: dict[str, Any]
    model: str
    parameters: dict[str, Any]
    clock: str
    resolution: int
    runs: tuple[GpuRun, ...]
    file: str = ""


def recorded(
    gpu: dict[str, Any], plan: ExecutorPlan, runs: Sequence[GpuRun], resolution: int, file: str = "", model: str = ""
) -> Recording:
    """The runs of a plan as a recording. What the executor does once a program is over is no step of the program.

    model: the name of the class, if it is in a file of its own.
    """
    runs = [
        replace(run, roles=tuple(replace(role, events=_of_program(plan, role)) for role in run.roles)) for run in runs
    ]
    clock = "clock64" if plan.cluster == 1 else "globaltimer"
    kernel = plan.kernel
    return Recording(gpu, model or kernel.name, dict(kernel.parameters), clock, resolution, tuple(runs), file)


def _of_program(plan: ExecutorPlan, role: RoleRun) -> tuple[Event, ...]:
    nodes = plan.nodes[role.name]
    return tuple(event for event in role.events if nodes[event.node].operation is not None)


def write(recordings: Iterable[Recording], path: str) -> None:
    """Writes recordings one after the other; the file appears whole or not at all."""
    lines: list[dict[str, Any]] = []
    for one in recordings:
        lines.append(
            {
                "kind": KIND,
                "version": VERSION,
                "gpu": one.gpu,
                "model": one.model,
                **({"file": one.file} if one.file else {}),
                "parameters": one.parameters,
                "clock": one.clock,
                "resolution": one.resolution,
                "runs": len(one.runs),
            }
        )
        lines += map(_line, one.runs)
    write_whole(path, packed(lines))


def _line(run: GpuRun) -> dict[str, Any]:
    first = min((event.before for role in run.roles for event in role.events), default=0)
    roles = {
        role.name: {
            "node": role.node,
            "events": [
                [event.node, event.before - first, event.after - event.before, int(event.waited), list(event.reads)]
                if event.reads
                else [event.node, event.before - first, event.after - event.before, int(event.waited)]
                for event in role.events
            ],
        }
        for role in run.roles
    }
    return {"hangs": run.hangs, "roles": roles, "stored": run.stored}


def is_recording(path: str) -> bool:
    """The file begins as `write` begins it: anything else is left to the reader of sync logs."""
    try:
        with gzip.open(path, "rb") as file:
            return file.read(len(KIND) + 12).startswith(f'{{"kind":"{KIND}"'.encode())
    except (OSError, EOFError):
        return False


def read(path: str) -> tuple[Recording, ...]:
    """All recordings of a file; raises SpecError with the line for what `write` cannot have written."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as text:
            lines = text.read().splitlines()
    except (OSError, EOFError, UnicodeDecodeError) as error:
        raise SpecError(f"{path}: not a recording: {error}") from error
    found: list[Recording] = []
    at = 0
    while at < len(lines):
        head = _json(lines[at], path, at)
        if head.get("kind") != KIND or head.get("version") != VERSION:
            raise SpecError(f"not the head of a recording of version {VERSION}: record it again", Source(path, at + 1))
        count = head["runs"]
        if at + count >= len(lines):
            raise SpecError(f"{count} runs are announced and the file ends: it was cut short", Source(path, at + 1))
        try:
            runs = tuple(_run(_json(lines[at + 1 + n], path, at + 1 + n)) for n in range(count))
            gpu, model, parameters = head["gpu"], head["model"], head["parameters"]
            file = head.get("file", "")
            found.append(Recording(gpu, model, parameters, head["clock"], head["resolution"], runs, file))
        except (KeyError, TypeError, ValueError) as error:
            raise SpecError(f"a run that no recorder wrote: {error!r}", Source(path, at + 2)) from error
        at += 1 + count
    if not found:
        raise SpecError(f"{path}: an empty recording")
    return tuple(found)


def _json(line: str, path: str, number: int) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise SpecError(f"not JSON: {error.msg}", Source(path, number + 1)) from error
    if not isinstance(value, dict):
        raise SpecError("not a JSON object", Source(path, number + 1))
    return value


def _run(line: dict[str, Any]) -> GpuRun:
    roles = tuple(
        RoleRun(
            name,
            role["node"],
            tuple(
                Event(
                    node,
                    before,
                    before + took,
                    bool(waited),
                    tuple((b, low, high) for b, low, high in (reads or [[]])[0]),
                )
                for node, before, took, waited, *reads in role["events"]
            ),
        )
        for name, role in line["roles"].items()
    )
    return GpuRun(bool(line["hangs"]), roles, tuple((low, high) for low, high in line["stored"]))
