"""What a run of a kernel on a GPU did, role by role."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Event:
    """What a role did at a node of its program, by the clock: all its warps together.

    waited: some warp found that it had to wait. reads: (buffer, smallest word, largest word) that were found.
    """

    node: int
    before: int
    after: int
    waited: bool
    reads: tuple[tuple[str, int, int], ...] = ()


@dataclass(frozen=True)
class RoleRun:
    """node: where the role was when the run ended, -1 if it had done everything."""

    name: str
    node: int
    events: tuple[Event, ...]


@dataclass(frozen=True)
class GpuRun:
    """hangs: the watch gave up. stored: by store of the plan, the smallest and the largest word that it left. steps:
    how many turns of a directed run were taken.
    """

    hangs: bool
    roles: tuple[RoleRun, ...]
    stored: tuple[tuple[int, int], ...] = ()
    steps: int = 0


@dataclass(frozen=True)
class Observation:
    """hangs: runs in which the watch gave up. stuck: by run, the roles that had not ended."""

    hangs: int
    stuck: tuple[tuple[str, ...], ...]


def observed(runs: Sequence[GpuRun]) -> Observation:
    stuck = tuple(tuple(sorted(role.name for role in run.roles if role.node >= 0)) for run in runs)
    return Observation(sum(run.hangs for run in runs), stuck)
