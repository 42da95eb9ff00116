"""Data in the bytes of a barrier (PTX ISA 9.7.13.15, and there .3, .9, .10).

Nothing but mbarrier operations may touch a live object; before init and after inval its 8 bytes are memory like any
other. So an access to them is illegal where it can start while the object is live. mbarrier.init and mbarrier.inval
write the bytes through the generic proxy (`Init.write`, `Inval.write`): an access that is not ordered with them, or
still in progress at init, is a race with that write; what was in the bytes is lost; and an async access after inval
wants the proxy fence that any generic write wants. (After init alone it would be over a live object.)
"""

from __future__ import annotations

from collections.abc import Iterable

from sm90_verify.spec.model.kernel import Program
from sm90_verify.spec.model.layout import Layout, Region
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.memory import Access
from sm90_verify.spec.ptx.needs import APART


def barriers_under(layout: Layout, operation: op.Operation | None) -> list[tuple[Access, str]]:
    """The accesses of an operation to bytes in which a barrier lies, and which. What a copy does beyond the end of its
    buffer is the business of smem-overlap.
    """
    effects = effects_of(operation)
    return [
        (access, region.object)
        for access in (() if effects.signal is not None else effects.accesses)
        for region in layout.under.get(access.object, ())
        if access.overlaps(region.access())
    ]


def undeclared_overlaps(layout: Layout, programs: Iterable[Program]) -> list[tuple[Region, Region]]:
    """Objects that share bytes without being declared to, less buffers over barriers whose lifetime the roles decide:
    those that are dead at the start, or that some role invalidates. There the accesses are checked.
    """
    ends = {
        node.operation.barrier for program in programs for node in program.nodes if isinstance(node.operation, op.Inval)
    }

    def lives_for_a_while(region: Region) -> bool:
        barrier = region.declaration in layout.barriers
        return barrier and (region.object not in layout.arrivals or region.object in ends)

    def in_turn(one: Region, other: Region) -> bool:
        return other.declaration not in layout.barriers and lives_for_a_while(one)

    return [pair for pair in layout.overlaps() if not in_turn(*pair) and not in_turn(*reversed(pair))]


def overlap_of(one: Region, other: Region) -> str:
    """The sentence about two objects that are not declared to share bytes."""
    return APART.said(
        one=one.object, start=one.start, stop=one.stop, other=other.object, begin=other.start, end=other.stop
    )
