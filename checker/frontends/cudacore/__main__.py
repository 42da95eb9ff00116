"""Prints what is in core dumps: python -m sm90_verify.frontends.cudacore FILE..."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from sm90_verify.frontends.cudacore.dump import CudaCore
from sm90_verify.frontends.cudacore.read import read_core
from sm90_verify.spec.errors import SpecError


def lines(core: CudaCore) -> Iterator[str]:
    """Grid by grid, CTA by CTA, where each warp is."""
    yield f"{core.path}: driver {core.driver}, {', '.join(f'{one.name} ({one.sm})' for one in core.devices)}"
    for one in core.exceptions:
        yield f"  exception: {one.where}: {one.what}" + (f" at {one.pc:#x}" if one.pc is not None else "")
    for grid in core.grids:
        shared = f"{grid.static_shared} + {grid.dynamic_shared}{'' if grid.dynamic_is_exact else ' at most'}"
        kernel = grid.kernel or "(no code)"
        yield f"  grid {grid.id} {kernel}: {grid.grid} CTAs of {grid.block}, clusters of {grid.cluster}"
        sizes = [len(one) for one in grid.parameters or ()]
        yield f"    shared {shared} bytes, {grid.registers} registers, parameters of {sizes} bytes"
        for cta in core.of_grid(grid):
            yield f"    CTA {cta.block} of cluster {cta.cluster}, multiprocessor {cta.multiprocessor}"
            for warp in cta.warps:
                for pc, lanes in warp.pcs.items():
                    places = " < ".join(f"{one.file.rpartition('/')[2]}:{one.line}" for one in core.places(pc))
                    function = core.function_at(pc)
                    offset = f"{function.name[:32]}+{pc - function.address:#x}" if function else f"{pc:#x}"
                    ptx = core.ptx_line_of(pc)
                    yield f"      warp {warp.warp:2} lanes {lanes:08x} {offset} ptx {ptx} {places}"


def main(paths: Sequence[str]) -> int:
    """0: read; 2: some could not be read."""
    status = 0
    for path in paths:
        try:
            print(*lines(read_core(path)), sep="\n")
        except SpecError as error:
            print(f"error: {error}", file=sys.stderr)
            status = 2
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
