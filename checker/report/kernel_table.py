"""Rings, roles and buffers of a kernel as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sm90_verify.made_of import KernelTable
from sm90_verify.report.sections import Break, Column, Paragraph, Report, Table

NAMED_ALIKE = 6
"""CTAs that are named of those that are made alike."""
RINGS = (
    Column("ring", 10),
    Column("slots", 5, right=True),
    Column("at", 8, right=True),
    Column("count", 6, right=True),
    Column("bytes", 7, right=True),
    Column("arrive, or signal by copies -> wait", gap=2),
)
ROLES = (
    Column("role", 14),
    Column("threads", 7, right=True),
    Column("operations", 10, right=True),
    Column("classes of lanes", gap=2),
)


def sections_of_table(table: KernelTable) -> Report:
    """A row for each ring and each role, and a paragraph for each buffer."""
    rings = tuple(
        (
            one.ring,
            str(one.slots),
            f"{one.address:#x}",
            str(one.arrivals),
            str(one.bytes or "-"),
            f"{_listed((*one.arrive, *(f'copies of {role}' for role in one.copies)))} -> {_listed(one.waits)}",
        )
        for one in table.rings
    )
    roles = tuple(
        (one.role, str(one.threads), str(one.operations), ", ".join(map(str, one.classes))) for one in table.roles
    )
    others = [section for other in table.others for section in sections_of_table(other)]
    return (*_about(table), Table(RINGS, rings), Break(), Table(ROLES, roles), Break(), *_buffers(table), *others)


def _about(table: KernelTable) -> Iterable[Paragraph]:
    """Which CTA it is, if there are several, and what addresses count from."""
    if table.others or table.alike or any(table.block):
        named = ", ".join(map(str, table.alike[:NAMED_ALIKE]))
        more = f" and {len(table.alike) - NAMED_ALIKE} more" if len(table.alike) > NAMED_ALIKE else ""
        alike = f", with the same rings as {named}{more}" if table.alike else ""
        yield Paragraph(f"CTA {table.block}{alike}", 4)
    begins = f"bytes from the start of dynamic shared memory, which has the shared::cta address {table.base:#x}"
    yield Paragraph(f"at: {begins if table.base else 'addresses of shared::cta'}", 4)


def _buffers(table: KernelTable) -> Iterable[Paragraph | Break]:
    for one in table.buffers:
        name = f"{one.buffer}[{one.slots}]" if one.slots > 1 else one.buffer
        text = f"{name} at {one.address:#x}, {one.bytes} bytes: written by {_listed(one.writers)}; read by "
        yield Paragraph(f"{text}{_listed(one.readers)}", 4)
        for said in one.orders:
            yield Paragraph(f"    {said}", 8)
    yield Break()


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "nobody"
