"""Accesses: bytes of a memory space, read or written through a proxy."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Annotated, Literal, NamedTuple, TypeAlias

Name: TypeAlias = Annotated[str, range(1, 1 << 16)]
"""Of an object or a role: not empty."""
Number: TypeAlias = Annotated[int, range(1 << 20)]
"""Which or how many, from 0 on."""
Space: TypeAlias = Literal["shared", "global", "registers"]
Proxy: TypeAlias = Literal["generic", "async", "tensormap"]
How: TypeAlias = Literal["generic read", "generic write", "async read", "async write", "tensormap read"]
"""What is done with bytes, and through which proxy."""
Scope: TypeAlias = Literal["cta", "cluster", "gpu", "sys"]
"""The threads for which something is ordered, or strong: those of the CTA, the cluster, the GPU, the system (8.5)."""
WIDER: tuple[Scope, ...] = ("cta", "cluster", "gpu", "sys")
"""From the narrowest on."""


class Strong(NamedTuple):
    """A strong access (PTX ISA 8.4, 8.7): an atomic one, or a relaxed, acquiring or releasing one; weak ones have none.

    cta: that of the thread that makes it, and cluster: that of the CTA, both counted through the launch.
    """

    scope: Scope
    cta: int = 0
    cluster: int = 0

    def includes(self, other: Strong) -> bool:
        """The thread that makes the other one is in the scope of this one."""
        if self.scope == "cta":
            return self.cta == other.cta
        return self.cluster == other.cluster or self.scope != "cluster"


class Access(NamedTuple):
    """Bytes [start, stop) of a memory space, read or written through a proxy.

    object: the buffer, or the barrier, that they belong to. space: "shared", "global" or "registers". proxy: "generic",
    "async", or "tensormap", through which a copy reads the tensormap that describes it.
    """

    object: str
    space: Space
    start: int
    stop: int
    write: bool
    proxy: Proxy
    cta: int = 0
    """The CTA whose shared memory it is; 0 for memory that all CTAs have."""
    strong: Strong | None = None
    value: Hashable = None
    """What is written, or must be found: nobody can tell two writes of one value to the same bytes apart."""

    @property
    def how(self) -> How:
        """Its proxy, and whether it writes."""
        if self.proxy == "tensormap":
            return "tensormap read"
        if self.proxy == "async":
            return "async write" if self.write else "async read"
        return "generic write" if self.write else "generic read"

    @property
    def wants_fence(self) -> bool:
        """It goes through the async proxy to memory: generic accesses before it want a proxy fence (PTX ISA 8.6)."""
        return self.proxy == "async" and self.space != "registers"

    def collides(self, earlier: Access) -> bool:
        """It is not ordered after an earlier access of its own thread by itself, of which one is asynchronous. Between
        ordinary accesses to registers and a wgmma on them nothing is (PTX ISA 9.7.15.7.1, .3); several wgmmas may read
        the same ones, and accumulate one after the other in the same ones.
        """
        if self.space == "registers" and self.overlaps(earlier) and self.proxy == earlier.proxy:
            same = (self.start, self.stop) == (earlier.start, earlier.stop)
            return self.write != earlier.write or (self.write and not same)
        return self.overlaps(earlier) if self.space == "registers" else self.conflicts(earlier)

    def conflicts(self, other: Access) -> bool:
        """Same bytes, at least one of the two writes, and it matters which of them comes first."""
        return (self.write or other.write) and self.overlaps(other) and not self.unharmed_by(other)

    def races(self, other: Access) -> bool:
        """They conflict where neither is ordered after the other, though only one order of them may ever be seen: a
        read need not find the value of such a write, be it the one that it must find.
        """
        one_finds = self.value is not None and self.write != other.write and self.overlaps(other)
        return one_finds or self.conflicts(other)

    def overlaps(self, other: Access) -> bool:
        """Some byte is in both."""
        same = self.space == other.space and self.cta == other.cta
        return same and self.start < other.stop and other.start < self.stop

    def unharmed_by(self, other: Access) -> bool:
        """They are morally strong relative to each other (8.7: both strong, each in the scope of the other, through
        one proxy), or of one value.
        """
        if self.value is not None and self.value == other.value:
            return (self.start, self.stop) == (other.start, other.stop)
        if self.strong is None or other.strong is None or self.proxy != other.proxy:
            return False
        return self.strong.includes(other.strong) and other.strong.includes(self.strong)


def as_read(access: Access, proxy: Proxy) -> Access:
    """The access as a read."""
    return Access(access.object, access.space, access.start, access.stop, False, proxy, access.cta)


def as_write(access: Access, proxy: Proxy) -> Access:
    """The access as a write."""
    return Access(access.object, access.space, access.start, access.stop, True, proxy, access.cta)


def describe(access: Access) -> str:
    """For a sentence."""
    verb = "write" if access.write else "read"
    if access.space == "registers":
        return f"the {'wgmma' if access.proxy == 'async' else 'ordinary'} {verb} of {access.object}"
    atomic = "" if access.strong is None else f"atomic .{access.strong.scope} "
    return f"the {atomic}{access.proxy}-proxy {verb} of {access.object}"
