"""`verify log` on a recording: every run of it is held to the current specification."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from sm90_verify.counterexample.trace import execute, reason, step_of
from sm90_verify.python_file import load_classes
from sm90_verify.recordings.linearise import Linearise, Order
from sm90_verify.recordings.lower import lower
from sm90_verify.recordings.plan import ExecutorPlan
from sm90_verify.recordings.recording import Recording
from sm90_verify.recordings.whole import must_fit
from sm90_verify.result import ALLOWED, UNDETERMINED, VIOLATED, Finding, Note, Result, Trace
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.errors import SpecError, placed
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.machine import COPIES, Machine
from sm90_verify.spec.ptx import operations as op

CHECKED = ("deadlock", "race", "stale-read", "phase-lapped", "arrival-count", "tx-count", "unobserved-phase")
"""What a recorded run can show to be violated."""


@dataclass
class Acceptance:
    """Which runs of a recording the model accepts: those of which it allows an order.

    refused: by number, the runs without an order. noted: of those whose every order has what only a strict kernel
    violates, by number, where it happens. taken: steps of the model that some run's order takes, of `steps`.
    waited: waits at which some run had to wait, of `waits`.
    """

    runs: int = 0
    accepted: int = 0
    hung: int = 0
    visited: int = 0
    refused: list[tuple[int, Order]] = field(default_factory=list)
    noted: list[tuple[int, Note]] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)
    steps: int = 0
    missing: list[str] = field(default_factory=list)
    waited: set[tuple[str, int]] = field(default_factory=set)
    waits: int = 0


def acceptance_of(recording: Recording) -> Acceptance:
    """Looks for an order of each run that the model allows. Raises SpecError with the line for what are no whole runs
    of the model.
    """
    plan = plan_of(recording)
    must_fit(recording, plan)
    machine = compile_kernel(plan.kernel)
    model = Linearise(plan, machine, tolerance=recording.resolution)
    tolerant: Linearise | None = None
    found = Acceptance()
    for number, run in enumerate(recording.runs):
        order = model.order(run)
        if not order.accepted and not plan.kernel.rules.strict:
            if tolerant is None:
                tolerant = Linearise(plan, compile_kernel(plan.kernel.allowing()), tolerance=recording.resolution)
            order = tolerant.order(run)
            found.noted += [(number, note) for note in _noted(machine, order)]
        found.runs += 1
        found.hung += run.hangs
        found.accepted += order.accepted
        found.visited += order.visited
        if not order.accepted:
            found.refused.append((number, order))
            continue
        found.taken.update(order.actions)
        found.waited |= order.blocked
    found.steps = len(machine.actions)
    found.missing = [
        f"{action.role or COPIES}: {action.op} {action.object}"
        for index, action in enumerate(machine.actions)
        if index not in found.taken
    ]
    found.waits = sum(isinstance(node.operation, op.Wait) for program in plan.programs for node in program.nodes)
    return found


def _noted(machine: Machine, order: Order) -> list[Note]:
    """The first step of an order that is allowed and that only a strict kernel would not take."""
    if not order.accepted:
        return []
    for step in execute(machine, order.actions).steps:
        for check in step.violated:
            source = step.action.source
            return [Note(check.property, reason(check, step.before), step.action.role, source.file, source.line)]
    raise AssertionError("an order that was refused violates nothing")


def plan_of(recording: Recording) -> ExecutorPlan:
    """What was executed; SpecError with the line of the head if nothing can have been."""
    try:
        with placed(recording.where if recording.file else None):
            return lower(trace(pipeline_of(recording)))
    except SpecError as error:
        if recording.file:
            raise
        raise SpecError(f"no kernel that was recorded: {error.what}; record it again", recording.where) from None


def pipeline_of(recording: Recording) -> Pipeline:
    if recording.file:
        (own,) = load_classes(recording.file, recording.model)
        return own(**recording.parameters)
    kernel = kernels().get(recording.model)
    if kernel is None:
        raise SpecError(f"a recording of {recording.model!r}, which is no kernel of the library")
    return kernel(**recording.parameters)


def check_recording(recording: Recording) -> Result:
    """Proved if the specification allows all runs; a run that hangs or that it does not allow is a violation."""
    start = time.perf_counter()
    found = acceptance_of(recording)
    trace, note = None, ""
    if found.hung:
        stuck = next(run for run in recording.runs if run.hangs)
        names = ", ".join(role.name for role in stuck.roles if role.node >= 0)
        which = f"{names} did not end" if names else "which roles did not end is not recorded"
        trace = Trace("deadlock", f"{found.hung} of {found.runs} runs hang; {which}", ())
    elif found.refused:
        number, order = next(((n, one) for n, one in found.refused if one.complete), found.refused[0])
        if order.complete:
            trace = _trace(recording, order, f"run {number}: {order.because}")
        else:
            note = f"run {number}: {order.because}"
    findings = []
    noted = {note.property for _, note in found.noted}
    for id in CHECKED:
        if id in noted:
            continue
        violated = trace is not None and trace.property == id
        verdict = VIOLATED if violated else UNDETERMINED if note or trace is not None else ALLOWED
        findings.append(Finding(id, verdict, trace if violated else None, note or "a run that is not allowed shows it"))
    notes = (
        f"{recording.gpu.get('name', '?')}: {found.accepted} of {found.runs} runs have an order that the model allows",
        f"{len(found.taken)} of {found.steps} steps of the model were taken, "
        f"{len(found.waited)} of {found.waits} waits had to wait",
        *(f"never taken: {what} ({count} times)" for what, count in Counter(found.missing).items()),
    )
    return Result(
        "log",
        recording.model,
        recording.parameters,
        "log",
        tuple(findings),
        {"trips": recording.parameters.get("trips"), "runs": found.runs},
        found.visited,
        seconds=time.perf_counter() - start,
        notes=notes if trace is None else (),
        noted=tuple({note.property: note for _, note in reversed(found.noted)}.values()),
    )


def _trace(recording: Recording, order: Order, because: str) -> Trace:
    """The steps of the order that got furthest."""
    machine = compile_kernel(trace(pipeline_of(recording)))
    steps = tuple(step_of(machine, step.action, {}) for step in execute(machine, order.actions).steps)
    return Trace(order.property, because, steps)
