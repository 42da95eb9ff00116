"""Accesses: bytes of a memory space, read or written through a proxy."""

from __future__ import annotations

from typing import Annotated, Literal, NamedTuple, TypeAlias

Name: TypeAlias = Annotated[str, range(1, 1 << 16)]
"""Of an object or a role: not empty."""
Number: TypeAlias = Annotated[int, range(1 << 20)]
"""Which or how many, from 0 on."""
Space: TypeAlias = Literal["shared", "global", "registers"]
Proxy: TypeAlias = Literal["generic", "async"]
How: TypeAlias = Literal["generic read", "generic write", "async read", "async write"]
"""What is done with bytes, and through which proxy."""


class Access(NamedTuple):
    """Bytes [start, stop) of a memory space, read or written through a proxy.

    object: the buffer, or the barrier, that they belong to. space: "shared", "global" or "registers". proxy: "generic"
    or "async".
    """

    object: str
    space: Space
    start: int
    stop: int
    write: bool
    proxy: Proxy
    cta: int = 0
    """The CTA whose shared memory it is; 0 for memory that all CTAs have."""

    @property
    def how(self) -> How:
        """Its proxy, and whether it writes."""
        if self.proxy == "async":
            return "async write" if self.write else "async read"
        return "generic write" if self.write else "generic read"

    @property
    def wants_fence(self) -> bool:
        """It goes through the async proxy to memory: generic accesses before it want a proxy fence (PTX ISA 8.6)."""
        return self.proxy == "async" and self.space != "registers"

    def conflicts(self, other: Access) -> bool:
        """Same bytes, and at least one of the two writes."""
        return (self.write or other.write) and self.overlaps(other)

    def overlaps(self, other: Access) -> bool:
        """Some byte is in both."""
        same = self.space == other.space and self.cta == other.cta
        return same and self.start < other.stop and other.start < self.stop


def as_read(access: Access, proxy: Proxy) -> Access:
    """The access as a read."""
    return Access(access.object, access.space, access.start, access.stop, False, proxy, access.cta)


def as_write(access: Access, proxy: Proxy) -> Access:
    """The access as a write."""
    return Access(access.object, access.space, access.start, access.stop, True, proxy, access.cta)


def describe(access: Access) -> str:
    """For a sentence."""
    verb = "write" if access.write else "read"
    return f"the {access.proxy}-proxy {verb} of {access.object}"
