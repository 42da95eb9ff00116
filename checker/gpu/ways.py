"""The ways to run one schedule, tried on the GPU in turn, and the one that shows most."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sm90_verify.gpu.directed import Direction
from sm90_verify.gpu.executor import Executor
from sm90_verify.gpu.wrong import partial_sum, wrong_data
from sm90_verify.recordings.plan import ExecutorPlan
from sm90_verify.recordings.run import GpuRun


@dataclass(frozen=True)
class Tried:
    """Directed runs of one way. wrong: by run, what is wrong with its data, if that was asked for."""

    way: Direction
    done: Sequence[GpuRun]
    wrong: tuple[str, ...] = ()

    @property
    def taken(self) -> int:
        """Runs that took their whole schedule."""
        return sum(run.steps >= self.way.steps for run in self.done)


def take(executor: Executor, ways: Sequence[Direction], runs: int) -> Tried:
    """The first way in which every run takes its whole schedule, or else the one in which most do."""
    best = None
    for way in ways:
        tried = Tried(way, executor.run(runs, limit=way.limit, roles=way.roles, choices=way.choices))
        if best is None or tried.taken > best.taken:
            best = tried
        if tried.taken == runs:
            break
    assert best is not None, "a schedule has a way to be run"
    return best


def go_wrong(executor: Executor, ways: Sequence[Direction], plan: ExecutorPlan, runs: int) -> Tried:
    """The first way in which every run finds wrong data, or else the one in which most do."""
    best = None
    for way in ways:
        done = executor.run(runs, limit=way.limit, roles=way.roles, choices=way.choices)
        tried = Tried(way, done, tuple(wrong_data(plan, run) or partial_sum(plan, run) for run in done))
        if best is None or sum(map(bool, tried.wrong)) > sum(map(bool, best.wrong)):
            best = tried
        if all(tried.wrong):
            break
    assert best is not None, "a schedule has a way to be run"
    return best
