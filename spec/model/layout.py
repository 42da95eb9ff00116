"""Where the barriers and buffers of a kernel lie: byte ranges per memory space, and which overlaps are meant."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import NamedTuple

from sm90_verify.spec.errors import Source
from sm90_verify.spec.ptx.memory import Access, Name, Number, Proxy, Space


class Region(NamedTuple):
    """One object's bytes [start, stop) in a memory space; `shares`: the declarations whose bytes it is meant to
    overlay.

    cta: the CTA whose memory it is, 0 for memory that all CTAs have. owner: the program whose registers they are; ""
    for memory, and for registers of whichever program touches them.
    """

    object: Name
    space: Space
    start: int
    stop: int
    shares: frozenset[str]
    declaration: str
    cta: int = 0
    owner: str = ""

    def access(self, *, write: bool = False, proxy: Proxy = "generic") -> Access:
        """All its bytes, read or written."""
        return Access(self.object, self.space, self.start, self.stop, write, proxy, self.cta)


class WordValues(NamedTuple):
    """A word whose value matters: `initial` at the start, one of 0 to values - 1. wraps: it counts modulo `values`."""

    initial: int = 0
    values: int = 2
    wraps: bool = False


class Layout(NamedTuple):
    """All regions; `arrivals`: the init count of every mbarrier that is initialised before the roles start;
    `barriers`: the declarations that are barriers; `slots`: how many slots each declaration has; `holds`: the tag of
    what a buffer holds at the start; `places`: where each declaration is written, if it is known; `under`: by buffer,
    the barriers that lie in its bytes too; `words`: by object, the words; `begins`: the first address of the shared
    memory that a CTA has (before it, on the hardware, comes what the system keeps)."""

    regions: tuple[Region, ...]
    arrivals: dict[str, int]
    barriers: tuple[str, ...]
    slots: dict[str, Number]
    holds: dict[str, Hashable]
    places: dict[str, Source | None]
    under: dict[str, tuple[Region, ...]]
    words: dict[str, WordValues] = {}
    begins: int = 0

    def overlaps(self) -> list[tuple[Region, Region]]:
        """Pairs of objects that share bytes without being declared to."""
        found = []
        ordered = sorted(self.regions, key=lambda region: (region.space, region.cta, region.start))
        for index, one in enumerate(ordered):
            for other in ordered[index + 1 :]:
                if (other.space, other.cta) != (one.space, one.cta) or other.start >= one.stop:
                    break
                if one.declaration != other.declaration and not meant_to_share(one, other):
                    found.append((one, other))
        return found


def meant_to_share(one: Region, other: Region) -> bool:
    """One is declared to overlay the other, or both to overlay a third."""
    return one.declaration in other.shares or other.declaration in one.shares or bool(one.shares & other.shares)


def barriers_over(regions: Iterable[Region], barriers: Iterable[str]) -> dict[str, tuple[Region, ...]]:
    """By buffer, the barriers with which it has bytes in common: `under` of a layout. barriers: as there."""
    found: dict[str, tuple[Region, ...]] = {}
    shared = [one for one in regions if one.space == "shared"]
    ordered, known = sorted(shared, key=lambda one: (one.cta, one.start)), set(barriers)
    for index, one in enumerate(ordered):
        for other in ordered[index + 1 :]:
            if other.cta != one.cta or other.start >= one.stop:
                break
            for buffer, barrier in ((one, other), (other, one)):
                if barrier.declaration in known and buffer.declaration not in known:
                    found[buffer.object] = (*found.get(buffer.object, ()), barrier)
    return found
