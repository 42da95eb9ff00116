"""How few WGMMAs a mainloop must have waited for before it releases a stage: found by proofs and refutations."""

from __future__ import annotations

import time
from typing import Any, Unpack

from sm90_verify.engines.check import check
from sm90_verify.engines.effort import Told
from sm90_verify.engines.engine import Bounds
from sm90_verify.engines.table import DEFAULT
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED, Finding, Result
from sm90_verify.spec.cutlass.mainloop import Mainloop
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.limits import MMA_GROUPS

RANGE = 4
"""Stages up to which to go unless it is said otherwise."""


def minimal_wait(
    sizes: dict[str, Any],
    *,
    most: int = RANGE,
    in_flight: int | None = None,
    engine: str = DEFAULT,
    progress: Told | None = None,
    **bounds: Unpack[Bounds],
) -> Result:
    """The largest wait_group<N> before a release that is safe, for each number of k-tiles in flight and stages.

    sizes: the other parameters of the mainloops. Goes through all stages from 2 to `most` and, for the ss form,
    through all K_PIPE_MMAS below the stages (or only `in_flight`), and tries every N. Proved if everywhere an N was
    proved and the next one refuted. engine, bounds, progress: of each check.
    """
    start, states, transitions = time.perf_counter(), 0, 0
    notes: list[str] = []
    if most < 2:
        raise SpecError("--stages: --minimal-wait needs 2 or more")
    lags = (1,) if sizes.get("form") == "rs" else range(1, min(most, MMA_GROUPS)) if in_flight is None else (in_flight,)
    worst = PROVED
    smallest: dict[int, int] = {}
    for lag in lags:
        for stages in range(max(2, lag + 1), most + 1):
            safe, why = -1, f"every N up to {MMA_GROUPS - 1} is safe"
            for pending in range(MMA_GROUPS):
                model = Mainloop(**sizes, stages=stages, mmas_in_flight=lag, pending=pending)
                result = check(model, command="mainloop", engine=engine, progress=progress, **bounds)
                states, transitions = states + result.states, transitions + result.transitions
                if result.verdict != PROVED:
                    trace = result.trace
                    why = f"{pending} is {result.verdict}" + (f": {trace.because}" if trace is not None else "")
                    worst = UNDETERMINED if result.verdict == UNDETERMINED else worst
                    break
                safe = pending
            smallest[lag] = min(smallest.get(lag, MMA_GROUPS), safe)
            text = "" if sizes.get("form") == "rs" else f"K_PIPE_MMAS={lag} "
            found = f"wait_group<{safe}> is safe" if safe >= 0 else "no wait is safe"
            notes.append(f"stages={stages} {text}{found}, {why}")
    if not smallest:
        raise SpecError(f"--mmas-in-flight {in_flight}: needs more stages than {most}")
    if min(smallest.values()) < 0:
        worst = VIOLATED
    for lag, safe in smallest.items():
        what = "rs form" if sizes.get("form") == "rs" else f"K_PIPE_MMAS={lag}"
        found = f"wait_group<{safe}>" if safe >= 0 else "none"
        notes.append(f"minimal wait, {what}: {found}, for every number of stages up to {most}")
    scope = {"trips": sizes.get("k_tiles", "all"), "stages": most}
    return Result(
        "mainloop",
        "mainloop",
        {"stages": most, **sizes},
        engine,
        (Finding("race", worst, note="not every N was decided" if worst == UNDETERMINED else ""),),
        scope,
        states,
        transitions,
        time.perf_counter() - start,
        tuple(notes),
        shown=("stages",),
    )
