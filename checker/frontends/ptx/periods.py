"""One period of each loop shown to stand for any number of them: what lanes hold at its start and at its end.

A launch with one period more than another is executed, and one of the last periods of each of its loops is looked at,
from head to head. At its start every register gets the form that it would have if j periods had been done and m were
left after it (sm90_verify.frontends.ptx.counted); a register that has none, as it neither stays the same nor moves on
by the same each period, is not known there. If the period can be executed at all, which is so where nothing that
matters depends on j, on m or on such a register, and ends with the forms for j + 1 done and m - 1 left, then by
induction it is what lanes do each time, however many periods there are; what follows is executed for any number that
has been done.

What a register moves on by is seen in a first execution. What turns out not to come to its form is then not known in
the next one, until all that is left do. Outside of periods, m says how many periods more than one there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from sm90_verify.frontends.ptx.code import Code
from sm90_verify.frontends.ptx.counted import Counted, Form, form_of
from sm90_verify.frontends.ptx.events import LaneEvent, PeriodMarked
from sm90_verify.frontends.ptx.expressions import WIDTHS
from sm90_verify.frontends.ptx.fragment import Fragment
from sm90_verify.frontends.ptx.heads import LoopOf, LoopRun, Rounds, Unlike
from sm90_verify.frontends.ptx.launch import OpenValue
from sm90_verify.frontends.ptx.state import ClusterState, Warp
from sm90_verify.frontends.ptx.values import OfPeriods, One, Unknown, Value, together


class Moves(NamedTuple):
    """By how much a value goes on with each period: in each lane, None where it has no form."""

    by: tuple[int | None, ...]


class OtherLanes(NamedTuple):
    """Other lanes of a warp: which, where, and what they hold."""

    mask: int
    block: int
    step: int
    registers: tuple[Value, ...]


@dataclass
class Learnt:
    """What executions have shown. by: for each run of a loop and each register, how it goes on; without: registers that
    do not come to their form.
    """

    by: dict[LoopRun, dict[int, Moves]] = field(default_factory=dict)
    without: dict[LoopRun, set[int]] = field(default_factory=dict)
    settled: bool = False


@dataclass
class _Begun:
    """registers: at the start of the period, before they got forms. fragment: the lanes. others: of the same warp."""

    registers: list[Value]
    fragment: Fragment
    lanes: tuple[int, ...]
    others: tuple[OtherLanes, ...]
    events: int


@dataclass
class PeriodsShown:
    """Watches the execution of a launch whose loops have `rounds`. value: the parameter on which that depends; learnt:
    of the executions before. marked: runs of loops of which the period is over.
    """

    code: Code
    loops: Mapping[int, frozenset[int]]
    cluster: ClusterState
    value: OpenValue
    rounds: Mapping[LoopRun, Rounds]
    learnt: Learnt
    marked: dict[LoopRun, None] = field(default_factory=dict)
    visits: dict[LoopOf, list[int]] = field(default_factory=dict)
    begun: dict[LoopRun, _Begun] = field(default_factory=dict)
    failed: bool = False

    def __post_init__(self) -> None:
        self.value.periods.warps.clear()

    def comes(self, warp: Warp, fragment: Fragment, block: int) -> None:
        """Lanes are about to leave their block for another one."""
        inside = self.loops.get(block)
        if inside is None:
            return
        loop = LoopOf(warp.name, block, fragment.mask)
        visits = self.visits.setdefault(loop, [])
        if fragment.block in inside and visits:
            visits[-1] += 1
        else:
            visits.append(1)
        run = LoopRun(loop, len(visits) - 1)
        rounds = self.rounds.get(run)
        if rounds is None:
            return
        if visits[-1] == rounds.visits - rounds.after - rounds.more:
            self._begin(warp, fragment, run)
        elif visits[-1] == rounds.visits - rounds.after:
            self._end(warp, fragment, run)

    def finish(self) -> None:
        """Called when nothing can happen any more. Raises Unlike if some period was not seen."""
        missing = [run for run in self.rounds if run not in self.marked]
        if missing:
            raise self._unlike(missing[0], "the lanes that go round it do not stay together")
        self.learnt.settled = bool(self.learnt.by.keys() >= self.rounds.keys()) and not self.failed

    # -- the start of a period

    def _begin(self, warp: Warp, fragment: Fragment, run: LoopRun) -> None:
        if not self.begun:
            for cta in self.cluster.ctas:
                cta.memory.watched = True
                for one in cta.warps:
                    one.watch_local()
        self.begun[run] = _Begun(
            fragment.registers.copy(), fragment, fragment.lanes, _others(warp, fragment), len(warp.events) + 1
        )
        self.value.periods.warps.add(warp.name)
        self._mark(warp, fragment, run, begins=True)
        moves, without = self.learnt.by.get(run, {}), self.learnt.without.get(run, set())
        unformed = OfPeriods(0, "a register that neither stays the same nor goes on by the same with each period")
        for slot, value in enumerate(fragment.registers):
            if slot in without:
                fragment.registers[slot] = unformed
            elif slot in moves:
                formed = [
                    _at_start(one, by, self.value.most)
                    for one, by in zip(_each(value, fragment), moves[slot].by, strict=True)
                ]
                fragment.registers[slot] = together(formed)

    # -- its end

    def _end(self, warp: Warp, fragment: Fragment, run: LoopRun) -> None:
        begun = self.begun.get(run)
        if begun is None or begun.fragment is not fragment or begun.lanes != fragment.lanes:
            raise self._unlike(run, "the lanes that go round it do not stay together")
        others = _others(warp, fragment)
        strange = any(one.mask & ~fragment.mask for one in warp.events[begun.events :])
        if others != begun.others or strange:
            raise self._unlike(run, "other lanes of the warp go on in the meantime")
        self.value.periods.warps.discard(warp.name)
        self._mark(warp, fragment, run, begins=False)
        without = self.learnt.without.setdefault(run, set())
        if run in self.learnt.by:
            for slot, moves in self.learnt.by[run].items():
                if slot not in without and not self._comes_to(begun, fragment, slot, moves):
                    without.add(slot)
                    self.failed = True
        else:
            self.failed = True
            self.learnt.by[run] = {}
            for slot, before in enumerate(begun.registers):
                moves_by = _moved(before, fragment.registers[slot], fragment, self._bits(slot), self.value.most)
                if moves_by is None:
                    without.add(slot)
                else:
                    self.learnt.by[run][slot] = moves_by
        for slot, value in enumerate(fragment.registers):
            known = self.learnt.by[run].get(slot)
            before = begun.registers[slot]
            ended = [
                _at_end(one, None if known is None or slot in without or _is_lost(start) else by, self.value.most)
                for one, by, start in zip(
                    _each(value, fragment),
                    (None,) * len(fragment.lanes) if known is None else known.by,
                    _each(before, fragment),
                    strict=True,
                )
            ]
            fragment.registers[slot] = together(ended)
        self.marked[run] = None

    def _comes_to(self, begun: _Begun, fragment: Fragment, slot: int, moves: Moves) -> bool:
        """A register ends with its form for one period more done and one fewer left."""
        starts, ends = _each(begun.registers[slot], fragment), _each(fragment.registers[slot], fragment)
        for start, end, by in zip(starts, ends, moves.by, strict=True):
            if by is None or _is_lost(start):
                if isinstance(start, Unknown) and start.awaited and end is not start:
                    return False
                continue
            base, rest = _parts(start)
            wanted = form_of(base - rest + by, rest, by, self.value.most)
            if isinstance(wanted, int):
                if end != wanted:
                    return False
            elif not isinstance(end, Counted) or not end.form.is_same(wanted):
                return False
        return True

    def _bits(self, slot: int) -> int:
        register = next((number for number, place in self.code.slots.items() if place == slot), -1)
        return WIDTHS[self.code.function.types[register]] if register >= 0 else 1

    # -- marks

    def _mark(self, warp: Warp, fragment: Fragment, run: LoopRun, *, begins: bool) -> None:
        number = self.code.blocks[run.loop.head].first
        warp.events.append(LaneEvent(number, fragment.mask, PeriodMarked(begins)))

    def _unlike(self, run: LoopRun, why: str) -> Unlike:
        return Unlike(f"{run.loop.warp}: {why}", self.code.function.code[self.code.blocks[run.loop.head].first].line)


def memory_between(cluster: ClusterState) -> str:
    """Why it may be that what is read from memory depends on how many periods there are: it is written after the first
    of them has begun. "" if it does not.
    """
    for cta in cluster.ctas:
        if cta.memory.stored & cta.memory.loaded:
            return "what shared memory holds changes while loops go round, and is read"
        for warp in cta.warps:
            if any(one.stored & one.loaded for one in warp.local.values()):
                return "what local memory holds changes while loops go round, and is read"
    return ""


def _others(warp: Warp, fragment: Fragment) -> tuple[OtherLanes, ...]:
    return tuple(
        OtherLanes(one.mask, one.block, one.step, tuple(one.registers)) for one in warp.fragments if one is not fragment
    )


def _each(value: Value, fragment: Fragment) -> Sequence[One]:
    return value if isinstance(value, tuple) else (value,) * len(fragment.lanes)


def _parts(one: One) -> tuple[int, int]:
    """Outside of a period: the base, and what there is for each period that is left."""
    if isinstance(one, Counted):
        return one.form.base, one.form.rest
    assert isinstance(one, int)
    return one, 0


def _at_start(one: One, by: int | None, most: int) -> One:
    """With j periods done and m left besides this one."""
    if by is None or _is_lost(one):
        return one
    base, rest = _parts(one)
    return _holding(form_of(base, rest, by, most), one)


def _is_lost(one: One) -> bool:
    """It is not known, and no form."""
    return isinstance(one, Unknown) and not isinstance(one, Counted)


def _holding(found: int | Form, one: One) -> One:
    line, why = (one.line, one.why) if isinstance(one, Counted) else (0, "how many periods there are")
    return Counted(found, line, why) if isinstance(found, Form) else found


def _at_end(one: One, by: int | None, most: int) -> One:
    """After the last period: none is left, and from here on m is how many periods more than one there are. by: what it
    goes on by, where it has a form.
    """
    if _is_lost(one) or (by is None and isinstance(one, int)):
        return one
    done = by if by is not None else one.form.done if isinstance(one, Counted) else 0
    return _holding(form_of(_parts(one)[0], done, 0, most), one)


def _moved(before: Value, after: Value, fragment: Fragment, bits: int, most: int) -> Moves | None:
    """By how much a register has gone on in a period; None if it can have no form."""
    found: list[int | None] = []
    for start, end in zip(_each(before, fragment), _each(after, fragment), strict=True):
        if _is_lost(start):
            found.append(None)
            continue
        if _is_lost(end):
            return None
        (base, rest), (then, left) = _parts(start), _parts(end)
        by = then - base + rest
        if left != rest:
            return None
        form = form_of(base, rest, by, most)
        least, greatest = form.limits if isinstance(form, Form) else (form, form)
        if least < 0 or greatest >> bits:
            return None
        found.append(by)
    return Moves(tuple(found))
