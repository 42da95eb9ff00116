"""The CTAs of a thread block cluster: its shape, and who shares a row or a column of tiles with whom."""

from __future__ import annotations

from dataclasses import dataclass

from spec.errors import SpecError

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
        """The CTAs that work on the same rows of A: the multicast mask of A (same i, every j)."""
        i, _ = self.position(rank)
        return tuple(self.rank(i, j) for j in range(self.y))

    def sharing_b(self, rank: int) -> tuple[int, ...]:
        """The CTAs that work on the same columns of B: the multicast mask of B (same j, every i)."""
        _, j = self.position(rank)
        return tuple(self.rank(i, j) for i in range(self.x))

    def shares_row_or_column(self, one: int, other: int) -> bool:
        """is_same_row_or_col (sm90_pipeline.hpp:392-397)."""
        (i, j), (k, m) = self.position(one), self.position(other)
        return i == k or j == m

    def sharing(self, rank: int) -> tuple[int, ...]:
        """The x + y - 1 CTAs in the same row or column, in the order of their ranks: all that write this CTA's
        stages.
        """
        return tuple(sorted({*self.sharing_a(rank), *self.sharing_b(rank)}))

    def home(self, rank: int) -> str:
        """What names of things of a CTA begin with: nothing if there is only one."""
        return f"cta{rank}." if self.size > 1 else ""
