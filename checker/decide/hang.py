"""The answer to `verify hang`: what a core dump of a kernel that hangs says, and whether its PTX leads there."""

from __future__ import annotations

import linecache
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from sm90_verify.decide.hang_run import SHOWN, Explainer, clusters_of, differences
from sm90_verify.decide.ptx import check_ptx
from sm90_verify.engines.effort import Effort, RanOut, Told, memory_bound
from sm90_verify.engines.table import DEFAULT
from sm90_verify.frontends.core_launch import CoreLaunch, grid_of, launch_of_grid
from sm90_verify.frontends.cudacore.dump import CoreGrid, CudaCore, Three
from sm90_verify.frontends.cudacore.read import read_core
from sm90_verify.frontends.cudacore.standing import Names, barriers_of, ended_of, rank_of, waits_of
from sm90_verify.frontends.ptx.events import BarrierAt
from sm90_verify.frontends.ptx.instruction import PtxModule
from sm90_verify.frontends.ptx.parser import parse
from sm90_verify.frontends.ptx.read import read_module
from sm90_verify.result import LONG_NAME, PROVED, UNDETERMINED, VIOLATED, Finding, HangState, HungCtas, Result
from sm90_verify.spec.errors import SpecError

OWN = "this hang is the kernel's own: a schedule of it leads exactly here"
ELSEWHERE = "the kernel can hang by itself, but the schedule that was executed does not end in the state of the dump"
NOT_ALONE = (
    "the kernel cannot hang like this by itself, whatever the schedule: what is missing above was lost (a copy that"
    " failed, a peer that is slow or has failed, memory that something else has overwritten)"
)
FAULT = "the dump is of a fault and not of a hang: what other warps wait for may only be late"
NO_PTX = "the dump alone does not say what leads there: give the PTX with --ptx, or compile with -lineinfo"


@dataclass
class _Said:
    """What the PTX adds. names, brings: by the id of the grid and the CTA. same: the state is that of the dump, None
    where nobody knows.
    """

    names: dict[tuple[int, Three], Names] = field(default_factory=dict)
    brings: dict[tuple[int, Three, int], tuple[str, ...]] = field(default_factory=dict)
    chain: tuple[str, ...] = ()
    unlike: list[str] = field(default_factory=list)
    same: bool | None = None
    because: str = ""


def check_hang(
    path: str,
    *,
    ptx: str = "",
    engine: str = DEFAULT,
    limit: int = 0,
    timeout: float = 0.0,
    memory: int = 0,
    reduced: bool = True,
    progress: Told | None = None,
) -> Result:
    """What is in a core dump of a kernel that hangs, and whether the kernel does that by itself. ptx: the path of its
    PTX; without it that of the dump is taken, if there is any. The other arguments are those of `check`.

    The finding is `deadlock`: violated if some schedule of the launch in the dump hangs, proved if none does. Raises
    SpecError for a dump or PTX that cannot be read, or that do not belong together.
    """
    start = time.perf_counter()
    core = read_core(path)
    module, why = (read_module(ptx), "") if ptx else _embedded(core)
    grids = [one for one in core.grids if any(True for _ in core.of_grid(one))]
    said, result = _Said(), _open(core, why or NO_PTX, engine)
    if module is not None:
        grid = grid_of(core, module)
        blocks = [one.block for one in core.of_grid(grid)]
        if not blocks:
            raise SpecError(f"{path}: no CTA of {grid.kernel} is in it: give the PTX of a kernel that was running")
        told = launch_of_grid(core, grid, module, blocks)
        said = _of_run(core, told, module, Effort(timeout, memory or memory_bound(), progress, start))
        if said.because:
            result = _open(core, said.because, engine, told.notes)
        else:
            options = {"engine": engine, "limit": limit, "timeout": timeout, "memory": memory, "reduced": reduced}
            result = _decided(core, told, module, said, options, progress)
        result = _for_all(result, [one for one in grids if one is not told.grid])
    shapes = {name: "x".join(map(str, getattr(grids[0], name) or ())) for name in ("grid", "block", "cluster")}
    return replace(
        result,
        command="hang",
        model=os.path.basename(path),
        parameters={"kernel": grids[0].kernel, **shapes},
        shown=("kernel", *shapes) if len(grids[0].kernel) < LONG_NAME else tuple(shapes),
        seconds=time.perf_counter() - start,
        hang=_state(core, grids, said),
    )


