"""Who signals whom in a cluster: the releases of CUTLASS's consumers.

Line numbers P are those of cutlass/pipeline/sm90_pipeline.hpp in CUTLASS 4.2."""

from __future__ import annotations

from sm90_verify.spec.ptx.cluster import Cluster
from sm90_verify.spec.ptx.limits import WARP, WARPGROUP


def block_of(thread: int) -> int | None:
    """The CTA that a thread of a warpgroup is responsible for (P:104-117), or None if it signals nobody.

    Every eighth thread signals; lane group c of warp w takes CTA 4 * (w ^ c) + c, so that the CTAs with few consumers
    are not all signalled by the same warp.
    """
    warp, lane_group = thread % WARPGROUP // WARP, thread // 8 % 4
    return None if thread % 8 else 4 * (warp ^ lane_group) + lane_group


def block_of_lane(lane: int) -> int | None:
    """The same for a single consumer warp (P:92-102): every second lane signals."""
    return None if lane % 2 else 4 * (lane // 8) + lane % 8 // 2


def signals(shape: Cluster, consumers: int, cta: int, thread: int) -> int | None:
    """The CTA whose empty barrier a consumer thread (0 to consumers - 1) of `cta` arrives on (P:340-376), or None.

    With more than one CTA and a number of consumers that is neither 32 nor a multiple of 128, nobody signals.
    """
    if shape.size == 1:
        return 0
    if consumers % WARPGROUP == 0:
        target = block_of(thread)
    else:
        target = block_of_lane(thread) if consumers == WARP else None
    if target is None or target >= shape.size or not shape.shares_row_or_column(target, cta):
        return None
    return target


def arrivals(shape: Cluster, consumers: int) -> tuple[tuple[int, ...], ...]:
    """arrivals[cta][source]: how often the consumers of `source` arrive on the empty barrier of `cta` per phase."""
    table = [[0] * shape.size for _ in range(shape.size)]
    for source in range(shape.size):
        for thread in range(consumers):
            target = signals(shape, consumers, source, thread)
            if target is not None:
                table[target][source] += 1
    return tuple(map(tuple, table))


def empty_count(shape: Cluster, consumers: int) -> int:
    """What init_barriers (P:311-317) initialises an empty barrier with; `consumers` are threads."""
    if shape.size == 1:
        return consumers
    return (shape.x + shape.y - 1) * -(-consumers // WARPGROUP)
