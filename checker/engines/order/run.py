"""One schedule of the programs, executed event by event, and the conditions under which all others do the same."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from sm90_verify.engines.order import ctas, decisions, landing, lifetime, memory, signals, triggered, turns, warpgroups
from sm90_verify.engines.order.clocks import NEVER
from sm90_verify.engines.order.meetings import leave, meet, role_ends
from sm90_verify.engines.order.plan import Move, Plan
from sm90_verify.engines.order.progress import Progress
from sm90_verify.engines.order.state import RunState, initial
from sm90_verify.spec.model.barrier_bytes import overlap_of, undeclared_overlaps
from sm90_verify.spec.model.words import listed
from sm90_verify.spec.ptx.needs import APART, BALANCED, COUNTED, GOES_ON, READ_AT_EXIT

OFTEN = 64
"""Events after which whoever asked is told how many there were."""


class Run(Progress):
    """A run of a plan. tick: called with a role and the number of events."""

    def __init__(self, plan: Plan, state: RunState | None = None) -> None:
        super().__init__(plan, initial(plan) if state is None else state)
        self.tick: Callable[[int, int], None] | None = None

    # -- decisions

    def asked(self) -> tuple[int, ...]:
        """The decisions that some role stands at, and that have not been made."""
        found = {move.thing: None for role, move in enumerate(self._here()) if self._must_decide(role, move)}
        return tuple(found)

    def fork(self, answers: Iterable[tuple[int, int]]) -> Run:
        """A run that goes on from here with the next answers to some decisions, and with failures of its own."""
        fork = Run(self.plan, self.state.copy())
        fork.tick, fork.diverged = self.tick, self.diverged
        for number, answer in answers:
            fork.state.decisions[number].answers.append(answer)
        return fork

    def _here(self) -> Iterable[Move]:
        return (moves[at] for moves, at in zip(self.plan.moves, self.state.at, strict=True))

    def _must_decide(self, role: int, move: Move) -> bool:
        """The role stands at a decision that has not been made."""
        return move.kind == "decide" and self.state.inside[role] < 0 and self._answer(role, move) is None

    def _answer(self, role: int, move: Move) -> int | None:
        return decisions.answer(self.plan.decisions[move.thing], self.state.decisions[move.thing], role)

    # -- events

    def finish(self) -> None:
        """Runs until nothing can happen any more, then looks at what is left."""
        while self.round():
            pass
        if not self.halted:
            self.at_rest()

    def round(self) -> bool:
        """Every role runs until it is blocked, wants a decision that has not been made, or comes back to where it has
        been. Whether any event happened.
        """
        moved = False
        for role in range(self.roles):
            moved |= self._turn(role)
            if self.halted:
                return False
        return moved

    def _turn(self, role: int) -> bool:
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
            if move.kind == "end" or not self._execute(role, move):
                break
            moved = True
            if self.tick is not None and len(state.log) % OFTEN == 0:
                self.tick(role, len(state.log))
            if len(state.log) >= self.ends:
                self.unsure = self.halted = "the run was stopped after the first violations"
            if self.halted:
                break
        return moved

    def _execute(self, role: int, move: Move) -> bool:
        """Executes the operation if it can run, and checks everything about it."""
        state = self.state
        target, before, given, unseen = move.next, state.clock[role], -1, False
        if move.kind == "decide":
            answer = self._answer(role, move)
            if answer is None:
                return False
            given, target = answer, move.leads[answer]
        if move.forgets or move.forgot:
            self._leave_stretch(role, move)
        match move.kind:
            case "access" if move.joins == "waits" and not warpgroups.may_go_on(self, role, move):
                return False
            case "access":
                memory.access(self, role, move)
                memory.fence(self, role, move)
                lifetime.must_be_dead(self, role, move)
            case "signal":
                for part in move.parts or (move,):
                    if not self.halted:
                        signals.contribute(self, role, part)
            case "wait":
                if not signals.wait(self, role, move):
                    return False
            case "load":
                memory.load(self, role, move)
                lifetime.must_be_dead(self, role, move)
            case "trigger":
                unseen = signals.may_trigger(self, role, move)
            case "meet":
                meet(self, role, move)
            case "decide":
                decisions.read(state.decisions[move.thing], role)
            case "token":
                if not signals.wait_token(self, role, move):
                    return False
            case "leave":
                if not leave(self, role, move):
                    return False
            case "registers":
                if not ctas.registers(self, role, move):
                    return False
            case "turn":
                if not turns.wait(self, role, move):
                    return False
            case _:
                lifetime.live(self, role, move)
        if self.halted:
            return True
        done = state.done[role]
        state.history[role].append(before)
        state.been[role].append(state.at[role])
        state.log.append((role, state.at[role], given, done))
        state.done[role] = done + 1
        state.at[role] = target
        if move.over or move.awaited:
            memory.end(self, role, move, done)
        if move.joins:
            warpgroups.joined(self, role, move, done)
        if move.loosens or move.tightens:
            memory.release(self, role, move, done)
        if move.kind == "load":
            landing.land(self, role, move)
        elif move.kind == "trigger":
            triggered.arrive(self, role, move, observe=unseen)
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
            self.fail(APART.property, overlap_of(one, other), other.object, nothing, happened=True)
        for name, count in layout.arrivals.items():
            if count < 1:
                self.fail(COUNTED.property, COUNTED.said(barrier=name, count=count), name, nothing, happened=True)
        for role in range(self.roles):
            self.may_end(role)

    def may_end(self, role: int) -> None:
        """Ends the role if it has come to its end."""
        if not self.ended(role):
            return
        program = self.plan.programs[role]
        held = self.plan.moves[role][self.state.at[role]].node.held
        if self.plan.kernel.rules.strict and held.stores():
            self.fail(READ_AT_EXIT.property, READ_AT_EXIT.said(role=program.name), program.name, self.now(role))
        role_ends(self, role)
        ctas.role_ends(self, role)
        turns.role_ends(self, role)

    def at_rest(self) -> None:
        """Nothing can happen any more: who is stuck, and what is in flight if nobody is."""
        stuck = tuple(p.name for number, p in enumerate(self.plan.programs) if not self.ended(number))
        if stuck:
            self.deadlock(stuck)
            return
        for number, barrier in enumerate(self.state.barriers):
            if barrier.parts.tx:
                name = self.plan.barriers[number].name
                self.fail(BALANCED.property, BALANCED.said(barrier=name), name, self.everything(), happened=True)

    def deadlock(self, stuck: tuple[str, ...]) -> None:
        """These roles can never run again."""
        self.fail(
            GOES_ON.property,
            GOES_ON.said(roles=listed(stuck)),
            "",
            self.everything(),
            None,
            happened=True,
            stuck=stuck,
        )
        ctas.look_at_requests(self)
