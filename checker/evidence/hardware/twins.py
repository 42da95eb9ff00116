"""What a GPU does with the right pipelines of a folder of faults, recorded: all that need more of the executor than one
cluster of programs without branches, with barriers and copies.

`python -m sm90_verify.evidence.hardware.twins tests/corpus --to twins.jsonl.gz` records them, as they are named from
the root of the project.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from sm90_verify.evidence.hardware.cases import right_pipelines
from sm90_verify.gpu.device import gpu
from sm90_verify.gpu.executor import Executor
from sm90_verify.gpu.record import JITTER, resolution
from sm90_verify.recordings.plan import CODES, ExecutorPlan
from sm90_verify.recordings.recording import Recording, recorded, write
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.pipeline import Pipeline

RUNS = 40
"""Of each pipeline."""
FURTHER = (*CODES[CODES.index("word") :], "cluster_arrive")
"""Instructions of words, fences, ordinary copies, answers, grids and cluster barriers."""


def twins(folder: str) -> Iterator[tuple[str, Pipeline, ExecutorPlan]]:
    """File, pipeline and plan of each."""
    for path, pipeline, plan in right_pipelines(folder):
        several = any(one.code == "arrive" and one.e & 0xFFFF for role in plan.roles for one in role.instructions)
        if plan.has(*FURTHER) or plan.kernel.launch.blocks > 1 or several:
            yield path, pipeline, plan


def record_twins(folder: str, path: str, runs: int = RUNS) -> list[Recording]:
    """Runs them all, with small random delays, and writes what they did. Raises SpecError without a Hopper GPU."""
    machine = asdict(gpu())
    found = []
    for file, pipeline, plan in twins(folder):
        done = Executor(plan).run(runs, seed=1, jitter=JITTER)
        found.append(recorded(machine, plan, done, resolution(plan.kernel.launch.ctas), file, type(pipeline).__name__))
    write(found, path)
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m sm90_verify.evidence.hardware.twins", description=__doc__)
    parser.add_argument("folder", help="of Python files with a list CASES, or one such file")
    parser.add_argument("--runs", type=int, default=RUNS, help="of each pipeline")
    parser.add_argument("--to", default="twins.jsonl.gz", metavar="FILE")
    options = parser.parse_args(arguments)
    try:
        found = record_twins(options.folder, options.to, options.runs)
    except SpecError as error:
        print(error, file=sys.stderr)
        return 1
    for one in found:
        name = f"{Path(one.file).name}:{one.model}"
        print(f"{name} {sum(run.hangs for run in one.runs)} of {len(one.runs)} runs hang")
    return 0


if __name__ == "__main__":
    sys.exit(main())
