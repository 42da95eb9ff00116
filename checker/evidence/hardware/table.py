"""The table of predictions: what the GPU does with each case, beside what the specification predicts.

A launch that faults takes the process's GPU context with it, so the table is made by processes of their own, one after
the other: each goes on where the one before it faulted.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sm90_verify.evidence.hardware.cases import Case
from sm90_verify.evidence.hardware.reactions import PredictedCase, Prediction, Reaction, predict, react
from sm90_verify.gpu.device import Fault, gpu
from sm90_verify.recordings.lines import read_lines, write_lines
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import without_gone

FAULT, MISTAKE = 3, 4
"""Exit codes of a process that runs cases: of a launch that faults, and of anything else that stops it."""
TESTED = ("proved", "deadlock", "race")
PATIENCE = 60.0
"""Seconds without a row after which a process is given up: its kernel cannot be stopped by its own watch."""
TABLE = "sm90-predictions"
WORKER = (sys.executable, "-m", "sm90_verify.evidence.hardware.table")
Tell = Callable[[str], None]


def workers() -> int:
    """Processes for what is computed without a GPU."""
    return max(1, (os.cpu_count() or 2) - 1)


def table(
    cases: Sequence[Case],
    progress: Tell,
    predictions: Sequence[Prediction] = (),
    failed: list[str] | None = None,
) -> list[PredictedCase]:
    """Runs what a run can show of every case. predictions: of the cases, if they have been made. failed: takes what
    stops the run of a case other than a fault; without it, that is raised as SpecError.
    """
    if not predictions:
        with ProcessPoolExecutor(max_workers=workers()) as pool:
            predictions = list(pool.map(predict, cases, chunksize=8))
    rows = [PredictedCase(case, prediction) for case, prediction in zip(cases, predictions, strict=True)]
    tested = [index for index, row in enumerate(rows) if row.prediction.verdict in TESTED]
    progress(f"{len(rows)} predicted, {len(tested)} to run")
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder) / "rows.json"
        work.write_text(json.dumps([[rows[i].case.line(), asdict(rows[i].prediction)] for i in tested]))
        start = 0
        while start < len(tested):
            reactions, mistake = _process(work, start)
            if mistake:
                label = rows[tested[start + len(reactions) - 1]].case.label
                if failed is None:
                    raise SpecError(f"{label}: what runs it fails: {mistake}")
                failed.append(f"{label}: {mistake}")
            for offset, reaction in enumerate(reactions):
                index = tested[start + offset]
                rows[index] = PredictedCase(rows[index].case, rows[index].prediction, reaction)
            start += len(reactions)
            progress(f"{start} of {len(tested)} run")
    return rows


def _case(line: dict[str, Any]) -> Case:
    """From its line."""
    right = line.get("right")
    return Case(
        line["model"],
        tuple(without_gone(line["parameters"]).items()),
        line["mutant"],
        None if right is None else (right[0], tuple(without_gone(right[1]).items())),
    )


def _process(work: Path, start: int) -> tuple[list[Reaction], str]:
    """Reactions from a process of its own, up to its end; the last one is a fault if it ended too early. And what it
    said if it ended by a mistake of its own: then the last one is none.
    """
    command = [*WORKER, str(work), str(start)]
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(command, stdout=output, stderr=errors)
        before, size = -1, 0
        while size > before:
            before = size
            try:
                process.wait(PATIENCE)
                break
            except subprocess.TimeoutExpired:
                size = output.seek(0, os.SEEK_END)
        else:
            process.kill()
            process.wait()
        output.seek(0)
        lines = [line for line in output.read().splitlines() if line.endswith("}")]
        errors.seek(0)
        mistake = errors.read()[-1000:].strip() if process.returncode == MISTAKE else ""
    found = [_reaction(json.loads(line)) for line in lines]
    whole = len(json.loads(work.read_text())) - start
    return (found if len(found) == whole else [*found, Reaction(fault=not mistake)]), mistake


def _reaction(line: dict[str, Any]) -> Reaction:
    return Reaction(**{**line, "stuck": tuple(line["stuck"])})


def _work(path: str, start: int) -> None:
    """The process: a reaction a line."""
    for case, prediction in json.loads(Path(path).read_text())[start:]:
        one = Prediction(**{**prediction, "stuck": (), "schedules": tuple(map(tuple, prediction["schedules"]))})
        try:
            reaction = react(_case(case), one)
        except Fault:
            os._exit(FAULT)
        except Exception:
            traceback.print_exc()
            os._exit(MISTAKE)
        print(json.dumps(asdict(reaction)), flush=True)


def write_table(rows: Iterable[PredictedCase], path: str) -> None:
    """The rows as compressed JSON lines, the GPU first; the file appears whole or not at all."""
    write_lines(TABLE, asdict(gpu()), [row.line() for row in rows], path)


def read_table(path: str) -> list[PredictedCase]:
    """The rows of a file that `write_table` wrote."""
    return [
        PredictedCase(
            _case(line),
            Prediction(**{**line["predicted"], "stuck": tuple(line["predicted"]["stuck"])}),
            _reaction(line["did"]),
        )
        for line in read_lines(path, TABLE)
    ]


if __name__ == "__main__":
    _work(sys.argv[1], int(sys.argv[2]))
