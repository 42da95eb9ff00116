"""Templates around mbarriers: the clock of each barrier, and everything that is measured against it.

The clock of a barrier is the number of its completed phases, modulo M. It is no variable of the machine: it is read
off a waiter, as the number of phases that the waiter has waited for up to its location plus those that it has not
seen yet. Everything else is measured against the clock: the parity, the other waiters, for each role that arrives,
how many of its arrivals belong to the current phase, and the copies in flight.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import gcd

from sm90_verify.engines.smt.tables import (
    Candidate,
    Graph,
    TabledMachine,
    ahead_along,
    cases_of,
    constant_update,
    count_along,
    last_along,
    lookup,
    lookup_all,
    sum_of_cases,
    total,
    zeros,
)
from sm90_verify.spec.model.accesses import in_locations
from sm90_verify.spec.model.machine import BarrierInfo, CopyInfo, RoleProgress
from sm90_verify.spec.ptx.expr import TRUE, Expr, Field, Lit, any_of, where

LARGEST_MODULUS = 16
"""Of a clock whose counts are exact, because no loop without end is involved."""


@dataclass(frozen=True)
class Arriver:
    """A role that arrives: `share` times in each phase; laps and rest: its arrivals so far, divided by its share."""

    graph: Graph
    share: int
    laps: tuple[int, ...]
    rest: tuple[int, ...]


@dataclass(frozen=True)
class PhaseClock:
    """The phase number of a barrier modulo `modulus`, a power of two, and who moves it."""

    info: BarrierInfo
    modulus: int
    now: Expr
    waiters: tuple[tuple[str, Field, RoleProgress, Expr], ...]
    arrivers: tuple[Arriver, ...]

    @property
    def width(self) -> int:
        return max(1, (self.modulus - 1).bit_length())

    def at(self, graph: Graph, laps: Sequence[int], more: int = 0) -> Expr:
        """The clock shows the number that the table has at the role's location, plus `more`."""
        return self.now == lookup(graph.counter, [(lap + more) % self.modulus for lap in laps], self.width)

    def begun(self, arriver: Arriver) -> Expr:
        """The role has arrived in the current phase."""
        return ~(self.at(arriver.graph, arriver.laps) & in_locations(arriver.graph.counter, zeros(arriver.rest)))


def barrier_candidates(model: TabledMachine) -> Iterable[Candidate]:
    """All that these templates say about the barriers of a machine."""
    for info in model.machine.structure.barriers:
        clock = clock_of(model, info)
        if clock is not None:
            yield from _waits(model, clock)
            yield from _arrivals(model, clock)
            yield from _bytes(model, clock)
            for copy in model.machine.structure.copies:
                if copy.barrier == info.name:
                    yield from _flights(model, copy, clock)


# ---------------------------------------------------------------- clocks


