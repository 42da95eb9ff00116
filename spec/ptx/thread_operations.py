"""The operations on barriers of threads, on shared decisions and on registers, as records: what is yielded, and nothing
about what it does.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from sm90_verify.spec.ptx.limits import COUNT_LIMIT, CTA_THREADS
from sm90_verify.spec.ptx.yielded import Yielded

RegistersKind: TypeAlias = Literal["dec", "inc"]
DependencyKind: TypeAlias = Literal["launch_dependents", "wait"]


@dataclass(frozen=True)
class NamedSync(Yielded):
    """bar.sync (blocks) or bar.arrive (does not): `threads` is the count that the instruction names. `by`: how many
    threads of the role execute it, 0 for all of them; the instruction counts whole warps (9.7.13.1).
    """

    id: int
    threads: Annotated[int, range(CTA_THREADS + 1)]
    blocks: bool = True
    by: Annotated[int, range(CTA_THREADS + 1)] = 0

    def brings(self, threads: int) -> int:
        """The threads that arrive, of a role of so many."""
        return self.by or threads


@dataclass(frozen=True)
class CtaSync(Yielded):
    """__syncthreads(): all threads of the CTA that have not exited."""


@dataclass(frozen=True)
class ClusterArrive(Yielded):
    """barrier.cluster.arrive; `release`: .release (the default) or .relaxed, which orders no memory access."""

    release: bool = True


@dataclass(frozen=True)
class ClusterWait(Yielded):
    """barrier.cluster.wait, of the generation in which the thread has arrived."""


@dataclass(frozen=True)
class WarpSync(Yielded):
    """__syncwarp(), or a barrier of one warpgroup alone: all representatives of the role. warp: of a role of several
    warps, those of one of them alone; lanes: of its lanes alone, a bit for each, 0 for all. orders: memory too; at
    shfl.sync, elect.sync and the like lanes meet, and see nothing of what others did before.
    """

    warp: Annotated[int, range(-1, CTA_THREADS // 32)] = -1
    lanes: Annotated[int, range(1 << 32)] = 0
    orders: bool = True


@dataclass(frozen=True)
class Parted(Yielded):
    """An instruction that threads of a warp or a warpgroup execute together (.aligned, or with a membermask), by
    some of them alone. others: what those do, in a few words. Only a front end knows it.
    """

    instruction: str
    others: str


@dataclass(frozen=True)
class Choose(Yielded):
    """A choice that the model cannot know and that all roles share: the n-th choice of a name is the same for all."""

    name: str
    options: Annotated[tuple[Hashable, ...], range(2, COUNT_LIMIT)]


@dataclass(frozen=True)
class Setmaxnreg(Yielded):
    """setmaxnreg.dec or .inc to `registers` a thread, by all threads of the role."""

    registers: int
    kind: RegistersKind


@dataclass(frozen=True)
class Griddepcontrol(Yielded):
    """griddepcontrol.launch_dependents or .wait (9.7.13.13); both do nothing where the kernel is launched alone."""

    kind: DependencyKind


@dataclass(frozen=True)
class CtaStart(Yielded):
    """The CTA is started: what comes first in programs whose CTA others may keep waiting. Nobody writes it down."""


Meeting: TypeAlias = NamedSync | CtaSync | WarpSync | ClusterArrive | ClusterWait
"""The operations on barriers of threads."""

OnThreads: TypeAlias = Meeting | Parted | Choose | Setmaxnreg | Griddepcontrol | CtaStart
"""All of them."""
