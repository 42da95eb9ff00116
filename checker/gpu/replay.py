"""`verify replay --hardware`: a counterexample's schedule on the GPU, and whether it does there what it predicts."""

from __future__ import annotations

import json
from dataclasses import replace

from sm90_verify.counterexample.replay import pipeline_of, trace_of
from sm90_verify.gpu.directed import deadlock_directions, race_directions
from sm90_verify.gpu.executor import Executor
from sm90_verify.gpu.ways import go_wrong, take
from sm90_verify.recordings.lower import lower
from sm90_verify.recordings.plan import ExecutorPlan
from sm90_verify.recordings.run import GpuRun, observed
from sm90_verify.result import Result
from sm90_verify.spec.language import walk
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.words import words_of


def replay_on_gpu(path: str, result: Result, runs: int) -> Result:
    """The result of the replay on the model, with what the GPU did in its notes.

    A deadlock is run as the schedule says; of a race every way to hold a role at its end is tried, and the one that
    showed wrong words most often is told. The pipeline must have a trip count: SpecError for what the executor cannot
    do, and if there is no Hopper GPU.
    """
    with open(path, encoding="utf-8") as file:
        written = json.load(file)
    pipeline = pipeline_of(written["model"], written["command"])
    trace = trace_of(written["trace"])
    plan = lower(walk.trace(pipeline))
    machine = compile_kernel(plan.kernel)
    numbers = {action.name: index for index, action in enumerate(machine.actions)}
    schedule = [numbers[step.action] for step in trace.steps]
    executor = Executor(plan)
    if trace.property == "deadlock":
        tried = take(executor, deadlock_directions(plan, machine, schedule), runs)
        followed = [run for run in tried.done if run.steps >= tried.way.steps]
        seen = observed(followed)
        where = next((_positions(plan, run) for run in followed if run.hangs), ())
        predicted = tuple(sorted(blocked.role for blocked in trace.blocked))
        same = sum(stuck == predicted for stuck in seen.stuck)
        note = f"on the GPU: {tried.taken} of {runs} runs took the schedule to its end"
        note += f"; {seen.hangs} of these hang, {same} of them with {', '.join(predicted)} stuck, as predicted"
        return replace(result, notes=(*result.notes, note, *where))
    tried = go_wrong(executor, race_directions(plan, machine, schedule), plan, runs)
    way, hangs = tried.way, observed(tried.done).hangs
    example = next((one for one in tried.wrong if one), "")
    note = f"on the GPU: wrong data in {sum(map(bool, tried.wrong))} of {runs} runs"
    note += (f", {way.held} held back" if way.held else "") + (", copies in flight made late" if way.late else "")
    note += (f"; {example}" if example else "") + (f"; {hangs} runs hang" if hangs else "")
    return replace(result, notes=(*result.notes, note))


def _positions(plan: ExecutorPlan, run: GpuRun) -> tuple[str, ...]:
    """Where each role was when the watch gave up."""
    found = []
    for role in run.roles:
        place = "at its end"
        if role.node >= 0:
            node = plan.nodes[role.name][role.node]
            place = f"{' '.join(words_of(node)).strip()}  {node.source}"
        found.append(f"{role.name}: {place}")
    return tuple(found)