def clock_of(model: TabledMachine, info: BarrierInfo) -> PhaseClock | None:
    """The clock of a barrier, or None if nothing moves in step with it."""
    arrived = [p for p in model.progress("arrived", info.name) if len(set(p.by_location)) > 1]
    observed = {p.role: p for p in model.progress("observed", info.name)}
    shares = _shares(info.arrivals, arrived)
    modulus = 0
    for progress in observed.values():
        modulus = gcd(modulus, progress.modulus)
    for progress, share in zip(arrived, shares, strict=True):
        modulus = gcd(modulus, progress.modulus // share if progress.modulus % share == 0 else 1)
    modulus = min(modulus & -modulus, LARGEST_MODULUS) or LARGEST_MODULUS
    waiting = [(role, model.fields[name]) for role, name in info.unseen if role in observed]
    if not waiting:
        modulus = 2
    if modulus < 2 or not info.phase:
        return None
    width = (modulus - 1).bit_length()
    waiters = tuple(
        (role, unseen, observed[role], _shown(model.graphs[role], observed[role], unseen, modulus, width))
        for role, unseen in waiting
    )
    now = waiters[0][3] if waiters else model.fields[info.phase]
    arrivers = tuple(
        Arriver(
            model.graphs[progress.role],
            share,
            tuple((value or 0) // share % modulus for value in progress.by_location),
            tuple((value or 0) % share for value in progress.by_location),
        )
        for progress, share in zip(arrived, shares, strict=True)
    )
    return PhaseClock(info, modulus, now, waiters, arrivers)


def _shares(arrivals: int, arrived: list[RoleProgress]) -> list[int]:
    """How the arrivals of a phase are split: as those of a whole pass are, or one role at a time if each brings them
    all.
    """
    counts = [p.modulus or max((value or 0) for value in p.by_location) for p in arrived]
    whole = sum(counts)
    if all((value or 0) % arrivals == 0 for p in arrived for value in (*p.by_location, p.modulus)):
        return [arrivals] * len(arrived)
    shares = [arrivals * count // (whole or 1) for count in counts]
    return shares if whole and all(share > 0 for share in shares) else [1] * len(arrived)


def _shown(graph: Graph, observed: RoleProgress, unseen: Field, modulus: int, width: int) -> Expr:
    """The clock as a waiter knows it: one more than the last phase it waited for, plus the phases it has not seen."""
    tables = [
        lookup(graph.counter, [((value or 0) + 1 + more) % modulus for value in observed.by_location], width)
        for more in range(1 << unseen.width)
    ]
    result = tables[-1]
    for more in range(len(tables) - 2, -1, -1):
        result = where(unseen == more, tables[more], result)
    return result


# ---------------------------------------------------------------- barriers


def _waits(model: TabledMachine, clock: PhaseClock) -> Iterable[Candidate]:
    """The parity and all waiters show the same clock, and no waiter falls further behind than its next wait
    allows."""
    name = clock.info.name
    if clock.waiters:
        odd = (clock.now & 1) == where(model.fields[clock.info.phase] == 1, Lit(1, clock.width), Lit(0, clock.width))
        yield Candidate("clock", f"parity of {name}", odd)
    for role, unseen, observed, shown in clock.waiters:
        yield Candidate("clock", f"{role} and {name}", shown == clock.now)
        graph, top = model.graphs[role], (1 << unseen.width) - 1
        next_wait = _distances(graph, observed, name, unseen.name, clock.modulus)
        bound = [min(top, top if distance is None else distance) for distance in ahead_along(graph, next_wait)]
        yield Candidate("unseen", f"{role} and {name}", unseen <= lookup(graph.counter, bound, unseen.width))
        for most in range(1, top):
            yield Candidate("unseen", f"{role} and {name}, at most {most}", unseen <= most)
        least = [max(0, (distance or 0) - 1) for distance in next_wait]
        yield Candidate("unseen", f"{role} at {name}", unseen >= lookup(graph.counter, least, unseen.width))


def _distances(graph: Graph, observed: RoleProgress, name: str, unseen: str, modulus: int) -> list[int | None]:
    """By location, how many phases further the wait there looks than the one before; None where no wait is."""
    found: list[int | None] = [None] * len(graph.ways)
    for location, place in enumerate(graph.role.locations):
        if place.waits_for == name:
            for _, action in graph.ways[location]:
                if action.target is not None and any(updated == unseen for updated, _ in action.updates):
                    moved = (observed.by_location[action.target] or 0) - (observed.by_location[location] or 0)
                    found[location] = moved % modulus
    return found


def _arrivals(model: TabledMachine, clock: PhaseClock) -> Iterable[Candidate]:
    """Each role's arrivals fit the current phase; together they are what is no longer pending."""
    name = clock.info.name
    pending = model.fields[clock.info.pending]
    missing: list[list[tuple[Expr, int]]] = [[(TRUE, clock.info.arrivals)]]
    turns = sum(arriver.share for arriver in clock.arrivers) > clock.info.arrivals
    for arriver in clock.arrivers:
        graph, share = arriver.graph, arriver.share
        same = clock.at(graph, arriver.laps)
        whole = clock.at(graph, arriver.laps, -1) & in_locations(graph.counter, zeros(arriver.rest))
        done = [(same & here, -rest) for here, rest in cases_of(graph.counter, arriver.rest)]
        missing.append([*done, (TRUE, -share)])
        if not turns:
            yield Candidate("arrivals", f"{graph.role.name} and {name}", same | whole)
            for role, unseen, _, _ in clock.waiters:
                early = ~clock.begun(arriver) | (unseen == 0)
                yield Candidate("arrivals", f"{graph.role.name} arrives when {role} has seen {name}", early)
    if turns:
        arrived = total([lookup(a.graph.counter, a.laps, clock.width) for a in clock.arrivers])
        before = (arrived == clock.now) & (pending == clock.info.arrivals)
        yield Candidate("turns", name, before | (arrived == clock.now + 1) & (pending == 0))
        for role, unseen, _, _ in clock.waiters:
            yield Candidate("turns", f"{name} and {role}", (pending == clock.info.arrivals) | (unseen == 0))
    elif clock.arrivers:
        yield Candidate("arrivals", f"pending arrivals of {name}", pending == sum_of_cases(missing, pending.width))


def _bytes(model: TabledMachine, clock: PhaseClock) -> Iterable[Candidate]:
    """The tx-count is what was announced and has not landed, and a phase in which nothing is missing has
    completed."""
    info = clock.info
    pending = model.fields[info.pending]
    if not info.tx:
        yield Candidate("incomplete", info.name, pending != 0)
        return
    tx = model.fields[info.tx]
    yield Candidate("incomplete", info.name, ~((pending == 0) & (tx == 0)))
    expected = [p for p in model.progress("expected", info.name) if p.modulus == 0]
    copies = [copy for copy in model.machine.structure.copies if copy.barrier == info.name]
    ahead = [cases_of(model.graphs[p.role].counter, [value or 0 for value in p.by_location]) for p in expected]
    for pieces in _piece_counts(model, copies):
        missing = [_in_flight(model, copy, pieces) for copy in copies]
        yield Candidate("bytes", f"tx-count of {info.name}", tx == sum_of_cases([*ahead, *missing], tx.width))
    for progress in expected:
        graph = model.graphs[progress.role]
        announced = [location for location, value in enumerate(progress.by_location) if (value or 0) > 0]
        for arriver in clock.arrivers:
            if arriver.graph is graph and announced:
                begun = ~in_locations(graph.counter, announced) | clock.begun(arriver)
                yield Candidate("bytes", f"{progress.role} has announced bytes to {info.name}", begun)


def _flights(model: TabledMachine, copy: CopyInfo, clock: PhaseClock) -> Iterable[Candidate]:
    """A copy in flight is the last one that was issued, and the phase that it was issued for is the current one."""
    busy = model.fields[copy.variable]
    tags, phases = [], []
    for role in dict.fromkeys(role for role, _, _ in copy.issues):
        graph = model.graphs[role]
        last = last_along(graph, 0, lambda action: constant_update(action, busy.name))
        tags.append(lookup_all(graph.counter, last, busy))
        issued, modulus = count_along(graph, lambda action: constant_update(action, busy.name) is not None)
        if modulus % clock.modulus == 0:
            phases.append((graph, issued))
    yield Candidate("copies", f"{busy.name} is the last copy", (busy == 0) | any_of(tags))
    for more in (-1, 0, -2):
        current = [clock.at(graph, issued, more) for graph, issued in phases]
        if current:
            yield Candidate("copies", f"{busy.name} is for the current phase", (busy == 0) | any_of(current))
    if copy.pieces:
        landed = model.fields[copy.pieces]
        for pieces in _piece_counts(model, [copy]):
            yield Candidate("copies", f"pieces of {busy.name}", landed <= pieces - 1)
        yield Candidate("copies", f"no pieces of {busy.name}", (busy != 0) | (landed == 0))


def _in_flight(model: TabledMachine, copy: CopyInfo, pieces: int) -> list[tuple[Expr, int]]:
    """How many bytes of a copy have not landed."""
    busy = model.fields[copy.variable]
    if not copy.pieces:
        return [(busy != 0, copy.bytes), (TRUE, 0)]
    landed = model.fields[copy.pieces]
    left = [copy.bytes - number * (copy.bytes // pieces) for number in range(pieces)]
    return [*(((busy != 0) & (landed == number), rest) for number, rest in enumerate(left)), (TRUE, 0)]


def _piece_counts(model: TabledMachine, copies: list[CopyInfo]) -> list[int]:
    """The numbers of pieces that the width of the counter allows."""
    widths = [model.fields[copy.pieces].width for copy in copies if copy.pieces]
    if not widths:
        return [1]
    return [
        n for n in range((1 << max(widths) - 1) + 1, (1 << max(widths)) + 1) if all(c.bytes % n == 0 for c in copies)
    ]
