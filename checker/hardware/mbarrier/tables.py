"""What the GPU did with the mbarrier alone: the fuzzer's counts and the reactions to ill-formed sequences, in files.

Both are compressed JSON lines, the first of which names the GPU. The fuzzer's also has a digest of the meaning that the
GPU was held to, so that its counts are evidence for that meaning only.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from checker.files import write_whole
from checker.hardware.device import gpu
from checker.hardware.mbarrier.fuzz import FuzzReport, fuzz
from checker.hardware.mbarrier.generate import generated
from checker.hardware.mbarrier.ill_formed import Reaction, operations_of, run_all
from checker.hardware.mbarrier.menu import menu
from spec.errors import SpecError

RUNS: tuple[dict[str, Any], ...] = (
    {"seed": 1, "blocks": 4224, "steps": 300_000, "cluster": False},
    {"seed": 2, "blocks": 4224, "steps": 100_000, "cluster": True},
)
"""What `record_fuzz` does: 32 CTAs on each of the 132 multiprocessors of an H100, more than 10^9 operations."""


def meaning(*, cluster: bool) -> str:
    """Digest of the menu and of what the spec says of each of its operations."""
    return hashlib.sha256(generated(menu(cluster=cluster)).encode()).hexdigest()


def record_fuzz(path: str) -> list[FuzzReport]:
    """Runs the fuzzer and writes what it counted. Raises device.Fault if a launch faults."""
    lines: list[dict[str, Any]] = [{"kind": "sm90-mbarrier-fuzz", "version": 1, "gpu": asdict(gpu())}]
    reports = []
    for run in RUNS:
        reports.append(fuzz(**run))
        lines.append({**run, "meaning": meaning(cluster=run["cluster"]), **asdict(reports[-1])})
    _write(lines, path)
    return reports


def read_fuzz(path: str) -> list[tuple[str, bool, FuzzReport]]:
    """By run, the digest of the meaning, whether it was done in clusters, and what was counted."""
    found = []
    for line in _read(path, "sm90-mbarrier-fuzz"):
        line["by_operation"] = {name: (done, completed) for name, (done, completed) in line["by_operation"].items()}
        line["mismatches"] = tuple(line["mismatches"])
        own = {name: line[name] for name in FuzzReport.__dataclass_fields__}
        found.append((line["meaning"], line["cluster"], FuzzReport(**own)))
    return found


def record_reactions(path: str) -> list[Reaction]:
    """Does the ill-formed sequences and their twins, and writes how the GPU reacted."""
    reactions = sorted(run_all(), key=lambda one: (one.name, one.index))
    write_reactions(asdict(gpu()), reactions, path)
    return reactions


def write_reactions(machine: dict[str, Any], reactions: Iterable[Reaction], path: str) -> None:
    """The reactions, behind what they were seen on."""
    head = {"kind": "sm90-ill-formed", "version": 1, "gpu": machine}
    _write([head, *({**asdict(one), "operations": operations_of(one.name, one.index)} for one in reactions)], path)


def read_reactions(path: str) -> list[Reaction]:
    """What `write_reactions` wrote; raises SpecError if the sequences are other ones now."""
    found = []
    for line in _read(path, "sm90-ill-formed"):
        if tuple(line.pop("operations")) != operations_of(line["name"], line["index"]):
            raise SpecError(f"{path}: sequence {line['index']} of {line['name']} is another one now: record it again")
        found.append(Reaction(**{**line, "answers": tuple(line["answers"])}))
    return found


def _write(lines: Iterable[dict[str, Any]], path: str) -> None:
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    write_whole(path, gzip.compress(text.encode(), 9, mtime=0))


def _read(path: str, kind: str) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as text:
        head, *lines = map(json.loads, text.read().splitlines())
    if head.get("kind") != kind or head.get("version") != 1:
        raise SpecError(f"{path}: not a file of kind {kind}, version 1")
    return lines