def _embedded(core: CudaCore) -> tuple[PtxModule | None, str]:
    """The PTX in the dump, and why it is of no use, if it is not."""
    grid = next((one for one in core.grids if one.active and one.module is not None), None)
    text = grid.module.ptx if grid is not None and grid.module is not None else None
    if text is None:
        return None, ""
    try:
        path = f"{os.path.basename(core.path)}[ptx]"
        linecache.cache[path] = len(text), None, [f"{line}\n" for line in text.split("\n")], path  # what reports quote
        return parse(text, path), ""
    except SpecError as error:
        return None, f"the PTX in the dump cannot be read ({error}): give it with --ptx"


def _open(core: CudaCore, why: str, engine: str, notes: Sequence[str] = ()) -> Result:
    finding = Finding("deadlock", UNDETERMINED, note=why)
    return Result("hang", os.path.basename(core.path), {}, engine, (finding,), notes=tuple(notes))


def _of_run(core: CudaCore, told: CoreLaunch, module: PtxModule, effort: Effort) -> _Said:
    """Executes the kernel, and holds the end to the dump."""
    said = _Said()
    try:
        for one in clusters_of(core, told, module, effort):
            unlike = differences(core, told.grid, one)
            said.unlike += unlike
            explainer = Explainer(core, told, one, same=not unlike)
            said.chain = said.chain or explainer.chain()
            for rank, cta in one.ctas.items():
                known = one.run.cluster.ctas[rank].barriers
                names = {address: one.names.barrier(address) for address in sorted(known)}
                said.names[told.grid.id, cta.block] = names
                for address in names:
                    said.brings[told.grid.id, cta.block, address] = explainer.brings(BarrierAt(rank, address))
    except RanOut as error:
        said.because = str(error)
    except SpecError as error:
        said.because = f"the PTX cannot be executed to its end: {error}"
    said.same = None if said.because else not said.unlike
    return said


def _decided(
    core: CudaCore,
    told: CoreLaunch,
    module: PtxModule,
    said: _Said,
    options: Mapping[str, object],
    progress: Told | None,
) -> Result:
    """Every schedule of the CTAs that are in the dump; of a fault, everything is asked."""
    asked = [] if core.exceptions else ["deadlock"]
    try:
        result = check_ptx(module, told.launch, properties=asked, progress=progress, **options)  # type: ignore[arg-type]
    except SpecError as error:
        return _open(core, f"the PTX cannot be decided: {error}", str(options["engine"]), told.notes)
    notes = [*told.notes, *result.notes]
    if core.exceptions:
        notes.append(FAULT)
    elif result.verdict == VIOLATED and said.same:
        notes.append(OWN)
    elif result.verdict == VIOLATED:
        more = f" (and {len(said.unlike) - SHOWN} more)" if len(said.unlike) > SHOWN else ""
        notes.append(f"{ELSEWHERE}: {'; '.join(said.unlike[:SHOWN])}{more}")
    elif result.verdict == PROVED:
        notes.append(NOT_ALONE)
    return replace(result, notes=tuple(notes))


def _for_all(result: Result, others: Sequence[CoreGrid]) -> Result:
    """The result for the whole dump: other grids in it were not decided, and may be what hangs."""
    if not others:
        return result
    named = [f"grid {one.id} of {one.kernel or 'a kernel without code'}" for one in others]
    note = f"of this dump, {', '.join(named)} was not decided"
    if result.verdict != PROVED:
        return replace(result, notes=(*result.notes, note))
    findings = tuple(replace(one, verdict=UNDETERMINED, note=note) for one in result.findings)
    return replace(result, findings=findings)


def _state(core: CudaCore, grids: Sequence[CoreGrid], said: _Said) -> HangState:
    """CTAs that stand alike are one."""
    found: dict[object, HungCtas] = {}
    for grid in grids:
        for cta in core.of_grid(grid):
            names = said.names.get((grid.id, cta.block), {})
            waits = waits_of(core, grid, cta, names)
            barriers = tuple(
                replace(one, brings=said.brings.get((grid.id, cta.block, one.address), ()))
                for one in barriers_of(core, grid, cta, waits, names)
            )
            ended, rank = ended_of(grid, cta), rank_of(grid, cta.block)
            key = grid.id, rank, waits, barriers, ended
            known = found.get(key)
            blocks = (cta.block,) if known is None else (*known.blocks, cta.block)
            found[key] = HungCtas(grid.kernel, blocks, rank, waits, barriers, ended)
    exceptions = (f"{one.where}: {one.what}" + ("" if one.pc is None else _at(core, one.pc)) for one in core.exceptions)
    devices = tuple(f"{one.name} ({one.sm})" for one in core.devices)
    return HangState(core.path, core.driver, devices, tuple(exceptions), tuple(found.values()), said.chain)


def _at(core: CudaCore, pc: int) -> str:
    places = " < ".join(f"{one.file.rpartition('/')[2]}:{one.line}" for one in core.places(pc))
    return f" at {places}" if places else f" at {pc:#x}"
