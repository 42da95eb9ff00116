"""What a role can yield: one frozen record per operation, in PTX's terms, without any meaning yet."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

from spec.errors import SpecError
from spec.state import Phase


@dataclass(frozen=True)
class Access:
    """Bytes [start, stop) of a memory space, read or written through the generic or the async proxy."""

    object: str
    space: str
    start: int
    stop: int
    write: bool
    proxy: str
    cta: int = 0
    """The CTA whose shared memory it is; 0 for memory that all CTAs have."""

    def conflicts(self, other: Access) -> bool:
        """Same bytes, and at least one of the two writes."""
        return (self.write or other.write) and self.overlaps(other)

    def overlaps(self, other: Access) -> bool:
        same = self.space == other.space and self.cta == other.cta
        return same and self.start < other.stop and other.start < self.stop


@dataclass(frozen=True)
class Operation:
    """Something that only means anything when it is yielded."""

    def __bool__(self) -> bool:
        raise SpecError(
            "an operation has no truth value: write `yield` in front of it (try_wait, test_wait and choose give their "
            "answer as the value of the yield)"
        )


@dataclass(frozen=True)
class Token:
    """The state that mbarrier.arrive returns, to be waited with."""

    barrier: str


@dataclass(frozen=True)
class Init(Operation):
    barrier: str
    count: int
    remote: bool = False


@dataclass(frozen=True)
class Inval(Operation):
    barrier: str
    remote: bool = False


@dataclass(frozen=True)
class Wait(Operation):
    """kind: "wait" blocks; "try_wait" may also give up, "test_wait" only looks: both answer True or False."""

    barrier: str
    phase: int | Phase | Token
    kind: str = "wait"
    remote: bool = False


@dataclass(frozen=True)
class Arrive(Operation):
    """kind: "arrive", "drop" or "no_complete"; expect: bytes of arrive.expect_tx, or None for a plain arrive.

    cta: the CTA of the barrier, if it is another one (the .shared::cluster form); -1 for the thread's own.
    """

    barrier: str
    count: int = 1
    expect: int | None = None
    kind: str = "arrive"
    cta: int = -1


@dataclass(frozen=True)
class Transaction(Operation):
    """expect_tx (bytes > 0) or complete_tx (bytes < 0) without an arrival."""

    barrier: str
    bytes: int
    cta: int = -1


@dataclass(frozen=True)
class Load(Operation):
    """cp.async.bulk global -> shared: written at any later time, in `pieces`, then complete_tx on the barrier.

    also: with .multicast::cluster, the same bytes of the other CTAs of the mask and the barriers that they signal; in
    each CTA the copy lands at a time of its own.
    """

    write: Access
    barrier: str
    bytes: int
    tag: Hashable
    pieces: int = 1
    also: tuple[tuple[Access, str], ...] = ()

    @property
    def destinations(self) -> tuple[tuple[Access, str], ...]:
        """What is written and which barrier is signalled, in every CTA of the mask."""
        return ((self.write, self.barrier), *self.also)


@dataclass(frozen=True)
class Touch(Operation):
    """Accesses of one kind: "read" or "write" (generic, at once), "mma" (until its group is waited for)."""

    kind: str
    accesses: tuple[Access, ...]
    tags: tuple[Hashable, ...]
    commit: bool = False


@dataclass(frozen=True)
class Store(Operation):
    """cp.async.bulk shared -> global: reads sources and tensormap, writes its destination, until its group is waited
    for.
    """

    sources: tuple[Access, ...]
    tags: tuple[Hashable, ...]
    destination: Access | None = None
    tensormap: Access | None = None

    @property
    def reads(self) -> tuple[Access, ...]:
        return self.sources if self.tensormap is None else (*self.sources, self.tensormap)


@dataclass(frozen=True)
class Group(Operation):
    """kind: "mma_commit", "mma_wait", "bulk_commit", "bulk_wait" or "bulk_wait_read"; pending: groups still allowed."""

    kind: str
    pending: int = 0


@dataclass(frozen=True)
class Fence(Operation):
    """kind: "proxy_async" (fence.proxy.async) or "mbarrier_init" (fence.mbarrier_init.release.cluster)."""

    kind: str


@dataclass(frozen=True)
class NamedSync(Operation):
    """bar.sync (blocks) or bar.arrive (does not): `threads` is the count that the instruction names."""

    id: int
    threads: int
    blocks: bool = True


@dataclass(frozen=True)
class CtaSync(Operation):
    """__syncthreads(): all threads of the CTA that have not exited."""


@dataclass(frozen=True)
class ClusterArrive(Operation):
    """barrier.cluster.arrive; `release`: .release (the default) or .relaxed, which orders no memory access."""

    release: bool = True


@dataclass(frozen=True)
class ClusterWait(Operation):
    """barrier.cluster.wait, of the generation in which the thread has arrived."""


@dataclass(frozen=True)
class WarpSync(Operation):
    """__syncwarp(), or a barrier of one warpgroup alone: all representatives of the role."""


@dataclass(frozen=True)
class Choose(Operation):
    """A choice that the model cannot know and that all roles share: the n-th choice of a name is the same for all."""

    name: str
    options: tuple[Hashable, ...]


@dataclass(frozen=True)
class Setmaxnreg(Operation):
    """setmaxnreg.dec or .inc to `registers` a thread, by all threads of the role."""

    registers: int
    kind: str


def as_read(access: Access, proxy: str) -> Access:
    return replace(access, write=False, proxy=proxy)


def as_write(access: Access, proxy: str) -> Access:
    return replace(access, write=True, proxy=proxy)
