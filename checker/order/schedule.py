"""From a failure to a schedule of the Machine that shows it, executed there before anybody is told.

The schedule takes the events before the failure in the order of the run, then the step that violates. Where it is only
known that roles do something else than in the run, it goes on from there with whatever can happen, until something is
violated or nothing is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from checker.order.plan import Plan
from checker.order.state import Event, Failure
from checker.trace import State, initial_state, is_enabled, take, violated_in
from spec import operations as op
from spec.expr import evaluate
from spec.machine import LIMIT, Action, Check, Machine

MOST_STEPS_ON = 2_000
"""Steps of a schedule after it has left the run."""


@dataclass(frozen=True)
class Shown:
    """A schedule, as indices of actions, whose last state or step violates `property`; stuck: roles that cannot run."""

    property: str
    because: str
    object: str
    actions: tuple[int, ...]
    stuck: tuple[str, ...] = ()


def show(machine: Machine, plan: Plan, failure: Failure) -> Shown | None:
    """A schedule of the machine that violates what the failure says, or something else, or None."""
    roles = len(plan.programs)
    attempts = [failure.reached]
    if failure.certain:
        attempts.append(())
    for reached in attempts:
        player = _Player(machine, plan, failure.property)
        player.play(_before(failure, reached, roles))
        if failure.step is None:
            player.leave()
        if failure.stuck and player.found is None:
            return player.deadlock(failure)
        if failure.step is not None:
            player.play([(-1, _step(plan, failure))])
        if failure.beyond:
            player.play(_before(failure, failure.beyond, roles))
        if player.found is None and not failure.certain:
            player.go_on()
        if player.found is not None:
            return player.found
    return None


def _before(failure: Failure, reached: Sequence[int], roles: int) -> Iterable[tuple[int, Event]]:
    """The events of the run before a clock, with their numbers, in the order of the run; () is all of them."""
    for index, event in enumerate(failure.log if reached else failure.log[: failure.length]):
        who, _, third, number = event
        if not reached or (number < reached[who] if who >= 0 else number < reached[roles + third]):
            yield index, event


def _step(plan: Plan, failure: Failure) -> Event:
    """The failure's own step; of a copy with several destinations, the landing at the barrier to blame."""
    who, node = failure.step or (0, 0)
    if who >= 0:
        return who, node, -1, -1
    things = plan.moves[~who][node].things
    blamed = [number for number in things if plan.barriers[number].name == failure.object]
    return who, node, (blamed or things)[0], -1


class _Player:
    """Executes events on the Machine, and stops at the first violation of what is wanted or of what halts."""

    def __init__(self, machine: Machine, plan: Plan, wanted: str) -> None:
        self.machine, self.plan, self.programs = machine, plan, plan.programs
        self.state: State = initial_state(machine)
        self.actions: list[int] = []
        self.wanted = wanted
        self.found: Shown | None = None
        self.lost = False
        self.taken: set[int] = set()
        self.by_place: dict[tuple[str, int | None], list[int]] = {}
        self.agents: list[int] = []
        for index, action in enumerate(machine.actions):
            if action.location is None:
                self.agents.append(index)
            else:
                self.by_place.setdefault((action.role, action.location), []).append(index)
        self.counters = {role.name: role.counter for role in machine.roles}
        self._look(violated_in(machine, self.state))

    def play(self, events: Iterable[tuple[int, Event]]) -> None:
        """Takes the events that have not been taken; gives up at one that cannot be."""
        for index, event in events:
            if self.found is not None or self.lost:
                return
            if index in self.taken:
                continue
            self.taken.add(index)
            if event[0] < 0:
                self._land(event)
            else:
                self._event(event)

    def leave(self) -> None:
        """Roles that wait inside a barrier that is full go on."""
        for role in self.programs:
            inside = self.state[self.counters[role.name]] >= len(role.nodes)
            if inside and self.found is None and self._can_run(role.name):
                self._take_one(self._at(role.name))

    def _event(self, event: Event) -> None:
        role, node, target, _ = event
        name = self.programs[role].name
        if self.state[self.counters[name]] >= len(self.programs[role].nodes):
            self._take_one(self._at(name))
        if self.found is not None or self.lost:
            return
        if self.state[self.counters[name]] != node:
            self.lost = True
            return
        inside = len(self.programs[role].nodes)
        fits = [
            index
            for index in self._at(name)
            if target < 0
            or self.machine.actions[index].target == target
            or (self.machine.actions[index].target or 0) >= inside
        ]
        self._take_one(fits)

    def _land(self, event: Event) -> None:
        """All pieces of the copy that a load has issued."""
        role, node, barrier, number = event
        load = self.programs[~role].nodes[node].operation
        assert isinstance(load, op.Load)
        pieces = load.pieces if number >= 0 else 1
        signals = self.plan.barriers[barrier].name
        object = next(write.object for write, name in load.destinations if name == signals)
        for _ in range(pieces):
            if self.found is None and not self.lost:
                self._take_one([index for index in self.agents if self.machine.actions[index].object == object])

    def _at(self, role: str) -> list[int]:
        return self.by_place.get((role, self.state[self.counters[role]]), [])

    def _take_one(self, candidates: Iterable[int]) -> None:
        for index in candidates:
            if is_enabled(self.machine, self.machine.actions[index], self.state):
                self._take(index)
                return
        self.lost = True

    def _take(self, index: int) -> None:
        action: Action = self.machine.actions[index]
        violated = [check for check in action.checks if evaluate(check.when, self.state)]
        self.actions.append(index)
        if not any(check.halts for check in violated):
            self.state = take(self.machine, action, self.state)
            violated += violated_in(self.machine, self.state)
        self._look(violated)

    def _look(self, violated: Iterable[Check]) -> None:
        for check in violated:
            if check.property == LIMIT:
                self.lost = True
            elif check.property == self.wanted or check.halts or not self.wanted:
                self.found = self.found or Shown(check.property, check.because, check.object, tuple(self.actions))

    def go_on(self) -> None:
        """Whatever can happen, role by role, until something is violated; a deadlock if nothing can."""
        self.wanted, self.lost = "", False
        self._look(violated_in(self.machine, self.state))
        for _ in range(MOST_STEPS_ON):
            before = len(self.actions)
            for role in self.machine.roles:
                self._try(self._at(role.name))
            self._try(self.agents)
            if self.found is not None or self.lost:
                return
            if len(self.actions) == before:
                stuck = tuple(
                    role.name for role in self.machine.roles if not role.locations[self.state[role.counter]].final
                )
                if stuck:
                    because = f"{' and '.join(stuck)} can never run again"
                    self.found = Shown("deadlock", because, "", tuple(self.actions), stuck)
                return

    def _try(self, candidates: Iterable[int]) -> None:
        self._take_one(candidates)
        self.lost = False

    def deadlock(self, failure: Failure) -> Shown | None:
        """The stuck roles stand where they can never go on; copies that are still in flight land first."""
        for _ in self.agents:
            self._try(self.agents)
        if self.found is not None:
            return self.found
        if self.lost or any(self._can_run(role) for role in failure.stuck):
            return None
        return Shown("deadlock", failure.because, "", tuple(self.actions), failure.stuck)

    def _can_run(self, role: str) -> bool:
        return any(is_enabled(self.machine, self.machine.actions[index], self.state) for index in self._at(role))
