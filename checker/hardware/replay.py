"""`verify replay --hardware`: a counterexample's schedule on the GPU, and whether it does there what it predicts."""

from __future__ import annotations

import json
from dataclasses import replace

from checker.hardware.directed import directions, race_directions, wrong_data
from checker.hardware.lower import Plan, lower
from checker.hardware.run import Executor, Run, observed
from checker.replay import pipeline_of, trace_of
from checker.result import Result
from spec.compile import compile_programs
from spec.words import words_of

LIMIT = 3_000_000
"""Nanoseconds after which a wait of a directed run gives up."""


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
    plan = lower(pipeline)
    machine = compile_programs(pipeline, plan.programs)
    numbers = {action.name: index for index, action in enumerate(machine.actions)}
    schedule = [numbers[step.action] for step in trace.steps]
    executor = Executor(plan)
    if trace.property == "deadlock":
        for way in [way for way in directions(plan, machine, schedule) if not way.held]:
            done = executor.run(runs, limit=LIMIT, roles=way.roles)
            if all(run.steps >= way.steps for run in done):
                break
        seen = observed(done)
        where = next((_positions(plan, run) for run in done if run.hangs), ())
        predicted = tuple(sorted(blocked.role for blocked in trace.blocked))
        same = sum(stuck == predicted for stuck in seen.stuck)
        note = (
            f"on the GPU: {seen.hangs} of {runs} runs hang, {same} of them with {', '.join(predicted)} stuck, as"
            " predicted"
        )
        return replace(result, notes=(*result.notes, note, *where))
    ways = race_directions(plan, machine, schedule)
    best = (-1, 0, ways[0], "")
    for way in ways:
        done = executor.run(runs, limit=LIMIT, roles=way.roles)
        found = [wrong_data(plan, run) for run in done]
        wrong = sum(map(bool, found))
        if wrong > best[0]:
            best = (wrong, observed(done).hangs, way, next((one for one in found if one), ""))
        if wrong == runs:
            break
    wrong, hangs, way, example = best
    note = f"on the GPU: wrong data in {wrong} of {runs} runs" + (f", {way.held} held back" if way.held else "")
    note += ", copies in flight made late" if way.late else ""
    note += (f"; {example}" if example else "") + (f"; {hangs} runs hang" if hangs else "")
    return replace(result, notes=(*result.notes, note))


def _positions(plan: Plan, run: Run) -> tuple[str, ...]:
    """Where each role was when the watch gave up."""
    found = []
    for role in run.roles:
        place = "at its end"
        if role.node >= 0:
            node = plan.nodes[role.name][role.node]
            place = f"{' '.join(words_of(node)).strip()}  {node.source}"
        found.append(f"{role.name}: {place}")
    return tuple(found)
