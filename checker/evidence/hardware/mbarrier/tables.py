"""What the GPU did with the mbarrier alone: the fuzzer's counts and the reactions to ill-formed sequences, in files.

Both are compressed JSON lines, the first of which names the GPU. The fuzzer's also has a digest of the meaning that the
GPU was held to, so that its counts are evidence for that meaning only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import asdict
from typing import Any

from sm90_verify.evidence.hardware.mbarrier.fuzz import FuzzReport, fuzz
from sm90_verify.evidence.hardware.mbarrier.generate import generated
from sm90_verify.evidence.hardware.mbarrier.ill_formed import IllFormedReaction, operations_of, run_all
from sm90_verify.evidence.hardware.mbarrier.menu import menu
from sm90_verify.gpu.device import gpu
from sm90_verify.recordings.lines import read_lines, write_lines
from sm90_verify.spec.errors import SpecError

FUZZ, ILL_FORMED = "sm90-mbarrier-fuzz", "sm90-ill-formed"
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
    lines, reports = [], []
    for run in RUNS:
        reports.append(fuzz(**run))
        lines.append({**run, "meaning": meaning(cluster=run["cluster"]), **asdict(reports[-1])})
    write_lines(FUZZ, asdict(gpu()), lines, path)
    return reports


def read_fuzz(path: str) -> list[tuple[str, bool, FuzzReport]]:
    """By run, the digest of the meaning, whether it was done in clusters, and what was counted."""
    found = []
    for line in read_lines(path, FUZZ):
        line["by_operation"] = {name: (done, completed) for name, (done, completed) in line["by_operation"].items()}
        line["mismatches"] = tuple(line["mismatches"])
        own = {name: line[name] for name in FuzzReport.__dataclass_fields__}
        found.append((line["meaning"], line["cluster"], FuzzReport(**own)))
    return found


def record_reactions(path: str) -> list[IllFormedReaction]:
    """Does the ill-formed sequences and their twins, and writes how the GPU reacted."""
    reactions = sorted(run_all(), key=lambda one: (one.name, one.index))
    write_reactions(asdict(gpu()), reactions, path)
    return reactions


def write_reactions(machine: dict[str, Any], reactions: Iterable[IllFormedReaction], path: str) -> None:
    """The reactions, behind what they were seen on."""
    lines = [{**asdict(one), "operations": operations_of(one.name, one.index)} for one in reactions]
    write_lines(ILL_FORMED, machine, lines, path)


def read_reactions(path: str) -> list[IllFormedReaction]:
    """What `write_reactions` wrote; raises SpecError if the sequences are other ones now."""
    found = []
    for line in read_lines(path, ILL_FORMED):
        if tuple(line.pop("operations")) != operations_of(line["name"], line["index"]):
            raise SpecError(f"{path}: sequence {line['index']} of {line['name']} is another one now: record it again")
        found.append(IllFormedReaction(**{**line, "answers": tuple(line["answers"])}))
    return found
