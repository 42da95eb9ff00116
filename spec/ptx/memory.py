"""Accesses: bytes of a memory space, read or written through a proxy."""

from __future__ import annotations

from typing import NamedTuple


class Access(NamedTuple):
    """Bytes [start, stop) of a memory space, read or written through a proxy.

    object: the buffer, or the barrier, that they belong to. space: "shared", "global" or "registers". proxy: "generic"
    or "async".
    """

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
        """Some byte is in both."""
        same = self.space == other.space and self.cta == other.cta
        return same and self.start < other.stop and other.start < self.stop


def as_read(access: Access, proxy: str) -> Access:
    """The access as a read."""
    return Access(access.object, access.space, access.start, access.stop, False, proxy, access.cta)


def as_write(access: Access, proxy: str) -> Access:
    """The access as a write."""
    return Access(access.object, access.space, access.start, access.stop, True, proxy, access.cta)


def describe(access: Access) -> str:
    """For a sentence."""
    verb = "write" if access.write else "read"
    return f"the {access.proxy}-proxy {verb} of {access.object}"
