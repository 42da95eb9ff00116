"""`verify log` on a recording: every run of it is held to the current specification."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass, field

from sm90_verify.counterexample.trace import execute, step_of
from sm90_verify.python_file import load_classes
from sm90_verify.recordings.linearise import Linearise, Order
from sm90_verify.recordings.lower import lower
from sm90_verify.recordings.recording import Recording
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED, Finding, Result, Trace
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.machine import COPIES
from sm90_verify.spec.ptx import operations as op

CHECKED = ("deadlock", "race", "stale-read", "phase-lapped", "arrival-count", "tx-count", "unobserved-phase")
"""What a recorded run can show to be violated."""


@dataclass
class Held:
    """What became of the runs of a recording.

    refused: by number, the runs without an order. taken: steps of the model that some run's order takes, of `steps`.
    waited: waits at which some run had to wait, of `waits`.
    """

    runs: int = 0
    accepted: int = 0
    hung: int = 0
    visited: int = 0
    refused: list[tuple[int, Order]] = field(default_factory=list)
    taken: set[int] = field(default_factory=set)
    steps: int = 0
    missing: list[str] = field(default_factory=list)
    waited: set[tuple[str, int]] = field(default_factory=set)
    waits: int = 0


def hold(recording: Recording) -> Held:
    """Looks for an order of each run that the model allows."""
    pipeline = pipeline_of(recording)
    plan = lower(trace(pipeline))
    machine = compile_kernel(plan.kernel)
    model = Linearise(plan, machine, tolerance=recording.resolution)
    held = Held()
    for number, run in enumerate(recording.runs):
        order = model.order(run)
        held.runs += 1
        held.hung += run.hangs
        held.accepted += order.accepted
        held.visited += order.visited
        if not order.accepted:
            held.refused.append((number, order))
            continue
        held.taken.update(order.actions)
        held.waited |= order.blocked
    held.steps = len(machine.actions)
    held.missing = [
        f"{action.role or COPIES}: {action.op} {action.object}"
        for index, action in enumerate(machine.actions)
        if index not in held.taken
    ]
    held.waits = sum(isinstance(node.operation, op.Wait) for program in plan.programs for node in program.nodes)
    return held


def pipeline_of(recording: Recording) -> Pipeline:
    if recording.file:
        (own,) = load_classes(recording.file, recording.model)
        return own(**recording.parameters)
    kernel = kernels().get(recording.model)
    if kernel is None:
        raise SpecError(f"a recording of {recording.model!r}, which is no kernel of the library")
    names = kernel.parameter_names()
    return kernel(**{name: value for name, value in recording.parameters.items() if name in names})


def check_recording(recording: Recording) -> Result:
    """Proved if the specification allows all runs; a run that hangs or that it does not allow is a violation."""
    start = time.perf_counter()
    held = hold(recording)
    trace, note = None, ""
    if held.hung:
        stuck = next(run for run in recording.runs if run.hangs)
        names = ", ".join(role.name for role in stuck.roles if role.node >= 0)
        trace = Trace("deadlock", f"{held.hung} of {held.runs} runs hang; {names} did not end", ())
    elif held.refused:
        number, order = next(((n, one) for n, one in held.refused if one.complete), held.refused[0])
        if order.complete:
            trace = _trace(recording, order, f"run {number}: {order.because}")
        else:
            note = f"run {number}: {order.because}"
    findings = []
    for id in CHECKED:
        violated = trace is not None and trace.property == id
        verdict = VIOLATED if violated else UNDETERMINED if note or trace is not None else PROVED
        findings.append(Finding(id, verdict, trace if violated else None, note or "a run that is not allowed shows it"))
    notes = (
        f"{recording.gpu.get('name', '?')}: {held.accepted} of {held.runs} runs have an order that the model allows",
        f"{len(held.taken)} of {held.steps} steps of the model were taken, {len(held.waited)} of {held.waits} waits had"
        " to wait",
        *(f"never taken: {what} ({count} times)" for what, count in Counter(held.missing).items()),
    )
    return Result(
        "log",
        recording.model,
        recording.parameters,
        "log",
        tuple(findings),
        {"trips": recording.parameters.get("trips"), "runs": held.runs},
        held.visited,
        seconds=time.perf_counter() - start,
        notes=notes if trace is None else (),
    )


def _trace(recording: Recording, order: Order, because: str) -> Trace:
    """The steps of the order that got furthest."""
    pipeline = pipeline_of(recording)
    machine = compile_kernel(trace(pipeline))
    steps = tuple(step_of(machine, step.action, {}) for step in execute(machine, order.actions).steps)
    return Trace(order.property, because, steps)
