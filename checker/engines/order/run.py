"""One schedule of the programs, executed event by event, and the conditions under which all others do the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from sm90_verify.engines.order import ctas, lifetime, memory, signals
from sm90_verify.engines.order.meetings import leave, meet, role_ends
from sm90_verify.engines.order.plan import Move, Plan
from sm90_verify.engines.order.state import NEVER, Clock, Failure, RunState, initial
from sm90_verify.spec.model.barrier_bytes import undeclared_overlaps

ALTERNATIVES = 4
"""Failures of one property that are kept, in case the first turns out to be nothing."""
HALTING = ("arrival-count", "tx-count", "barrier-init")


class Run:
    """A run of a plan. `limit`: the trip count, None for no end.

    failures: what is violated, the first ones of each property. diverged: why other schedules may do something else
    than this run; unsure: why a property cannot be decided at all. Both are "" if there is no reason.
    """

    def __init__(self, plan: Plan, state: RunState | None = None, limit: int | None = None) -> None:
        self.plan, self.limit = plan, limit
        self.state = initial(plan) if state is None else state
        self.roles = len(plan.programs)
        self.failures: list[Failure] = []
        self.diverged = self.unsure = self.halted = ""
        self.raced = False
        self.before_decision: Callable[[int], None] | None = None

    # -- clocks

    def now(self, role: int) -> Clock:
        """The clock of the role where it stands, as a list of its own."""
        clock = self.state.clock[role].copy()
        clock[role] = self.state.done[role]
        return clock

    def publish(self, role: int) -> Clock:
        """The clock after the event that the role is executing."""
        clock = self.state.clock[role].copy()
        clock[role] = self.state.done[role] + 1
        return clock

    def clock_at(self, role: int, event: int) -> Clock:
        """The clock of the role before one of its events."""
        history = self.state.history[role]
        clock = (history[event] if event < len(history) else self.state.clock[role]).copy()
        clock[role] = event
        return clock

    def node_of(self, role: int, event: int) -> int:
        """Where the role was, or is, when it executes one of its events."""
        if event == self.state.done[role]:
            return self.state.at[role]
        return next(node for who, node, _, number in reversed(self.state.log) if who == role and number == event)

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
    ) -> None:
        """Keeps a violation. happened: this very run shows it, so that it is certain whatever else is wrong."""
        certain = happened or not self.diverged
        self._keep(
            Failure(property, because, object, tuple(reached), step, stuck, tuple(beyond or ()), certain, astray, late)
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

    def suspect(self, property: str, because: str, object: str, reached: Clock, step: tuple[int, int]) -> None:
        """What a race may lead to."""
        self._keep(Failure(property, because, object, tuple(reached), step, certain=False))

    def _keep(self, failure: Failure) -> None:
        alike = [
            known for known in self.failures if (known.property, known.certain) == (failure.property, failure.certain)
        ]
        if len(alike) < ALTERNATIVES and failure not in alike:
            self.failures.append(
                replace(failure, log=self.state.log, length=len(self.state.log), given=tuple(self.state.given or ()))
            )

    # -- events

    def finish(self) -> None:
        """Runs until nothing can happen any more, then looks at what is left."""
        while self.round():
            pass
        if not self.halted:
            self.at_rest()

    def round(self) -> bool:
        """Every role runs until it is blocked, comes back to where it has been, or would begin another iteration while
        others are behind; if that is all, they begin it. Whether any event happened.
        """
        return self._turns(True) or (not self.halted and self._turns(False))

    def _turns(self, together: bool) -> bool:
        moved = False
        for role in range(self.roles):
            moved |= self._turn(role, together)
            if self.halted:
                return False
        return moved

    def _is_ahead(self, role: int) -> bool:
        """Some role that is still looping has begun fewer iterations."""
        visits = self.state.visits
        return any(
            visits[other] < visits[role] and not self.ended(other) and self.state.loops[other]
            for other in range(self.roles)
        )

    def _turn(self, role: int, together: bool) -> bool:
        state, moves = self.state, self.plan.moves[role]
        been: set[int] | None = set() if self.plan.endless else None
        moved = False
        while state.inside[role] < 0:
            at = state.at[role]
            if been is not None:
                if at in been:
                    break
                been.add(at)
            move = moves[at]
            if move.kind == "loop" and together and self._is_ahead(role):
                break
            if move.kind == "end" or not self._execute(role, move):
                break
            moved = True
            if self.halted or move.kind == "loop":
                break
        return moved

    def _execute(self, role: int, move: Move) -> bool:
        """Executes the operation if it can run, and checks everything about it."""
        state = self.state
        target, before = move.next, state.clock[role]
        if move.forgets or move.forgot:
            self._leave_stretch(role, move)
        match move.kind:
            case "access":
                memory.access(self, role, move)
                lifetime.must_be_dead(self, role, move)
            case "signal":
                signals.contribute(self, role, move)
            case "wait":
                if not signals.wait(self, role, move):
                    return False
            case "load":
                memory.load(self, role, move)
                lifetime.must_be_dead(self, role, move)
            case "meet":
                meet(self, role, move)
            case "loop":
                decision = state.visits[role]
                if self.before_decision is not None and decision == max(state.visits):
                    self.before_decision(decision)
                state.visits[role] = decision + 1
                state.loops[role] = self.limit is None or decision < self.limit
                target = move.again if state.loops[role] else move.next
            case "token":
                if not signals.wait_token(self, role, move):
                    return False
            case "fence":
                memory.fence(self, role, move)
            case "leave":
                if not leave(self, role, move):
                    return False
            case "registers":
                if not ctas.registers(self, role, move):
                    return False
            case _:
                lifetime.live(self, role, move)
        if self.halted:
            return True
        done = state.done[role]
        state.history[role].append(before)
        state.log.append((role, state.at[role], target, done))
        state.done[role] = done + 1
        state.at[role] = target
        if move.over:
            memory.end(self, role, move, done)
        if move.loosens or move.tightens:
            memory.release(self, role, move, done)
        if move.kind == "load":
            signals.land(self, role, move)
        elif move.kind == "wait":
            signals.passed(self, role, move, done)
        elif move.kind == "inval":
            lifetime.nobody_may_stand_there(self, move.thing)
        self.may_end(role)
        return True

    def _leave_stretch(self, role: int, move: Move) -> None:
        """With this event the role shows that it has passed its last waits."""
        event, barriers = self.state.done[role], self.state.barriers
        for thing in move.forgets:
            known = barriers[thing].required.get(role)
            if known is not None and known[1] == NEVER:
                barriers[thing].required[role] = (known[0], event, known[2])
        for thing in move.forgot:
            seen = barriers[thing].witness.get(role)
            if seen is not None and seen[1] == NEVER:
                barriers[thing].witness[role] = (seen[0], event)

    # -- the end

    def start(self) -> None:
        """What is wrong before anything happens; roles without any operation end at once."""
        nothing = [0] * self.plan.width
        layout = self.plan.kernel.layout
        for one, other in undeclared_overlaps(layout, self.plan.programs):
            because = f"{one.object} and {other.object} lie in the same bytes, which no `shares` declares"
            self.fail("smem-overlap", because, other.object, nothing, happened=True)
        for name, count in layout.arrivals.items():
            if count < 1:
                because = f"{name} is initialised with the arrival count {count}"
                self.fail("barrier-init", because, name, nothing, happened=True)
        for role in range(self.roles):
            self.may_end(role)

    def may_end(self, role: int) -> None:
        """Ends the role if it has come to its end."""
        if not self.ended(role):
            return
        program = self.plan.programs[role]
        held = self.plan.moves[role][self.state.at[role]].node.held
        if self.plan.kernel.rules.strict and held.stores():
            because = f"{program.name} ends while its bulk stores still read shared memory"
            self.fail("exit-hazard", because, program.name, self.now(role))
        role_ends(self, role)
        ctas.role_ends(self, role)

    def ended(self, role: int) -> bool:
        return self.state.inside[role] < 0 and self.plan.moves[role][self.state.at[role]].kind == "end"

    def everything(self) -> Clock:
        """A clock after all that has happened, bytes of incomplete phases included."""
        state = self.state
        return [
            *state.done,
            *(barrier.stage + 1 for barrier in state.barriers),
            *(meeting.stage + 1 for meeting in state.meetings),
        ]

    def at_rest(self) -> None:
        """Nothing can happen any more: who is stuck, and what is in flight if nobody is."""
        stuck = tuple(p.name for number, p in enumerate(self.plan.programs) if not self.ended(number))
        if stuck:
            self.deadlock(stuck)
            return
        for number, barrier in enumerate(self.state.barriers):
            if barrier.parts.tx and self.plan.copies:
                name = self.plan.barriers[number].name
                because = f"{name}: all roles have ended and all copies landed, and its tx-count is not zero"
                self.fail("tx-count", because, name, self.everything(), happened=True)

    def deadlock(self, stuck: tuple[str, ...]) -> None:
        """These roles can never run again."""
        self.fail(
            "deadlock",
            f"{' and '.join(stuck)} can never run again",
            "",
            self.everything(),
            None,
            happened=True,
            stuck=stuck,
        )
        ctas.look_at_requests(self)
