"""The answer to `verify log`: is what a CUTLASS synclog recorded a behaviour that the spec allows.

The log is parsed (synclog), its barriers are recovered (table), the programs of its warps are compared
(shape), and an order of all effects is built on the barriers of spec.ptx.mbarrier (order) while every access to
shared memory that the log shows is checked against it (access). The first entry that no order explains is the
violation.
"""

from __future__ import annotations

import os
import time
from collections.abc import Container, Sequence

from sm90_verify.frontends.log.addresses import check_addresses
from sm90_verify.frontends.log.hung import at_the_end, hung_trace, why_open
from sm90_verify.frontends.log.order import Replay
from sm90_verify.frontends.log.shape import check_after, check_before
from sm90_verify.frontends.log.synclog import FIELDS, Record, read_log_so_far
from sm90_verify.frontends.log.table import BarrierTable, RecoveredArray, RecoveredRing, recover
from sm90_verify.frontends.log.unexplained import Unexplained
from sm90_verify.result import (
    ALLOWED,
    UNDETERMINED,
    VIOLATED,
    BarrierRow,
    Finding,
    Note,
    Recovered,
    Result,
    RoleRow,
    Trace,
    TraceStep,
)
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.model.properties import PROPERTIES
from sm90_verify.spec.ptx.limits import WARP

CHECKED = tuple(name for name in PROPERTIES if name not in ("register-pool", "register-hazard"))
"""What a log can show to be violated; it records neither setmaxnreg nor who touches which registers."""


def check_log(path: str) -> Result:
    """Checks the synclog at `path`, plain or compressed with gzip or xz.

    The verdict covers this one run of the kernel, as far as it was logged: block 0, lane 0 of each warp. A log that
    shows nothing, or that may lack its end, is undetermined. Raises SpecError with file and line if it is no synclog.
    """
    if not isinstance(path, str | os.PathLike):
        raise SpecError(f"{str(path)[:40]} is no name of a file: give check_log the path of a synclog")
    path = os.fspath(path)
    started = time.perf_counter()
    records, whole = read_log_so_far(path)
    return checked(records, path, started, whole=whole)[0]


def check_records(records: Sequence[Record], path: str, started: float | None = None) -> Result:
    """As check_log, on records that are already parsed."""
    return checked(records, path, started)[0]


def checked(
    records: Sequence[Record], path: str, started: float | None = None, *, whole: bool = True
) -> tuple[Result, Replay]:
    """As check_records, with the replay that it rests on. whole: the log has its end; without it, nothing more is found
    than that nobody can go on.
    """
    started = time.perf_counter() if started is None else started
    table = recover(records)
    replay = Replay(records, table)
    trace, unfinished = None, ""
    hung = at_the_end(records, table)
    try:
        judge(replay)
        check_addresses(records, path)
    except Unexplained as violation:
        trace = _trace(violation, records, table, path)
    found = trace if trace is not None and trace.property == "deadlock" else None
    told = found is not None and any(one.record.line == found.steps[-1].line for one in hung.standing)
    if hung.stuck or (whole and told):
        trace = hung_trace(hung, table.roles, path, () if found is None else found.steps)
    elif not whole:
        trace, unfinished = None, f"the text has no `synclog end`, and {why_open(hung)}"
    elif trace is None:
        unfinished = replay.unfinished()
    result = Result(
        command="log",
        model=path,
        parameters={"entries": len(records), "threads": WARP * len(replay.warps)},
        engine="log",
        findings=_findings(trace, unfinished, replay.noted),
        scope={"trips": "this run", "block": 0, "lanes": "lane 0 of each warp"},
        states=len(replay.witness),
        transitions=len(records),
        seconds=time.perf_counter() - started,
        notes=_notes(records, table, replay) if trace is None else (),
        recovered=Recovered(_barriers(table, replay), _roles(table)),
        noted=tuple(_note(id, *what, records, table, path) for id, what in replay.noted.items()),
    )
    return result, replay


def judge(replay: Replay) -> None:
    """All checks of a log, in the order in which they are most telling; raises Unexplained."""
    check_before(replay.records, replay.program, replay.table)
    replay.run()
    check_after(replay.records, replay.program, replay.table, replay.last_phase)


def _findings(trace: Trace | None, unfinished: str, noted: Container[str]) -> tuple[Finding, ...]:
    checked = [name for name in CHECKED if name not in noted]
    if unfinished:
        return tuple(Finding(name, UNDETERMINED, note=unfinished) for name in checked)
    if trace is None:
        return tuple(Finding(name, ALLOWED) for name in checked)
    return tuple(
        Finding(name, VIOLATED, trace)
        if name == trace.property
        else Finding(name, UNDETERMINED, note="nothing is decided after the first violation")
        for name in checked
    )


