"""When two accesses to the same bytes are not ordered: the checks for race, missing-fence and stale-read.

An access can start as soon as its role is there, for nothing guards it. So two conflicting accesses are unordered
exactly if some reachable state has one about to start and the other about to start or in progress: were they ordered
by barriers, one would have to be over before the other's role could get there. In progress means, for a bulk copy,
that it has not landed, and otherwise what spec.ptx.groups says. This makes a race a property of single states, for
which search needs no clocks, and loses nothing: from a schedule with an unordered pair, everything that neither of
the two needs can be left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from sm90_verify.spec.model.machine import Check
from sm90_verify.spec.model.proxies import Bare, Edited
from sm90_verify.spec.ptx.effect_parts import TriggeredArrivals
from sm90_verify.spec.ptx.expr import FALSE, TRUE, Expr, Field, Lit, all_of, any_of
from sm90_verify.spec.ptx.groups import Held
from sm90_verify.spec.ptx.mbarrier import Mbarrier
from sm90_verify.spec.ptx.memory import Access, describe
from sm90_verify.spec.ptx.needs import (
    COPIED,
    FENCED,
    FENCED_WHERE_MADE,
    FOUND,
    LANDED,
    MAPPED,
    ORDERED,
    TAKEN,
    UNORDERED,
    UNTOUCHED,
)
from sm90_verify.spec.ptx.own_accesses import own_faults


class Spot(NamedTuple):
    """One location of a role as other roles see it: what is in progress there, and the accesses that may start next."""

    held: Held
    next: tuple[Access, ...]


class Inside(NamedTuple):
    """A location in which a role waits inside a barrier of threads: what its arrival there has released, for those who
    learn of the completion; and the condition that it waits for others.
    """

    at: int
    releases: tuple[Access, ...]
    waits: Expr


Places = dict[Access, list[int]]
"""Accesses, and for each the locations of a role where it is in progress, or could start."""
Told = tuple[Expr, tuple[tuple[Expr, int, str], ...]]
"""A condition, and conditions under which words say what it is; with their ranks."""


@dataclass(frozen=True)
class Bystander:
    """A role seen from another: its name, its location variable, and its locations. inside: the barriers of threads
    that release something it has left without a release. groups: of a part of a warpgroup, how many groups of wgmmas it
    has committed that nobody has waited for (spec.model.warpgroups); partners: the other parts.
    """

    name: str
    counter: Field
    spots: tuple[Spot, ...]
    inside: tuple[Inside, ...] = ()
    groups: Field | None = None
    partners: list[Bystander] = field(default_factory=list, compare=False)
    known: dict[object, Told] = field(default_factory=dict, compare=False)
    lasting: dict[Access, Expr] = field(default_factory=dict, compare=False)

    def conflict(self, access: Access) -> Told:
        """The role has started, or could start, something that conflicts with an access; and where it is what, in
        words: what it has started before what it could start.
        """
        if access not in self.known:
            which = [{own: at for own, at in some.items() if access.conflicts(own)} for some in self.begun]
            more = [*self._not_released_yet(access), *(self._of_wgmmas(access) if self.groups is not None else ())]
            self.known[access] = _either(self.told(which, describe), *more) if more else self.told(which, describe)
        return self.known[access]

    def _of_wgmmas(self, access: Access) -> Iterator[Told]:
        """What conflicts with an access among the reads of wgmmas that the warpgroup executes together: those of groups
        that nobody has waited for, and those that no part has released since.
        """
        assert self.groups is not None
        for age, places in enumerate(self.by_age):
            found = {own: at for own, at in places.items() if access.conflicts(own)}
            if found:
                since = TRUE if age == 0 else Lit(age - 1, self.groups.width) < self.groups
                yield _while(since, self.told([found], describe))
        for own, at in self.unreleased.items():
            if access.conflicts(own):
                others = all_of(one.not_over(own) for one in self.partners)
                yield _while(others, self.told([{own: at}], describe))

    def _not_released_yet(self, access: Access) -> Iterator[Told]:
        """What conflicts with an access of what is released by a barrier in which the role still waits for others."""
        for one in self.inside:
            for own in filter(access.conflicts, one.releases):
                told = _while(one.waits, self.told([{own: [one.at]}], describe))
                alone = self.groups is not None and own in self._of_wgmmas_alone
                yield _while(all_of(part.not_over(own) for part in self.partners), told) if alone else told

    def not_over(self, access: Access) -> Expr:
        """Where an access of its own wgmmas is in progress, or over and not released since."""
        if access not in self.lasting:
            places = (*self.wgmmas.get(access, ()), *self.unreleased.get(access, ()))
            inside = ((self.counter == one.at) & one.waits for one in self.inside if access in one.releases)
            self.lasting[access] = any_of((in_locations(self.counter, places), *inside))
        return self.lasting[access]

    @cached_property
    def wgmmas(self) -> Places:
        """The reads of wgmmas that are in progress."""
        return _places([spot.held.wgmmas() for spot in self.spots])

    @cached_property
    def by_age(self) -> list[Places]:
        """The reads of wgmmas that are not committed, then those of the group committed last, and so on."""
        ages = max((len(spot.held.mma) for spot in self.spots), default=0)
        found = [_places([spot.held.fresh_mma for spot in self.spots])]
        for age in range(1, ages + 1):
            found.append(_places([spot.held.mma[-age] if len(spot.held.mma) >= age else () for spot in self.spots]))
        return found

    @cached_property
    def unreleased(self) -> Places:
        """The reads of wgmmas that are over, and that nothing has released since a relaxed arrival."""
        return _places([[one for one in spot.held.unordered if one in self.wgmmas] for spot in self.spots])

    @cached_property
    def _others(self) -> list[tuple[Access, ...]]:
        """By location, what is in progress there that is no wgmma; a bulk store can read what a wgmma reads."""
        return [spot.held.without_wgmmas().in_progress() for spot in self.spots]

    @cached_property
    def _of_wgmmas_alone(self) -> set[Access]:
        """The accesses that only wgmmas make."""
        others = {access for some in self._others for access in some}
        return {access for spot in self.spots for access in spot.held.wgmmas() if access not in others}

    def unfenced(self, access: Access, strict: bool) -> Told:
        """The role has a generic access that an async access needs a fence after, and has not executed one since; and
        to what. (Accesses that have a bit are not among what a spot holds.)
        """
        key = (access, strict)
        if key not in self.known:
            which = {own: at for own, at in self.bare.items() if needs_fence(own, access, strict)}
            self.known[key] = self.told([which], lambda own: own.object)
        return self.known[key]

    @cached_property
    def begun(self) -> tuple[Places, Places]:
        """What is in progress where, and what could start where."""
        if self.groups is None:
            mine = [(*spot.held.in_progress(), *spot.held.unordered) for spot in self.spots]
        else:
            apart = self._of_wgmmas_alone
            mine = [
                (*others, *(one for one in spot.held.unordered if one not in apart))
                for spot, others in zip(self.spots, self._others, strict=True)
            ]
        return _places(mine), _places([spot.next for spot in self.spots])

    @cached_property
    def bare(self) -> Places:
        """Which generic accesses no fence has followed, and where."""
        return _places([spot.held.unfenced for spot in self.spots])

    def told(self, found: Sequence[Places], word: Callable[[Access], str]) -> Told:
        """Accesses of several ranks: at which locations there are any, and at which what, the first ranks first."""
        cases: dict[tuple[int, str], list[int]] = {}
        for rank, places in enumerate(found):
            for access, at in places.items():
                cases.setdefault((rank, word(access)), []).extend(at)
        anywhere = in_locations(self.counter, (place for at in cases.values() for place in at))
        return anywhere, tuple((in_locations(self.counter, at), rank, name) for (rank, name), at in cases.items())


def _while(condition: Expr, told: Told) -> Told:
    """The same, as long as the condition holds."""
    anywhere, cases = told
    return anywhere & condition, tuple((when & condition, rank, word) for when, rank, word in cases)


def _either(*told: Told) -> Told:
    """Any of them."""
    return any_of(anywhere for anywhere, _ in told), tuple(case for _, cases in told for case in cases)


def _places(spots: Iterable[Iterable[Access]]) -> Places:
    """By access, the locations where it is one of those, in the order in which they are met."""
    found: Places = {}
    for index, accesses in enumerate(spots):
        for access in accesses:
            found.setdefault(access, []).append(index)
    return found


class Flight(NamedTuple):
    """Bulk copies of one `kind` into one buffer, or what cp.asyncs of a grid access that arrivals of that kind follow:
    `busy` while one of them has not landed. grid: whose cp.asyncs; the bytes of a bulk copy are its barrier's to tell.
    """

    access: Access
    busy: Expr
    name: str
    kind: object = None
    grid: int | None = None


def in_locations(counter: Field, locations: Iterable[int]) -> Expr:
    """counter is one of the locations, as few unsigned range tests as possible."""
    ordered = sorted(set(locations))
    ranges: list[tuple[int, int]] = []
    for location in ordered:
        if ranges and ranges[-1][1] == location - 1:
            ranges[-1] = (ranges[-1][0], location)
        else:
            ranges.append((location, location))
    return any_of(
        counter == low
        if low == high
        else (counter - low) < Lit(high - low + 1, counter.width)
        if high - low + 1 < 1 << counter.width
        else TRUE
        for low, high in ranges
    )


def own_checks(role: str, access: Access, held: Held) -> list[Check]:
    """The access of `role`, which holds `held`, must wait for what that has begun itself, or wants a wgmma.fence."""
    return [Check(property, TRUE, because, access.object) for property, because in own_faults(role, access, held)]


def race_checks(
    role: str, access: Access, others: Iterable[Bystander], flights: Iterable[Flight], kind: object = None
) -> list[Check]:
    """The access of `role` starts while a conflicting one of others has started or could start.

    kind: that of the bulk copy that makes the access. Two copies of a kind in flight at once are not told apart, so
    what follows the second is not explored.
    """
    mine = describe(access)
    checks: list[Check] = []
    for other in others:
        begun = ORDERED.said(access=mine, role=role, earlier="{}", other=other.name)
        to_begin = UNORDERED.said(access=mine, role=role, other="{}", whom=other.name)
        checks += _told_check(ORDERED.property, other.conflict(access), (begun, to_begin), access.object)
    for flight in flights:
        if access.conflicts(flight.access):
            need = COPIED if isinstance(flight.kind, TriggeredArrivals) else LANDED if flight.access.write else TAKEN
            because = need.said(role=role, access=mine, object=flight.name)
            again = kind is not None and flight.kind == kind
            checks.append(Check(need.property, flight.busy, because, access.object, again))
    return _possible(checks)


def fence_checks(
    role: str, access: Access, held: Held, others: Iterable[Bystander], bare: Bare, *, strict: bool
) -> list[Check]:
    """An async-proxy access meets generic accesses that no fence has followed (spec.ptx.needs): by where their role is,
    or by their bit.

    strict: every thread fences its own accesses, and a generic read before an async write wants a fence too.
    """

    if not access.wants_fence:
        return []
    checks = []
    mine, need = describe(access), FENCED_WHERE_MADE if strict else FENCED
    if own := needing_fence(held, access, strict):
        because = need.said(other=role, earlier=own[0].object, access=mine, role=role)
        checks.append(Check(need.property, TRUE, because, access.object))
    for other in others:
        because = need.said(other=other.name, earlier="{}", access=mine, role=role)
        checks += _told_check(need.property, other.unfenced(access, strict), (because,), access.object)
    for (writer, earlier), bit in bare.items():
        if earlier.overlaps(access):
            because = need.said(other=writer, earlier=earlier.object, access=mine, role=role)
            checks.append(Check(need.property, bit == 1, because, access.object))
    return _possible(checks)


def map_checks(role: str, access: Access, edited: Edited) -> list[Check]:
    """A tensormap is used that somebody has written, and the role has not acquired as it was released then."""
    if access.proxy != "tensormap":
        return []
    return [
        Check(MAPPED.property, field != 0, MAPPED.said(role=role, map=access.object, other=writer), access.object)
        for (writer, earlier, user), field in edited.items()
        if user == role and earlier.overlaps(access)
    ]


def _told_check(property: str, told: Told, because: Sequence[str], object: str) -> list[Check]:
    """because: by rank, with a place for the words."""
    when, cases = told
    said = tuple((where, because[rank].format(words)) for where, rank, words in cases)
    return [Check(property, when, said[0][1], object, cases=said if said[1:] else ())] if said else []


def needing_fence(held: Held, access: Access, strict: bool) -> list[Access]:
    """Generic accesses that have not been fenced and overlap an async one; reads matter only if `strict`."""
    return [one for one in held.unfenced if needs_fence(one, access, strict)]


def needs_fence(earlier: Access, access: Access, strict: bool) -> bool:
    """An async access needs a fence after that generic one."""
    return earlier.overlaps(access) and (earlier.write or (strict and access.write))


def stale_check(role: str, access: Access, found: Expr, tag: object) -> list[Check]:
    """The buffer does not hold what the read expects. found: where it does."""
    because = FOUND.said(role=role, object=access.object, tag=tag)
    return _possible([Check(FOUND.property, ~found, because, access.object)])


def _possible(checks: list[Check]) -> list[Check]:
    return [check for check in checks if check.when is not FALSE and not _is_false(check.when)]


def _is_false(condition: Expr) -> bool:
    return isinstance(condition, Lit) and condition.value == 0


def live_checks(role: str, over: Iterable[tuple[Access, str]], barriers: Mapping[str, Mbarrier]) -> Iterator[Check]:
    """The accesses to the bytes of barriers must not start while these are live."""
    for access, barrier in over:
        because = UNTOUCHED.said(role=role, access=describe(access), barrier=barrier)
        yield Check(UNTOUCHED.property, barriers[barrier].alive, because, barrier, halts=True)
