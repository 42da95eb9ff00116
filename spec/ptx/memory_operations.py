"""The operations on memory, on async-groups and on proxies, as records: what is yielded, and nothing about what it
does.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from sm90_verify.spec.ptx.limits import BULK_GROUPS, COUNT_LIMIT
from sm90_verify.spec.ptx.memory import Access, Scope
from sm90_verify.spec.ptx.yielded import Count, Yielded

TouchKind: TypeAlias = Literal["read", "write", "red", "mma"]
GroupKind: TypeAlias = Literal[
    "mma_commit", "mma_wait", "bulk_commit", "bulk_wait", "bulk_wait_read", "cp_commit", "cp_wait", "cp_wait_all"
]
FenceKind: TypeAlias = Literal["proxy_async", "mbarrier_init", "wgmma"]
MapFenceKind: TypeAlias = Literal["release", "acquire"]


@dataclass(frozen=True)
class Load(Yielded):
    """cp.async.bulk{.tensor} global -> shared, or cp.async.bulk of the CTA's own shared memory to that of the cluster:
    written at any later time, in `pieces`, then complete_tx on the barrier.

    bytes: those that it signals in each CTA, a multiple of `pieces`. tag: of the data that it brings. also: with
    .multicast::cluster, the same bytes of the other CTAs of the mask and the barriers that they signal; in each CTA the
    copy lands at a time of its own. read: the source, once for all of them; None: global memory that nobody writes.
    tensormap: the one that describes it, which is read until it has landed; None: one that nobody writes.
    """

    write: Access
    barrier: str
    bytes: int
    tag: Hashable
    pieces: int = 1
    also: tuple[tuple[Access, str], ...] = ()
    read: Access | None = None
    tensormap: Access | None = None

    @property
    def destinations(self) -> tuple[tuple[Access, str], ...]:
        """What is written and which barrier is signalled, in every CTA of the mask."""
        return ((self.write, self.barrier), *self.also)


@dataclass(frozen=True)
class Touch(Yielded):
    """Accesses of one kind: "read", "write" or "red" (generic, at once; red and atom are strong, 9.7.13.5 to .7), "mma"
    (wgmma, until its group is waited for).

    tags: of each access, the data that a read must find (None: any) or that a write leaves. commit: wgmma.commit_group
    follows at once. into: the registers in which the wgmma accumulates, and leaves: the tag of what is in them then.
    An access of it to registers reads the matrix A there.
    """

    kind: TouchKind
    accesses: tuple[Access, ...]
    tags: tuple[Hashable, ...]
    commit: bool = False
    into: Access | None = None
    leaves: Hashable = None

    @property
    def objects(self) -> tuple[str, ...]:
        """The buffers that it touches, the accumulator last."""
        return tuple(one.object for one in (*self.accesses, *((self.into,) if self.into is not None else ())))


@dataclass(frozen=True)
class Find(Yielded):
    """An ordinary load that tells its thread which data it finds: the number of its tag among `tags`, of which one must
    be there.
    """

    access: Access
    tags: Annotated[tuple[Hashable, ...], range(1, COUNT_LIMIT)]


@dataclass(frozen=True)
class Store(Yielded):
    """cp.async.bulk{.tensor} shared -> global: reads sources and tensormap, writes its destination, until its group is
    waited for; cp.reduce.async.bulk (9.7.9.25.4.2), if that write is strong. tags: as for a Touch, of each source.
    """

    sources: tuple[Access, ...]
    tags: tuple[Hashable, ...]
    destination: Access | None = None
    tensormap: Access | None = None

    @property
    def reads(self) -> tuple[Access, ...]:
        """The sources, and the tensormap if there is one."""
        return self.sources if self.tensormap is None else (*self.sources, self.tensormap)


@dataclass(frozen=True)
class CpAsync(Yielded):
    """cp.async global -> shared, not bulk (9.7.9.25.3.1): reads source and writes, with ordinary accesses that go on
    until the group of the thread's cp.asyncs is waited for. tag: of the data that it brings.
    """

    write: Access
    tag: Hashable
    source: Access | None = None


@dataclass(frozen=True)
class TriggeredArrive(Yielded):
    """cp.async.mbarrier.arrive (9.7.13.15.15) by `count` threads: when the cp.asyncs of each thread before it are done,
    an arrival of the thread follows, of itself. noinc: it is one of those that the barrier counts; otherwise one more
    is pending from the start. tracks: what these cp.asyncs access and no earlier one tracks, filled in by annotate.
    """

    barrier: str
    count: Count = 1
    noinc: bool = False
    tracks: tuple[Access, ...] = ()


@dataclass(frozen=True)
class StoreAsync(Yielded):
    """st.async registers -> shared memory of a CTA of the cluster (9.7.9.12): written at any later time, in `pieces`,
    each with its complete_tx on a barrier of that CTA. bytes: those of all pieces. tag: of the data that it brings. A
    strong write is that of red.async (9.7.9.13), which is .relaxed at .cluster scope.
    """

    write: Access
    barrier: str
    bytes: int
    tag: Hashable
    pieces: int = 1


@dataclass(frozen=True)
class Group(Yielded):
    """kind: the commit_group or wait_group of the wgmmas, the bulk copies or the cp.asyncs of a thread (cp_wait_all:
    cp.async.wait_all); pending: groups still allowed. joint: the role is a warpgroup whose parts each execute it: a
    group of wgmmas is complete when all parts have issued it, and then over for all of them.
    """

    kind: GroupKind
    pending: Annotated[int, range(BULK_GROUPS)] = 0
    joint: bool = False


@dataclass(frozen=True)
class Fence(Yielded):
    """kind: "proxy_async" (fence.proxy.async), "mbarrier_init" (fence.mbarrier_init.release.cluster), or "wgmma"
    (wgmma.fence.sync.aligned).
    """

    kind: FenceKind


@dataclass(frozen=True)
class MapFence(Yielded):
    """fence.proxy.tensormap::generic (9.7.13.4): "release" of what the thread has written, or "acquire" of the
    tensormap `map` that it is going to use; for threads of the scope.
    """

    kind: MapFenceKind
    scope: Scope = "gpu"
    map: Access | None = None


@dataclass(frozen=True)
class CopyMap(Yielded):
    """tensormap.cp_fenceproxy: copies a tensormap from shared to global memory, ordinarily, and releases it."""

    source: Access
    map: Access
    tag: Hashable = None
    scope: Scope = "gpu"


Copying: TypeAlias = CpAsync | TriggeredArrive | StoreAsync
"""Copies by ordinary threads, and the arrivals that follow them."""
OnMemory: TypeAlias = Load | Touch | Find | Store | Copying | Group | Fence | MapFence | CopyMap
"""All of them."""
