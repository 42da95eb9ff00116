"""Addresses: where shared memory begins, and how an address says which CTA or which memory it is in.

The values are this program's own, as a launch on a GPU has others; only their order within one object matters.
"""

from __future__ import annotations

SHARED_BEGINS = 0x400
"""The first byte that a kernel has: 1 KiB of each CTA's shared memory is the system's."""
RANK_SHIFT = 24
"""In an address of .shared::cluster, the bits above are the rank of the CTA and 1; 0 stands for the CTA's own."""
OFFSET = (1 << RANK_SHIFT) - 1

WINDOWS = {"shared": 0x7000_0000_0000, "local": 0x7100_0000_0000, "param": 0x7200_0000_0000, "const": 0x7300_0000_0000}
"""Where each memory begins among generic addresses; global memory has all others."""
WINDOW = 1 << 40


def to_generic(space: str, address: int) -> int:
    """cvta: the generic address of one in a memory."""
    return address + WINDOWS.get(space.split("::", maxsplit=1)[0], 0)


def from_generic(space: str, address: int) -> int:
    """cvta.to"""
    return address - WINDOWS.get(space.split("::", maxsplit=1)[0], 0)


def space_of(address: int) -> str:
    """The memory that a generic address is in."""
    return next((name for name, begin in WINDOWS.items() if begin <= address < begin + WINDOW), "global")


def is_space(space: str, address: int) -> int:
    """isspacep"""
    found = space_of(address)
    if space == "shared::cta":
        return int(found == "shared" and (address - WINDOWS["shared"]) >> RANK_SHIFT == 0)
    return int(found == space.split("::", maxsplit=1)[0])


def mapped(address: int, rank: int) -> int:
    """mapa: the same offset in the shared memory of the CTA of a rank."""
    return (rank + 1) << RANK_SHIFT | address & OFFSET


def mapped_generic(address: int, rank: int) -> int:
    """The same of generic addresses."""
    return to_generic("shared", mapped(from_generic("shared", address), rank))
