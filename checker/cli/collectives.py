"""The commands epilogue, mainloop and gemm: from their options to a model and its parameters."""

from __future__ import annotations

import argparse
import time
from typing import Any

from sm90_verify.cli.usage import UsageError
from sm90_verify.engines.check import check
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED, Finding, Result
from sm90_verify.spec.cutlass.builder import parameters
from sm90_verify.spec.cutlass.epilogue import Epilogue
from sm90_verify.spec.cutlass.gemm import SCHEDULES
from sm90_verify.spec.cutlass.mainloop import Mainloop
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.ptx.limits import MMA_GROUPS

KERNELS: tuple[type[Pipeline], ...] = (Mainloop, Epilogue, *SCHEDULES.values())
MODELS = {str(vars(kernel)["_label"]): kernel for kernel in KERNELS}
"""By the name that results carry."""

ALWAYS_SHOWN = {
    "epilogue": ("schedule", "stages_c", "stages_d", "reuse_smem_c", "delay_tma_store", "subtiles"),
    "mainloop": ("stages", "form", "mmas_in_flight"),
    "gemm": ("stages", "k_tiles", "stages_c", "stages_d", "reuse_smem_c", "subtiles"),
}
RANGE = 4
"""Stages up to which --minimal-wait goes unless --stages says otherwise."""


def choose(options: argparse.Namespace) -> tuple[type[Pipeline], dict[str, Any], tuple[str, ...]]:
    """The model that the options ask for, its parameters, and those of them that the summary shows."""
    given = _given(options)
    if options.command == "gemm":
        kernel: type[Pipeline] = SCHEDULES[options.schedule]
        settings = {**_built(options), **given}
        if options.schedule == "ws" and given.get("tiles", 1) != 1:
            raise UsageError("--tiles: the ws kernel has one output tile")
        settings.pop("tiles" if options.schedule == "ws" else "", None)
    elif options.command == "epilogue":
        kernel = Epilogue
        reuse = given.get("reuse_smem_c", False)
        settings = {"subtiles": 4, **given, "reuse_smem_c": reuse}
        settings.setdefault("bytes_d", settings.get("bytes_c", Epilogue.bytes_d))
        settings.setdefault("bytes_c", settings["bytes_d"])
    else:
        kernel, settings = Mainloop, given
    shown = (*ALWAYS_SHOWN[options.command], *(name for name in given if name != "tiles"))
    return kernel, settings, tuple(dict.fromkeys((*shown, *(("tiles",) if "tiles" in settings else ()))))


def _given(options: argparse.Namespace) -> dict[str, Any]:
    """The options that are parameters of a model and were given."""
    names = {name for kernel in MODELS.values() for name in kernel.parameter_names()}
    values = {
        name: value
        for name, value in vars(options).items()
        if name in names and value is not None and name != "without" and not (name == "schedule" and "tile" in options)
    }
    return {**values, **({"without": ",".join(options.without)} if options.without else {})}


def _built(options: argparse.Namespace) -> dict[str, Any]:
    """What the builder chooses; without reuse or with it, if the options say so, for the same types."""
    found = parameters(options.schedule, options.tile, bits_c=0 if options.void_c else 16)
    found.setdefault("tiles", 1)
    return found


def minimal_wait(options: argparse.Namespace) -> Result:
    """The largest wait_group<N> before a release that is safe, for each number of k-tiles in flight and stages.

    Goes through all stages from 2 to --stages (4) and, for the ss form, through all K_PIPE_MMAS below the stages (or
    only the given one), and tries every N. Proved if everywhere an N was proved and the next one refuted.
    """
    start, notes, states, transitions = time.perf_counter(), [], 0, 0
    given = _given(options)
    most = int(given.pop("stages", RANGE))
    chosen = given.pop("mmas_in_flight", None)
    if "pending" in given:
        raise UsageError("--minimal-wait tries every wait_group<N>: leave --pending out")
    if options.properties:
        raise UsageError("--minimal-wait asks about all properties: leave --property out")
    if most < 2:
        raise UsageError("--stages: --minimal-wait needs 2 or more")
    lags = (1,) if given.get("form") == "rs" else range(1, min(most, MMA_GROUPS)) if chosen is None else (chosen,)
    worst = PROVED
    smallest: dict[int, int] = {}
    for lag in lags:
        for stages in range(max(2, lag + 1), most + 1):
            safe, why = -1, f"every N up to {MMA_GROUPS - 1} is safe"
            for pending in range(MMA_GROUPS):
                model = Mainloop(**given, stages=stages, mmas_in_flight=lag, pending=pending)
                result = check(
                    model,
                    command="mainloop",
                    engine=options.engine,
                    limit=options.limit,
                    timeout=options.timeout,
                    memory=options.memory << 30,
                    reduced=not options.unreduced,
                )
                states, transitions = states + result.states, transitions + result.transitions
                if result.verdict != PROVED:
                    trace = result.trace
                    why = f"{pending} is {result.verdict}" + (f": {trace.because}" if trace is not None else "")
                    worst = UNDETERMINED if result.verdict == UNDETERMINED else worst
                    break
                safe = pending
            smallest[lag] = min(smallest.get(lag, MMA_GROUPS), safe)
            in_flight = "" if given.get("form") == "rs" else f"K_PIPE_MMAS={lag} "
            found = f"wait_group<{safe}> is safe" if safe >= 0 else "no wait is safe"
            notes.append(f"stages={stages} {in_flight}{found}, {why}")
    if not smallest:
        raise UsageError(f"--mmas-in-flight {chosen}: needs more stages than {most}")
    if min(smallest.values()) < 0:
        worst = VIOLATED
    for lag, safe in smallest.items():
        what = "rs form" if given.get("form") == "rs" else f"K_PIPE_MMAS={lag}"
        found = f"wait_group<{safe}>" if safe >= 0 else "none"
        notes.append(f"minimal wait, {what}: {found}, for every number of stages up to {most}")
    scope = {"trips": given.get("k_tiles", "all"), "stages": most}
    return Result(
        "mainloop",
        "mainloop",
        {"stages": most, **given},
        options.engine,
        (Finding("race", worst, note="not every N was decided" if worst == UNDETERMINED else ""),),
        scope,
        states,
        transitions,
        time.perf_counter() - start,
        tuple(notes),
        shown=("stages",),
    )
