"""What is recorded of the hand-written kernels: all sizes, all mistakes, and what recording costs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from statistics import median
from typing import Any

from sm90_verify.evidence.hardware.parallel import in_processes
from sm90_verify.evidence.hardware.pipelines.kernel import PipelineKernel, record, sizes
from sm90_verify.evidence.hardware.pipelines.mistakes import Mistake
from sm90_verify.evidence.hardware.pipelines.react import MistakeReaction, react, reaction, variants
from sm90_verify.evidence.hardware.pipelines.shapes import NAMES
from sm90_verify.gpu.device import gpu
from sm90_verify.gpu.record import RUNS
from sm90_verify.recordings.lines import read_lines, write_lines
from sm90_verify.recordings.recording import Recording, write
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.errors import SpecError

LAUNCHES = 8
"""Of which the median is what a launch costs."""
KIND = "sm90-mistakes"


def record_pipelines(path: str, *, runs: int = RUNS) -> None:
    """Writes the recordings of all kernels at all sizes, copies by address and by tensor map.

    Raises SpecError, once the others are written, for sizes that could not be recorded or do what their models do not.
    """
    found = in_processes(_try_record, [task for kernel in NAMES for task in _tasks(kernel, runs, 1)])
    write([one for one in found if isinstance(one, Recording)], path)
    _tell([one for one in found if isinstance(one, str)])


def record_mistakes(path: str) -> None:
    """Writes what the GPU does with each mistake. Raises SpecError, once the others are written, for those that could
    not be run.
    """
    found = in_processes(_try_react, variants())
    write_reactions(
        [(one, did) for one, did in zip(variants(), found, strict=True) if isinstance(did, MistakeReaction)], path
    )
    _tell([one for one in found if isinstance(one, str)])


def record_kernel(kernel: str, *, each: int = 0, seed: int = 1) -> list[Recording]:
    """One kernel at all its sizes. each: runs of a size; 0: so many that there are RUNS in all.

    Raises SpecError for what cannot be recorded.
    """
    found = in_processes(_try_record, _tasks(kernel, each * len(sizes(kernel)) or RUNS, seed))
    _tell([one for one in found if isinstance(one, str)])
    return [one for one in found if isinstance(one, Recording)]


def _tasks(kernel: str, runs: int, seed: int) -> list[tuple[str, dict[str, Any], int, int]]:
    every = sizes(kernel)
    return [(kernel, parameters, -(-runs // len(every)), seed) for parameters in every]


def _tell(failed: Sequence[str]) -> None:
    if failed:
        raise SpecError(f"{len(failed)} could not be recorded: " + "; ".join(failed))


def _try_record(task: tuple[str, dict[str, Any], int, int]) -> Recording | str:
    kernel, parameters, runs, seed = task
    try:
        return record(kernel, parameters, runs, seed)
    except Exception as error:  # whatever it is, the other sizes are to be kept
        return f"{kernel} {parameters}: {error!r}"


def _try_react(variant: Mistake) -> MistakeReaction | str:
    try:
        return react(variant)
    except Exception as error:
        return f"{variant.label}: {error!r}"


def write_reactions(rows: Sequence[tuple[Mistake, MistakeReaction]], path: str) -> None:
    """As compressed JSON lines, the GPU first; the file appears whole or not at all."""
    lines = [{"mistake": one.label, "parameters": one.parameters, "did": asdict(did)} for one, did in rows]
    write_lines(KIND, asdict(gpu()), lines, path)


def read_reactions(path: str) -> list[tuple[Mistake, MistakeReaction]]:
    """What `write_reactions` wrote, of the mistakes that there still are at the same sizes."""
    by_label = {one.label: one for one in variants()}
    found = [(by_label.get(line["mistake"]), line) for line in read_lines(path, KIND)]
    return [
        (one, reaction(line["did"])) for one, line in found if one is not None and one.parameters == line["parameters"]
    ]


def overheads(runs: int = 100) -> list[str]:
    """What a launch of each kernel at its middle size costs without recording and with it, a line each."""
    lines = []
    for name in NAMES:
        parameters = sizes(name)[len(sizes(name)) // 2]
        model = kernels()[name](**parameters)
        plain, recorded = (_cost(PipelineKernel(model, record=one), runs) for one in (False, True))
        lines.append(f"{name} {parameters}: {plain:.3f} ms, recorded {recorded:.3f} ms, {recorded / plain:.2f} times")
    return lines


def _cost(kernel: PipelineKernel, runs: int) -> float:
    return median(kernel.run(runs, seed=seed).milliseconds for seed in range(LAUNCHES))
