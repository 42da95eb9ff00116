"""Runs a lowered pipeline on the GPU and brings back what each role did, run by run."""

from __future__ import annotations

from collections.abc import Sequence

from sm90_verify.gpu.arrays import Arrays
from sm90_verify.gpu.device import Module, sources
from sm90_verify.recordings.plan import ExecutorPlan, Lowered
from sm90_verify.recordings.run import GpuRun
from sm90_verify.spec.ptx.limits import WARP

RESIDENT = 100
"""CTAs that surely run at once: a Hopper GPU has more multiprocessors."""
BALLAST = 200 << 10
"""Bytes of shared memory that the copy engine adds to global memory, again and again, to be busy. They need not be the
pipeline's: a CTA of a run with late copies has so many.
"""
NEVER = (1 << 32) - 1
"""Nanoseconds of patience that end after every limit."""


def shared_bytes(plan: ExecutorPlan, roles: Sequence[Lowered]) -> int:
    """Of a CTA's shared memory, what a launch asks for."""
    late = any(instruction.late for role in roles for instruction in role.instructions)
    return max(plan.shared, BALLAST) if late else plan.shared


def macros_of(plan: ExecutorPlan, *, record: bool) -> dict[str, int | str]:
    """With what kernels/executor.cu is compiled for a plan: one CTA that needs nothing more has no macro but RECORD."""
    launch = plan.kernel.launch
    numbers = {"CLUSTER": plan.cluster, "CTAS": plan.cluster * launch.clusters, "GRIDS": launch.grids}
    least = {"CLUSTER": 1, "CTAS": plan.cluster, "GRIDS": 1}
    macros: dict[str, int | str] = {name: number for name, number in numbers.items() if number > least[name]}
    flags = {"RECORD": record, "WORDS": plan.has("word", "fence"), "MEETS": plan.meets}
    return {**{name: 1 for name, given in flags.items() if given}, **macros}


class Executor:
    """A plan on the GPU, compiled with recording or without."""

    def __init__(self, plan: ExecutorPlan, *, record: bool = True) -> None:
        self.plan, self.record = plan, record
        self.module = Module((sources() / "executor.cu").read_text(), macros_of(plan, record=record))

    def run(
        self,
        runs: int,
        *,
        seed: int = 0,
        jitter: int = 0,
        limit: int = 20_000_000,
        patience: int = 0,
        roles: Sequence[Lowered] = (),
        choices: Sequence[int] = (),
    ) -> list[GpuRun]:
        """Executes the plan so many times. jitter: up to so many nanoseconds before some instructions. limit:
        nanoseconds after which waits give up. patience: nanoseconds after which a gate is passed out of turn; 0: never.
        roles: with gates or holds, instead of the plan's. choices: which option each choice takes, or at random.
        """
        roles = tuple(roles) or self.plan.roles
        launch, shared = self.plan.kernel.launch, shared_bytes(self.plan, roles)
        arrays = Arrays(self.module.cupy, self.plan, roles, runs, shared, record=self.record)
        arrays.choose(seed, choices)
        ctas, threads = self.plan.cluster * launch.clusters, (self.plan.warps + 1 + self.plan.meets) * WARP
        numbers, each = (limit, patience or NEVER, jitter, seed), runs_at_once(self.plan, runs)
        for first in range(0, runs, each):
            blocks = min(each, runs - first) * ctas
            grids = [(blocks, arrays.arguments(first, grid * ctas, numbers)) for grid in range(launch.grids)]
            self.module.launch_grids("executor", grids, threads, shared=shared, cluster=self.plan.cluster)
        return arrays.done()


def runs_at_once(plan: ExecutorPlan, runs: int) -> int:
    """How many of the runs one launch has. CTAs that wait for CTAs of other clusters must all be on the GPU at once;
    a dependent grid waits for all of the grid before it.
    """
    launch = plan.kernel.launch
    if launch.grids > 1:
        return 1
    return runs if launch.clusters == 1 else max(1, RESIDENT // launch.ctas)
