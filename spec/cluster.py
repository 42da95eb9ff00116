"""Thread block clusters: their shapes, who shares tiles of A and B with whom, and who signals whom.

Line numbers P are those of cutlass/pipeline/sm90_pipeline.hpp, S those of
cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized.hpp, in CUTLASS 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass

from spec.errors import SpecError
from spec.hopper import WARP, WARPGROUP

CLUSTER_LIMIT = 16
"""CTAs of a cluster at most (non-portable size on an H100)."""


@dataclass(frozen=True)
class Cluster:
    """A cluster of x * y CTAs; the rank of CTA (i, j) is i + j * x (%cluster_ctarank)."""

    x: int = 1
    y: int = 1

    def __post_init__(self) -> None:
        if self.x < 1 or self.y < 1 or self.size > CLUSTER_LIMIT:
            raise SpecError(f"a cluster of {self.x}x{self.y} CTAs: use XxY with 1 to {CLUSTER_LIMIT} CTAs")

    @staticmethod
    def parse(text: str) -> Cluster:
        """`XxY`, as ClusterShape_MNK without its last extent; raises SpecError outside 1 to 16 CTAs."""
        x, _, y = str(text).partition("x")
        if not (x.isdigit() and y.isdigit()):
            raise SpecError(f"cluster {text!r}: use XxY with 1 to {CLUSTER_LIMIT} CTAs, for example 2x1")
        return Cluster(int(x), int(y))

    @property
    def size(self) -> int:
        return self.x * self.y

    def position(self, rank: int) -> tuple[int, int]:
        """(i, j) of a CTA: i counts along M, j along N."""
        return rank % self.x, rank // self.x

    def rank(self, i: int, j: int) -> int:
        return i + j * self.x

    def sharing_a(self, rank: int) -> tuple[int, ...]:
        """The CTAs that need the same rows of A: the multicast mask of A (same i, every j; S:356-361)."""
        i, _ = self.position(rank)
        return tuple(self.rank(i, j) for j in range(self.y))

    def sharing_b(self, rank: int) -> tuple[int, ...]:
        """The CTAs that need the same columns of B: the multicast mask of B (same j, every i; S:363-368)."""
        _, j = self.position(rank)
        return tuple(self.rank(i, j) for i in range(self.x))

    def shares_row_or_column(self, one: int, other: int) -> bool:
        """is_same_row_or_col (P:392-397)."""
        (i, j), (k, m) = self.position(one), self.position(other)
        return i == k or j == m

    def writers(self, rank: int) -> tuple[int, ...]:
        """The CTAs whose copies of A or B land in this CTA's stages."""
        ranks = range(self.size)
        return tuple(other for other in ranks if rank in (*self.sharing_a(other), *self.sharing_b(other)))

    def home(self, rank: int) -> str:
        """What names of things of a CTA begin with: nothing if there is only one."""
        return f"cta{rank}." if self.size > 1 else ""


def all_shapes() -> tuple[Cluster, ...]:
    """Every shape of at most 16 CTAs."""
    sides = range(1, CLUSTER_LIMIT + 1)
    return tuple(Cluster(x, y) for x in sides for y in sides if x * y <= CLUSTER_LIMIT)


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
