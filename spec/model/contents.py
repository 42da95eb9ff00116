"""What buffers hold: the data of a tag, in all of their bytes or only in a part of them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import NamedTuple, TypeAlias

from sm90_verify.spec.model.layout import Layout
from sm90_verify.spec.ptx.memory import Access

Extents: TypeAlias = Mapping[str, tuple[int, int]]
"""By object, where it starts and stops."""


class Part(NamedTuple):
    """The data of a tag in bytes [start, stop) of a buffer, and anything in the others."""

    tag: Hashable
    start: int
    stop: int


def extents(layout: Layout) -> Extents:
    """Those of all objects."""
    return {region.object: (region.start, region.stop) for region in layout.regions}


def left_by(access: Access, tag: Hashable, objects: Extents) -> Hashable:
    """What a write leaves: its tag where it covers the buffer, and else a part."""
    start, stop = objects.get(access.object, (access.start, access.stop))
    return tag if access.start <= start and stop <= access.stop else Part(tag, access.start, access.stop)


def is_found(data: Hashable, access: Access, tag: Hashable) -> bool:
    """A read finds what it expects in a buffer that holds the data."""
    if isinstance(data, Part):
        return data.tag == tag and data.start <= access.start and access.stop <= data.stop
    return data == tag
