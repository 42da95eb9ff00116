"""A log that stops in the middle, as of a kernel that hangs: who waits for what, and whose arrival is missing.

A wait is logged before it is executed, an arrival after it. So where the last entry of every warp is a wait, all
arrivals of block 0 are logged. If the phases lack some, and all warps that have ever arrived there, or have waited for
what is released there, stand at such waits themselves, none of them can go on, however the log came to its end. If some
warp may be under way, the log may have been printed, or cut, in the middle. Nothing is replayed: of a log that stops,
the order of effects need not be whole.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from sm90_verify.frontends.log.synclog import Record
from sm90_verify.frontends.log.table import BarrierTable
from sm90_verify.frontends.log.usage import EXPECTS, PLAIN_ARRIVALS, WAITS, WARPS
from sm90_verify.result import Blocked, Trace, TraceStep
from sm90_verify.spec.ptx.limits import WARP

STARTS = ("cluster_barrier_init", "fence_barrier_init", "syncthreads", "syncwarp")


class StandingWait(NamedTuple):
    """A warp that waits at its last entry. phase: the one that it waits for; missing: what it lacks, in words; brings:
    the warps that could bring it, None if others could, as far as the log shows.
    """

    warp: int
    record: Record
    barrier: str
    phase: int
    missing: str
    brings: frozenset[int] | None


class HungLog(NamedTuple):
    """The end of a log: who waits for a phase that is not complete, who of them can never go on, and the last entries
    of those who may.
    """

    standing: tuple[StandingWait, ...]
    stuck: tuple[StandingWait, ...]
    under_way: tuple[Record, ...]


def at_the_end(records: Sequence[Record], table: BarrierTable) -> HungLog:
    """Who stands where at the end of a log."""
    programs: dict[int, list[Record]] = {}
    for record in records:
        programs.setdefault(record.warp, []).append(record)
    counts = _Counts(records, table)
    acting = [warp for warp, program in programs.items() if any(one.kind not in STARTS for one in program)]
    standing, under_way = [], []
    for warp, program in sorted(programs.items()):
        waits = counts.waits(program) if program[-1].kind == "cluster_barrier_wait" else None
        beside = any(other // WARPS == warp // WARPS for other in acting)
        if waits is not None:
            standing.append(waits)
        elif warp in acting or not beside:
            under_way.append(program[-1])
    stuck = [one for one in standing if one.brings is not None and not under_way]
    while True:
        names = {one.warp for one in stuck}
        left = [one for one in stuck if one.brings is not None and one.brings <= names]
        if left == stuck:
            return HungLog(tuple(standing), tuple(stuck), tuple(under_way))
        stuck = left


class _Counts:
    """What has been signalled to each barrier. arrived: by barrier, threads by warp, of block 0; expected: bytes;
    loaded: bytes of loads that were issued.
    """

    def __init__(self, records: Sequence[Record], table: BarrierTable) -> None:
        self.table = table
        self.arrived: dict[int, Counter[int]] = defaultdict(Counter)
        self.expected, self.loaded = Counter[int](), Counter[int]()
        for record in records:
            kind, values = record.kind, record.values
            here = len(values) < 3 or not values[-2]
            if kind in PLAIN_ARRIVALS and (kind == PLAIN_ARRIVALS[0] or (values[2] and not values[1])):
                self.arrived[values[0]][record.warp] += self.lanes(values[0]) if values[0] in table.array else 0
            elif kind in EXPECTS and here:
                self.expected[values[0]] += values[1]
                self.arrived[values[0]][record.warp] += kind != EXPECTS[2]
            elif kind == "tma_load":
                self.loaded[values[1]] += table.box_bytes.get(values[0], 0)

    def waits(self, program: Sequence[Record]) -> StandingWait | None:
        """The wait at the end of a warp's program, or None if it may pass."""
        record = program[-1]
        address = record.values[0]
        if address not in self.table.array or address in self.table.delayed:
            return None
        phase, own, unseen = _phase_of(program), self.own(address), self.unseen(address)
        came = sum(self.arrived[address].values()) - phase * own
        bytes = self.expected[address] - self.loaded[address]
        if phase < 0 or (came >= own and bytes <= 0 and not unseen):
            return None
        brings = None
        if came < own:
            lacks, brings = self._lacking(address, own, came), self._who(address, own)
        elif bytes > 0:
            lacks = f"{bytes} bytes that were expected are not loaded"
        else:
            lacks = f"{unseen} arrivals of CTAs that do not log"
        return StandingWait(record.warp, record, self.table.name[address], phase, f"missing: {lacks}", brings)

    def lanes(self, address: int) -> int:
        """Threads that arrive where a warp logs an arrival: all, where the count allows it."""
        array = self.table.array[address]
        if array.arrivals is not None and array.arrivers:
            return array.arrivals.lanes
        return WARP if array.count % WARP == 0 else 1

    def own(self, address: int) -> int:
        """Arrivals of a phase that come from block 0."""
        return self.table.array[address].count - self.unseen(address)

    def unseen(self, address: int) -> int:
        array = self.table.array[address]
        return array.arrivals.unseen if array.arrivals is not None else 0

    def _who(self, address: int, own: int) -> frozenset[int] | None:
        """The warps that arrive there, and those that wait for what is released there; None if these are too few."""
        array, partner = self.table.array[address], self.table.partner.get(address)
        others = self.table.array[partner].waiters if partner is not None else ()
        found = frozenset((*array.arrivers, *others))
        return found if len(found) * self.lanes(address) >= own else None

    def _lacking(self, address: int, own: int, came: int) -> str:
        """The arrivals that are missing, and of whom."""
        array, arrived = self.table.array[address], self.arrived[address]
        most = max((arrived[warp] for warp in array.arrivers), default=0)
        late = [warp for warp in array.arrivers if arrived[warp] < most]
        lanes = self.lanes(address)
        who = ""
        if late:
            times = ", ".join(f"warp {warp} has arrived {arrived[warp] // lanes} times" for warp in late)
            who = f" ({times}, the others {most // lanes})"
        elif array.arrivers:
            warps = f"warp{'s' * (len(array.arrivers) > 1)} {', '.join(map(str, array.arrivers))}"
            who = f" (by {warps}, {most // lanes} times each so far)"
        return f"{own - max(came, 0)} of {own} arrivals{who}"


