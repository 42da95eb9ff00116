"""What a log does not show and its programs rest on, in sentences: each is printed with the verdict."""

from __future__ import annotations

from collections.abc import Iterator

from sm90_verify.frontends.log.kernel_of_log import LogReading
from sm90_verify.frontends.log.table import RecoveredArray
from sm90_verify.frontends.log.usage import WGMMA


def assumptions(reading: LogReading) -> tuple[str, ...]:
    """The assumptions of a reading."""
    return tuple(f"assumed: {one}" for one in (*_of_lanes(reading), *_of_ctas(reading), *_of_bytes(reading)))


def _of_lanes(reading: LogReading) -> Iterator[str]:
    table, replay = reading.replay.table, reading.replay
    yield (
        "the 32 lanes of a warp, of which lane 0 logs, execute its wgmmas, barriers of threads and fences, and wait "
        "for full stages and turns"
    )
    for ring in table.rings:
        for part, array in (("full" if ring.empty else "turn", ring.full), ("empty", ring.empty)):
            if array is not None and array.arrivals is not None and array.arrivals.lanes > 1 and array.arrivers:
                yield (
                    f"where a warp logs an arrival at {ring.name} {part}, {array.arrivals.lanes} lanes arrive: a phase "
                    f"counts {array.count}"
                )
        if ring.empty is not None and ring.empty.waiters and not _together(ring.full):
            yield f"lane 0 alone waits for empty stages of {ring.name}, as it alone arrives for them"
    if any(record.kind in ("tma_load", "tma_store") for record in replay.records):
        yield "lane 0 alone loads, expects bytes, stores, commits and waits for its stores"
    if any(record.kind == "cluster_barrier_try_wait" for record in replay.records):
        yield "what a try_wait says decides no more than whether its warp waits"


def _together(array: RecoveredArray) -> bool:
    return array.arrivals is not None and bool(array.arrivals.logged) and array.arrivals.lanes > 1


def _of_ctas(reading: LogReading) -> Iterator[str]:
    grid = reading.grid
    if grid.size > 1:
        yield (
            f"the cluster has {grid.size} CTAs, and the others do what block 0 does, each with its slice of "
            "the multicast loads (copy_sm90_tma.hpp of CUTLASS 4.2 has them at the logged lines)"
        )
        yield (
            "where a warpgroup releases a stage of a multicast ring, one lane of it does so in every other CTA that "
            "fills the stage"
        )
        yield "barrier.cluster.arrive and wait follow the initialisation of the mbarriers"
    elif reading.starts_unseen:
        yield "a barrier of all threads follows the initialisation of the mbarriers"


def _of_bytes(reading: LogReading) -> Iterator[str]:
    replay, touches = reading.replay, reading.touches
    boxes = replay.table.box_bytes
    if boxes:
        sizes = ", ".join(str(size) for size in boxes.values())
        yield f"the loads of the {len(boxes)} tensor maps have {sizes} bytes, as their phases expect"
    if reading.unclear:
        return
    if any(record.kind in WGMMA for record in replay.records):
        yield "a wgmma reads all bytes of the loads in which its operands begin"
    if touches.read:
        rings = dict.fromkeys(replay.table.ring[full].name for full, _ in touches.read)
        yield f"a stage of {', '.join(rings)} is read by all who wait for it, until its release"
    if touches.boxes:
        sizes = ", ".join(str(size) for size in dict.fromkeys(touches.boxes.values()))
        yield (
            f"a store reads {sizes} bytes; the warps that meet in front of it write them before their last "
            "fence.proxy.async, each its own part, and read there no other part"
        )
