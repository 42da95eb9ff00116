"""The rows of the tables in a core dump, as cudacoredump.h lays them out.

Drivers add fields behind the others, so a table says how long its rows are: a field that they do not reach is None.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from sm90_verify.frontends.cudacore.container import Container, CoreSection, SectionKind

Row = Mapping[str, int | None]


@dataclass(frozen=True)
class TableLayout:
    """what: the entries are of. fields: each a name and its bytes, in order. least: fields that every driver writes."""

    what: str
    fields: tuple[tuple[str, int], ...]
    least: int


def _layout(what: str, least: str, *more: str) -> TableLayout:
    """Of names, 8 bytes each in front of a `|` and 4 bytes each behind it; `more`: what later drivers have added."""
    wide, _, narrow = least.partition("|")
    first = [(name, 8) for name in wide.split()] + [(name, 4) for name in narrow.split()]
    later = [field for one in more for field in _layout(what, one).fields]
    return TableLayout(what, (*first, *later), len(first))


DEVICES = _layout(
    "devices",
    "name type sm | id bus pci multiprocessors warps lanes registers predicates major minor instruction status",
    "| uniform_registers uniform_predicates",
    "| convergence_barriers _",
)
CONTEXTS = _layout("contexts", "id shared_window local_window global_window | device thread")
MODULES = _layout("modules", "handle |")
GRIDS = _layout(
    "grids",
    "id context function entry module parent parameters_at | type origin status registers"
    " grid_x grid_y grid_z block_x block_y block_z blocking thread",
    "| cluster_x cluster_y cluster_z _",
    "| preferred_x preferred_y preferred_z _",
)
CONSTANT_BANKS = _layout("constant banks", "address | size bank")
MULTIPROCESSORS = _layout(
    "multiprocessors", "| id _", "| exception error_pc_valid", "error_pc |", "| target_valid target_x target_y target_z"
)
CTAS = _layout(
    "CTAs",
    "grid | x y z _",
    "| cluster_index_x cluster_index_y cluster_index_z _",
    "| cluster_x cluster_y cluster_z _",
)
WARPS = _layout(
    "warps",
    "error_pc | slot valid active broken error_pc_valid _",
    "| registers _",
    "| shared _",
    "| in_syscall cbu_active exited collective",
)
LANES = _layout("lanes", "pc offset | lane x y z exception calls syscall_calls cc", "| state _")
CALLS = _layout("calls", "offset address | level _")
METADATA = _layout("metadata", "generator | driver_major driver_minor cuda_major cuda_minor flags time")


@lru_cache(maxsize=64)
def _reader(layout: TableLayout, size: int) -> tuple[struct.Struct, tuple[str, ...], tuple[str, ...]]:
    """What unpacks a row of so many bytes, the names of what it has, and the names of what it lacks."""
    kept, used = [], 0
    for name, width in layout.fields:
        if used + width > size:
            break
        kept.append((name, width))
        used += width
    codes = "".join("Q" if width == 8 else "I" for _, width in kept)
    names = tuple(name for name, _ in kept)
    return struct.Struct(f"<{codes}{size - used}x"), names, tuple(name for name, _ in layout.fields[len(kept) :])


def rows(container: Container, section: CoreSection, layout: TableLayout) -> list[Row]:
    """The entries of a table. Raises SpecError for rows that are shorter than any driver writes, or cut off."""
    least = sum(width for _, width in layout.fields[: layout.least])
    size = section.row or least
    if size < least or section.size % size:
        raise container.refuse(
            f"is damaged: its table of {layout.what} has {section.size} bytes in rows of {section.row}, and a row has"
            f" {least} or more: make the dump again"
        )
    reader, names, missing = _reader(layout, size)
    absent: dict[str, int | None] = dict.fromkeys(missing)
    return [{**absent, **dict(zip(names, one))} for one in reader.iter_unpack(container.bytes_of(section))]


class TableEntry(NamedTuple):
    """An entry of a table, and where it is."""

    table: CoreSection
    number: int
    row: Row


def rows_of(
    container: Container, kind: SectionKind, layout: TableLayout, parent: CoreSection, row: int
) -> list[TableEntry]:
    """The entries of the tables of a kind that belong to a row of another."""
    return [
        TableEntry(section, number, one)
        for section in container.below(kind, parent, row)
        for number, one in enumerate(rows(container, section, layout))
    ]


def triple(row: Row, *names: str) -> tuple[int, int, int]:
    """Three fields that are there."""
    x, y, z = (number(row, name) for name in names)
    return x, y, z


def number(row: Row, name: str) -> int:
    """A field that is there; 0 if it is not."""
    return row[name] or 0
