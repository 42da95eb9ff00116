"""The cluster behind a log: how many CTAs, which of them a load fills, and who signals whose empty barriers.

Only block 0 logs. What it tells of the others: how many arrivals a phase of an empty barrier lacks, and which header
line of CUTLASS logged a load, one of a multicast or not. A of a tile is multicast to the CTAs of one row of the
cluster, B to those of one column, each CTA loading its slice; a CTA releases a stage to all who fill it
(sm90_pipeline.hpp:283-300).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sm90_verify.frontends.log.synclog import Record
from sm90_verify.frontends.log.table import BarrierTable, RecoveredRing
from sm90_verify.frontends.log.unexplained import NotShown

PLAIN_LINES = frozenset({58, 114, 170, 226, 282, 416, 467, 518})
MULTICAST_LINES = frozenset({640, 669, 698, 727, 756, 831, 863, 895})
"""Lines of cute/arch/copy_sm90_tma.hpp in CUTLASS 4.2 that log a load."""


class CtaGrid(NamedTuple):
    """CTAs of a cluster; the rank is that in x, plus width times that in y. along: by descriptor of a multicast load,
    the direction of the CTAs that it fills.
    """

    width: int
    height: int
    along: dict[int, str]

    @property
    def size(self) -> int:
        return self.width * self.height

    def filled(self, descriptor: int, rank: int) -> tuple[int, ...]:
        """The ranks of the CTAs that a load of this CTA fills, in order."""
        x, y = rank % self.width, rank // self.width
        match self.along.get(descriptor):
            case "y":
                return tuple(x + self.width * other for other in range(self.height))
            case "x":
                return tuple(other + self.width * y for other in range(self.width))
            case _:
                return (rank,)

    def released(self, rank: int) -> tuple[int, ...]:
        """The other CTAs that are told when this CTA releases a stage of a multicast ring."""
        x, y = rank % self.width, rank // self.width
        return tuple(
            other
            for other in range(self.size)
            if other != rank and (other % self.width == x or other // self.width == y)
        )


def cta_grid(records: Sequence[Record], table: BarrierTable) -> CtaGrid:
    """The cluster of a log. Raises NotShown if the log allows several, and for what no cluster of CUTLASS does."""
    multicast = _multicast(records, table)
    peers = {count for ring in table.rings for count in [_fillers_of_a_stage(ring)] if count > 1}
    if not peers and not multicast:
        return CtaGrid(1, 1, {})
    if not peers or not multicast or len(peers) > 1:
        raise NotShown("which CTAs fill the stages of which others: the log has no whole multicast ring to tell it")
    (count,) = peers
    (both,) = {len(some) for some in multicast.values()}
    first = next(iter(multicast.values()))
    if both == 1:
        return CtaGrid(count, 1, {descriptor: "x" for some in multicast.values() for descriptor in some})
    if both == 2 and count == 3:
        along = {descriptor: "yx"[place] for some in multicast.values() for place, descriptor in enumerate(some)}
        return CtaGrid(2, 2, along)
    raise NotShown(
        f"the shape of the cluster: {count} CTAs release a stage and {len(first)} of its loads are multicast"
    )


def _multicast(records: Sequence[Record], table: BarrierTable) -> dict[str, list[int]]:
    """By ring, the descriptors of its loads that are multicast, in the order of the loads."""
    found: dict[str, list[int]] = {}
    lines: dict[int, int] = {}
    for record in records:
        if record.kind != "tma_load":
            continue
        descriptor, barrier, _ = record.values
        known = lines.setdefault(descriptor, record.source_line)
        if table.cluster and (record.source_line not in PLAIN_LINES | MULTICAST_LINES or known != record.source_line):
            raise NotShown(f"whether the load of line {record.line} is multicast: CUTLASS 4.2 logs none there")
        ring = table.ring[barrier]
        if table.cluster and record.source_line in MULTICAST_LINES:
            some = found.setdefault(ring.name, [])
            if descriptor not in some:
                some.append(descriptor)
    if len({len(some) for some in found.values()}) > 1:
        raise NotShown("which CTAs fill the stages of which others: rings differ in that")
    return found


def _fillers_of_a_stage(ring: RecoveredRing) -> int:
    """How many CTAs release a stage of the ring together: more than one if CTAs that do not log do."""
    arrivals = ring.empty.arrivals if ring.empty is not None else None
    if arrivals is None or not arrivals.unseen or ring.pipeline == "unused":
        return 1
    own = arrivals.logged * arrivals.lanes + arrivals.leaders
    if not own or arrivals.unseen % own:
        raise NotShown(f"who else releases the stages of {ring.name}")
    return 1 + arrivals.unseen // own
