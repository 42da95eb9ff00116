"""What lies next to what: the barriers and buffers that a programmer could have taken for each other."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from sm90_verify.spec.model.layout import Layout, Region
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.memory import Access

ToNeighbour: TypeAlias = Callable[[str], str]
"""From the name of a barrier or buffer to another one."""


class Neighbours:
    """Which barriers and buffers lie next to which, in the shared memory of each CTA."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.rings: dict[tuple[str, int, str], list[Region]] = {}
        for region in layout.regions:
            self.rings.setdefault((region.declaration, region.cta, region.owner), []).append(region)
        self.home = {region.object: region for region in layout.regions}
        self.ctas = 1 + max((region.cta for region in layout.regions), default=0)

    def ring(self, name: str) -> list[Region]:
        return self.rings[self.home[name].declaration, self.home[name].cta, self.home[name].owner]

    def slots(self, name: str) -> int:
        return len(self.ring(name))

    def shifted(self, name: str, steps: int) -> str:
        """The object `steps` slots further on in its ring."""
        ring = self.ring(name)
        return ring[(ring.index(self.home[name]) + steps) % len(ring)].object

    def wraps(self, name: str) -> bool:
        return self.ring(name)[-1].object == name

    def others(self, name: str) -> list[str]:
        """The other declarations of the same kind, for buffers of the same size."""
        home = self.home[name]
        is_barrier = home.declaration in self.layout.barriers
        return [
            declaration
            for (declaration, cta, owner), ring in self.rings.items()
            if declaration != home.declaration
            and (cta, owner) == (home.cta, home.owner)
            and (declaration in self.layout.barriers) == is_barrier
            and (is_barrier or (ring[0].stop - ring[0].start, ring[0].space) == (home.stop - home.start, home.space))
        ]

    def same_slot(self, name: str, declaration: str) -> str:
        slot = self.ring(name).index(self.home[name])
        ring = self.rings[declaration, self.home[name].cta, self.home[name].owner]
        return ring[slot % len(ring)].object

    def next_cta(self, name: str) -> str:
        """The object at the same place in the shared memory of the CTA with the next rank."""
        home = self.home[name]
        return self.rings[home.declaration, (home.cta + 1) % self.ctas, ""][self.ring(name).index(home)].object

    def moved(self, access: Access, name: str) -> Access:
        """The access at the same offset of another buffer."""
        offset = self.home[name].start - self.home[access.object].start
        start, stop = access.start + offset, access.stop + offset
        return access._replace(object=name, start=start, stop=stop, cta=self.home[name].cta)

    def reloaded(self, load: op.Load, barrier: ToNeighbour | None, buffer: ToNeighbour | None) -> op.Load:
        """The copy with other barriers or buffers, in every CTA of its mask."""
        (write, signalled), *also = [
            (
                one if buffer is None else self.moved(one, buffer(one.object)),
                name if barrier is None else barrier(name),
            )
            for one, name in load.destinations
        ]
        return replace(load, write=write, barrier=signalled, also=tuple(also))
