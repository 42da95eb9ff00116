"""The answer to `verify log --all-schedules`: every schedule of the programs that a synclog shows.

What was recorded is checked first, as `verify log` does: a run that is not allowed is a violation already. Then the
warps' sequences, with what the log leaves out inferred, are decided as a kernel in PTX is.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Unpack

from sm90_verify.decide.cases import TRACE_SECONDS, Asked, AskedOptions
from sm90_verify.engines.check import check_valid
from sm90_verify.engines.effort import Effort, RanOut, memory_bound
from sm90_verify.frontends.log.assumptions import assumptions
from sm90_verify.frontends.log.check import checked
from sm90_verify.frontends.log.kernel_of_log import LogReading, reading_of
from sm90_verify.frontends.log.synclog import Record, read_log_so_far
from sm90_verify.frontends.log.unexplained import NotShown
from sm90_verify.frontends.ptx.table import kernel_tables
from sm90_verify.result import ALLOWED, PROPERTIES, PROVED, UNDETERMINED, VIOLATED, Finding, Result
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.model.kernel import Kernel, Program

OF_MEMORY = ("race", "missing-fence", "stale-read", "smem-overlap")
"""Properties that rest on accesses that no log shows."""
UNSEEN = (
    "not looked at: shared memory that no load, store or wgmma of the log touches, global memory, setmaxnreg, and the "
    "registers of wgmma"
)


def check_log_schedules(path: str, *, table: bool = False, **asked: Unpack[AskedOptions]) -> Result:
    """Decides every schedule of the programs of a synclog. table: say what the kernel is made of; the other arguments
    are those of `check`; the timeout is one for all of it.

    Raises SpecError with file and line for what is no log.
    """
    start = time.perf_counter()
    options = Asked(**asked)
    _must_be_known(options.properties)
    effort = Effort(options.timeout, options.memory or memory_bound(), options.progress, start)
    records, whole = read_log_so_far(path)
    return _of_records(records, path, options, effort, table=table, whole=whole)


def check_records_schedules(records: Sequence[Record], path: str, *, properties: Sequence[str] = ()) -> Result:
    """As check_log_schedules, on records that are already parsed and without bounds."""
    return _of_records(records, path, Asked(properties), Effort(0.0, memory_bound(), None), table=False)


def _not_shown(what: str) -> str:
    return f"the log does not show {what}"


def _of_records(
    records: Sequence[Record], path: str, options: Asked, effort: Effort, *, table: bool, whole: bool = True
) -> Result:
    start = effort.since
    recorded, replay = checked(records, path, start, whole=whole)
    if recorded.verdict != ALLOWED:
        return _of_the_run(recorded, options.properties)
    try:
        reading = reading_of(replay, path)
        result = _decided(reading, options, effort, table=table)
        notes = (UNSEEN, *assumptions(reading), *result.notes)
    except (NotShown, RanOut) as error:
        because = _not_shown(str(error)) if isinstance(error, NotShown) else str(error)
        findings = tuple(Finding(id, UNDETERMINED, note=because) for id in options.properties or PROPERTIES)
        result, notes = Result("log", path, {}, options.engine, findings), (UNSEEN,)
    return replace(
        result,
        model=path,
        parameters=recorded.parameters,
        scope={"trips": "as logged", "schedules": "all"},
        notes=notes,
        recovered=recorded.recovered,
        seconds=time.perf_counter() - start,
    )


def _must_be_known(properties: Sequence[str]) -> None:
    for id in properties:
        if id not in PROPERTIES:
            raise SpecError(f"unknown property {id!r}: use one of {', '.join(PROPERTIES)}")


def _of_the_run(recorded: Result, properties: Sequence[str]) -> Result:
    """The result where the recorded run is not known to be allowed, for these properties (none: all)."""
    why = "the recorded run" if recorded.verdict == VIOLATED else "the log may not be a whole run"
    note = f"{why}: no other schedule was looked at"
    known = {finding.id: finding for finding in recorded.findings}
    findings = tuple(
        known.get(id, Finding(id, UNDETERMINED, note="nothing is decided after the first violation"))
        for id in properties or known
    )
    return replace(recorded, findings=findings, notes=(*recorded.notes, note))


def _decided(reading: LogReading, options: Asked, effort: Effort, *, table: bool) -> Result:
    """The result on the kernel that a log shows."""
    kernel = reading.kernel(certain=bool(reading.unclear), tick=effort.tick)
    result = _ask(kernel, options, effort)
    if reading.unclear:
        why = _not_shown(reading.unclear)
        findings = [
            replace(one, verdict=UNDETERMINED, note=why) if one.id in OF_MEMORY and one.verdict == PROVED else one
            for one in result.findings
        ]
        result = replace(result, findings=tuple(findings))
    elif result.verdict == VIOLATED and not _alike(kernel, shown := reading.kernel(certain=True, tick=effort.tick)):
        result = _of_what_is_logged(result, _ask(shown, options, effort))
    if reading.starts_unseen:
        why = "the log does not show what orders the initialisation of the mbarriers before their use"
        findings = [
            replace(one, verdict=UNDETERMINED, note=why) if one.id == "barrier-init" and one.verdict == PROVED else one
            for one in result.findings
        ]
        result = replace(result, findings=tuple(findings))
    if reading.grid.size > 1:
        result = replace(result, findings=tuple(of_a_cluster(one) for one in result.findings))
    if table:
        cluster = [(rank, 0, 0) for rank in range(reading.grid.size)]
        result = replace(result, table=kernel_tables([(kernel, cluster)], 0))
    return result


def _alike(kernel: Kernel, shown: Kernel) -> bool:
    """Nothing is inferred of what the kernel does: it is all shown."""
    return kernel.layout == shown.layout and [_doing(one) for one in kernel.programs] == [
        _doing(one) for one in shown.programs
    ]


def _doing(program: Program) -> tuple[object, ...]:
    """All that a program does and where."""
    return (program.name, program.me, [(node.operation, node.distance, node.successors) for node in program.nodes])


def _ask(kernel: Kernel, options: Asked, effort: Effort) -> Result:
    left = max(1e-3, options.timeout - (time.perf_counter() - effort.since)) if options.timeout else 0.0
    return check_valid(
        kernel,
        command="log",
        properties=options.properties,
        engine=options.engine,
        limit=options.limit,
        timeout=left,
        memory=options.memory,
        reduced=options.reduced,
        progress=options.progress,
        trace_seconds=TRACE_SECONDS,
    )


def _of_what_is_logged(result: Result, certain: Result) -> Result:
    """The result with those violations alone that there are without what is inferred; the others are open."""
    known = {finding.id: finding for finding in certain.findings}
    findings = []
    for one in result.findings:
        if one.verdict != VIOLATED:
            findings.append(one)
        elif one.id in known and known[one.id].verdict == VIOLATED:
            findings.append(known[one.id])
        else:
            because = "" if one.trace is None else f": {one.trace.because}"
            note = f"it rests on what the log does not show, and is violated if all that is assumed is so{because}"
            findings.append(replace(one, verdict=UNDETERMINED, trace=None, note=note))
    return replace(result, findings=tuple(findings))


def of_a_cluster(one: Finding) -> Finding:
    """What is violated by CTAs that do not log, or with them, is open."""
    if one.verdict != VIOLATED or one.trace is None:
        return one
    note = f"it is violated if the CTAs that do not log do what block 0 does: {one.trace.because}"
    return replace(one, verdict=UNDETERMINED, trace=None, note=note)
