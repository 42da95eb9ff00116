"""The launch of a kernel from a core dump of it: what `verify ptx --launch FILE.cudacore` decides.

A dump has the parameters one by one; where each lies says the PTX. Global memory of a dump is as the kernel has left
it, not as it found it, and is taken for unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sm90_verify.frontends.cudacore.dump import CoreGrid, CudaCore, Three
from sm90_verify.frontends.cudacore.read import read_core
from sm90_verify.frontends.ptx.instruction import Function, PtxModule
from sm90_verify.frontends.ptx.launch import Bytes, Launch
from sm90_verify.frontends.ptx.read import entry_of
from sm90_verify.spec.errors import SpecError

MAGICS = (b"\x7fELF", b"\x1f\x8b", b"\xfd7zXZ\x00")
"""What dumps begin with: plain, and compressed by gzip or xz."""


class CoreLaunch(NamedTuple):
    """notes: what the dump leaves open about it, a sentence each."""

    grid: CoreGrid
    function: Function
    launch: Launch
    notes: tuple[str, ...]


def is_core(path: str) -> bool:
    """Whether a file is a dump rather than a launch file, by its first bytes; False if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.read(6).startswith(MAGICS)
    except OSError:
        return False


def launch_from_core(path: str, module: PtxModule, kernel: str = "") -> CoreLaunch:
    """The launch in a dump of a kernel of this PTX. kernel: its name, where the PTX has several.

    Raises SpecError if there is none, or if the PTX is not what ran.
    """
    core = read_core(path)
    return launch_of_grid(core, grid_of(core, module, kernel), module)


def grid_of(core: CudaCore, module: PtxModule, kernel: str = "") -> CoreGrid:
    """The grid whose kernel the PTX has: one that has CTAs in the dump, and the first of several."""
    names = [one.name for one in module.entries if kernel in ("", one.name)]
    if not names:
        raise SpecError(
            f"{module.path}: no kernel {kernel or ''!r}: it has {_listed([e.name for e in module.entries])}"
        )
    found = [one for one in core.grids if one.kernel in names]
    if not found:
        ran = _listed(list(dict.fromkeys(one.kernel or "one without code" for one in core.grids)))
        raise SpecError(f"{core.path}: it is of {ran}, and {module.path} has {_listed(names)}: give the PTX that ran")
    there = {cta.grid for cta in core.ctas}
    found.sort(key=lambda one: (core.grids.index(one) not in there, not one.active))
    return found[0]


def launch_of_grid(
    core: CudaCore, grid: CoreGrid, module: PtxModule, blocks: Sequence[Three] | None = None
) -> CoreLaunch:
    """The launch of one grid of a dump. blocks: the CTAs to look at, None for all."""
    function = next(one for one in module.entries if one.name == grid.kernel)
    notes = []
    alike = [one for one in core.grids if one.kernel == grid.kernel]
    if len(alike) > 1:
        notes.append(f"the dump has {len(alike)} launches of {grid.kernel}, and this is grid {grid.id}")
    cluster = grid.cluster
    if cluster is None:
        cluster = function.shape(".reqnctapercluster") or (1, 1, 1)
        notes.append(f"the driver does not say the cluster: {list(cluster)} is what the PTX asks for")
    if grid.dynamic_shared is None:
        notes.append("the dump does not say the dynamic shared memory: 0 bytes are taken for it")
    elif not grid.dynamic_is_exact:
        notes.append(
            f"dynamic shared memory is taken for {grid.dynamic_shared} bytes, up to 127 more than were asked for"
        )
    if grid.parameters is None:
        notes.append("the dump does not say the parameters, which are unknown")
    launch = Launch(
        core.path,
        grid.kernel,
        grid.grid,
        grid.block,
        cluster,
        grid.dynamic_shared or 0,
        _parameters(core, grid, function, module),
        registers=grid.registers,
        blocks=None if blocks is None else tuple(blocks),
    )
    return CoreLaunch(grid, entry_of(module, grid.kernel, launch), launch, tuple(notes))


def _parameters(core: CudaCore, grid: CoreGrid, function: Function, module: PtxModule) -> Bytes:
    """The block of parameters as the PTX lays it out; padding is unknown."""
    if grid.parameters is None:
        return Bytes(0, b"", b"")
    sizes, asked = [len(one) for one in grid.parameters], [one.size for one in function.parameters]
    if sizes != asked:
        what = f"{module.path}: {grid.kernel} has parameters of {asked} bytes"
        raise SpecError(f"{what}, and what ran in {core.path} of {sizes}: give the PTX that ran")
    data, known = bytearray(function.size), bytearray(function.size)
    for told, value in zip(function.parameters, grid.parameters, strict=True):
        data[told.offset : told.offset + told.size] = value
        known[told.offset : told.offset + told.size] = b"\1" * told.size
    return Bytes(0, bytes(data), bytes(known))


def _listed(names: Sequence[str]) -> str:
    short = [one if len(one) <= 60 else f"{one[:59]}…" for one in names]
    return ", ".join(short[:4]) + (", …" if len(short) > 4 else "")
