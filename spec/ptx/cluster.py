"""Thread block clusters: their shapes, and who shares tiles of A and B with whom.

Line numbers P are those of cutlass/pipeline/sm90_pipeline.hpp, S those of
cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized.hpp, in CUTLASS 4.2.
"""

from __future__ import annotations

from dataclasses import dataclass

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.limits import CLUSTER_LIMIT


@dataclass(frozen=True)
class Cluster:
    """A cluster of x * y CTAs; the rank of CTA (i, j) is i + j * x (%cluster_ctarank)."""

    x: int = 1
    y: int = 1

    def __post_init__(self) -> None:
        whole = isinstance(self.x, int) and isinstance(self.y, int)
        if not whole or self.x < 1 or self.y < 1 or self.size > CLUSTER_LIMIT:
            raise SpecError(f"a cluster of {self.x}x{self.y} CTAs: use XxY with 1 to {CLUSTER_LIMIT} CTAs")

    @staticmethod
    def parse(text: str) -> Cluster:
        """`XxY`, as ClusterShape_MNK without its last extent; raises SpecError outside 1 to 16 CTAs."""
        x, _, y = str(text).partition("x")
        if not (x.isdecimal() and y.isdecimal()):
            raise SpecError(f"cluster {text!r}: use XxY with 1 to {CLUSTER_LIMIT} CTAs, for example 2x1")
        return Cluster(int(x), int(y))

    @property
    def size(self) -> int:
        """CTAs."""
        return self.x * self.y

    def position(self, rank: int) -> tuple[int, int]:
        """(i, j) of a CTA: i counts along M, j along N."""
        return rank % self.x, rank // self.x

    def rank(self, i: int, j: int) -> int:
        """The rank of the CTA at a position."""
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
