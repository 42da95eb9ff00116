"""Special registers (PTX ISA 10)."""

from __future__ import annotations

from sm90_verify.frontends.ptx.fragment import Fragment
from sm90_verify.frontends.ptx.launch import Block, Launch
from sm90_verify.frontends.ptx.state import Warp
from sm90_verify.frontends.ptx.values import Unknown, Value, together
from sm90_verify.spec.ptx.limits import WARP

AXES = ("x", "y", "z")
ALLOCATED = 128
"""Bytes: shared memory is allocated in multiples of it."""


def special(launch: Launch, static: int, warp: Warp, fragment: Fragment, name: str) -> Value:
    """The value of a special register in a fragment. static: bytes of static shared memory."""
    block = warp.cta.block
    stem, _, axis = name.removeprefix("%").partition(".")
    if axis in AXES:
        found = _of_axis(launch, block, warp.cta.rank, stem, AXES.index(axis))
        if found is not None:
            return found
        if stem == "tid":
            return together([_thread(launch, warp.number * WARP + lane)[AXES.index(axis)] for lane in fragment.lanes])
    match stem:
        case "laneid":
            return together(fragment.lanes)
        case "warpid" | "nwarpid":
            return Unknown(0, f"{name}, which a GPU chooses: it is not the number of the warp in its CTA")
        case "cluster_ctarank":
            return warp.cta.rank
        case "cluster_nctarank":
            return launch.cluster_size
        case "is_explicit_cluster":
            return int(launch.cluster_size > 1)
        case "dynamic_smem_size":
            return launch.dynamic_shared
        case "total_smem_size":
            total = static + launch.dynamic_shared
            if total % ALLOCATED:
                return Unknown(0, f"{name}, which a GPU rounds up")
            return total
        case "lanemask_eq":
            return together([1 << lane for lane in fragment.lanes])
        case "lanemask_le":
            return together([(2 << lane) - 1 for lane in fragment.lanes])
        case "lanemask_lt":
            return together([(1 << lane) - 1 for lane in fragment.lanes])
        case "lanemask_ge":
            return together([0xFFFFFFFF & ~((1 << lane) - 1) for lane in fragment.lanes])
        case "lanemask_gt":
            return together([0xFFFFFFFF & ~((2 << lane) - 1) for lane in fragment.lanes])
        case _:
            return Unknown(0, f"{name}, which the launch does not determine")


def _of_axis(launch: Launch, block: Block, rank: int, stem: str, axis: int) -> int | None:
    cluster, grid = launch.cluster, launch.grid
    match stem:
        case "ntid":
            return launch.block[axis]
        case "ctaid":
            return block[axis]
        case "nctaid":
            return grid[axis]
        case "cluster_ctaid":
            return block[axis] % cluster[axis]
        case "cluster_nctaid":
            return cluster[axis]
        case "clusterid":
            return block[axis] // cluster[axis]
        case "nclusterid":
            return grid[axis] // cluster[axis]
        case _:
            return None


def _thread(launch: Launch, number: int) -> tuple[int, int, int]:
    x, y, _ = launch.block
    return number % x, number // x % y, number // (x * y)