def _phase_of(program: Sequence[Record]) -> int:
    """The phase that the last entry waits for, counted by the parities that its warp has waited for before: -1 is the
    phase before the first. A try_wait and the wait behind it are for one phase.
    """
    address = program[-1].values[0]
    phase, before = -2, None
    for record in program:
        if record.kind not in WAITS or record.values[0] != address:
            continue
        again = before is not None and before.kind != "cluster_barrier_wait" and record.kind == "cluster_barrier_wait"
        if before is not None and again and before.values[1] == record.values[1]:
            before = record
            continue
        parity = record.values[1]
        if before is None:
            phase = 0 if parity == 0 else -1
        else:
            phase += 2 if (phase & 1) == parity else 1
        before = record
    return phase


def hung_trace(hung: HungLog, roles: dict[int, str], path: str, steps: tuple[TraceStep, ...] = ()) -> Trace:
    """The end of a log at which some can never go on, as a counterexample. steps: what led there, if that is known."""
    blocked = tuple(
        Blocked(
            f"warp {one.warp} ({roles.get(one.warp, 'idle')})",
            one.barrier,
            f"phase {one.phase}",
            one.missing,
            path,
            one.record.line,
            place == 0,
        )
        for place, one in enumerate(hung.stuck or hung.standing)
    )
    return Trace("deadlock", f"the log ends where some cannot go on -- {said(hung)}", steps, blocked)


def said(hung: HungLog) -> str:
    """Who waits, in a sentence."""
    return "; ".join(
        f"warp {one.warp} waits for {one.barrier} phase {one.phase} (line {one.record.line}): {one.missing}"
        for one in hung.standing
    )


def why_open(hung: HungLog) -> str:
    """Why a log that stops is undetermined."""
    waits = f": {said(hung)}" if hung.standing else ""
    if not hung.under_way:
        return f"the log stops, and what does not log may let its warps go on{waits}"
    named = ", ".join(f"warp {one.warp} (line {one.line}, {one.kind})" for one in hung.under_way[:4])
    more = f" and {len(hung.under_way) - 4} more" if len(hung.under_way) > 4 else ""
    return f"the log stops while {named}{more} may be under way{waits}"
