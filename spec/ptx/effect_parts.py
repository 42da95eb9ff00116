"""What the effects of operations are made of (effects.py)."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Literal, NamedTuple, TypeAlias

from sm90_verify.spec.ptx.memory import Access, How

Until: TypeAlias = Literal["done", "mma_group", "bulk_group", "cp_group", "landed"]
"""When an access is over: with its operation; when its thread has waited for the wgmma group (PTX ISA 9.7.15.7), the
bulk group (9.7.9.25.6) or the group of cp.asyncs (9.7.9.25.3) that it is in; when the bytes of its copy have landed,
which an mbarrier tells."""
Groups: TypeAlias = Literal["mma", "bulk", "cp"]
"""The groups of wgmma.commit_group, of cp.async.bulk.commit_group, or of cp.async.commit_group."""
Shown: TypeAlias = Literal["accesses", "inits_to_copies", "inits_to_ctas", "maps", "maps_to_ctas", "registers"]
"""What a thread has done before, as others may or may not see it: its generic accesses, to the async proxy; barriers
that it has initialised, to bulk copies, and to other CTAs; tensormaps that it has written, to who acquires them in its
CTA, and in other CTAs; its accesses to registers, to its wgmmas."""


class Begun(NamedTuple):
    """One access that an operation begins.

    how: what the operation does there, as its access must say too. data: of a read, the tag that it must find; of a
    write, the tag of what it leaves; () if neither is said. raw: an access through the async proxy that follows wants a
    fence.proxy.async after it (8.6). strong: it is an atomic one, as its access must say too.
    """

    access: Access
    how: How
    until: Until = "done"
    data: tuple[Hashable, ...] = ()
    raw: bool = False
    strong: bool = False


class Copies(NamedTuple):
    """Copies of one size into one buffer that signal one barrier, piece by piece: alike but for what they bring.
    Those of the async proxy are bulk copies, those of the generic proxy st.async.

    read: what they are taken from, unless it is global memory that nobody writes. tensormap: what describes them, in
    the same way.
    """

    write: Access
    barrier: str
    bytes: int
    pieces: int
    read: Access | None = None
    tensormap: Access | None = None

    @property
    def data(self) -> tuple[Access, ...]:
        """Where they write, and what they bring."""
        return (self.write,) if self.read is None else (self.write, self.read)

    @property
    def accesses(self) -> tuple[Access, ...]:
        """All are in progress until the bytes have landed."""
        return self.data if self.tensormap is None else (*self.data, self.tensormap)


class Acquired(NamedTuple):
    """A tensormap that a thread sees from here on as others have released it; wide: also others in other CTAs."""

    map: Access
    wide: bool


class TriggeredArrivals(NamedTuple):
    """Arrivals of so many threads that follow of themselves when the cp.asyncs of these threads are done; `tracks` are
    accesses of these that are in progress until then.
    """

    barrier: str
    threads: int
    tracks: tuple[Access, ...]


class Ends(NamedTuple):
    """A wait for the groups of a kind, but for the `pending` newest; reads: for what they read, and not yet for what
    they write.
    """

    groups: Groups
    pending: int
    reads: bool = False
