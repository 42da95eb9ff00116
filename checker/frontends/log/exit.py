"""What must hold when the kernel of a log has ended: nothing under way, and every warp of a group has done its part."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter

from sm90_verify.frontends.log.access import Accesses
from sm90_verify.frontends.log.clock import Fill
from sm90_verify.frontends.log.shape import RARE
from sm90_verify.frontends.log.table import RecoveredRing
from sm90_verify.frontends.log.unexplained import Unexplained


def check_exit(accesses: Accesses, completed: dict[int, int]) -> None:
    """The CTA exits: nothing of its own may be under way."""
    for index, warp, ordinal in accesses.every_store:
        if len(accesses.bulk[warp].done) <= ordinal:
            raise Unexplained(
                "exit-hazard",
                "the warp exits without having waited until this TMA store had read its bytes",
                index,
                (),
            )
    for warp, groups in accesses.math.items():
        if groups.begun >= 0 or len(groups.done) < groups.committed:
            at = groups.begun if groups.begun >= 0 else accesses.program[warp][-1]
            raise Unexplained("exit-hazard", f"warp {warp} exits without having waited for its wgmma", at, ())
    latest: dict[int, int] = {}
    for (_, address), phase in accesses.stages.direct.items():
        latest[address] = max(latest.get(address, -1), phase)
    for fill in accesses.fills.values():
        if latest.get(fill.full, -1) < fill.phase:
            raise Unexplained(
                "exit-hazard",
                f"no warp waits for phase {fill.phase} of {accesses.table.name[fill.full]}: the CTA can exit "
                "while this load is under way",
                fill.record,
                (),
            )
    _staged_stores(accesses)
    _releases(accesses)
    _members(accesses)
    _fences(accesses)
    _fenced_barriers(accesses)
    _orders(accesses, completed)


def _staged_stores(accesses: Accesses) -> None:
    """If a tensor is stored from stages that the warp holds (ReuseSmemC), each store reads one, and each once."""
    for stores in accesses.staged.values():
        if all(held is None for _, held in stores):
            continue
        times = Counter(held for _, held in stores)
        tally = Counter(times.values())
        usual = min(tally, key=lambda count: (-tally[count], count))
        seen: Counter[Fill | None] = Counter()
        for index, held in stores:
            seen[held] += 1
            if held is None or seen[held] > usual:
                raise Unexplained(
                    "stale-read",
                    "the TMA store reads a stage that its warp does not hold, unlike the other stores of this tensor"
                    if held is None
                    else f"the TMA store reads the stage of {accesses.table.name[held.full]} again in phase "
                    f"{held.phase}",
                    index,
                    (),
                )


def _releases(accesses: Accesses) -> None:
    """The warps that release a stage release it as often as they wait for it, or all equally less often."""
    for ring in accesses.table.rings:
        if ring.empty is None:
            continue
        warps = [warp for warp in ring.empty.arrivers if warp in ring.full.waiters]
        for full, empty in zip(ring.full.addresses, ring.empty.addresses, strict=True):
            kept = {
                warp: accesses.stages.observed[warp, full] - accesses.stages.released[warp, empty] for warp in warps
            }
            usual = Counter(kept.values()).most_common(1)[0][0] if kept else 0
            for warp, count in kept.items():
                if count != usual:
                    raise Unexplained(
                        "arrival-count",
                        f"warp {warp} waits for {accesses.table.name[full]} "
                        f"{accesses.stages.observed[warp, full]} times and releases "
                        f"it {accesses.stages.released[warp, empty]} times, unlike the other warps",
                        accesses.stages.waited_at[warp, full],
                        (),
                    )


def _members(accesses: Accesses) -> None:
    """The warps that meet at one bar.sync are fixed groups: a warp is not replaced by another in a few generations."""
    for (threads, number), groups in accesses.meetings.items():
        for warps, few in groups.items():
            for others, many in groups.items():
                strangers = [warp for warp in warps if warp not in others]
                if strangers and len(strangers) < len(warps) and len(few) * RARE <= len(many):
                    raise Unexplained(
                        "named-barrier",
                        f"warp {strangers[0]} takes part in bar.sync {number}, {threads} {len(few)} times in the "
                        f"place of another warp: the same others meet without it {len(many)} times",
                        next(own for own, warp, _, _ in few[0].entries if warp == strangers[0]),
                        (),
                    )


def _fences(accesses: Accesses) -> None:
    """A warp that fences before some TMA stores writes the bytes of all of them, and must fence before each."""
    fences: Counter[int] = Counter()
    last: Counter[tuple[int, bool]] = Counter()
    for _, meeting in accesses.store_meetings:
        fences.update(warp for _, warp, fenced, _ in meeting.entries if fenced)
        last.update((warp, _fence_is_last(accesses, own, warp)) for own, warp, _, _ in meeting.entries)
    for index, meeting in accesses.store_meetings:
        for own, warp, fenced, _ in meeting.entries:
            if fenced and last[warp, False] * RARE <= last[warp, True] and not _fence_is_last(accesses, own, warp):
                raise Unexplained(
                    "missing-fence",
                    f"warp {warp} comes to the bar.sync before a TMA store with other entries after its last "
                    "fence.proxy.async, unlike at the others: what it writes after that fence may not be visible",
                    own,
                    (index,),
                )
            if not fenced and fences[warp]:
                raise Unexplained(
                    "missing-fence",
                    f"warp {warp} comes to the bar.sync before a TMA store without fence.proxy.async, with which it "
                    "comes to the others: its writes may not be visible to the store",
                    own,
                    (index,),
                )


def _fence_is_last(accesses: Accesses, own: int, warp: int) -> bool:
    """Whether the warp's entry before this one is a fence.proxy.async."""
    program = accesses.program[warp]
    before = bisect_left(program, own) - 1
    return before >= 0 and accesses.records[program[before]].kind == "fence_view_async_shared"


