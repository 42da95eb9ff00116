"""Unbounded proofs in Z3: generated invariants that hold at the start and that every step keeps, and k-induction on
top.

Why the answer "proved" can be trusted: the set of invariants I that is left is true of the initial state, and every
step that is followed from a state that satisfies all of I leads to one that does; so I is true of every reachable
state. A check whose condition no state of I satisfies never fires. A step that a halting check fires on is not
followed, and what comes after it is undefined: so nothing at all is proved unless no halting check can fire. How the
candidates were found does not matter, and neither does what they say.

Why it is about something: concrete walks have reached every counted state. Without one in which every role ended or
came back to where it had been, nothing is called proved.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from sm90_verify.engines.smt.bounded import Bounded, Unrolling, deepen, violation_of, wanted_properties
from sm90_verify.engines.smt.houdini import strengthen
from sm90_verify.engines.smt.invariants import candidates, learned
from sm90_verify.engines.smt.progressing import OutOfTime, never_stuck
from sm90_verify.engines.smt.read_z3 import Term, conjunction, disjunction, z3_module, z3_term
from sm90_verify.engines.smt.tables import Candidate
from sm90_verify.engines.smt.unroll import relation
from sm90_verify.engines.smt.walk import Walk, walk
from sm90_verify.engines.violation import Violation
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.model.machine import LIMIT, Check, Machine

LARGEST_K = 3
SHARE_FOR_INVARIANTS = 0.7
UNBOUNDED = 1_000_000
AFTERTHOUGHT = 3.0
"""Seconds at least for further violations when one has been found."""


@dataclass
class Proof:
    """What is known about each property: its verdict, why if undetermined, its shortest violation if violated.

    long: the properties whose schedule may not be a shortest one. invariants: what the proof rests on. depth: no
    violation but these within so many steps. notes: for people.
    """

    verdicts: dict[str, str] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)
    violations: dict[str, Violation] = field(default_factory=dict)
    long: list[str] = field(default_factory=list)
    invariants: tuple[Candidate, ...] = ()
    depth: int = -1
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0


def prove(
    machine: Machine,
    properties: Sequence[str] | None = None,
    *,
    timeout: float = 60.0,
    guesses: Sequence[Candidate] | None = None,
    depth: int = UNBOUNDED,
    covered: bool = False,
) -> Proof:
    """Proves or refutes each property (default: all) for every schedule and every number of steps, within `timeout`
    seconds.

    guesses: candidate invariants to use in place of the generated ones. depth: the most steps in which violations are
    looked for. covered: a complete search has said already which actions can be taken, so that nothing is noted about
    them. Raises ValueError for a property that the machine does not have, and for an empty set of properties.
    """
    return _Prover(machine, wanted_properties(machine, properties), timeout, guesses, depth, covered).run()


class _Prover:
    def __init__(
        self,
        machine: Machine,
        wanted: list[str],
        timeout: float,
        guesses: Sequence[Candidate] | None,
        depth: int,
        covered: bool,
    ) -> None:
        self.machine, self.timeout, self.guesses, self.depth = machine, timeout, guesses, depth
        self.covered = covered
        self.start = time.perf_counter()
        self.wanted = wanted
        self.halting = list(dict.fromkeys(check.property for check in _all_checks(machine.beyond()) if check.halts))
        self.asked = list(dict.fromkeys((*wanted, *self.halting)))
        self.beyond = [LIMIT] if any(action.beyond for action in machine.actions) else []
        self.found: dict[str, Violation] = {}
        self.moved = False
        self.result = Proof()
        self.step = relation(machine.beyond(), ordered=False)
        self.unrolling: Unrolling | None = None

    def remaining(self) -> float:
        return self.timeout - (time.perf_counter() - self.start)

    def run(self) -> Proof:
        result = self.result
        seen = walk(self.machine, seconds=min(5.0, self.timeout / 4))
        self.moved = seen.rounds or ("deadlock" in seen.suspects and any(seen.taken))
        suspects = [name for name in seen.suspects if name in self.asked]
        if suspects:
            self._refute(max(len(seen.suspects[name]) for name in suspects), self.remaining())
        if self._open() and not self._undefined(seen):
            self._prove(seen, self._open())
        if self._open():
            spent = time.perf_counter() - self.start
            short = min(self.remaining(), max(AFTERTHOUGHT, spent))
            self._refute(UNBOUNDED, short if self.found or self._undefined(seen) else self.remaining())
        self._fall_back_on(seen)
        undefined = self._undefined(seen)
        for name in self.wanted:
            if name in self.found:
                result.violations[name] = self.found[name]
                result.verdicts[name] = VIOLATED
                result.reasons.pop(name, None)
            elif undefined:
                result.verdicts[name] = UNDETERMINED
                limit = self.found.get(LIMIT)
                why = f"what follows a violation of {' and '.join(undefined)} is undefined"
                result.reasons[name] = why if limit is None else limit.because
            elif result.verdicts.setdefault(name, UNDETERMINED) == UNDETERMINED:
                result.reasons.setdefault(name, "neither a proof nor a violation was found")
                result.reasons[name] += f"; no violation within {result.depth} steps"
        result.verdicts = {name: result.verdicts[name] for name in self.wanted}
        result.seconds = time.perf_counter() - self.start
        return result

    def _fall_back_on(self, seen: Walk) -> None:
        """Schedules of walks for what has no shorter one yet: they violate the property all the same."""
        for name, actions in seen.suspects.items():
            if name in self.wanted and name not in self.found:
                self.found[name] = violation_of(self.machine, actions, [name])
                self.result.long.append(name)

    def _open(self) -> list[str]:
        return [name for name in self.wanted if name not in self.found and name not in self.result.verdicts]

    def _undefined(self, seen: Walk) -> list[str]:
        """The properties of steps that are not followed and that some schedule is known to take."""
        return [name for name in self.halting if name in self.found or name in seen.suspects]

    # ---------------------------------------------------------------- proving

    def _prove(self, seen: Walk, names: list[str]) -> None:
        result = self.result
        deadline = self.start + self.timeout * SHARE_FOR_INVARIANTS
        machine = self.machine
        guesses = [*candidates(machine), *learned(machine, seen)] if self.guesses is None else self.guesses
        kept = strengthen(self.step, guesses, seen, deadline)
        if kept is None:
            result.notes.append("no invariant was found in time")
            kept = []
        result.invariants = tuple(kept)
        memo: dict[int, Term] = {}
        terms = [z3_term(candidate.holds, self.step.before.__getitem__, memo) for candidate in kept]
        solver = self._solver(terms)
        never = {name: self._cannot(solver, name) for name in dict.fromkeys((*names, *self.halting))}
        for name, excluded in never.items():
            if not excluded and self.remaining() > 0:
                never[name] = self._inductive(terms, name)
        open_halts = [name for name in self.halting if not never[name]]
        for name in names:
            reason = ""
            if not never[name]:
                reason = "the invariants do not rule out a violation"
            elif open_halts:
                reason = (
                    f"a violation of {' and '.join(open_halts)} is not ruled out, and what follows one is undefined"
                )
            elif not seen.rounds:
                reason = "no walk completed an iteration, so that a proof could be about nothing"
            elif name == "deadlock":
                reason = self._stuck_for_ever(terms)
            if reason:
                result.reasons[name] = reason
            else:
                result.verdicts[name] = PROVED
        if not self.covered:
            self._note_unused(solver, seen)

    def _solver(self, terms: Iterable[Term]) -> Term:
        solver = z3_module().SolverFor("QF_FD")
        solver.add(*terms)
        for role in self.machine.roles:
            solver.add(*self.step.before[role.counter].well_formed())
        return solver

    def _cannot(self, solver: Term, name: str) -> bool:
        """No state of the invariant violates the property, by itself or by a step."""
        z3 = z3_module()
        wrong = [term[name] for term in (self.step.wrong_state, self.step.wrong_step) if name in term]
        solver.set("timeout", max(1, int(1000 * self.remaining())))
        solver.push()
        solver.add(disjunction(wrong))
        answer = solver.check()
        solver.pop()
        return bool(answer == z3.unsat)

    def _inductive(self, terms: list[Term], name: str) -> bool:
        """k-induction: after k steps through states of the invariant that do not violate the property, nothing else
        does.

        The initial state is covered since `deepen` has found no violation in as many steps, or finds one later.
        """
        z3 = z3_module()
        for k in range(1, LARGEST_K + 1):
            found = self._bounded([name, *self.beyond], k, min(self.remaining(), self.timeout / 10))
            if found.depth < k or found.violations:
                return False
            unrolling = Unrolling(self.step, tuple(terms), initial=False)
            for length in range(k):
                unrolling.solver.add(z3.Not(unrolling.wrong(length, name)))
                if length:
                    unrolling.extend(length - 1)
            unrolling.solver.add(unrolling.wrong(k, name))
            unrolling.solver.set("timeout", max(1, int(100 * self.remaining())))
            if unrolling.solver.check() == z3.unsat:
                return True
        return False

    def _stuck_for_ever(self, terms: list[Term]) -> str:
        try:
            return never_stuck(self.step, terms, self.remaining)
        except OutOfTime:
            return "the time was not enough to show that no role waits for ever while others go on"

    def _note_unused(self, solver: Term, seen: Walk) -> None:
        """Notes the actions that no walk has taken: the invariants may say that they can never be taken."""
        z3 = z3_module()
        memo: dict[int, Term] = {}
        known = [not action.beyond for action in self.machine.actions]
        unseen = [index for index, times in enumerate(seen.taken) if known[index] and not times]
        dead = []
        for index in unseen:
            if self.remaining() <= 0:
                return
            action = self.machine.actions[index]
            here = [z3_term(action.guard, self.step.before.__getitem__, memo)]
            for role in self.machine.roles:
                if role.name == action.role and action.location is not None:
                    here.append(self.step.before[role.counter].equals(action.location))
            solver.push()
            solver.add(conjunction(here))
            if solver.check() == z3.unsat:
                dead.append(action.name)
            solver.pop()
        if dead:
            self.result.notes.append(f"{len(dead)} actions can never be taken, the first one is: {dead[0]}")
        if len(unseen) > len(dead):
            self.result.notes.append(f"{len(unseen) - len(dead)} actions were not taken by any walk")

    # ---------------------------------------------------------------- refuting

    def _refute(self, depth: int, seconds: float) -> None:
        """Looks for violations of all properties that matter; if every schedule ends, what was not found is
        proved."""
        asked = [name for name in dict.fromkeys((*self.asked, *self.beyond)) if name not in self.found]
        found = self._bounded(asked, min(depth, self.depth), seconds)
        self.result.depth = max(self.result.depth, found.depth)
        if found.complete and self.moved and LIMIT not in self.found:
            self.result.notes.append(f"every schedule ends within {found.depth} steps")
            for name in self._open():
                self.result.verdicts[name] = PROVED
                self.result.reasons.pop(name, None)

    def _bounded(self, names: list[str], depth: int, seconds: float) -> Bounded:
        if self.unrolling is None:
            self.unrolling = Unrolling(relation(self.machine))
        found = deepen(self.unrolling, depth, names, max(0.001, seconds), afterthought=AFTERTHOUGHT)
        self.found.update(found.violations)
        return found


def _all_checks(machine: Machine) -> Iterable[Check]:
    yield from machine.checks
    for role in machine.roles:
        for location in role.locations:
            yield from location.checks
    for action in machine.actions:
        yield from action.checks
