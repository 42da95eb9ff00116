"""How far a run has come: where each role stands, what is known to be before that, and what has gone wrong so far."""

from __future__ import annotations

from abc import ABC, abstractmethod
from bisect import bisect_right
from collections.abc import Collection
from dataclasses import replace
from math import inf

from sm90_verify.engines.order.clocks import NEVER, Clock
from sm90_verify.engines.order.plan import Plan
from sm90_verify.engines.order.state import Failure, RunState
from sm90_verify.spec.model.properties import HALTING

ALTERNATIVES = 4
"""Failures of one property that are kept, in case the first turns out to be nothing."""
MORE_EVENTS = 1_000
"""Events after the first violation for which a run goes on, if it is to stop at all: in search of other properties."""


class Progress(ABC):
    """What the parts of a run (accesses, signals, meetings, CTAs) read and report.

    failures: what is violated, the first ones of each property. diverged: why other schedules may do something else
    than this run; unsure: why a property cannot be decided at all; contested: why some request for registers may not be
    granted in other schedules, though what is done in them is the same; handed: why two accesses may not be ordered,
    though one is before the other in all schedules. All are "" if there is no reason. stopping:
    properties a violation of which, or another thing that other schedules do, is to stop the run; ends: after how many
    events.
    """

    def __init__(self, plan: Plan, state: RunState) -> None:
        self.plan, self.state = plan, state
        self.roles, self.width = len(plan.programs), plan.width
        self.failures: list[Failure] = []
        self.diverged = self.unsure = self.halted = self.contested = self.handed = ""
        self.raced = False
        self.stopping: Collection[str] = ()
        self.ends = inf

    @abstractmethod
    def may_end(self, role: int) -> None:
        """Ends the role if it has come to its end."""

    def ended(self, role: int) -> bool:
        return self.state.inside[role] < 0 and self.plan.moves[role][self.state.at[role]].kind == "end"

    def everything(self) -> Clock:
        """A clock after all that has happened, bytes of incomplete phases included."""
        state = self.state
        return [
            *state.done,
            *(barrier.stage + 1 for barrier in state.barriers),
            *(meeting.stage + 1 for meeting in state.meetings),
            *state.done,
            *(barrier.stage + 1 for barrier in state.barriers if self.plan.triggers),
        ]

    # -- clocks

    def now(self, role: int) -> Clock:
        """The clock of the role where it stands, as a list of its own."""
        clock = self.state.clock[role].copy()
        clock[role] = clock[role - self.width] = self.state.done[role]
        return clock

    def publish(self, role: int) -> Clock:
        """The clock after the event that the role is executing."""
        clock = self.state.clock[role].copy()
        clock[role] = clock[role - self.width] = self.state.done[role] + 1
        return clock

    def clock_at(self, role: int, event: int) -> Clock:
        """The clock of the role before one of its events."""
        history = self.state.history[role]
        clock = (history[event] if event < len(history) else self.state.clock[role]).copy()
        clock[role] = clock[role - self.width] = event
        return clock

    def not_before(self, role: int, event: int, barrier: int = -1, stage: int = 0) -> tuple[int, ...]:
        """By role, an event such that no earlier one of the role is after that event: the first that knows of it, or
        the one by which the role came to know. barrier: after that stage of it, where the role comes with the event.
        """
        component, number = (role, event) if barrier < 0 else (self.roles + barrier, stage)
        first = []
        for other in range(self.roles):
            clocks = [*self.state.history[other], self.state.clock[other]]
            knows = bisect_right(clocks, number, key=lambda clock: clock[component])
            first.append(max(0, knows - 1) if knows < len(clocks) else NEVER)
        first[role] = event
        return tuple(first)

    def node_of(self, role: int, event: int) -> int:
        """Where the role was, or is, when it executes one of its events."""
        if event == self.state.done[role]:
            return self.state.at[role]
        return self.state.been[role][event]

    # -- failures

    def fail(
        self,
        property: str,
        because: str,
        object: str,
        reached: Clock,
        step: tuple[int, int] | None = None,
        *,
        happened: bool = False,
        stuck: tuple[str, ...] = (),
        beyond: Clock | None = None,
        astray: bool = False,
        late: tuple[int, int, int] | None = None,
        put_off: tuple[int, ...] = (),
    ) -> None:
        """Keeps a violation. happened: this very run shows it, so that it is certain whatever else is wrong."""
        certain = happened or not self.diverged
        self._keep(
            Failure(
                property,
                because,
                object,
                tuple(reached[: self.width]),
                step,
                stuck,
                tuple(beyond or ()),
                certain,
                astray,
                late,
                put_off,
            )
        )
        if happened and property in HALTING:
            self.halted = because

    def diverge(
        self,
        property: str,
        because: str,
        object: str,
        reached: Clock,
        step: tuple[int, int] | None,
        *,
        beyond: Clock | None = None,
    ) -> None:
        """Other schedules may count, pass or meet differently; what they violate is open, most likely `property`."""
        self.diverged = self.diverged or because
        self.fail(property, because, object, reached, step, beyond=beyond, astray=True)

    def suspect(
        self, property: str, because: str, object: str, reached: Clock, step: tuple[int, int], *, astray: bool = False
    ) -> None:
        """What a race may lead to; astray: perhaps only later on."""
        self._keep(Failure(property, because, object, tuple(reached[: self.width]), step, certain=False, astray=astray))

    def _keep(self, failure: Failure) -> None:
        alike = [
            known for known in self.failures if (known.property, known.certain) == (failure.property, failure.certain)
        ]
        if len(alike) < ALTERNATIVES and failure not in alike:
            if failure.property in self.stopping and (failure.certain or self.diverged):
                self.ends = min(self.ends, len(self.state.log) + MORE_EVENTS)
            self.failures.append(
                replace(failure, log=self.state.log, length=len(self.state.log), given=tuple(self.state.given or ()))
            )
