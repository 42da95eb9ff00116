"""When a run repeats another one, or itself: its situation, with everything that no longer matters left out.

All conditions compare a component of a clock with one of a few numbers that the state still holds: the event at which
an access ends, the stage in which bytes are counted. What a role knows it knows for good, so a number matters as long
as somebody who may ask for it does not know it. A component is known well enough by how many of the numbers that matter
it exceeds; what comes later is compared with later numbers, which no clock of today exceeds. Two situations that agree
in this go on alike, event by event and failure by failure.

Whether a role knows all that went into a phase is asked of every component. But a clock that knows an event knows all
that its role knew then; so what counts is whether it knows the contributions themselves, the last of each role.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Hashable, Iterable

from sm90_verify.engines.order.clocks import NEVER, Clock
from sm90_verify.engines.order.decisions import unread
from sm90_verify.engines.order.run import Run
from sm90_verify.engines.order.state import BarrierState, Contribution, InFlight, MeetingState, Spans
from sm90_verify.engines.order.warpgroups import is_over

FAR = 17
"""Unseen phases are counted up to here: more than the language lets a wait be away from the last one."""


def situation(run: Run) -> Hashable:
    """Equal situations have equal futures; taken between two rounds."""
    return _Situation(run).key()


class _Situation:
    """facts: what is the same in equal situations. numbers: of events and stages that matter, each with its component;
    clocks: those that roles may learn. halves: where in a clock the components begin. marks: by component, the numbers
    that matter.
    """

    def __init__(self, run: Run) -> None:
        self.run, self.state, self.plan = run, run.state, run.plan
        self.halves = (0, run.width) if run.plan.hands_on else (0,)
        self.now = [self._in_halves(run.now(role)) for role in range(run.roles)]
        self.left = frozenset(role for role in range(run.roles) if not run.ended(role))
        self.facts: list[Hashable] = []
        self.numbers: list[tuple[int, int]] = []
        self.clocks: list[Clock] = []
        self.marks: list[set[int]] = [set() for _ in range(run.plan.width)]

    def key(self) -> Hashable:
        state = self.state
        self.facts += [tuple(state.at), tuple(state.inside), tuple(unread(self.plan, state)), tuple(state.free)]
        self.facts.append(tuple((name, state.content.get(name)) for name in self.plan.wanted))
        for number, barrier in enumerate(state.barriers):
            self._barrier(number, barrier)
        for number, meeting in enumerate(state.meetings):
            self._meeting(number, meeting)
        for number, region in enumerate(state.regions):
            for role, spans in sorted(region.items()):
                self._spans(number, role, spans)
        for role, others in enumerate(self.plan.warpgroups):
            if others:
                self._groups(role, others)
        self._flights()
        self._ctas()
        self._maps()
        if self.plan.kernel.rules.strict:
            self.facts.append(tuple(tuple(sorted(raw)) for raw in state.raw))
        return tuple(self.facts), tuple(self._ranks())

    # -- what matters

    def _matters(self, component: int, number: int, who: Collection[int]) -> bool:
        """Whether one of these roles does not know it."""
        return any(self.now[role][half + component] <= number for role in who for half in self.halves)

    def _in_halves(self, clock: Clock) -> Clock:
        """With what is before in causality order, where the plan makes a difference."""
        return clock + clock if len(clock) < len(self.halves) * self.run.width else clock

    def _number(self, component: int, number: int, who: Collection[int], *about: Hashable) -> bool:
        """Notes it, and what it is about, if it matters to one of these roles; NEVER always does. Whether it does."""
        if number < 0 or (number != NEVER and not self._matters(component, number, who)):
            return False
        self.facts.append((*about, component, number == NEVER))
        if number != NEVER:
            self.numbers.append((component, number))
            self.marks[component].add(number)
        return True

    def _filled(self, which: str, clock: Clock, who: Collection[int]) -> None:
        """What went into this or the last phase or generation, for those who may ask whether they know all of it."""
        for role in range(self.run.roles):
            self._number(role, clock[role] - 1, who, which)

    def _ranks(self) -> Iterable[Hashable]:
        """Numbers and clocks by their places among the numbers that matter; what all roles know, they learn from no
        clock.
        """
        marks = [(component, sorted(found)) for component, found in enumerate(self.marks) if found]
        places = dict(marks)
        yield tuple(bisect_left(places[component], number) for component, number in self.numbers)
        clocks = [*self.now, *map(self._in_halves, self.clocks)]
        for component, found in marks:
            for half in self.halves:
                ranks = [bisect_left(found, clock[half + component]) for clock in clocks]
                known = min((ranks[role] for role in self.left), default=0)
                yield component, *(max(known, rank) for rank in ranks)

    # -- by thing

    def _barrier(self, number: int, b: BarrierState) -> None:
        use, who, component = self.plan.barriers[number], self.plan.users[number] & self.left, self.run.roles + number
        self.facts += [b.parts, min(b.stage - b.first, 1), b.fresh, b.expected, b.copies, b.copied]
        self.facts.append(tuple((role, min(b.stage - seen, FAR)) for role, seen in b.seen.items() if role in self.left))
        if use.tokens:
            self.facts.append(tuple((role, min(b.stage - stage, 3)) for role, stage in sorted(b.arrived.items())))
        if self._matters(component, b.stage - 1, who):
            for stage in (*range(b.stage - FAR, b.stage), b.first - 1):
                self._number(component, stage, who)
            if b.completions:
                self.clocks.append(b.completions[-1])
                if not b.copied:
                    self._filled("last", b.completions[-1], who)
        if b.shared is not None:
            self.clocks.append(b.shared)
            if not b.copies:
                self._filled("this", b.shared, who)
        self._seen_by(b, who, bool(use.tokens))
        for ends in (b.unfenced, b.hidden, b.used):
            self.facts.append(None)
            for role, event in sorted(ends.items()):
                self._number(role, event, who)
        self._contributions(b, who)

    def _seen_by(self, b: BarrierState, who: Collection[int], tokens: bool) -> None:
        """Who must have seen the phase before, and who knows that somebody has."""
        for role, (stage, event, _) in sorted(b.required.items()):
            owner = ~role if role < 0 else role
            if stage == b.stage and (b.shared is None or b.shared[owner] <= event):
                self._number(owner, event, who, role)
        witnesses = [(other, event) for other, (stage, event) in sorted(b.witness.items()) if stage == b.stage]
        told = all(any(self.now[role][other] > event or role == other for other, event in witnesses) for role in who)
        self.facts.append(told and not tokens)
        if not told or tokens:
            for role, event in witnesses:
                self._number(role, event, range(self.run.roles))

    def _contributions(self, b: BarrierState, who: Collection[int]) -> None:
        """To the current phase. Which of them are after which others matters for those that have bytes and are no copy
        that lands, and for what must not be last: of each role, a clock knows so many of these, from the first one on.
        """
        own = [(one.role, one.event) for one in b.contributions if _is_marked(one)]
        open_ = [*((role, event) for _, role, event in b.open_expects), *b.open_arrivals]
        by_role: dict[int, list[int]] = {}
        for role, event in sorted((*own, *open_)):
            by_role.setdefault(role, []).append(event)
        asked = list(by_role.items())
        self.facts.append(tuple((role, bisect_left(by_role[role], event)) for role, event in (*own, *open_)))
        after = ((bisect_left(events, one.clock[role]) for role, events in asked) for one in b.contributions)
        found = [(one.moved, one.role, *knows) for one, knows in zip(b.contributions, after, strict=True)]
        self.facts += [tuple(found if own or open_ else sorted(found)), tuple(moved for moved, _, _ in b.open_expects)]
        for role, event in (*own, *open_):
            self._number(role, event, who, role)

    def _meeting(self, number: int, m: MeetingState) -> None:
        who, component = self.plan.members[number] & self.left, self.run.roles + len(self.state.barriers) + number
        self.facts += [m.arrived, m.count, tuple(sorted(m.members))]
        if m.shared is not None:
            self.clocks.append(m.shared)
            self._filled("this", m.shared, who)
        if self._matters(component, m.stage - 1, who):
            self._number(component, m.stage - 1, who)
            self.clocks.append(m.completions[-1])
            self._filled("last", m.completions[-1], who)
        for role, stage in sorted(m.leaving.items()):
            self.facts.append(role)
            self._number(component, stage, who)
            self.clocks.append(m.completions[stage])
        for place, (event, blocks) in sorted(m.places.items()):
            self.facts += [place, blocks]
            self._number(place[0], event, who)

    def _spans(self, number: int, role: int, spans: Spans) -> None:
        """A role's accesses of a region, for those that may come to the same bytes."""
        who, strict = self.plan.touching[number] & self.left, self.plan.kernel.rules.strict
        others, fenced = who - {role}, self.plan.fenced + role
        if spans.group >= 0:
            self._of_wgmmas(number, role, spans, others)
            return
        for name, component, end, them in (
            ("write", role, spans.write, others),
            ("read", role, spans.read, others),
            ("loose write", role, spans.loose_write, others),
            ("loose read", role, spans.loose_read, others),
            ("loosened write", role, spans.loosened_write, others),
            ("loosened read", role, spans.loosened_read, others),
            ("raw write", role if strict else fenced, spans.raw_write, who),
            ("raw read", role, spans.raw_read, who if strict else ()),
        ):
            matters = self._number(component, end, them, name, number, role)
            if matters and name == "raw write":
                self._number(role, end, self.left)  # what somebody knows, a fence makes count
            elif matters and name == "write" and self.plan.unharmed[number]:
                self.facts.append(self.plan.moves[role][self.run.node_of(role, spans.wrote)].leaves)

    def _of_wgmmas(self, number: int, role: int, spans: Spans, who: Collection[int]) -> None:
        """A part's reads by wgmmas, of which others learn by the first wait of any part for their group that they are
        over: for good, if nothing is left without release. Which wait of a part comes to be that is told by how many
        groups it has committed since, of which no wait leaves more than so many.
        """
        known = (not self._matters(role, spans.read, (one,)) or self._is_over(one, number, role, spans) for one in who)
        if not self.plan.loosens and all(known):
            return
        self.facts.append(("wgmma", number, role))
        self._number(role, spans.read, who, "read")
        self._number(role, spans.loose_read, who, "loose read")
        for part in self.plan.warpgroups[role]:
            issued = self.state.issued[part]
            waited = issued.waited[spans.group] if spans.group < len(issued.waited) else NEVER
            self._number(part, waited, who, "waited")
            if waited == NEVER:
                self.facts.append(min(len(issued.clocks) - spans.group, self.plan.pending[part] + 1))

    def _is_over(self, one: int, number: int, role: int, spans: Spans) -> bool:
        """The role knows that the last read of another one by a wgmma is over, in every sense."""
        halves = (self.now[one][half : half + self.run.width] for half in self.halves)
        return all(is_over(self.run, one, known, number, role, spans) for known in halves)

    def _groups(self, role: int, others: Collection[int]) -> None:
        """What a part has committed, for another one that may wait for it: how many groups more or less than that one,
        and the clocks of those that it has not waited for, and may not leave. (How many of its own it has not waited
        for is told by where it is.)
        """
        issued = self.state.issued
        mine, needed = issued[role].clocks, len(issued[role].clocks)
        for other in filter(self._may_wait, others):
            theirs = issued[other]
            self.facts.append(len(mine) - len(theirs.clocks))
            left = len(theirs.clocks) - self.plan.pending[other] - 1
            needed = min(needed, max(len(theirs.waited), left))
        self.clocks += mine[needed:]

    def _may_wait(self, part: int) -> bool:
        """The part of a warpgroup can come to a wait for groups of wgmmas."""
        return part in self.left and self.plan.pending[part] >= 0

    def _flights(self) -> None:
        """Copies that may not have landed, for those that come to the same bytes, and for the end of their CTA."""
        for number, flights in enumerate(self.state.flights):
            who, (space, cta) = self.plan.touching[number] & self.left, self.plan.places[number]
            for barrier, one in sorted(flights.items()):
                component = self.run.roles + barrier
                landed = one.copied or space != "shared" or self._known_in(cta, component, one.stage)
                self._number(component, one.stage, who if landed else range(self.run.roles), number, barrier, landed)
                if one.copied:
                    self._copied(number, barrier, one, who)

    def _copied(self, number: int, barrier: int, one: InFlight, who: Collection[int]) -> None:
        """A cp.async of which a barrier tells, perhaps besides others: for whom it is over, and whether a fence is
        behind that.
        """
        for stage, event in (
            (self.run.roles + barrier, one.role),
            (self.plan.fenced_stage(barrier), self.plan.fenced + one.role),
        ):
            matters = self._matters(stage, one.stage, who)
            self.facts.append((number, barrier, one.role, matters))
            if matters:
                self._number(stage, one.stage, who)
                self._number(event, one.waited, who)
                self._number(self.run.roles + barrier, one.stage, self.left)  # what somebody knows, a fence makes count
                self._number(one.role, one.waited, self.left)

    def _ctas(self) -> None:
        """What reaches into a CTA must be before its end, and after its begin; requests for registers."""
        for cta, reached in enumerate(self.state.reached):
            for role, (event, _) in sorted(reached.items()):
                who = () if self._known_in(cta, role, event) else range(self.run.roles)
                self._number(role, event, who, cta, role)
        for role, event in sorted(self.state.incs.items()):
            self._number(role, event, self.left, role)
        if not self.plan.kernel.rules.met:
            for role in range(self.run.roles):
                self._number(role, 0, self.left, role)

    def _known_in(self, cta: int, component: int, number: int) -> bool:
        """Some role of the CTA knows it, so that the end of the CTA does."""
        return any(self.now[role][component] > number for role in self.plan.homes[cta])

    def _maps(self) -> None:
        """Tensormaps: what has been released, and what was known at each acquire."""
        for (number, role), edit in sorted(self.state.edits.items()):
            for event in (edit.here, edit.there):
                self.facts.append(tuple(clock[role] > event for _, clock in sorted(self.state.acquired.items())))
                self._number(role, event, self.left, number, role)
        self.facts.append(tuple(sorted(self.state.acquired)))
        for role, event in sorted(self.state.waited.items()):
            self.facts.append(role)
            self._number(role, event, self.left)


def _is_marked(contribution: Contribution) -> bool:
    """Whether it matters which other contributions are after it: it has bytes, and is no copy that lands."""
    return bool(contribution.moved) and contribution.role >= 0
