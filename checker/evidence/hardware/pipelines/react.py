"""What the GPU does with the mistakes of kernels/pipelines.cu, each run so that it shows, held to what is predicted."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict, dataclass, replace
from typing import Any

from sm90_verify.evidence.hardware.pipelines.kernel import GIVE_UP, LONG, PipelineKernel
from sm90_verify.evidence.hardware.pipelines.mistakes import Mistake, mistakes
from sm90_verify.evidence.hardware.reactions import FAULTS
from sm90_verify.evidence.hardware.recorder.conform import conform
from sm90_verify.gpu.record import JITTER, resolution
from sm90_verify.recordings.linearise import Linearise
from sm90_verify.recordings.lower import lower
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel

LONGEST = 60.0
"""Seconds for the process of a mistake."""
RECORDED = 5
"""Runs of a kernel with a mistake that are recorded."""
ENOUGH = 95
"""Of 100 runs of a race, in how many wrong words must be seen."""


def variants() -> tuple[Mistake, ...]:
    """The kernels with a mistake; `predict` of each says what the specification makes of it."""
    return mistakes()


@dataclass(frozen=True)
class MistakeReaction:
    """What the GPU did with a mistake in `runs` runs. hangs: in how many the watch gave up. wrong: in how many wrong
    words were read or stored. stuck: the roles that gave up, by set, of all runs. fault: the launch faulted.

    right_wrong, right_hangs: runs, as many and with the same delays, of the kernel without the mistake. unlike: what
    the kernel did, in a few runs that were recorded, that the mistaken model's programs do not do. unordered: for one
    that can only hang, why the mistaken model allows no order of a run's steps.
    """

    runs: int
    hangs: int = 0
    wrong: int = 0
    stuck: tuple[tuple[str, ...], ...] = ()
    fault: str = ""
    right_wrong: int = 0
    right_hangs: int = 0
    unlike: tuple[str, ...] = ()
    unordered: tuple[str, ...] = ()


def react(variant: Mistake, *, runs: int = 100) -> MistakeReaction:
    """Runs a mistake as it is to be run, in a process of its own: a launch that faults takes its process's GPU with it.

    Raises SpecError if the process gives no answer.
    """
    command = [sys.executable, "-m", __spec__.name, str(variants().index(variant)), str(runs)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
    except subprocess.TimeoutExpired:
        return MistakeReaction(runs, fault="the process did not end")
    answer = [line for line in done.stdout.splitlines() if line.startswith('{"runs"')]
    if not answer:
        raise SpecError(f"{variant.label}: {done.stderr.strip()[-500:]}")
    return reaction(json.loads(answer[-1]))


def reaction(words: dict[str, Any]) -> MistakeReaction:
    """From its fields as JSON."""
    plain: dict[str, Any] = {name: tuple(value) if isinstance(value, list) else value for name, value in words.items()}
    plain["stuck"] = tuple(map(tuple, words["stuck"]))
    return MistakeReaction(**plain)


def _react(variant: Mistake, runs: int) -> MistakeReaction:
    model = kernels()[variant.kernel](**variant.parameters)
    found = MistakeReaction(runs)
    if variant.name != "none":
        hangs, wrong, _ = _directed(model, variant, 0, runs)
        found = replace(found, right_wrong=wrong, right_hangs=hangs)
    try:
        hangs, wrong, stuck = _directed(model, variant, variant.number, runs)
    except SpecError as error:
        if "faults" not in error.what:
            raise
        return replace(found, fault=error.what)
    unlike, unordered = _recorded(model, variant)
    return replace(found, hangs=hangs, wrong=wrong, stuck=stuck, unlike=unlike, unordered=unordered)


def _recorded(model: Pipeline, variant: Mistake) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What recorded runs did that the model with the same mistake does not do."""
    mistaken = variant.pipeline()
    plan = lower(trace(mistaken))
    kernel = PipelineKernel(model, record=True, directed=True, wrong=variant.number)
    launch = kernel.run(RECORDED, seed=1, jitter=JITTER, limit=GIVE_UP, holds=variant.holds, flood=variant.flood)
    held = [conform(plan, kernel.shape.names, tapes) for tapes in launch.tapes]
    unlike = tuple(one.because for each in held for one in each.differences)
    if variant.predict().violated != ("deadlock",):
        return unlike, ()
    ordering = Linearise(plan, compile_kernel(plan.kernel), tolerance=resolution(model.shape.size))
    orders = [ordering.order(one.run) for one in held]
    return unlike, tuple(one.because for one in orders if not one.accepted)


def _directed(
    model: Pipeline, variant: Mistake, number: int, runs: int
) -> tuple[int, int, tuple[tuple[str, ...], ...]]:
    """Runs that hang, runs with wrong words, and the sets of roles that were stuck."""
    kernel = PipelineKernel(model, directed=True, wrong=number)
    limit = GIVE_UP if number or variant.name == "none" else LONG
    launch = kernel.run(runs, limit=limit, holds=variant.holds, flood=variant.flood)
    homes = [model.shape.home(cta) for cta in range(model.shape.size)]
    stuck = launch.stuck(kernel.shape.names, homes)
    return sum(bool(one) for one in stuck), sum(kernel.wrong(launch)), tuple(sorted({one for one in stuck if one}))


def contradicts(variant: Mistake, reaction: MistakeReaction) -> str:
    """What the GPU did that the prediction rules out, or nothing."""
    seen = f"{reaction.hangs} runs of {reaction.runs} hang, {reaction.wrong} are wrong"
    if reaction.right_wrong or reaction.right_hangs:
        return f"without the mistake, {reaction.right_hangs} runs hang and {reaction.right_wrong} are wrong"
    if reaction.unlike or reaction.unordered:
        return (reaction.unlike or reaction.unordered)[0]
    prediction = variant.predict()
    match variant.shows:
        case "hang":
            stuck = tuple(sorted(prediction.stuck))
            if reaction.hangs < reaction.runs:
                return f"a deadlock, and {seen}"
            if any(one != stuck for one in reaction.stuck):
                return f"stuck are to be {', '.join(stuck)}, and {', '.join(reaction.stuck[0])} are"
        case "wrong":
            if reaction.fault and set(prediction.violated) & set(FAULTS):
                return ""  # what the same mistake may come to where it is run a little differently
            if 100 * reaction.wrong < ENOUGH * reaction.runs:
                return f"a race, and {seen}"
        case "fault":
            if not reaction.fault:
                return f"an access to a CTA that has ended, and {seen}"
    return ""


if __name__ == "__main__":
    print(json.dumps(asdict(_react(variants()[int(sys.argv[1])], int(sys.argv[2])))))
