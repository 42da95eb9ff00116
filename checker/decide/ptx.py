"""The answer to `verify ptx`: every schedule of one launch of a kernel that is given as PTX.

Each cluster of the grid is executed once; clusters whose warps do the same are one case, and each case is decided once.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Unpack

from sm90_verify.decide.cases import Asked, AskedOptions, Kept, LaunchCase, of_case, together
from sm90_verify.decide.larger import Larger
from sm90_verify.decide.origins import Origins
from sm90_verify.decide.redundant import Proved, in_flight_at_exit, no_longer_ordering, redundant
from sm90_verify.decide.sweep import read_sweep
from sm90_verify.decide.sweep import sweep as sweep_over
from sm90_verify.emit.specification import specification
from sm90_verify.engines.effort import Effort, RanOut, memory_bound
from sm90_verify.engines.order import order
from sm90_verify.files import write_whole
from sm90_verify.frontends.core_launch import is_core, launch_from_core
from sm90_verify.frontends.ptx.addresses import code_of
from sm90_verify.frontends.ptx.execute import ClusterRun
from sm90_verify.frontends.ptx.instruction import Function, PtxModule
from sm90_verify.frontends.ptx.lane_races import lane_races
from sm90_verify.frontends.ptx.launch import Block, Launch
from sm90_verify.frontends.ptx.launch_file import read_launch
from sm90_verify.frontends.ptx.lift import lift
from sm90_verify.frontends.ptx.operands import Undetermined
from sm90_verify.frontends.ptx.read import entry_of, read_module
from sm90_verify.frontends.ptx.state import Assumed, ClusterState
from sm90_verify.frontends.ptx.table import kernel_tables
from sm90_verify.frontends.ptx.written_global import by_other_clusters
from sm90_verify.made_of import KernelTable
from sm90_verify.result import PROPERTIES, PROVED, UNDETERMINED, Finding, Result
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.model.kernel import Kernel

OF_LANES = "Lanes of a warp that do the same are one role here: that they race with each other is not seen."
"""In what is written of a kernel where they may."""


def check_ptx(
    path: str | PtxModule,
    launch: str | Launch,
    *,
    kernel: str = "",
    sweep: str = "",
    table: bool = False,
    redundancy: bool = False,
    emit: str = "",
    **asked: Unpack[AskedOptions],
) -> Result:
    """Decides a launch of a kernel. path: of the PTX, or what has been read of it; launch: a launch, or the path of a
    launch file (docs/ptx_launch.md) or of a core dump (docs/hang.md); kernel: the name of an .entry, where the file has
    several. sweep: `NAME=A..B`, a parameter and the values that it is given one after the other; `NAME=A..`, all values
    from A on (docs/ptx.md). table: say what the kernel is made of; redundancy: what can be left out of it, if it is
    proved. emit: the Python file that the kernel is written to, as a specification. trace_seconds: how long a shorter
    schedule of a violation is looked for. The other arguments are those of `check`; the timeout is one for all of it.

    Raises SpecError with the line for PTX or a launch that cannot be read, and for what nobody knows.
    """
    start = time.perf_counter()
    module = read_module(path) if isinstance(path, str) else path
    function, told, said = _launched(module, launch, kernel)
    options = Asked(**asked)
    effort = Effort(options.timeout, options.memory or memory_bound(), options.progress, start)
    kept: list[Kept] | None = [] if redundancy else None
    if not sweep:
        result = decided(module, function, told, options, effort, table=table, emit=emit, kept=kept)
    else:
        swept = read_sweep(sweep, function)
        if emit and not swept.open:
            raise SpecError("--emit writes one launch down, or all values from one on: use --sweep NAME=A.., or none")

        def of_one(given: Launch) -> Result:
            return decided(module, function, given, options, effort, kept=kept)

        if swept.open:
            larger = Larger(module, function, told, swept, options, effort, of_one)
            result = larger.result(os.path.basename(module.path))
            if kept is not None:
                kept += [one for _, one in larger.loops]
            if emit:
                result = _with_loops_written(emit, result, larger, effort)
        else:
            result = sweep_over(told, swept, of_one)
    if kept is not None and result.verdict == PROVED:
        result = _with_redundant(result, kept, effort)
    elif kept is not None:
        why = f"what is redundant is not said of a kernel that is {result.verdict}"
        result = replace(result, notes=(*result.notes, why))
    result = Origins(function, module.path).result(result)
    return replace(result, notes=(*said, *result.notes))


def _launched(module: PtxModule, launch: str | Launch, kernel: str) -> tuple[Function, Launch, tuple[str, ...]]:
    """The kernel, its launch, and what is to be noted about that."""
    if isinstance(launch, str) and is_core(launch):
        found = launch_from_core(launch, module, kernel)
        return found.function, found.launch, found.notes
    told = read_launch(launch) if isinstance(launch, str) else launch
    return entry_of(module, kernel or told.kernel, told), told, ()


def decided(
    module: PtxModule,
    function: Function,
    launch: Launch,
    asked: Asked,
    effort: Effort,
    *,
    table: bool = False,
    emit: str = "",
    kept: list[Kept] | None = None,
) -> Result:
    """The result on one launch. kept: where its cases are put."""
    start = time.perf_counter()
    name, parameters = os.path.basename(module.path), _parameters(launch)
    is_written = False
    try:
        cases = cases_of(module, function, launch, effort)
        kernels = [lift(case.execution, name, effort.tick) for case in cases]
        if emit:
            _write(emit, cases, kernels, launch, effort)
            is_written = True
        results = [of_case(case, one, asked, effort) for case, one in zip(cases, kernels, strict=True)]
    except (RanOut, Undetermined) as error:
        ids = asked.properties or PROPERTIES
        findings = tuple(Finding(id, UNDETERMINED, note=str(error)) for id in ids)
        result = Result("ptx", name, {}, asked.engine, findings)
        known = "what the kernel does is not known"
        missing = {f"{emit} is not written": bool(emit) and not is_written, "there is no table": table}
        notes: tuple[str, ...] = tuple(f"{what}: {known}" for what, misses in missing.items() if misses)
    else:
        result = together(results)
        if table:
            result = replace(result, table=_table(cases, kernels))
        if kept is not None:
            kept += map(Kept, cases, kernels)
        notes = (*_counted(cases, launch), *_said(_assumed(cases)), *in_flight_at_exit(kernels))
    return replace(
        result,
        parameters=parameters,
        shown=tuple(parameters),
        scope=_scope(launch),
        notes=(*notes, *result.notes),
        seconds=time.perf_counter() - start,
    )


def _write(path: str, cases: Sequence[LaunchCase], kernels: Sequence[Kernel], launch: Launch, effort: Effort) -> None:
    """Writes the cases as specifications, but for clusters that do nothing which is followed. Raises SpecError where a
    kernel cannot go on, since what it does is not known, and where nothing is left to write.
    """
    for case in cases:
        if case.execution.parted:
            raise SpecError("threads do not execute together what they must, so there is no whole kernel to write")
        if case.execution.stuck is not None:
            raise SpecError("the kernel cannot go on here, so there is no whole of it to write", case.execution.stuck)
    doing = [kernel for kernel in kernels if kernel.programs]
    if not doing:
        raise SpecError("--emit: the kernel neither synchronises nor accesses shared memory: there is nothing to write")
    shapes = ", ".join(f"{name} {shape}" for name, shape in _parameters(launch).items())
    about = [
        f"What {launch.kernel or 'the kernel'} does in one launch ({shapes}), as it was executed. Numbers "
        "behind # are lines of the PTX; loops are those of this launch.",
        *_counted(cases, launch),
        *_said(_assumed(cases)),
        *([OF_LANES] if any(lane_races(case.execution) for case in cases) else []),
    ]

    def tick(left: int) -> None:
        effort.tick("writing", "sentences", left, None)

    write_whole(path, specification(doing, doing[0].name, about, tick).encode())


def _with_loops_written(path: str, result: Result, larger: Larger, effort: Effort) -> Result:
    """Writes the kernels with loops, if larger values are claimed."""
    periods = result.scope.get("periods")
    if periods is None:
        return replace(result, notes=(f"{path} is not written: nothing stands for all larger values", *result.notes))
    name, first, period = periods["name"], periods["from"], periods["period"]
    about = [
        f"What {larger.launch.kernel or 'the kernel'} does for every {name} from {first} on: a class for the number in "
        f"its name and all that are a multiple of {period} more, each with as many rounds more of self.loop(). Numbers "
        "behind # are lines of the PTX; all other loops are those of this launch.",
        *_said(_assumed([kept.case for _, kept in larger.loops])),
    ]
    values = [value for value, _ in larger.loops]
    which = [f"{value}" + (f"_{number}" if values.count(value) > 1 else "") for number, value in enumerate(values)]

    def tick(left: int) -> None:
        effort.tick("writing", "sentences", left, None)

    kernels = [kept.kernel for _, kept in larger.loops]
    write_whole(path, specification(kernels, kernels[0].name, about, tick, which).encode())
    return result


def _table(cases: Sequence[LaunchCase], kernels: Sequence[Kernel]) -> KernelTable:
    each = ((kernel, case.first) for case, kernel in zip(cases, kernels, strict=True))
    return kernel_tables(each, cases[0].execution.addresses.dynamic)


def _with_redundant(result: Result, kept: Sequence[Kept], effort: Effort) -> Result:
    """With what can be left out of all that is proved; or a note, if there is no time to try all lines."""

    def tick(done: int, of: int) -> None:
        effort.tick(f"leaving out one of {of}", "operations", done, None)

    try:
        return replace(result, redundant=redundant([_proved(one, effort) for one in kept], tick))
    except RanOut as error:
        return replace(result, notes=(*result.notes, f"what is redundant was not looked for to the end: {error}"))


def _proved(kept: Kept, effort: Effort) -> Proved:
    """Lanes of a warp included."""

    @cache
    def races(lines: frozenset[int]) -> bool:
        return bool(lane_races(kept.case.execution, lines))

    def verdict(one: Kernel) -> str:
        found = order(one, effort=effort).verdict
        return UNDETERMINED if found == PROVED and races(no_longer_ordering(kept.kernel, one)) else found

    return Proved(kept.kernel, verdict)


def cases_of(module: PtxModule, function: Function, launch: Launch, effort: Effort) -> list[LaunchCase]:
    """The cases of a launch: every cluster is executed."""
    code, addresses = code_of(module, function, launch)
    found: dict[object, LaunchCase] = {}
    states: list[ClusterState] = []
    for number, blocks in enumerate(launch.clusters()):
        effort.tick("executing", "clusters", number, None)
        execution = ClusterRun(code, addresses, launch, blocks, effort.tick)
        execution.run()
        states.append(execution.cluster)
        key = tuple(tuple(warp.events) for cta in execution.cluster.ctas for warp in cta.warps)
        known = found.get(key)
        if known is None:
            found[key] = LaunchCase(blocks, 1, execution)
        else:
            found[key] = known._replace(clusters=known.clusters + 1)
    by_other_clusters(function, module.path, states)
    return list(found.values())


def _parameters(launch: Launch) -> dict[str, object]:
    shapes = {"grid": launch.grid, "block": launch.block, "cluster": launch.cluster}
    return {name: "x".join(map(str, shape)) for name, shape in shapes.items()}


def _scope(launch: Launch) -> dict[str, object]:
    return {"launch": "one", "ctas": "all" if launch.blocks is None else [list(one) for one in launch.blocks]}


def _counted(cases: Sequence[LaunchCase], launch: Launch) -> list[str]:
    """How many clusters stand for how many."""
    total = sum(case.clusters for case in cases)
    if total == len(cases) == 1:
        return []
    what = "CTAs" if launch.cluster_size == 1 else "clusters"
    parts = [f"{_block(case.first[0])} stands for {case.clusters}" for case in cases[:8]]
    more = ", …" if len(cases) > 8 else ""
    return [f"{total} {what}, {len(cases)} of them different: {', '.join(parts)}{more}"]


def _block(block: Block) -> str:
    return f"({', '.join(map(str, block))})"


def _assumed(cases: Sequence[LaunchCase]) -> list[Assumed]:
    return list(dict.fromkeys(one for case in cases for one in case.execution.cluster.assumed))


def _said(assumed: Sequence[Assumed]) -> list[str]:
    """What is the same of several lines once, with the first of them."""
    by_what: dict[str, list[int]] = {}
    for one in assumed:
        by_what.setdefault(one.what, []).append(one.line)
    found = []
    for what, lines in by_what.items():
        more = f", and {len(lines) - 1} more ({', '.join(map(str, sorted(lines)[1:]))})" if lines[1:] else ""
        found.append(f"assumed: line {min(lines)}{more}: {what}")
    return found
