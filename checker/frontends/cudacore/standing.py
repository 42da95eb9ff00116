"""Where the warps of a CTA stand in a core dump and what they wait for, and the mbarriers of the CTA: from it alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sm90_verify.frontends.cudacore.dump import CoreCta, CoreGrid, CudaCore
from sm90_verify.frontends.cudacore.mbarrier_word import MbarrierWord, decode, is_plausible
from sm90_verify.frontends.cudacore.waits import (
    ClusterBarrierWait,
    LanesWait,
    LaneWait,
    MbarrierWait,
    ThreadsWait,
    wait_of,
)
from sm90_verify.frontends.ptx.spaces import SHARED_BEGINS
from sm90_verify.result import HungBarrier, HungWait
from sm90_verify.spec.ptx.limits import MBARRIER_BYTES, WARP

Stand = tuple[LaneWait | None, int]
"""What is waited for, and the address of the instruction."""
Names = Mapping[int, str]
"""Of mbarriers, by address."""


def stands_of(core: CudaCore, cta: CoreCta) -> dict[Stand, dict[int, int]]:
    """By what is waited for and where: by warp, the mask of its lanes that do."""
    found: dict[Stand, dict[int, int]] = {}
    for warp in cta.warps:
        for lane in warp.lanes:
            wait = wait_of(core, warp, lane)
            masks = found.setdefault((wait, lane.pc if wait is None else wait.pc), {})
            masks[warp.warp] = masks.get(warp.warp, 0) | 1 << lane.lane
    return found


def ended_of(grid: CoreGrid, cta: CoreCta) -> tuple[int, ...]:
    """The warps that have ended."""
    there = {warp.warp for warp in cta.warps}
    return tuple(number for number in range(-(-grid.threads // WARP)) if number not in there)


def word_of(cta: CoreCta, address: int) -> MbarrierWord | None:
    """The barrier at an address; None if the dump has no bytes there, or no word that a barrier has."""
    word = cta.word(address)
    return decode(word) if word is not None and is_plausible(word) else None


def waits_of(core: CudaCore, grid: CoreGrid, cta: CoreCta, names: Names) -> tuple[HungWait, ...]:
    """What its warps wait for, in the order of the warps."""
    stands = stands_of(core, cta)
    return tuple(
        _wait(core, grid, cta, stands, stand, names) for stand in sorted(stands, key=lambda one: min(stands[one]))
    )


def _wait(
    core: CudaCore, grid: CoreGrid, cta: CoreCta, stands: Mapping[Stand, Mapping[int, int]], stand: Stand, names: Names
) -> HungWait:
    wait, pc = stand
    masks = stands[stand]
    lanes = sum(mask.bit_count() for mask in masks.values())
    places = tuple((one.file, one.line) for one in core.places(pc))
    line = core.ptx_line_of(pc) or 0

    def made(kind: str, thing: str, missing: str) -> HungWait:
        at = wait if isinstance(wait, MbarrierWait) else MbarrierWait(pc, None, None, None)
        return HungWait(
            kind,  # type: ignore[arg-type]
            tuple(sorted(masks)),
            lanes,
            thing,
            at.address,
            at.rank,
            at.parity,
            missing,
            places,
            line,
        )

    match wait:
        case MbarrierWait():
            return made("mbarrier", said_barrier(wait.address, names), _missing(core, grid, cta, wait))
        case ThreadsWait(_, id, threads):
            thing = "__syncthreads" if (id, threads) == (0, 0) else f"barrier {'?' if id is None else id}"
            return made("threads", thing, _not_here(grid, stands, stand, threads))
        case ClusterBarrierWait():
            return made("cluster", "the barrier of the cluster", "not all threads of the cluster have arrived")
        case LanesWait():
            return made("lanes", "lanes of their own warp", "these have not come here")
        case None:
            return made("unknown", "", "for nothing that the dump says: running, asleep, or after copies")


def said_barrier(address: int | None, names: Names) -> str:
    """full[0] at 0x400"""
    if address is None:
        return "an mbarrier at an address that the dump lacks"
    return f"{names[address]} at {address:#x}" if address in names else f"mbarrier {address:#x}"


def _missing(core: CudaCore, grid: CoreGrid, cta: CoreCta, wait: MbarrierWait) -> str:
    """What has not come at an mbarrier."""
    if wait.address is None:
        return "which one is in a register that the dump lacks"
    home = _cta_of_rank(core, grid, cta, wait.rank)
    if home is None:
        return "its CTA is not in the dump: it has ended"
    if home.word(wait.address) is None:
        return "the dump does not have its bytes"
    word = word_of(home, wait.address)
    if word is None:
        return "there is no mbarrier: it was not initialised, or overwritten"
    if wait.parity is None:
        return f"the phase is in a register that the dump lacks; {said_word(word)}"
    if wait.parity != word.phase:
        return "nothing: that phase is over, and they can go on"
    return said_word(word)


def said_word(word: MbarrierWord) -> str:
    """What a phase waits for."""
    parts = []
    if word.pending:
        parts.append(f"{word.pending} of {word.expected} arrivals")
    if word.tx_count > 0:
        parts.append(f"{word.tx_count} bytes")
    said = " and ".join(parts) + " missing" if parts else "nothing"
    return said + (f", {-word.tx_count} bytes too early" if word.tx_count < 0 else "")


def _cta_of_rank(core: CudaCore, grid: CoreGrid, cta: CoreCta, rank: int | None) -> CoreCta | None:
    """The CTA with a rank in the same cluster; itself where the rank says nothing else."""
    mine = rank_of(grid, cta.block)
    if rank is None or rank == mine:
        return cta
    return next(
        (
            one
            for one in core.of_grid(grid)
            if rank_of(grid, one.block) == rank and _cluster(grid, one.block) == _cluster(grid, cta.block)
        ),
        None,
    )


def rank_of(grid: CoreGrid, block: tuple[int, int, int]) -> int:
    """%cluster_ctarank"""
    width, height, depth = grid.cluster or (1, 1, 1)
    x, y, z = block
    return x % width + width * (y % height + height * (z % depth))


def _cluster(grid: CoreGrid, block: tuple[int, int, int]) -> tuple[int, ...]:
    return tuple(index // extent for index, extent in zip(block, grid.cluster or (1, 1, 1), strict=True))


def _not_here(grid: CoreGrid, stands: Mapping[Stand, Mapping[int, int]], stand: Stand, threads: int | None) -> str:
    """Who has not come to a barrier of threads."""
    wait, _ = stand
    assert isinstance(wait, ThreadsWait)
    same = [
        masks
        for (other, _), masks in stands.items()
        if isinstance(other, ThreadsWait) and other.id == wait.id and wait.id is not None
    ]
    here = sum(mask.bit_count() for masks in same or [stands[stand]] for mask in masks.values())
    if threads is None:
        return f"{here} threads are here; of how many is in a register that the dump lacks"
    if threads:
        return f"{here} of {threads} threads are here"
    alive = {warp: mask.bit_count() for masks in stands.values() for warp, mask in masks.items()}
    others = sorted(set(alive) - {warp for masks in same for warp in masks})
    return f"{here} threads are here, {warps_said(others)} not" if others else f"{here} threads are here"


def warps_said(warps: list[int] | tuple[int, ...]) -> str:
    """warp 0; warps 0, 4-7"""
    runs: list[list[int]] = []
    for one in warps:
        if runs and one == runs[-1][-1] + 1:
            runs[-1].append(one)
        else:
            runs.append([one])
    said = ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
    return f"warp{'s' * (len(warps) != 1)} {said}"


# ---------------------------------------------------------------- barriers


def barriers_of(
    core: CudaCore, grid: CoreGrid, cta: CoreCta, waits: tuple[HungWait, ...], names: Names
) -> tuple[HungBarrier, ...]:
    """Its mbarriers: those that are waited for, here or by CTAs of its cluster; those that have names; and words beside
    them that are like an mbarrier.
    """
    rank = rank_of(grid, cta.block)
    found: dict[int, str] = {}
    for other in core.of_grid(grid):
        if _cluster(grid, other.block) == _cluster(grid, cta.block):
            for wait, _ in stands_of(core, other) if other is not cta else ():
                if isinstance(wait, MbarrierWait) and wait.address is not None and wait.rank == rank:
                    found[wait.address] = "waited for"
    for one in waits:
        if one.address is not None and one.rank in (None, rank):
            found[one.address] = "waited for"
    for address in names:
        found.setdefault(address, "initialised")
    for address in [] if names else list(found):
        for beside in _beside(cta, address):
            found.setdefault(beside, "beside")
    made = ((address, word_of(cta, address), how) for address, how in sorted(found.items()))
    return tuple(
        HungBarrier(address, names.get(address, ""), how, word.phase, word.pending, word.expected, word.tx_count)
        for address, word, how in made
        if word is not None
    )


def _beside(cta: CoreCta, address: int) -> Iterator[int]:
    """Words next to each other that a barrier can have, from one on in both directions."""
    for step in (MBARRIER_BYTES, -MBARRIER_BYTES):
        at = address + step
        while at >= SHARED_BEGINS and word_of(cta, at) is not None:
            yield at
            at += step
