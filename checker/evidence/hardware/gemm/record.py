"""What the GEMM kernels are recorded at, and what is kept of kernels/gemm.cu on a GPU: runs of the right kernels, and
what the wrong ones do.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sm90_verify.evidence.hardware.gemm.config import K_TILE, Config
from sm90_verify.evidence.hardware.gemm.kernel import GemmKernel
from sm90_verify.evidence.hardware.gemm.variants import (
    PATIENT,
    GemmReaction,
    React,
    Variant,
    contradicts,
    predict,
    variants,
)
from sm90_verify.evidence.hardware.parallel import in_processes
from sm90_verify.gpu.device import gpu
from sm90_verify.gpu.record import JITTER, RUNS, resolution
from sm90_verify.recordings.lines import read_lines, write_lines
from sm90_verify.recordings.recording import Recording, recorded, write
from sm90_verify.spec.cutlass.gemm import GEMMS
from sm90_verify.spec.errors import SpecError

SOURCE = "kernels/gemm.cu"
REACTIONS = "sm90-gemm-mistakes"


@dataclass(frozen=True)
class Size:
    """A kernel, and what one of its CTAs does: k-tiles of a tile of D, and tiles."""

    config: Config
    k_tiles: int
    tiles: int

    def kernel(self, runs: int, *, record: bool = True) -> GemmKernel:
        """With so many CTAs, or clusters."""
        rows, columns = self.config.tile
        return GemmKernel(
            self.config,
            rows * runs * self.config.ctas,
            columns * self.tiles,
            self.k_tiles * K_TILE,
            ctas=runs * self.config.ctas,
            record=record,
        )


def sizes() -> Iterator[Size]:
    """All schedules, with C and without, all ways to store D, 2 to 8 stages, more k-tiles than stages and fewer."""
    for schedule in GEMMS:
        rows = 64 if schedule == "pingpong" else 128
        several = (1,) if schedule == "ws" else (1, 3)
        for stages, columns in ((2, 128), (4, 128), (8, 64)):
            for k_tiles in (1, 2 * stages + 1):
                for tiles in several:
                    yield Size(Config(schedule, stages, (rows, columns)), k_tiles, tiles)
        for reuse, delay in ((True, False), (False, False), (False, True)):
            config = Config(schedule, 3, (rows, 128), source=True, reuse=reuse, delay=delay)
            yield Size(config, 4, several[-1])
        yield Size(Config(schedule, 2, (rows, 128), cluster=True), 5, several[-1])
        yield Size(Config(schedule, 3, (rows, 64), source=True, reuse=True, cluster=True), 2, several[-1])
        yield Size(Config(schedule, 3, (rows, 128), source=True, reuse=True, stages_c=2, stages_d=1), 2, several[-1])
        yield Size(Config(schedule, 3, (rows, 64), source=True, stages_c=1, stages_d=1, bfloat16=True), 2, several[-1])


def record_kernel(schedule: str, *, each: int = 0, seed: int = 1, jitter: int = JITTER) -> list[Recording]:
    """A schedule at all its sizes. each: CTAs or clusters of a size; 0: so many that there are RUNS in all.

    Raises SpecError for a wrong number, a hang, and a kernel that did anything else than its model does; whether the
    clocks allow its order is for the reader to say.
    """
    mine = sum(size.config.schedule == schedule for size in sizes())
    found = in_processes(_try_record, _tasks(schedule, each * mine or RUNS, seed, jitter))
    failed = [one for one in found if isinstance(one, str)]
    if failed:
        raise SpecError("; ".join(failed))
    return [one for one in found if isinstance(one, Recording)]


def record_all(folder: str, *, runs: int = RUNS) -> None:
    """Writes gemm.jsonl.gz, the right kernels at all sizes, and gemm_mistakes.jsonl.gz, what the GPU does with wrong
    ones.

    Raises SpecError, once all that could be recorded is written, for what could not or is not as the models say.
    """
    gpu()  # or nothing is overwritten
    found = in_processes(_try_record, [task for one in GEMMS for task in _tasks(one, runs, 1, JITTER)])
    write([one for one in found if isinstance(one, Recording)], f"{folder}/gemm.jsonl.gz")
    failed = [one for one in found if isinstance(one, str)]
    every = list(variants())
    reactions = in_processes(_try_react, every)
    rows = [(one, did) for one, (did, _) in zip(every, reactions, strict=True) if did is not None]
    write_reactions(rows, f"{folder}/gemm_mistakes.jsonl.gz")
    failed += [f"{one.label}: {why}" for one, (_, why) in zip(every, reactions, strict=True) if why]
    if failed:
        raise SpecError("; ".join(failed))


def _tasks(schedule: str, runs: int, seed: int, jitter: int) -> list[tuple[Size, int, int, int]]:
    mine = [size for size in sizes() if size.config.schedule == schedule]
    return [(size, -(-runs // len(mine)), seed, jitter) for size in mine]


def _try_record(task: tuple[Size, int, int, int]) -> Recording | str:
    """Or why not: what goes wrong at one size must not cost what was recorded at the others."""
    size, runs, seed, jitter = task
    try:
        return _recorded(size, runs, seed, jitter, {**asdict(gpu()), "kernel": SOURCE})
    except Exception as error:
        return f"{size}: {error}"


def _try_react(variant: Variant) -> tuple[GemmReaction | None, str]:
    """What the GPU did, and what is wrong with it."""
    try:
        reaction = React(variant).reaction
        return reaction, contradicts(predict(variant), variant, reaction)
    except Exception as error:
        return None, str(error)


def _recorded(size: Size, runs: int, seed: int, jitter: int, machine: dict[str, object]) -> Recording:
    kernel = size.kernel(runs)
    outcome = kernel.run(seed=seed, jitter=jitter, limit=PATIENT)
    if any(outcome.hangs):
        raise SpecError(f"{sum(outcome.hangs)} CTAs hang")
    if any(outcome.wrong):
        raise SpecError(f"{sum(outcome.wrong)} CTAs are wrong, by up to {outcome.error}")
    plan = kernel.plan(size.tiles, collective=False)
    found = kernel.conform(outcome, plan, range(runs))
    for one in found:
        if one.differences:
            raise SpecError(one.differences[0].because)
    return recorded(machine, plan, [one.run for one in found], resolution(size.config.ctas))


def write_reactions(
    rows: Sequence[tuple[Variant, GemmReaction]], path: str, machine: dict[str, Any] | None = None
) -> None:
    """As compressed JSON lines, the GPU first; the file appears whole or not at all. machine: the GPU, if not this
    machine's.
    """
    lines = [{"variant": asdict(one), "did": asdict(did)} for one, did in rows]
    write_lines(REACTIONS, machine or asdict(gpu()), lines, path)


def read_reactions(path: str) -> list[tuple[Variant, GemmReaction]]:
    """What `write_reactions` wrote, of the variants that there still are."""
    lines = read_lines(path, REACTIONS)
    known = {json.dumps(asdict(one)): one for one in variants()}
    return [(known[key], _reaction(line["did"])) for line in lines if (key := json.dumps(line["variant"])) in known]


def _reaction(words: dict[str, Any]) -> GemmReaction:
    return GemmReaction(**{**words, "stuck": tuple((tuple(roles), count) for roles, count in words["stuck"])})
