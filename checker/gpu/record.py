"""`verify record`: runs kernels on a Hopper GPU and keeps what they did."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from sm90_verify.gpu.device import gpu
from sm90_verify.gpu.executor import Executor
from sm90_verify.python_file import load_classes
from sm90_verify.recordings.lower import lower
from sm90_verify.recordings.recording import Recording, recorded
from sm90_verify.spec.cutlass.catalogue import to_record
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace

RUNS = 200
"""Runs of a kernel, over all its sizes together, unless it is told otherwise."""
JITTER = 2000
TICK = 32
"""Nanoseconds: every reading of globaltimer that was recorded on an H100 is a multiple of it."""


def record_kernels(
    names: Sequence[str], *, runs: int = 0, seed: int = 1, settings: dict[str, Any] | None = None
) -> list[Recording]:
    """Records each kernel at all its sizes, or FILE.py:CLASS with its settings; 0 runs: as many as RUNS asks for."""
    plans = []
    for name in names:
        chosen = _chosen(name, settings or {})
        each = runs or -(-RUNS // len(chosen))
        plans += [(lower(trace(one)), type(one).__name__ if file else "", file, each) for one, file in chosen]
    machine = asdict(gpu())
    found = []
    for plan, model, file, each in plans:
        done = Executor(plan).run(each, seed=seed, jitter=JITTER)
        found.append(recorded(machine, plan, done, resolution(plan.kernel.launch.ctas), file, model))
    return found


def _chosen(name: str, settings: dict[str, Any]) -> list[tuple[Pipeline, str]]:
    path, _, kernel = name.partition(":")
    if path.endswith(".py"):
        return [(one(**settings), os.path.abspath(path)) for one in load_classes(path, kernel)]
    if settings:
        raise SpecError(f"--set: {name} is recorded at sizes of its own; settings are for FILE.py:CLASS")
    row = to_record(name)
    return [(row.kernel(**sizes), "") for sizes in row.record]


def resolution(ctas: int) -> int:
    """How far apart two readings of the clock at one time may be, in its units. Of one CTA all warps read the counter
    of its multiprocessor; those of several read globaltimer, which moves in steps of 32 ns on an H100.
    """
    return 0 if ctas == 1 else TICK
