"""The barriers and roles that a log let recover, as tables."""

from __future__ import annotations

from collections.abc import Sequence

from sm90_verify.report.sections import Break, Column, Paragraph, Report, Table
from sm90_verify.result import BarrierRow, Recovered

COLUMNS = (
    Column("ring", 17),
    Column("part", 6, gap=0),
    Column("stages", 6, right=True, gap=0),
    Column("count", 7, right=True, gap=0),
    Column("arrivals", 15, gap=2),
    Column("bytes", 7, right=True, gap=0),
    Column("phases", 7, right=True, gap=0),
    Column("arrive -> wait", gap=2),
)


def tables_of(recovered: Recovered) -> Report:
    """A row for each array of barriers, and a line for each role."""
    roles = (Paragraph(f"warp {_ranges(one.warps)}: {one.role}") for one in recovered.roles)
    return (Table(COLUMNS, tuple(map(_row, recovered.barriers))), Break(), *roles)


def _row(row: BarrierRow) -> tuple[str, ...]:
    arrivals = f"{row.logged} x {row.lanes}" if row.logged else "-"
    if row.unseen:
        arrivals += f" + {row.unseen}?"
    return (
        row.ring,
        row.part,
        str(row.stages),
        str(row.count),
        arrivals,
        str(row.bytes or "-"),
        str(row.phases),
        f"{_first_words(row.arrives)} -> {_first_words(row.waits)}",
    )


def _first_words(names: Sequence[str]) -> str:
    return "+".join(dict.fromkeys(name.split(" ")[0] for name in names)) or "-"


def _ranges(warps: Sequence[int]) -> str:
    """`0-3, 8` of consecutive numbers."""
    runs: list[list[int]] = []
    for warp in warps:
        if runs and warp == runs[-1][1] + 1:
            runs[-1][1] = warp
        else:
            runs.append([warp, warp])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