def _fenced_barriers(accesses: Accesses) -> None:
    """A warp that fences before nearly every turn of a bar.sync writes for the async proxy there, such as an operand
    that it transposes for wgmma (sm90_wgmma_transpose.hpp), and must fence before each.
    """
    for (_, number), groups in accesses.meetings.items():
        for meetings in groups.values():
            turns = [(own, warp, fenced) for meeting in meetings for own, warp, fenced, _ in meeting.entries]
            fences = Counter(warp for _, warp, fenced in turns if fenced)
            without = Counter(warp for _, warp, fenced in turns if not fenced)
            for own, warp, fenced in turns:
                if not fenced and without[warp] * RARE <= fences[warp]:
                    raise Unexplained(
                        "missing-fence",
                        f"warp {warp} comes to bar.sync {number} without fence.proxy.async, with which it comes to it "
                        f"{fences[warp]} times: wgmma or a TMA store may not see its writes",
                        own,
                        (),
                    )


def _orders(accesses: Accesses, completed: dict[int, int]) -> None:
    """Warps that wait for one barrier of an OrderedSequenceBarrier are one group and wait for the same phases."""
    for ring in accesses.table.rings:
        if ring.empty is not None or ring.pipeline != "OrderedSequenceBarrier":
            continue
        _order_groups(accesses, ring)
        ordered = False
        first: int | None = None
        for address in ring.full.addresses:
            phases = accesses.stages.seen[address]
            votes = Counter(tuple(phase for phase, _ in waits) for waits in phases.values())
            for waits in phases.values():
                mine = tuple(phase for phase, _ in waits)
                if mine != votes.most_common(1)[0][0]:
                    raise Unexplained(
                        "phase-lapped",
                        f"the warps that wait for {accesses.table.name[address]} do not wait for the same phases",
                        waits[0][1],
                        (),
                    )
                ordered = ordered or any(phase >= 0 for phase in mine)
                first = waits[0][1] if first is None else first
        if first is not None and not ordered and any(completed[a] for a in ring.full.addresses):
            raise Unexplained(
                "phase-lapped",
                f"every wait on {ring.name} passes on the fresh barrier: the arrivals order nothing",
                first,
                (),
            )


def _order_groups(accesses: Accesses, ring: RecoveredRing) -> None:
    """A group of warps waits as a whole: the waiters of two barriers are the same warps, or have none in common."""
    for one in ring.full.addresses:
        for other in ring.full.addresses:
            missing = [warp for warp in accesses.stages.seen[one] if warp not in accesses.stages.seen[other]]
            if missing and len(missing) < len(accesses.stages.seen[one]) and accesses.stages.seen[other]:
                raise Unexplained(
                    "phase-lapped",
                    f"warp {missing[0]} does not wait for {accesses.table.name[other]}, as the other warps of its "
                    f"group do",
                    accesses.stages.seen[one][missing[0]][-1][1],
                    (),
                )
