"""Who signals whom in a cluster: the arithmetic of PipelineTmaAsync, without any state.

CTAs of a cluster of x by y are numbered x first. Line numbers P are those of cutlass/pipeline/sm90_pipeline.hpp, S
those of cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized.hpp, in CUTLASS 4.2.
"""

from __future__ import annotations

from spec.ctas import CLUSTER_LIMIT, Cluster

WARP, WARPGROUP = 32, 128


def all_shapes() -> tuple[Cluster, ...]:
    """Every shape of at most 16 CTAs."""
    sides = range(1, CLUSTER_LIMIT + 1)
    return tuple(Cluster(x, y) for x in sides for y in sides if x * y <= CLUSTER_LIMIT)


# ---------------------------------------------------------------- multicast


def multicast_a(shape: Cluster, cta: int) -> int:
    """The mask of A's tile (S:356-361): the CTAs with the same x need the same rows of A."""
    return sum(1 << other for other in shape.sharing_a(cta))


def multicast_b(shape: Cluster, cta: int) -> int:
    """The mask of B's tile (S:363-368): the CTAs with the same y need the same columns of B."""
    return sum(1 << other for other in shape.sharing_b(cta))


def writers(shape: Cluster, cta: int) -> tuple[int, ...]:
    """The CTAs whose copies of A or B land in this CTA's stages."""
    masks = ((other, multicast_a(shape, other) | multicast_b(shape, other)) for other in range(shape.size))
    return tuple(other for other, mask in masks if mask >> cta & 1)


# ---------------------------------------------------------------- releases


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
