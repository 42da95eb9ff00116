"""Races of lanes of one warp that do the same throughout, and are one role: found without a schedule.

Each lane's own accesses are in order. Those of two lanes are ordered by bar.warp.sync, by a barrier of threads, and by
an arrival of both and a wait behind it, at which barrier is not asked; bytes that cp.async writes only if its group has
been waited for before that, or its mbarrier is. What else orders lanes of different roles, the engines look at.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sm90_verify.frontends.ptx.events import (
    Arrived,
    ClusterArrived,
    ClusterWaited,
    Grouped,
    LaneEvent,
    LanesAccessed,
    LanesCopied,
    LanesMet,
    NamedMet,
    Triggered,
    Waited,
    What,
)
from sm90_verify.frontends.ptx.execute import ClusterRun
from sm90_verify.frontends.ptx.footprints import of_lane
from sm90_verify.frontends.ptx.fragment import lanes_of
from sm90_verify.frontends.ptx.lanes import classes_of
from sm90_verify.frontends.ptx.lift import twice
from sm90_verify.spec.ptx.limits import WARP

FLYING = 1 << 60
"""The number of an access that no barrier can have ordered yet: a cp.async that nobody has waited for."""
HALF_WORD = 2
"""Bytes: the least that a lane accesses with ldmatrix and stmatrix."""


class LanePair(NamedTuple):
    """Two instructions, by their numbers, of which one lane executes the first and another one the second."""

    first: int
    second: int
    first_writes: bool
    second_writes: bool
    copied: bool = False

    def said(self, lines: Sequence[int]) -> str:
        """In words. lines: of the instructions."""
        first, second = lines[self.first], lines[self.second]
        if self.first == self.second and self.first_writes and self.second_writes:
            what = f"lanes of a warp write the same bytes at line {first}"
            return f"{what}, and nothing orders them or says that they write the same: let one lane write"
        does = ["writes" if one else "reads" for one in (self.first_writes, self.second_writes)]
        what = "lanes of a warp access the same bytes, and nothing orders them"
        wait = "wait for the cp.async, and then " if self.copied else ""
        return f"{what}: line {first} {does[0]}, line {second} {does[1]}: {wait}put bar.warp.sync between"


@dataclass(slots=True)
class _Access:
    """number: when, or FLYING. instruction: by its number. value: what is written, None if that is not known."""

    number: int
    instruction: int
    value: int | None
    strong: bool
    copied: bool = False


@dataclass
class _Lanes:
    """What lanes of a class have accessed since they were last ordered.

    unit: bytes that are accessed together. writes, reads: by unit and lane, the last access. floor: all accesses with a
    smaller number are ordered before what comes now; released: those before the last arrival. met: by two lanes, up to
    which number what the second did is ordered before the first, where only a part of the lanes has met. groups: of
    cp.async, the last one not committed. flying: cp.asyncs that nobody has waited for.
    """

    unit: int
    pairs: dict[LanePair, None]
    now: int = 0
    floor: int = 0
    released: int = 0
    writes: dict[int, dict[int, _Access]] = field(default_factory=dict)
    reads: dict[int, dict[int, _Access]] = field(default_factory=dict)
    met: dict[tuple[int, int], int] = field(default_factory=dict)
    groups: list[list[_Access]] = field(default_factory=lambda: [[]])
    flying: list[_Access] = field(default_factory=list)
    told: list[_Access] = field(default_factory=list)
    """Those of which an arrival that follows them tells whoever waits for it, and of nothing else."""
    waiting: list[tuple[Sequence[tuple[int, Sequence[int]]], _Access]] = field(default_factory=list)
    """Reads that are not among them yet: they matter once there is a write."""

    def touch(self, units: Sequence[tuple[int, Sequence[int]]], access: _Access, *, writes: bool) -> None:
        """Lanes access units of theirs, each all of its own."""
        if not writes and not self.writes:
            self.waiting.append((units, access))
            return
        waiting, self.waiting = self.waiting, []
        for some, read in waiting:
            if read.number >= self.floor:
                self._note(some, read, writes=False)
        self._note(units, access, writes=writes)

    def _note(self, units: Iterable[tuple[int, Sequence[int]]], access: _Access, *, writes: bool) -> None:
        mine = self.writes if writes else self.reads
        for lane, some in units:
            for unit in some:
                known = self.writes.get(unit)
                if known is not None and (len(known) > 1 or lane not in known):
                    self._compare(known, lane, access, (True, writes))
                if writes:
                    read = self.reads.get(unit)
                    if read is not None and (len(read) > 1 or lane not in read):
                        self._compare(read, lane, access, (False, True))
                here = mine.setdefault(unit, {})
                before = here.get(lane)
                kept = access
                if before is not None and before.number >= self.floor and not access.copied:
                    kept = _both(before, access)
                here[lane] = kept

    def _compare(self, known: dict[int, _Access], lane: int, access: _Access, writes: tuple[bool, bool]) -> None:
        mine = access if writes[1] else self._own(known, lane, access)
        for other, one in known.items():
            if other == lane or one.number < self.floor or (one.strong and access.strong):
                continue
            if one.number < self.met.get((lane, other), 0):
                continue
            if writes[0] and one.value is not None and one.value == mine.value:
                continue
            self.pairs[LanePair(one.instruction, access.instruction, *writes, one.copied)] = None

    def _own(self, known: dict[int, _Access], lane: int, access: _Access) -> _Access:
        """What the lane itself has written where it reads now, since it was last ordered."""
        own = known.get(lane)
        return own if own is not None and own.number >= self.floor else access

    def does(self, what: What, mask: int, lanes: int) -> None:
        """What orders lanes, or is one step towards that."""
        match what:
            case LanesMet(orders=True) if mask & lanes == lanes:
                self._order(self.now)
            case LanesMet(orders=True):
                self._meet(lanes_of(mask & lanes))
            case NamedMet(blocks=True):
                self._order(self.now)
            case NamedMet() | Arrived(sem="release") | ClusterArrived(release=True):
                self.released = self.now
            case Waited(sem="acquire") | ClusterWaited():
                for one in self.told:
                    one.number = -1
                self.flying = [one for one in self.flying if one.number == FLYING]
                self.told = []
                self._order(self.released)
            case Triggered():
                self.told += self.flying
            case Grouped("cp_commit"):
                self.groups.append([])
            case Grouped("cp_wait", pending):
                while len(self.groups) - 1 > pending:
                    self._land(self.groups.pop(0))
            case Grouped("cp_wait_all"):
                for group in self.groups:
                    self._land(group)
                self.groups = [[]]
            case _:
                pass

    def _land(self, some: list[_Access]) -> None:
        """cp.asyncs whose bytes have been written."""
        for one in some:
            one.number = min(one.number, self.now)
        self.flying = [one for one in self.flying if one.number == FLYING]
        self.now += 1

    def _order(self, until: int) -> None:
        self.floor = max(self.floor, until)
        if self.floor == self.now and not self.flying:
            self.writes.clear()
            self.reads.clear()
            self.waiting.clear()
            self.met.clear()

    def _meet(self, some: Sequence[int]) -> None:
        """A part of the lanes meets, and learns what each of them has learnt."""
        for other in range(WARP):
            known = self.now if other in some else max(self.met.get((one, other), 0) for one in some)
            for one in some:
                self.met[one, other] = known


def _both(before: _Access, access: _Access) -> _Access:
    """Two accesses of a lane as one: the last, with no value if these are two, and weak if one of them is. A cp.async
    that may still write stays.
    """
    if before.number == FLYING:
        return before
    value = access.value if access.value == before.value else None
    if value == access.value and (before.strong or not access.strong):
        return access
    return _Access(access.number, access.instruction, value, before.strong and access.strong)


def lane_races(execution: ClusterRun, without: Collection[int] = ()) -> tuple[LanePair, ...]:
    """The accesses of two lanes that do the same throughout, and that nothing orders. without: lines at which nothing
    is to order anything.
    """
    code = execution.code.function.code
    left_out = frozenset(number for number, one in enumerate(code) if one.line in without) if without else frozenset()
    pairs: dict[LanePair, None] = {}
    parts: dict[tuple[LanesAccessed | LanesCopied, int, int], tuple[tuple[int, Sequence[int]], ...]] = {}
    for cta in execution.cluster.ctas:
        for warp in cta.warps:
            for one in classes_of(warp.events, warp.mask):
                if one.threads > 1:
                    events = [event for event in warp.events if event.mask & one.mask and _matters(event.what)]
                    _of_class(twice(events), one.mask, cta.rank, left_out, pairs, parts)
    return tuple(pairs)


def _matters(what: What) -> bool:
    """A class that is alone in its warp has no meetings of its own among its events: those of the warp are taken."""
    return not isinstance(what, LanesMet) or what.orders


def _of_class(
    events: Sequence[LaneEvent],
    mask: int,
    rank: int,
    left_out: frozenset[int],
    pairs: dict[LanePair, None],
    parts: dict[tuple[LanesAccessed | LanesCopied, int, int], tuple[tuple[int, Sequence[int]], ...]],
) -> None:
    unit = min((_least(one.what) for one in events if isinstance(one.what, LanesAccessed | LanesCopied)), default=0)
    if not unit:
        return
    lanes = _Lanes(unit, pairs)
    for event in events:
        what = event.what
        if isinstance(what, LanesAccessed | LanesCopied):
            key = what, mask, unit
            units = parts.get(key)
            if units is None:
                where = what.rank if isinstance(what, LanesAccessed) else rank
                units = parts[key] = tuple(_units(what, mask, unit, where))
            if isinstance(what, LanesCopied):
                access = _Access(FLYING, event.number, None, strong=False, copied=True)
                lanes.touch(units, access, writes=True)
                lanes.groups[-1].append(access)
                lanes.flying.append(access)
                continue
            access = _Access(lanes.now, event.number, what.value, bool(what.scope))
            lanes.touch(units, access, writes=what.writes)
            lanes.now += 1
        elif event.number not in left_out:
            lanes.does(what, event.mask, mask)
        lanes.now += 1


def _least(what: LanesAccessed | LanesCopied) -> int:
    """Bytes that lanes access together at least."""
    return HALF_WORD if isinstance(what, LanesAccessed) and what.matrices else what.size


def _units(what: LanesAccessed | LanesCopied, mask: int, unit: int, rank: int) -> Iterator[tuple[int, Sequence[int]]]:
    """By lane, the units that it accesses; numbered through all CTAs."""
    for lane in lanes_of(mask):
        if isinstance(what, LanesAccessed) and what.matrices:
            pieces = of_lane(what.addresses, lane, what.matrices, transposed=what.transposed) or ()
        else:
            at = what.addresses[lane]
            pieces = () if at < 0 else ((at, at + what.size),)
        found = [(rank << 32 | at) // unit for start, stop in pieces for at in range(start, stop, unit)]
        if found:
            yield lane, found
