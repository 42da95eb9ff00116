"""Rings, roles and buffers of a kernel as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sm90_verify.made_of import KernelTable
from sm90_verify.report.sections import Break, Column, Paragraph, Report, Table

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
    return (Table(RINGS, rings), Break(), Table(ROLES, roles), Break(), *_buffers(table))


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