# ---------------------------------------------------------------- the violation


def _trace(violation: Unexplained, records: Sequence[Record], table: BarrierTable, path: str) -> Trace:
    """The entries that explain the violation, in the order of the log, and the guilty one last."""
    related = sorted({index for index in violation.related if index != violation.record})
    steps = [_step(records[index], table, path) for index in (*related, violation.record)]
    line = records[violation.record].line
    return Trace(violation.property, f"{violation.because} (line {line})", tuple(steps))


def _step(record: Record, table: BarrierTable, path: str) -> TraceStep:
    values = dict(zip(FIELDS[record.kind], record.values, strict=True))
    address = values.pop("smem_addr", values.pop("smem_int_mbar", None))
    name = "" if address is None else table.name.get(address, f"barrier at {address}")
    details = " ".join(f"{field}={value}" for field, value in values.items())
    return TraceStep(
        role=f"warp {record.warp} ({table.roles.get(record.warp, 'idle')})",
        op=f"{record.kind} {details}".strip(),
        object=name,
        file=path,
        line=record.line,
        things=(name,) if name else (),
    )


def _note(id: str, index: int, because: str, records: Sequence[Record], table: BarrierTable, path: str) -> Note:
    step = _step(records[index], table, path)
    return Note(id, because, step.role, path, step.line)


# ---------------------------------------------------------------- what was recovered


def _barriers(table: BarrierTable, replay: Replay) -> tuple[BarrierRow, ...]:
    """One row per array of barriers."""
    return tuple(
        _row(ring, part, array, table, replay)
        for ring in table.rings
        for part, array in (("full" if ring.empty else "order", ring.full), ("empty", ring.empty))
        if array is not None
    )


def _row(ring: RecoveredRing, part: str, array: RecoveredArray, table: BarrierTable, replay: Replay) -> BarrierRow:
    arrivals = array.arrivals if array.arrivers else None
    return BarrierRow(
        ring.name,
        ring.pipeline,
        part,
        stages=len(array.addresses),
        first=array.addresses[0],
        count=array.count,
        logged=arrivals.logged + arrivals.leaders if arrivals else 0,
        lanes=arrivals.lanes if arrivals else 0,
        unseen=arrivals.unseen if arrivals else 0,
        arrives=_role_names(array.arrivers, table),
        waits=_role_names(array.waiters, table),
        bytes=ring.bytes if part == "full" else 0,
        phases=sum(replay.barriers[address].completed for address in array.addresses),
    )


def _role_names(warps: Sequence[int], table: BarrierTable) -> tuple[str, ...]:
    return tuple(dict.fromkeys(table.roles.get(warp, "idle") for warp in warps))


def _roles(table: BarrierTable) -> tuple[RoleRow, ...]:
    roles: dict[str, list[int]] = {}
    for warp, role in table.roles.items():
        roles.setdefault(role, []).append(warp)
    return tuple(RoleRow(role, tuple(warps)) for role, warps in roles.items())


def _notes(records: Sequence[Record], table: BarrierTable, replay: Replay) -> tuple[str, ...]:
    """What was inferred and what the log cannot show."""
    notes = [
        "logged: block 0 and lane 0 of each warp; ordinary loads and stores, cluster barriers and setmaxnreg are not"
    ]
    for ring in table.rings:
        for part, array in (("full", ring.full), ("empty", ring.empty)):
            if array is None or array.arrivals is None or not array.arrivers:
                continue
            found = array.arrivals
            sums = [f"{found.leaders} x 1"] * bool(found.leaders) + [f"{found.logged} x {found.lanes}"] * bool(
                found.logged
            )
            text = (
                f"{ring.name} {part if ring.empty else 'order'}: {array.count} arrivals = {' + '.join(sums)} inferred"
            )
            if found.unseen:
                text += f", {found.unseen} per phase from CTAs that do not log"
            notes.append(text)
    if table.box_bytes:
        sizes = ", ".join(f"{size} B" for size in table.box_bytes.values())
        notes.append(
            f"bytes of a TMA load, by tensor map, inferred from what the phases expect and the stages' spacing: {sizes}"
        )
    if table.cluster:
        notes.append(
            "a cluster: multicast loads of other CTAs are not logged, so only the sum of a phase's bytes is known"
        )
    if not replay.has_sync:
        notes.append("no __syncthreads is logged: that the initialisation is visible to the other warps is assumed")
    if replay.accesses.store_meetings and not any(r.kind == "fence_view_async_shared" for r in records):
        notes.append(
            "no fence.proxy.async is logged: the TMA stores are right only if the async proxy wrote their bytes"
        )
    return tuple(notes)
