"""From a log to a Kernel: the programs of all warps of a cluster, by what was logged and what is inferred."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sm90_verify.frontends.log.clusters import CtaGrid, cta_grid
from sm90_verify.frontends.log.did import ALL, LoggedLanes
from sm90_verify.frontends.log.order import Replay
from sm90_verify.frontends.log.touches import PlainAccess, Touches
from sm90_verify.frontends.log.unexplained import NotShown
from sm90_verify.frontends.log.usage import WARPS
from sm90_verify.frontends.ptx.events import LaneEvent, Multiplied
from sm90_verify.frontends.ptx.lanes import classes_of
from sm90_verify.frontends.ptx.memory_map import memory_map
from sm90_verify.frontends.ptx.naming import Doing, names_of
from sm90_verify.frontends.ptx.operands import Undetermined
from sm90_verify.frontends.ptx.programs import PartsWriter
from sm90_verify.frontends.ptx.write_part import PartOfRole
from sm90_verify.spec.errors import Source
from sm90_verify.spec.model.kernel import Kernel
from sm90_verify.spec.model.tick import Tick, unheard
from sm90_verify.spec.ptx.cluster import Cluster
from sm90_verify.spec.ptx.limits import WARP

REGISTERS = 168
"""Of a thread at launch, which no log shows; what they are matters to setmaxnreg alone, and no log shows that either.
"""
MEETINGS = ("syncthreads", "named_barrier_arrive_and_wait", "named_barrier_arrive")


@dataclass(frozen=True)
class LogReading:
    """A log that is read as the programs of its warps. grid: the cluster; ordinary: by entry, the accesses in front of
    it that are inferred; unclear: why they cannot be, "" if they are.
    """

    path: str
    replay: Replay
    grid: CtaGrid
    touches: Touches
    ordinary: Mapping[int, Sequence[PlainAccess]]
    unclear: str

    def kernel(self, *, certain: bool, tick: Tick = unheard) -> Kernel:
        """The kernel; certain: with no more than the log shows (LoggedLanes). Raises NotShown."""
        lanes = LoggedLanes(self.replay, self.touches, self.grid, certain, {} if certain else self.ordinary)
        roles = [one for rank in range(self.grid.size) for one in self._roles(lanes, rank)]
        cluster = Cluster(self.grid.size, 1)
        names = names_of(
            (Doing(name, rank, event.what) for rank, name, parts in roles for part in parts for event in part.events), 0
        )
        done = ((rank, event.what) for rank, _, parts in roles for part in parts for event in part.events)
        homes = [cluster.home(rank) for rank in range(self.grid.size)]
        writer = PartsWriter(
            memory_map(done, homes, names, 0), self.threads, cluster, self._sources(), self._unsure, tick
        )
        programs = [program for role in roles for program in writer.programs(*role)]
        return writer.kernel(os.path.basename(self.path), programs, REGISTERS)

    @property
    def starts_unseen(self) -> bool:
        """No barrier is logged behind the initialisation, where CUTLASS logs one unless there is a cluster."""
        return self.grid.size == 1 and not self.replay.has_sync and bool(self.replay.table.rings)

    @property
    def threads(self) -> int:
        """Of a CTA."""
        return WARP * (max(self.replay.warps) + 1)

    def _sources(self) -> list[Source]:
        """By entry, its place in the file; of a bar.sync that of the same one in the first warp of the warpgroup: it is
        .aligned, and so the same instruction for all of them.
        """
        found, first, times = [], dict[tuple[object, ...], int](), Counter[tuple[object, ...]]()
        for record in self.replay.records:
            line = record.line
            if record.kind in MEETINGS:
                what = (record.kind, record.source_line, record.values)
                times[record.warp, what] += 1
                line = first.setdefault((record.warp // WARPS, what, times[record.warp, what]), line)
            found.append(Source(self.path, line))
        return found

    def _roles(self, lanes: LoggedLanes, rank: int) -> list[tuple[int, str, list[PartOfRole]]]:
        """By role of a CTA, what its parts did: of a warp, or of the four of a warpgroup that executes wgmma."""
        events = {warp: lanes.events(rank, warp) for warp in self.replay.warps}
        multiplying = {
            warp // WARPS for warp, some in events.items() if any(isinstance(one.what, Multiplied) for one in some)
        }
        groups: dict[str, list[int]] = {}
        for warp in self.replay.warps:
            first = warp - warp % WARPS
            name = f"warps{first}_{first + WARPS - 1}" if warp // WARPS in multiplying else f"warp{warp}"
            groups.setdefault(name, []).append(warp)
        return [
            (rank, name, [part for warp in warps for part in self._parts(rank, warp, events[warp], len(warps) > 1)])
            for name, warps in groups.items()
        ]

    def _parts(self, rank: int, warp: int, events: Sequence[LaneEvent], together: bool) -> list[PartOfRole]:
        classes = classes_of(events, ALL)
        acting = sum(one.mask for one in classes)
        place = warp % WARPS if together else 0
        return [PartOfRole(rank, one.mask, acting, tuple(event for _, event in one.events), place) for one in classes]

    def _unsure(self, event: LaneEvent, what: str) -> Undetermined:
        record = self.replay.records[event.number]
        return Undetermined(f"{record.kind}: {what} are not known for certain", Source(self.path, record.line))


def reading_of(replay: Replay, path: str) -> LogReading:
    """A log that has been replayed, as programs. Raises NotShown where it does not show which programs these are."""
    grid = cta_grid(replay.records, replay.table)
    touches = Touches(replay)
    try:
        return LogReading(path, replay, grid, touches, touches.ordinary(), "")
    except NotShown as error:
        return LogReading(path, replay, grid, touches, {}, str(error))
