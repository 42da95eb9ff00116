"""The run of a plan, or the runs for all answers to its decisions: a tree that ends where situations recur.

A run goes on until nobody can without a decision. Then it forks, with all answers to all decisions that somebody stands
at, so that none of them is put off for ever. What a run does from a situation on is known once the run that came to it
first has been followed (recur): so every branch ends, or comes to a situation that is known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass, field
from itertools import product

from sm90_verify.engines.effort import Effort, RanOut
from sm90_verify.engines.order import turns
from sm90_verify.engines.order.plan import Plan
from sm90_verify.engines.order.progress import ALTERNATIVES
from sm90_verify.engines.order.recur import situation
from sm90_verify.engines.order.run import Run
from sm90_verify.engines.order.state import Failure

MOST_SITUATIONS, MOST_EVENTS, MOST_IN_A_PHASE = 4_000, 2_000_000, 500
"""Situations, events, and contributions to one phase after which runs without end are given up."""
AFTER_A_VIOLATION = 50
"""Situations for which they go on in search of violations of other properties."""


@dataclass
class _Situation:
    """One that is known. answers, done: of the run that came to it first, its answers by decision and its events by
    role. left: the roles that have not ended. leads: what can be next, with the roles that have moved by then. open:
    a run ends behind it, and has been looked at.
    """

    answers: tuple[tuple[int, ...], ...]
    done: tuple[int, ...]
    left: frozenset[int]
    leads: list[tuple[int, frozenset[int]]] = field(default_factory=list)
    open: bool = False


class Forks:
    """failures: what the runs find. diverged, unsure, contested, handed, raced: as of a Run, of any of them; events: of
    all of them. stopping: as of a Run, where there is but one; stopped: it was.
    """

    def __init__(self, plan: Plan, effort: Effort, asked: Collection[str], stopping: Collection[str] = ()) -> None:
        self.plan, self.effort, self.asked = plan, effort, asked
        self.stopping = () if plan.decisions or plan.endless else stopping
        self.stopped = False
        self.failures: list[Failure] = []
        self.diverged = self.unsure = self.contested = self.handed = ""
        self.raced = False
        self.events = self.bad = 0
        self.numbers: dict[Hashable, int] = {}
        self.known: list[_Situation] = []

    def follow(self) -> None:
        run = Run(self.plan)
        run.tick, run.stopping = self._tick, self.stopping
        run.start()
        try:
            if run.halted:
                self._collect(run, 0)
            else:
                self._explore(run)
        except RanOut as error:
            self.unsure = self.unsure or str(error)
        if not self.unsure and not self.diverged:
            self._find_stuck()

    def _tick(self, role: int, events: int) -> None:
        """Some events are over, the last one of this role."""
        self.effort.tell(f"order, {self.events + events} events")
        why = self.effort.ran_out()
        if why:
            raise RanOut(f"{why}, reached after {self.events + events} events in {self.plan.programs[role].name}")

    # -- the tree

    def _explore(self, first: Run) -> None:
        """Breadth first, so that what goes wrong is found after few decisions. The start is a situation that no run
        comes back to.
        """
        waiting = deque([(first, self._note(first), 0)])
        while waiting and not self.unsure:
            run, source, already = waiting.popleft()
            try:
                here = self._go_on(run, source)
            finally:
                self._collect(run, already)
            if here < 0:
                continue
            for answers in self._answers(run):
                waiting.append((run.fork(answers), here, len(run.state.log)))

    def _answers(self, run: Run) -> Iterator[tuple[tuple[int, int], ...]]:
        """All that can be decided now: a loop ends first of all."""
        asked = run.asked()
        for answers in product(*(range(self.plan.decisions[number].options) for number in asked)):
            yield tuple(zip(asked, answers, strict=True))

    def _go_on(self, run: Run, source: int) -> int:
        """Until nobody can go on without a decision: the number of that situation if it was not known, else -1. Where a
        role goes round for ever without any, it is not waited for once it has come back to where it was.
        """
        since: set[int] = set()
        while True:
            before = tuple(run.state.done)
            moved = self._rounds(run)
            ends = not moved and not run.halted and not run.asked()
            if ends:
                run.at_rest()
            run.unsure = run.unsure or self._gives_up(run)
            if ends or run.halted or run.unsure:
                self.known[source].open = True
                return -1
            key = situation(run)
            number = self.numbers.get(key, -1)
            again = number >= 0
            if not again:
                number = self.numbers[key] = self._note(run)
            movers = (role for role, events in enumerate(before) if run.state.done[role] != events)
            self.known[source].leads.append((number, frozenset(movers)))
            if again:
                return number if number in since and run.asked() else -1
            if not moved:
                return number
            since.add(number)
            source = number

    def _rounds(self, run: Run) -> bool:
        """One of them, or all until nobody can go on if that must come. Whether it has not yet come."""
        moved = run.round()
        while moved and not self.plan.forever:
            moved = run.round()
        return moved

    def _gives_up(self, run: Run) -> str:
        self.bad += any(failure.property in self.asked for failure in (*self.failures, *run.failures))
        if self.bad > AFTER_A_VIOLATION:
            return "the run was stopped after the first violations"
        grows = any(len(barrier.contributions) > MOST_IN_A_PHASE for barrier in run.state.barriers)
        if grows or len(self.known) > MOST_SITUATIONS or self.events + len(run.state.log) > MOST_EVENTS:
            return f"the run does not recur within {len(self.known) - 1} situations"
        return ""

    def _note(self, run: Run) -> int:
        state = run.state
        left = frozenset(role for role in range(run.roles) if not run.ended(role))
        answers = tuple(tuple(decision.answers) for decision in state.decisions)
        self.known.append(_Situation(answers, tuple(state.done), left))
        return len(self.known) - 1

    # -- who is stuck

    def _find_stuck(self) -> None:
        """Who has not ended in some situation and does not move in any that can follow never will."""
        later = self._movers_later()
        for here, movers in zip(self.known, later, strict=True):
            stuck = here.left - movers
            if stuck:
                names = tuple(program.name for role, program in enumerate(self.plan.programs) if role in stuck)
                again = self._again(here)
                again.deadlock(names)
                self._keep(again)
                return

    def _movers_later(self) -> list[frozenset[int]]:
        """By situation, the roles that can still move there, if only after certain answers."""
        everyone = frozenset(range(len(self.plan.programs)))
        moves = [everyone if here.open else frozenset[int]() for here in self.known]
        changed = True
        while changed:
            changed = False
            for number in range(len(moves) - 1, -1, -1):
                can = moves[number].union(*(movers | moves[target] for target, movers in self.known[number].leads))
                if can != moves[number]:
                    moves[number], changed = can, True
        return moves

    def _again(self, here: _Situation) -> Run:
        """A run that has come to the situation, or further, and has found nothing yet."""
        run = Run(self.plan)
        run.start()
        for decision, answers in zip(run.state.decisions, here.answers, strict=True):
            decision.answers.extend(answers)
        while any(done < events for done, events in zip(run.state.done, here.done, strict=True)) and run.round():
            pass
        run.failures = []
        return run

    # -- what is found

    def _collect(self, run: Run, already: int) -> None:
        """already: events that have been counted."""
        self._keep(run)
        self.diverged = self.diverged or run.diverged
        self.unsure = self.unsure or run.unsure or turns.unsure(run)
        self.contested = self.contested or run.contested
        self.handed = self.handed or run.handed
        self.raced = self.raced or run.raced
        self.stopped = self.stopped or len(run.state.log) >= run.ends
        self.events += len(run.state.log) - already

    def _keep(self, run: Run) -> None:
        for failure in run.failures:
            alike = [
                known
                for known in self.failures
                if (known.property, known.certain) == (failure.property, failure.certain)
            ]
            if len(alike) < ALTERNATIVES and failure not in alike:
                self.failures.append(failure)
