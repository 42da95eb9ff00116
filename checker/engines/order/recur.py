"""When a run without end repeats itself: its situation, with everything that no longer matters left out.

All conditions compare a component of a clock with one of a few numbers that the state still holds: the event at which
an access ends, the stage in which bytes are counted. So a component is known well enough by how many of those numbers
it exceeds; what comes later is compared with later numbers, which no clock of today exceeds. Two situations that agree
in this go on alike, event by event and failure by failure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Iterable

from sm90_verify.engines.order.run import Run
from sm90_verify.engines.order.state import NEVER, Clock, Contribution, Spans

FAR = 17
"""Unseen phases are counted up to here: more than the language lets a wait be away from the last one."""


def situation(run: Run) -> Hashable:
    """Equal situations have equal futures; taken between two rounds."""
    return _Situation(run).key()


class _Situation:
    def __init__(self, run: Run) -> None:
        self.run, self.state = run, run.state
        self.marks: list[list[int]] = [sorted(marks) for marks in self._marks()]

    def key(self) -> Hashable:
        state, rank = self.state, self._rank
        most = max(state.visits, default=0)
        return (
            tuple(state.at),
            tuple(state.inside),
            tuple(
                most - visits if loops and not self.run.ended(role) else -1
                for role, (visits, loops) in enumerate(zip(state.visits, state.loops, strict=True))
            ),
            tuple(self._clock(clock) for clock in state.clock),
            tuple(self._barriers()),
            tuple(
                (
                    m.arrived,
                    m.count,
                    m.members,
                    None if m.shared is None else self._clock(m.shared),
                    self._clock(m.completions[-1]) if m.completions else None,
                    tuple((role, self._clock(m.completions[stage])) for role, stage in sorted(m.leaving.items())),
                    tuple((who, rank(who[0], event), blocks) for who, (event, blocks) in sorted(m.places.items())),
                )
                for m in state.meetings
            ),
            tuple(
                tuple(
                    (
                        role,
                        *(rank(role, end) for end in _ends(spans)),
                        rank(self.run.plan.fenced + role, spans.raw_write),
                    )
                    for role, spans in sorted(region.items())
                )
                for region in state.regions
            ),
            tuple(
                tuple((b, rank(self.run.roles + b, flight[0])) for b, flight in sorted(flights.items()))
                for flights in state.flights
            ),
            tuple(sorted(state.content.items(), key=lambda item: item[0])),
            tuple(tuple(sorted(raw)) for raw in state.raw),
            tuple(state.free),
            tuple(
                tuple((role, rank(role, event)) for role, (event, _) in sorted(one.items())) for one in state.reached
            ),
            tuple((role, rank(role, event)) for role, event in sorted(state.incs.items())),
            tuple(
                (number, role, rank(role, edit.here), rank(role, edit.there))
                for (number, role), edit in sorted(state.edits.items())
            ),
            tuple((key, self._clock(clock)) for key, clock in sorted(state.acquired.items())),
        )

    def _barriers(self) -> Iterable[Hashable]:
        rank = self._rank
        for b in self.state.barriers:
            yield (
                (b.parts.alive, b.parts.phase, b.parts.expected, b.parts.pending, b.parts.tx),
                min(b.stage - b.first, 1),
                None if b.shared is None else self._clock(b.shared),
                self._clock(b.completions[-1]) if b.completions else None,
                tuple((role, min(b.stage - seen, FAR)) for role, seen in b.seen.items()),
                b.fresh,
                tuple(
                    (who, rank(~who if who < 0 else who, event))
                    for who, (stage, event, _) in sorted(b.required.items())
                    if stage == b.stage
                ),
                tuple(
                    (role, rank(role, event)) for role, (stage, event) in sorted(b.witness.items()) if stage == b.stage
                ),
                tuple((role, min(b.stage - stage, 3)) for role, stage in sorted(b.arrived.items())),
                tuple((role, rank(role, event)) for role, event in sorted(b.unfenced.items())),
                tuple((role, rank(role, event)) for role, event in sorted(b.hidden.items())),
                tuple((role, rank(role, event)) for role, event in sorted(b.used.items())),
                b.expected,
                b.copies,
                b.copied,
                tuple((bytes, role, rank(role, event)) for bytes, role, event in b.open_expects),
                tuple((role, rank(role, event)) for role, event in b.open_arrivals),
                tuple(
                    (one.moved, one.role, rank(one.role, one.event) if _is_marked(one) else -1, self._clock(one.clock))
                    for one in b.contributions
                ),
            )

    def _clock(self, clock: Clock) -> tuple[int, ...]:
        return tuple(bisect_left(marks, component) for marks, component in zip(self.marks, clock, strict=True))

    def _rank(self, component: int, number: int) -> int:
        """A number as its place among the marks of its component; NEVER and -1 keep their meaning."""
        return number if number in (-1, NEVER) else bisect_left(self.marks[component], number)

    def _marks(self) -> list[set[int]]:
        """By component, every number that a clock may still be compared with."""
        run, state = self.run, self.state
        marks: list[set[int]] = [set() for _ in range(run.plan.width)]
        for region in state.regions:
            for role, spans in region.items():
                marks[role].update(_ends(spans))
                marks[run.plan.fenced + role].add(spans.raw_write)
        for flights in state.flights:
            for number, (stage, _, _) in flights.items():
                marks[run.roles + number].add(stage)
        for role, event in state.incs.items():
            marks[role].add(event)
        for (_, role), edit in state.edits.items():
            marks[role].update((edit.here, edit.there))
        for one in state.reached:
            for role, (event, _) in one.items():
                marks[role].add(event)
        for number, b in enumerate(state.barriers):
            marks[run.roles + number].update(range(b.stage - FAR, b.stage))
            marks[run.roles + number].add(b.first - 1)
            if b.completions and not b.copied:
                self._mark(marks, b.completions[-1])
            for who, (stage, event, _) in b.required.items():
                if stage == b.stage:
                    marks[~who if who < 0 else who].add(event)
            for role, (stage, event) in b.witness.items():
                if stage == b.stage:
                    marks[role].add(event)
            for ends in (b.unfenced, b.hidden, b.used):
                for role, event in ends.items():
                    marks[role].add(event)
            for _, role, event in b.open_expects:
                marks[role].add(event)
            for role, event in b.open_arrivals:
                marks[role].add(event)
            for contribution in filter(_is_marked, b.contributions):
                marks[contribution.role].add(contribution.event)
        for number, m in enumerate(state.meetings):
            marks[run.roles + len(state.barriers) + number].add(m.stage - 1)
            if m.completions:
                self._mark(marks, m.completions[-1])
            for (role, _), (event, _) in m.places.items():
                marks[role].add(event)
        for found in marks:
            found.difference_update((-1, NEVER))
        return marks

    def _mark(self, marks: list[set[int]], last: Clock) -> None:
        """Whether a role knows all that went into a completion."""
        for role in range(self.run.roles):
            marks[role].add(last[role] - 1)


def _is_marked(contribution: Contribution) -> bool:
    """Whether it matters which other contributions are after it: it has bytes, and is no copy that lands."""
    return bool(contribution.moved) and contribution.role >= 0


def _ends(spans: Spans) -> tuple[int, ...]:
    return spans.write, spans.read, spans.raw_write, spans.raw_read, spans.loose_write, spans.loose_read
