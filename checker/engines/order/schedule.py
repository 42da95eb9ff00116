"""From a failure to a schedule of the Machine that shows it, executed there before anybody is told.

The schedule takes the events before the failure in the order of the run, then the step that violates. Where it is only
known that roles do something else than in the run, it goes on from there with whatever can happen, until something is
violated or nothing is left.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from sm90_verify.counterexample.trace import State, changed_by, initial_state, is_enabled, make_trace, take
from sm90_verify.counterexample.watched import StandingChecks
from sm90_verify.engines.order.clocks import NEVER
from sm90_verify.engines.order.outcome import Outcome
from sm90_verify.engines.order.plan import Plan
from sm90_verify.engines.order.state import Failure, RunEvent
from sm90_verify.engines.violation import Violation
from sm90_verify.result import Trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.kernel import Program
from sm90_verify.spec.model.machine import LIMIT, Action, Check, Machine
from sm90_verify.spec.model.words import listed
from sm90_verify.spec.ptx.effect_parts import TriggeredArrivals
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.expr import Known, evaluate
from sm90_verify.spec.ptx.needs import GOES_ON

MOST_STEPS_ON = 300
"""Steps of a schedule after it has left the run."""
_MAY_SHOW = {"phase-lapped": ("unobserved-phase",)}
"""What an arrival that may be counted in another phase can come to first."""


class CutOff(Exception):
    """A schedule has come to where the Machine is cut."""


def confirm(outcome: Outcome, machine: Machine) -> dict[str, Violation]:
    """By property, a schedule of the machine that shows a violation: that of its first failure, if it does. On one that
    is cut, what is not certain is executed only where nothing that is shows a violation. Raises CutOff.
    """
    found: dict[str, Violation] = {}
    for failure in sorted(outcome.failures, key=lambda failure: not failure.certain):
        if failure.property in found or (found and machine.cut is not None and not failure.certain):
            continue
        violation = None if outcome.plan is None else show(machine, outcome.plan, failure)
        if violation is not None:
            found.setdefault(violation.property, violation)
    return found


def trace_of(outcome: Outcome, property: str = "") -> Trace | None:
    """The trace of a violation, the shortest of any property unless one is named; None if no schedule shows it."""
    machine = compile_kernel(outcome.kernel)
    found = confirm(outcome, machine)
    chosen = [found[property]] if property in found else [] if property else list(found.values())
    if not chosen:
        return None
    best = min(chosen, key=lambda violation: len(violation.actions))
    return make_trace(machine, best.property, best.because, best.actions, best.stuck)


def show(machine: Machine, plan: Plan, failure: Failure) -> Violation | None:
    """A schedule of the machine that violates what the failure says, or something else, or None."""
    roles = len(plan.programs)
    attempts = [failure.reached]
    if failure.late is not None:
        every_copy = (NEVER,) * (len(failure.reached) - roles)
        attempts.append((*failure.reached[:roles], *every_copy))
    elif failure.certain:
        attempts.append(())
    if failure.given:
        attempts += [tuple(map(max, reached, failure.given)) for reached in attempts if reached]
    other = None
    for reached, leave in ((reached, leave) for reached in attempts for leave in (True, False)):
        may_show = _MAY_SHOW.get(failure.property, ()) if failure.astray else ()
        player = _Player(machine, plan, failure.property, may_show)
        player.play(_before(failure, reached, roles))
        if leave:
            player.leave()
        if failure.stuck and player.found is None:
            return player.deadlock(failure)
        if failure.step is not None:
            player.play([(-1, _step(plan, failure))])
        if failure.beyond:
            player.play(_before(failure, failure.beyond, roles))
        if player.found is None and failure.astray:
            player.go_on()
        if player.found is not None and player.found.property == failure.property:
            return player.found
        other = other or player.found
    return other


def _before(failure: Failure, reached: Sequence[int], roles: int) -> Iterable[tuple[int, RunEvent]]:
    """The events of the run before a clock, with their numbers; () is all of them. They are in the order of the run,
    but those that the failure puts off come last.
    """
    last: list[tuple[int, RunEvent]] = []
    for index, event, who, number in _all_before(failure, reached, roles):
        if failure.put_off and number >= failure.put_off[who]:
            last.append((index, event))
        else:
            yield index, event
    yield from last


def _all_before(failure: Failure, reached: Sequence[int], roles: int) -> Iterable[tuple[int, RunEvent, int, int]]:
    """Each with the role and the number of the event that it is, or for a copy that lands, that issued it."""
    issue: dict[int, int] = {}
    for index, event in enumerate(failure.log if reached else failure.log[: failure.length]):
        who, _, third, number = event
        if who >= 0:
            issue[who] = number
            here, made = number < reached[who] if reached else True, (who, number)
        else:
            issued = issue[~who]
            made = ~who, issued
            here = (~who, issued, third) != failure.late
            here &= not reached or (issued < reached[~who] and number < reached[roles + third])
        if here:
            yield index, event, *made


def _step(plan: Plan, failure: Failure) -> RunEvent:
    """The failure's own step; of a copy with several destinations, the landing at the barrier to blame."""
    who, node = failure.step or (0, 0)
    if who >= 0:
        return who, node, -1, -1
    things = plan.moves[~who][node].things
    blamed = [number for number in things if plan.barriers[number].name == failure.object]
    return who, node, (blamed or things)[0], -1


