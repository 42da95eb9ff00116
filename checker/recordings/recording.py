"""Recordings: what runs of a pipeline did on a GPU, as compressed JSON lines that name everything they depend on.

The first line describes the machine, the pipeline and its parameters, and the clock; every further line is one run:
for each role where it was when the run ended, and per node of its program the clock before and after, whether it had
to wait, and the words that its reads found. Times count from the first event of a run.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeGuard

from sm90_verify.files import write_whole
from sm90_verify.recordings.lines import packed
from sm90_verify.recordings.plan import ExecutorPlan
from sm90_verify.recordings.run import Event, GpuRun, RoleRun
from sm90_verify.spec.errors import Source, SpecError
from sm90_verify.spec.language.declarations import without_gone

VERSION = 1
KIND = "sm90-recording"
CLOCKS = {"clock64": 0, "globaltimer": 1 << 20}
"""The most that the resolution of each can be. All warps of a CTA read the same clock64; globaltimer is in nanoseconds,
and no GPU moves it in steps of a millisecond. With a coarser clock every run would have an order.
"""
LAST = 1 << 63
"""Times are below it."""


@dataclass(frozen=True)
class Recording:
    """Runs of one pipeline. gpu: name, driver and so on. resolution: of the clock, in its units. file: where the class
    of that name is, if it is none of the library. where: its first line in the file that it was read from; its runs are
    on the lines behind.
    """

    gpu: dict[str, Any]
    model: str
    parameters: dict[str, Any]
    clock: str
    resolution: int
    runs: tuple[GpuRun, ...]
    file: str = ""
    where: Source | None = field(default=None, compare=False)

    def where_of(self, run: int) -> Source | None:
        """The line of a run, by number."""
        return None if self.where is None else Source(self.where.file, self.where.line + 1 + run)


def recorded(
    gpu: dict[str, Any], plan: ExecutorPlan, runs: Sequence[GpuRun], resolution: int, file: str = "", model: str = ""
) -> Recording:
    """The runs of a plan as a recording. What the executor does once a program is over is no step of the program.

    model: the name of the class, if it is in a file of its own.
    """
    runs = [
        replace(run, roles=tuple(replace(role, events=_of_program(plan, role)) for role in run.roles)) for run in runs
    ]
    clock = "clock64" if plan.alone else "globaltimer"
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
    except (OSError, EOFError, zlib.error):
        return False


def read(path: str) -> tuple[Recording, ...]:
    """All recordings of a file; raises SpecError with the line for what `write` cannot have written. Whether the runs
    are runs of their kernel is told by recordings.whole.
    """
    lines = _lines(path)
    found: list[Recording] = []
    at = 0
    while at < len(lines):
        where = Source(path, at + 1)
        head = _json(lines[at], where)
        if head.get("kind") != KIND or head.get("version") != VERSION:
            raise SpecError(f"not the head of a recording of version {VERSION}: record it again", where)
        recording = _headed(head, where)
        count = head.get("runs")
        if not _is_whole(count) or count < 1:
            raise SpecError(f"{_shown(count)} runs, and a recording has 1 or more: record it again", where)
        if at + count >= len(lines):
            raise SpecError(
                f"{count} runs are announced and the file ends: it was cut short, take the whole file", where
            )
        runs = tuple(_run(lines[at + 1 + n], Source(path, at + 2 + n)) for n in range(count))
        found.append(replace(recording, runs=runs))
        at += 1 + count
    if not found:
        raise SpecError("an empty recording: record it again", Source(path, 1))
    return tuple(found)


def _lines(path: str) -> list[str]:
    lines: list[str] = []
    try:
        with gzip.open(path, "rt", encoding="utf-8", newline="\n") as text:
            for line in text:
                lines.append(line.removesuffix("\n"))
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise SpecError(f"a damaged recording ({error}): take the whole file", Source(path, len(lines) + 1)) from error
    return lines


def _json(line: str, where: Source) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        raise SpecError(f"not JSON ({error.msg}): record it again", where) from error
    except (ValueError, RecursionError):
        raise SpecError("no JSON that a recorder wrote: record it again", where) from None
    if not isinstance(value, dict):
        raise SpecError("not a JSON object: record it again", where)
    return value


# ---------------------------------------------------------------- what the lines say


def _headed(head: dict[str, Any], where: Source) -> Recording:
    """A recording without its runs."""
    gpu = _of_kind(head, "gpu", dict, where)
    if not isinstance(gpu.get("name", ""), str):
        raise _wrong("gpu", gpu, where)
    model, parameters = _of_kind(head, "model", str, where), _of_kind(head, "parameters", dict, where)
    file = _of_kind({"file": "", **head}, "file", str, where)
    if not model:
        raise _wrong("model", model, where)
    clock, resolution = _of_kind(head, "clock", str, where), _of_kind(head, "resolution", int, where)
    if clock not in CLOCKS:
        raise _wrong("clock", clock, where)
    if not 0 <= resolution <= CLOCKS[clock]:
        most = f"at most {CLOCKS[clock]}" if CLOCKS[clock] else "0"
        why = f"a resolution of {_shown(resolution)}, and that of {clock} is {most}: record it again"
        raise SpecError(why, where)
    return Recording(gpu, model, without_gone(parameters), clock, resolution, (), file, where)


def _run(text: str, where: Source) -> GpuRun:
    line = _json(text, where)
    hangs, roles, stored = (
        _of_kind(line, name, kind, where) for name, kind in (("hangs", bool), ("roles", dict), ("stored", list))
    )
    for words in stored:
        if not isinstance(words, list) or len(words) != 2 or not all(map(_is_whole, words)):
            raise _wrong("stored", words, where)
    return GpuRun(
        hangs,
        tuple(_role(name, role, where) for name, role in roles.items()),
        tuple((low, high) for low, high in stored),
    )


def _role(name: str, role: Any, where: Source) -> RoleRun:
    if not isinstance(role, dict):
        raise _wrong(name, role, where)
    node, events = _of_kind(role, "node", int, where), _of_kind(role, "events", list, where)
    return RoleRun(name, node, tuple(_event(event, where) for event in events))


def _event(event: Any, where: Source) -> Event:
    """[node, before, duration, waited], and [[buffer, smallest word, largest word], ...] if it has read any."""
    if not isinstance(event, list) or len(event) not in (4, 5):
        raise _wrong("an event", event, where)
    node, before, took, waited, *rest = event
    reads = rest[0] if rest else []
    if not type(node) is type(before) is type(took) is int or waited not in (0, 1) or not isinstance(reads, list):
        raise _wrong("an event", event, where)
    if node < 0 or before < 0 or took < 0 or before + took >= LAST:
        raise _wrong("an event", event, where)
    for read in reads:
        if not isinstance(read, list) or len(read) != 3 or not all(map(_is_whole, read[1:])):
            raise _wrong("an event", event, where)
        if not isinstance(read[0], str):
            raise _wrong("an event", event, where)
    return Event(node, before, before + took, bool(waited), tuple(map(tuple, reads)))


def _of_kind(holder: dict[str, Any], name: str, kind: type, where: Source) -> Any:
    """A field, which must be there and hold what it should; True is no number."""
    if name not in holder:
        raise SpecError(f"no recorder wrote a line without {name}: record it again", where)
    value = holder[name]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise _wrong(name, value, where)
    return value


def _is_whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _wrong(name: str, value: Any, where: Source) -> SpecError:
    return SpecError(f"no recorder wrote {name}: {_shown(value)}: record it again", where)


def _shown(value: Any) -> str:
    """So much of a value as fits into a line."""
    try:
        text = json.dumps(value)
    except (ValueError, RecursionError):
        return "something very large"
    return text if len(text) <= 60 else f"{text[:60]}..."
