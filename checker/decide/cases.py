"""The answer of the engines on one case of a launch: clusters of which one has been executed."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from sm90_verify.engines.check import check_valid
from sm90_verify.engines.effort import Effort, Told
from sm90_verify.engines.engine import Bounds
from sm90_verify.engines.order import is_beyond_search
from sm90_verify.engines.table import DEFAULT
from sm90_verify.frontends.ptx.execute import ClusterRun
from sm90_verify.frontends.ptx.lane_races import lane_races
from sm90_verify.frontends.ptx.launch import Block
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED, Finding, Result, worst
from sm90_verify.spec.errors import Source
from sm90_verify.spec.model.kernel import Kernel
from sm90_verify.spec.model.properties import UNORDERED
from sm90_verify.spec.ptx.needs import ORDERED, TOGETHER

TRACE_SECONDS = 0.6
"""For a shorter schedule of a violation, unless it is asked otherwise."""
MOST_LOCATIONS = 1_000
"""Of a kernel that is searched without a bound, where its loops or a hang may have no end."""
MOST_STATES = 100_000
"""That are searched of it, unless it is asked otherwise."""


class LaunchCase(NamedTuple):
    """Clusters whose warps do the same. first: the CTAs of the first of them; clusters: how many there are."""

    first: tuple[Block, ...]
    clusters: int
    execution: ClusterRun


class Kept(NamedTuple):
    """A case, and its kernel."""

    case: LaunchCase
    kernel: Kernel


class AskedOptions(Bounds, total=False):
    """The fields of Asked."""

    properties: Sequence[str]
    engine: str
    progress: Told | None
    trace_seconds: float


class Asked(NamedTuple):
    """What is asked about each case of a launch, as the arguments of `check` say it."""

    properties: Sequence[str] = ()
    engine: str = DEFAULT
    limit: int = 0
    timeout: float = 0.0
    memory: int = 0
    reduced: bool = True
    progress: Told | None = None
    trace_seconds: float = TRACE_SECONDS


def of_case(case: LaunchCase, kernel: Kernel, asked: Asked, effort: Effort) -> Result:
    """The result on a case, of which this is the kernel."""
    stuck = case.execution.stuck
    if stuck is None or asked.engine != DEFAULT:
        result = _checked(kernel, asked, effort)
    else:
        result = _checked(kernel, asked._replace(engine="order", limit=0, reduced=True), effort)
        small = sum(len(program.nodes) for program in kernel.programs) <= MOST_LOCATIONS
        bounded = asked.limit or asked.timeout or (small and not is_beyond_search(kernel, effort))
        if result.verdict == UNDETERMINED and not effort.ran_out() and bounded:
            searched = _checked(kernel, asked._replace(engine="search", limit=asked.limit or MOST_STATES), effort)
            result = searched if searched.verdict == VIOLATED else result
    result = result if stuck is None else _of_a_hang(result, stuck, _waiting(case.execution))
    if case.execution.parted:
        return _of_parted(result)
    return of_lane_races(result, case.execution, asked.properties)


def _checked(kernel: Kernel, asked: Asked, effort: Effort) -> Result:
    left = max(1e-3, asked.timeout - (time.perf_counter() - effort.since)) if asked.timeout else 0.0
    return check_valid(
        kernel,
        command="ptx",
        properties=asked.properties,
        engine=asked.engine,
        limit=asked.limit,
        timeout=left,
        memory=asked.memory,
        reduced=asked.reduced,
        progress=asked.progress,
        trace_seconds=asked.trace_seconds,
    )


def _waiting(execution: ClusterRun) -> str:
    """Which warps wait at which lines where the kernel cannot go on."""
    found: dict[int, dict[str, None]] = {}
    for cta in execution.cluster.ctas:
        for warp in cta.warps:
            for _, event in warp.left:
                if event is not None:
                    found.setdefault(execution.code.function.code[event.number].line, {})[warp.name] = None
    lines = [f"{', '.join(names)} at line {line}" for line, names in found.items()]
    return "; ".join(lines[:4]) + ("; …" if len(lines) > 4 else "")


def _of_a_hang(result: Result, stuck: Source, waiting: str) -> Result:
    """The result on a kernel that cannot go on in the run that was made: what it would have done then is not known. So
    what is not violated is open; and that arrivals never come says no more than that it hangs. An arrival too many has
    come before that place, in a schedule of the kernel.
    """
    note = (
        f"the kernel cannot go on at {stuck} in some schedule ({waiting}), and what would come then was not looked at"
    )
    findings = tuple(
        finding
        if finding.verdict == VIOLATED and (finding.id != "arrival-count" or _is_at_a_step(finding))
        else replace(finding, verdict=UNDETERMINED, trace=None, note=note)
        for finding in result.findings
    )
    return replace(result, findings=findings)


def _is_at_a_step(finding: Finding) -> bool:
    """It is shown by what is executed, and not by who waits for ever."""
    return finding.trace is not None and not finding.trace.blocked


def _of_parted(result: Result) -> Result:
    """The result on a kernel of which threads execute alone what others must execute with them: no more than that is
    known of it.
    """
    parted = any(one.id == TOGETHER.property and one.verdict == VIOLATED for one in result.findings)
    note = "threads do not execute together what they must, and what follows is undefined"
    findings = tuple(
        one if one.id == TOGETHER.property and parted else replace(one, verdict=UNDETERMINED, trace=None, note=note)
        for one in result.findings
    )
    return replace(result, findings=findings)


def of_lane_races(result: Result, execution: ClusterRun, properties: Sequence[str] = ()) -> Result:
    """The result on a kernel of which lanes that are one role may race with each other, as the engines do not see: what
    they have proved of accesses is open then.
    """
    unordered = [one for one in result.findings if one.id in UNORDERED]
    if unordered and not any(one.verdict == PROVED for one in unordered):
        return result
    pairs = lane_races(execution)
    if not pairs:
        return result
    more = len(pairs) - 1
    others = "" if not more else f" (and {more} more such {'pair' if more == 1 else 'pairs'} of accesses)"
    note = pairs[0].said([one.line for one in execution.code.function.code]) + others
    findings = tuple(
        replace(one, verdict=UNDETERMINED, note=note) if one.id in UNORDERED and one.verdict == PROVED else one
        for one in result.findings
    )
    race, known = ORDERED.property, {one.id for one in findings}
    if race not in known and race in (properties or UNORDERED):  # an engine leaves out what no two roles can violate
        findings = (*findings, Finding(race, UNDETERMINED, note=note))
    return replace(result, findings=findings)


def together(results: Sequence[Result]) -> Result:
    """The worst of several, by property; the first that violates anything leads."""
    lead = next((one for one in results if one.verdict == worst(two.verdict for two in results)), results[0])
    ids = dict.fromkeys(finding.id for one in results for finding in one.findings)
    findings = []
    for id in ids:
        some = [finding for one in (lead, *results) for finding in one.findings if finding.id == id]
        verdict = worst(finding.verdict for finding in some)
        findings.append(next(finding for finding in some if finding.verdict == verdict))
    return replace(
        lead,
        findings=tuple(findings),
        states=sum(one.states for one in results),
        transitions=sum(one.transitions for one in results),
        events=sum(one.events for one in results),
        notes=tuple(dict.fromkeys(note for one in results for note in one.notes)),
        noted=tuple(dict.fromkeys(note for one in results for note in one.noted)),
    )