def _triggered(machine: Machine, programs: Iterable[Program], agents: Iterable[int]) -> Mapping[TriggeredArrivals, int]:
    """The actions of arrivals that follow cp.asyncs, among these: for each barrier in the order of the programs."""
    found: dict[str, dict[TriggeredArrivals, None]] = {}
    for operation in (node.operation for program in programs for node in program.nodes):
        if (arrivals := effects_of(operation).triggers) is not None:
            found.setdefault(arrivals.barrier, {})[arrivals] = None
    actions: dict[str, list[int]] = {}
    for index in agents:
        actions.setdefault(machine.actions[index].object, []).append(index)
    return {one: index for name, some in found.items() for one, index in zip(some, actions[name], strict=True)}


class _Player:
    """Executes events on the Machine, and stops at the first violation of what is wanted, of what it may come to first,
    or of what halts.
    """

    def __init__(self, machine: Machine, plan: Plan, wanted: str, may_show: tuple[str, ...] = ()) -> None:
        self.may_show = may_show
        self.machine, self.plan, self.programs = machine, plan, plan.programs
        self.state: State = initial_state(machine)
        self.actions: list[int] = []
        self.found: Violation | None = None
        self.lost = False
        self.taken: set[int] = set()
        self.ends = {program.name: len(program.nodes) - 1 for program in plan.programs}
        self.agents = [index for index, action in enumerate(machine.actions) if action.location is None]
        self.landings: dict[tuple[str, str], list[int]] = {}
        for index in self.agents:
            copy = machine.landing(machine.actions[index])
            if copy is not None:
                self.landings.setdefault((copy.buffer, copy.barrier), []).append(index)
        landing = {index for some in self.landings.values() for index in some}
        self.triggered = _triggered(machine, self.programs, [one for one in self.agents if one not in landing])
        self.known: Known = {}
        self._want(wanted)
        self._look()

    def _want(self, property: str) -> None:
        self.wanted = property
        self.watched = StandingChecks(self.machine, self._matters)

    def play(self, events: Iterable[tuple[int, RunEvent]]) -> None:
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
        for role in range(len(self.programs)):
            if self._inside(role) and self.found is None and self._can_run(self.programs[role].name):
                self._take_one(self._at(self.programs[role].name))

    def _inside(self, role: int) -> bool:
        """The role waits inside a barrier of threads."""
        program = self.programs[role]
        return self.state[self._counter(program.name)] >= len(program.nodes)

    def _event(self, event: RunEvent) -> None:
        role, node, answer, _ = event
        name = self.programs[role].name
        if not self._can_run(name):  # perhaps others end when they go on
            self.leave()
        if self._inside(role):
            self._take_one(self._at(name))
        if self.found is not None or self.lost:
            return
        if self.state[self._counter(name)] != node:
            self.lost = True
            return
        actions = self.machine.actions
        self._take_one(
            index
            for index in self._at(name)
            if actions[index].kind != "stays" and (answer < 0 or actions[index].answer == answer)
        )

    def _land(self, event: RunEvent) -> None:
        """All pieces of the copy that a load has issued."""
        role, node, barrier, number = event
        signals, effects = self.plan.barriers[barrier].name, effects_of(self.programs[~role].nodes[node].operation)
        if effects.triggers is not None:
            self._take_one([self.triggered[effects.triggers]])
            return
        lands = effects.lands
        copies = next(copies for copies, _ in lands if copies.barrier == signals)
        object = copies.write.object
        for _ in range(copies.pieces if number >= 0 else 1):
            if self.found is None and not self.lost:
                self._take_one(self.landings[object, signals])

    def _at(self, role: str) -> list[int]:
        """The actions of a role where it is. Raises CutOff where they are not compiled."""
        at, cut = self.state[self._counter(role)], self.machine.cut
        if cut is not None and cut.ends_before(role, at) and at < self.ends[role]:
            raise CutOff
        return self.machine.actions_at.get((role, at), [])

    def _counter(self, role: str) -> str:
        return self.machine.named[role].counter

    def _take_one(self, candidates: Iterable[int]) -> None:
        for index in candidates:
            action = self.machine.actions[index]
            if not action.beyond and is_enabled(self.machine, action, self.state, self.known):
                self._take(index)
                return
        self.lost = True

    def _take(self, index: int) -> None:
        action: Action = self.machine.actions[index]
        self.actions.append(index)
        self._note(action.checks, by_step=True)
        if self.found is None:
            before = self.state
            self.state, self.known = take(self.machine, action, before, self.known), {}
            self._look(changed_by(self.machine, action, before, self.state))

    def _look(self, changed: Sequence[str] | None = None) -> None:
        """The checks on the state that matter: of what is wanted, of what halts, and of the model's own limits."""
        if not self.watched.holds(self.state, changed, self.known):
            return
        self._note(self.watched.everywhere)
        for role in self.machine.roles:
            if self.found is None:
                self._note(self.watched.at(role, self.state[role.counter]))

    def _matters(self, check: Check) -> bool:
        return not self.wanted or check.property in (self.wanted, LIMIT, *self.may_show) or check.halts

    def _note(self, checks: Iterable[Check], by_step: bool = False) -> None:
        """The first of the violated checks, one of what is wanted before any other."""
        matter = [check for check in checks if self._matters(check)]
        violated = [check for check in matter if evaluate(check.when, self.state, self.known)]
        for check in sorted(violated, key=lambda check: check.property != self.wanted):
            if check.property == LIMIT:
                self.lost = True
            elif self.found is None:
                actions = tuple(self.actions)
                self.found = Violation(check.property, check.because, check.object, actions, by_step)

    def go_on(self) -> None:
        """Whatever can happen, role by role, until something is violated; a deadlock if nothing can."""
        self.lost = False
        self._want("")
        self._look()
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
                if stuck and not any(self._can_run(role.name) for role in self.machine.roles):
                    because = GOES_ON.said(roles=listed(stuck))
                    self.found = Violation("deadlock", because, "", tuple(self.actions), False, stuck)
                return

    def _try(self, candidates: Iterable[int]) -> None:
        self._take_one(candidates)
        self.lost = False

    def deadlock(self, failure: Failure) -> Violation | None:
        """The stuck roles stand where they can never go on; copies that are still in flight land first."""
        for _ in self.agents:
            self._try(self.agents)
        if self.found is not None:
            return self.found
        if self.lost or any(self._can_run(role) for role in failure.stuck):
            return None
        return Violation("deadlock", failure.because, "", tuple(self.actions), False, failure.stuck)

    def _can_run(self, role: str) -> bool:
        actions = (self.machine.actions[index] for index in self._at(role))
        return any(is_enabled(self.machine, action, self.state, self.known) for action in actions)
