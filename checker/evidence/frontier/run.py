"""Every configuration of a box decided by happens-before, in as many processes as there are cores.

A violated configuration counts only with a trace: the schedule that shows it is executed on the compiled Machine. Two
configurations never share a verdict, however much alike they are.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from sm90_verify.engines.check import check
from sm90_verify.evidence.frontier.box import Box, Configuration
from sm90_verify.evidence.frontier.formula import Formula, simplest
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED, Result
from sm90_verify.spec.errors import SpecError

CHUNK = 16
"""Configurations that a process takes at a time."""


@dataclass(frozen=True)
class Decided:
    """The verdict on one configuration. `violated`: the properties with a trace that replays; `steps`: by property, how
    long it is; `why`: what keeps it undetermined; events: operations looked at.
    """

    configuration: Configuration
    verdict: str
    violated: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    why: str = ""
    events: int = 0

    @property
    def safe(self) -> bool:
        return self.verdict == PROVED

    @property
    def rejected(self) -> bool:
        return bool(self.configuration.rejected_by())


@dataclass(frozen=True)
class Family:
    """The configurations of one schedule, reuse, delay and kind of sizes, and what makes them safe and accepted."""

    schedule: str
    reuse: bool
    delay: bool
    equal: bool
    decided: tuple[Decided, ...]
    safe: Formula | None
    rejected_though_safe: Formula | None
    accepted_though_violated: Formula | None


@dataclass(frozen=True)
class Frontier:
    """All configurations of a box, decided, and the same by groups."""

    box: Box
    decided: tuple[Decided, ...]
    groups: tuple[Family, ...]
    seconds: float

    @property
    def verdict(self) -> str:
        """Undetermined if any configuration is; a violated one is an answer like any other."""
        return UNDETERMINED if any(one.verdict == UNDETERMINED for one in self.decided) else PROVED


def decide(configuration: Configuration) -> Decided:
    """Proved or violated by the order engine; a violation is believed only if its schedule replays."""
    try:
        result = check(configuration.pipeline(), command="epilogue", engine="order")
    except SpecError as error:
        return Decided(configuration, UNDETERMINED, why=error.what)
    if result.verdict == PROVED:
        return Decided(configuration, PROVED, events=result.transitions)
    shown = [finding for finding in result.findings if finding.verdict == VIOLATED and finding.trace is not None]
    if not shown:
        why = next((f.note for f in result.findings if f.verdict == UNDETERMINED), "no schedule shows the violation")
        return Decided(configuration, UNDETERMINED, why=why, events=result.transitions)
    return Decided(
        configuration,
        VIOLATED,
        tuple(finding.id for finding in shown),
        tuple(len(finding.trace.steps) for finding in shown if finding.trace is not None),
        events=result.transitions,
    )


def explore_box(box: Box, *, processes: int = 0, progress: Callable[[int, int], None] | None = None) -> Frontier:
    """Decides every configuration of the box.

    processes: 0 for as many as there are cores. progress: called with how many are decided, of how many.
    """
    start = time.perf_counter()
    configurations = tuple(box.configurations())
    decided = []
    for one in _decided(configurations, processes or os.cpu_count() or 1):
        decided.append(one)
        if progress is not None:
            progress(len(decided), len(configurations))
    groups = tuple(_groups(decided))
    return Frontier(box, tuple(decided), groups, time.perf_counter() - start)


def shortest_trace(configuration: Configuration, *, limit: int = 300_000) -> Result:
    """The violation of a configuration by breadth-first search; by happens-before if that takes too many states."""
    result = check(configuration.pipeline(), command="epilogue", engine="search", limit=limit)
    if result.verdict == VIOLATED:
        return result
    return check(configuration.pipeline(), command="epilogue", engine="order")


def _decided(configurations: Sequence[Configuration], processes: int) -> Iterator[Decided]:
    if processes == 1:
        yield from map(decide, configurations)
        return
    with multiprocessing.get_context("fork").Pool(processes) as pool:
        yield from pool.imap(decide, configurations, CHUNK)


def _groups(decided: Iterable[Decided]) -> Iterator[Family]:
    found: dict[tuple[str, bool, bool, bool], list[Decided]] = {}
    for one in decided:
        found.setdefault(one.configuration.group, []).append(one)
    for (schedule, reuse, delay, equal), members in found.items():
        known = [one for one in members if one.verdict != UNDETERMINED]
        points = [one.configuration.numbers for one in known]

        def fit(truth: Sequence[bool], points: Sequence[dict[str, int]] = points) -> Formula | None:
            return simplest(points, truth) if points else None

        yield Family(
            schedule,
            reuse,
            delay,
            equal,
            tuple(members),
            fit([one.safe for one in known]),
            fit([one.safe and one.rejected for one in known]),
            fit([not one.safe and not one.rejected for one in known]),
        )
