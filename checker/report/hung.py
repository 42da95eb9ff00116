"""The state of a kernel that hangs as lines of a report: where its warps stand, and its mbarriers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sm90_verify.report.sections import Break, Lines, Paragraph, Section
from sm90_verify.result import LONG_NAME, HangState, HungBarrier, HungCtas, HungWait

MOST_BLOCKS = 6
"""CTAs that are named of those that stand alike."""
WAITED_FOR = "waited for"
SLOT_BYTES = 8
"""From one mbarrier of a ring to the next."""


def sections_of_hang(state: HangState) -> Iterator[Section]:
    """Faults first, then CTAs that stand alike, then the chain of waits."""
    for said in state.exceptions:
        yield Paragraph(f"fault: {said}", 2)
    for ctas in state.ctas:
        yield from _ctas(ctas)
    if state.chain:
        yield Lines(("why",))
        for said in state.chain:
            yield Paragraph(f"  {said}", 6)
        yield Break()


def _ctas(ctas: HungCtas) -> Iterator[Section]:
    named = ", ".join(f"({', '.join(map(str, one))})" for one in ctas.blocks[:MOST_BLOCKS])
    more = f" and {len(ctas.blocks) - MOST_BLOCKS} more" if len(ctas.blocks) > MOST_BLOCKS else ""
    alike = ", all alike" if len(ctas.blocks) > 1 else ""
    kernel = ctas.kernel if len(ctas.kernel) <= LONG_NAME else f"{ctas.kernel[: LONG_NAME - 1]}…"
    yield Paragraph(f"CTA{'s' * (len(ctas.blocks) > 1)} {named}{more} of {kernel or 'a kernel'}{alike}", 4)
    for wait in ctas.waits:
        yield Paragraph(_waits(wait), 6)
        if wait.places or wait.ptx_line:
            yield Paragraph(f"      at {_places(wait)}", 9)
    if ctas.ended:
        yield Paragraph(f"  {_warps(ctas.ended)}: ended", 6)
    for some in _alike(ctas.barriers):
        yield Paragraph(_barrier(some), 6)
        for said in some[0].brings if some[0].found == WAITED_FOR else ():
            yield Paragraph(f"      {said}", 9)
    yield Break()


def _alike(barriers: tuple[HungBarrier, ...]) -> Iterator[tuple[HungBarrier, ...]]:
    """Neighbours of one ring that stand alike and that nobody waits for are told together."""
    some: list[HungBarrier] = []
    for one in barriers:
        if some and not (one.found != WAITED_FOR and _is_next(some[-1], one)):
            yield tuple(some)
            some = []
        some.append(one)
    if some:
        yield tuple(some)


def _is_next(one: HungBarrier, other: HungBarrier) -> bool:
    ring = one.name.partition("[")[0] == other.name.partition("[")[0]
    here, there = (replace(barrier, name="", address=0, brings=()) for barrier in (one, other))
    return ring and other.address == one.address + SLOT_BYTES and here == there


def _waits(wait: HungWait) -> str:
    lanes = f", {wait.lanes} lane{'s' * (wait.lanes != 1)}" if wait.lanes != 32 * len(wait.warps) else ""
    who = f"  {_warps(wait.warps)}{lanes}"
    waits = "waits" if len(wait.warps) == 1 else "wait"
    if wait.kind == "unknown":
        return f"{who}: {waits} {wait.missing}"
    phase = "" if wait.parity is None else f", phase parity {wait.parity}"
    rank = "" if not wait.rank else f" of rank {wait.rank}"
    return f"{who}: {waits} for {wait.thing}{rank}{phase}: {wait.missing}"


def _places(wait: HungWait) -> str:
    places = [f"{file.rpartition('/')[2]}:{line}" for file, line in wait.places]
    ptx = [f"PTX line {wait.ptx_line}"] if wait.ptx_line else []
    return ", ".join([*([" < ".join(places)] if places else []), *ptx])


def _barrier(some: tuple[HungBarrier, ...]) -> str:
    barrier, last = some[0], some[-1]
    name = f"{barrier.name} " if barrier.name else ""
    where = f"{name}{barrier.address:#x}"
    if last is not barrier:
        ring, _, slot = barrier.name.partition("[")
        name = f"{ring}[{slot.rstrip(']')}-{last.name.partition('[')[2]} " if ring else ""
        where = f"{name}{barrier.address:#x}-{last.address:#x}"
    bytes = f", {barrier.bytes} bytes missing" if barrier.bytes > 0 else ""
    bytes = f", {-barrier.bytes} bytes too early" if barrier.bytes < 0 else bytes
    like = " (not waited for, but like an mbarrier)" if barrier.found == "beside" else ""
    pending = f"{barrier.pending} of {barrier.count} arrivals pending"
    return f"  mbarrier{'s' * (len(some) > 1)} {where}: phase parity {barrier.phase}, {pending}{bytes}{like}"


def _warps(warps: tuple[int, ...]) -> str:
    """warp 0; warps 0, 4-7"""
    runs: list[list[int]] = []
    for one in warps:
        if runs and one == runs[-1][-1] + 1:
            runs[-1].append(one)
        else:
            runs.append([one])
    said = ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 1 else str(run[0]) for run in runs)
    return f"warp{'s' * (len(warps) != 1)} {said}"
