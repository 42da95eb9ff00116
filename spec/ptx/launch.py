"""What is launched: a grid of clusters of CTAs, and with programmatic dependent launch a second grid after it.

CTAs are counted through all of it, cluster by cluster: that number says whose shared memory an access is to. A role's
program knows its CTA by its rank in the cluster (%cluster_ctarank), and no operation reaches beyond that cluster.
"""

from __future__ import annotations

from dataclasses import dataclass

from sm90_verify.spec.ptx.cluster import Cluster


@dataclass(frozen=True)
class LaunchShape:
    """`grids` grids, each of `clusters` clusters of one shape; every grid but the first depends on the one before."""

    cluster: Cluster
    clusters: int = 1
    grids: int = 1

    @property
    def ctas(self) -> int:
        """CTAs of all grids."""
        return self.blocks * self.cluster.size

    @property
    def blocks(self) -> int:
        """Clusters of all grids: their CTAs start together."""
        return self.clusters * self.grids

    def block(self, cta: int) -> int:
        """The number of a CTA's cluster, counted through all grids."""
        return cta // self.cluster.size

    def place(self, cta: int) -> tuple[int, int]:
        """A CTA and its cluster, both counted through all grids."""
        return cta, self.block(cta)

    def cluster_of(self, cta: int) -> int:
        """The number of a CTA's cluster in its grid."""
        return self.block(cta) % self.clusters

    def grid_of(self, cta: int) -> int:
        """The number of a CTA's grid."""
        return self.block(cta) // self.clusters

    def rank(self, cta: int) -> int:
        """The rank of a CTA in its cluster."""
        return cta % self.cluster.size

    def distance(self, one: int, other: int) -> int:
        """0 within a CTA, 1 within a cluster, 2 beyond: which of .cta, .cluster and .gpu reaches so far."""
        return 0 if one == other else 1 if self.block(one) == self.block(other) else 2

    @property
    def reach(self) -> int:
        """The largest distance of two CTAs."""
        return 2 if self.blocks > 1 else 1 if self.cluster.size > 1 else 0

    def peer(self, cta: int, rank: int) -> int:
        """The CTA of a rank in the cluster of another one."""
        return cta - self.rank(cta) + rank

    def home(self, cta: int) -> str:
        """What names of things of a CTA begin with: nothing if there is only one; `cluster1.cta0.` where there are
        several clusters of several CTAs.
        """
        return self.peers_home(cta) + self.cluster.home(self.rank(cta))

    def peers_home(self, cta: int) -> str:
        """What names of things of a CTA's cluster begin with."""
        grid = f"grid{self.grid_of(cta)}." if self.grids > 1 else ""
        return grid + (f"cluster{self.cluster_of(cta)}." if self.clusters > 1 else "")

    def called(self, cta: int) -> str:
        """A CTA in a sentence, after the word CTA."""
        cluster = f" of cluster {self.cluster_of(cta)}" if self.clusters > 1 else ""
        return f"{self.rank(cta)}{cluster}" + (f" of grid {self.grid_of(cta)}" if self.grids > 1 else "")

    def earlier(self, block: int, *, resident: bool) -> range:
        """The clusters that must have ended before one can count on being started. resident: those of a grid all start,
        so that only the grid before matters.
        """
        first = block - block % self.clusters
        return range(first if resident else block)
