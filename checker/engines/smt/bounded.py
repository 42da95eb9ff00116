"""Bounded search in Z3: the shortest violation of each property, or that there is none up to a number of steps.

It decides the same question as breadth-first search does and shares nothing with it but the Machine: a violation of a
state counts the steps to it, a violation by a step counts that step too, and a step that a check halts is not
followed. One thing it cannot see is a role that never runs again while others go on for ever: no single state shows
that.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sm90_verify.engines.smt.read_z3 import Term, number_in, substituted, symbol, z3_module
from sm90_verify.engines.smt.unroll import Relation, initial_state, relation, renaming, state_terms, take
from sm90_verify.engines.violation import Violation
from sm90_verify.spec.model.machine import LIMIT, Check, Machine
from sm90_verify.spec.model.words import listed
from sm90_verify.spec.ptx.expr import evaluate
from sm90_verify.spec.ptx.needs import GOES_ON

NO_TIMEOUT = 4_294_967_295
"""What Z3 takes for no bound, in milliseconds."""


class NotASchedule(RuntimeError):
    """A model of the unrolling that is no run of the machine into a violation: Z3 and the reference meaning of
    expressions differ.
    """


EVERY = 8
"""After so many steps it is asked whether any schedule goes on."""


@dataclass
class Bounded:
    """What a bounded search found: no property but those in `violations` is violated within `depth` steps.

    ran_out: what ended the search before the depth that was asked for, if something did. complete: no schedule is
    longer than `depth`, so that nothing else can ever be violated, except behind a step that was not followed.
    """

    depth: int = -1
    violations: dict[str, Violation] = field(default_factory=dict)
    ran_out: str = ""
    complete: bool = False
    seconds: float = 0.0


def bounded(
    machine: Machine,
    depth: int,
    properties: Sequence[str] | None = None,
    *,
    timeout: float = 0.0,
    ordered: bool = True,
    lemmas: Iterable[Term] = (),
    stop_at_first: bool = False,
) -> Bounded:
    """Searches all schedules of up to `depth` steps for the shortest violation of each property (default: all).

    timeout: seconds for the whole search, 0 for no bound. ordered: rule out all but one order of independent steps.
    lemmas: terms over the variables of `relation(machine).before` that every reachable state is known to satisfy.
    Raises ValueError for a property that the machine does not have, and for an empty set of properties.
    """
    wanted = wanted_properties(machine, properties)
    if properties is None:
        wanted.append(LIMIT)
    unrolling = Unrolling(relation(machine, ordered=ordered), tuple(lemmas))
    return deepen(unrolling, depth, wanted, timeout, stop_at_first=stop_at_first)


def wanted_properties(machine: Machine, properties: Sequence[str] | None) -> list[str]:
    """The properties to decide, all of the machine's by default; raises ValueError for none and for unknown ones."""
    wanted = list(machine.properties if properties is None else properties)
    if not wanted:
        raise ValueError("a question about no property at all: name at least one")
    unknown = [name for name in wanted if name not in (*machine.properties, LIMIT)]
    if unknown:
        raise ValueError(f"{machine.name} has no property {unknown[0]!r}: use {', '.join(machine.properties)}")
    return wanted


class Unrolling:
    """Copies of a relation, one step after another, in one incremental solver; from the initial state or from any."""

    def __init__(self, step: Relation, lemmas: tuple[Term, ...] = (), *, initial: bool = True) -> None:
        self.z3 = z3_module()
        self.step, self.lemmas, self.initial = step, lemmas, initial
        names = dict.fromkeys((*step.wrong_state, *step.wrong_step))
        false = self.z3.BoolVal(False)
        wrong = {name: (step.wrong_state.get(name, false), step.wrong_step.get(name, false)) for name in names}
        self.places = {name: number for number, name in enumerate(names)}
        pairs = [term for name in names for term in wrong[name]]
        self.everything = self.z3.And([step.step, step.ordered, *pairs, *lemmas])
        self.states: dict[int, dict[str, Term]] = {}
        self.copies: list[list[Term]] = []
        self.extended, self.questions, self.hopeless = 0, 0, False
        self.clean: dict[str, int] = {}
        self.begin()

    def begin(self) -> None:
        """Takes a new solver and asserts everything again."""
        self.solver = self.z3.SolverFor("QF_FD")
        first = self._state(0)
        for role in self.step.machine.roles:
            self.solver.add(*first[role.counter].well_formed())
        if self.initial:
            self.solver.add(substituted(self.step.initial, self._names(0)))
        self._assert_lemmas(0)
        for number in range(self.extended):
            self.extend(number)

    def _names(self, number: int) -> list[tuple[Term, Term]]:
        """What the terms of the relation are called at the step from state `number` on."""
        step, pairs = self.step, []
        for here, state in ((number, step.before), (number + 1, step.after)):
            pairs += renaming(state, self._state(here))
        for here, (who, pick) in ((number, (step.who, step.pick)), (number + 1, (step.who_next, step.pick_next))):
            pairs += [(who, symbol(f"who@{here}", who.size())), (pick, symbol(f"pick@{here}", pick.size()))]
        return pairs

    def _state(self, number: int) -> dict[str, Term]:
        if number not in self.states:
            self.states[number] = state_terms(self.step.machine, f"@{number}")
        return self.states[number]

    def _copy(self, number: int) -> list[Term]:
        """step, ordered, (wrong state, wrong step) of each property, and the lemmas, from state `number` on."""
        while len(self.copies) <= number:
            self.copies.append(substituted(self.everything, self._names(len(self.copies))).children())
        return self.copies[number]

    def _assert_lemmas(self, number: int) -> None:
        if self.lemmas:
            self.solver.add(*self._copy(number)[-len(self.lemmas) :])

    def extend(self, number: int) -> None:
        """Takes the step from state `number`."""
        self.extended = number + 1
        self.solver.add(self._copy(number)[0])
        if number:
            self.solver.add(self._copy(number - 1)[1])
        self._assert_lemmas(number + 1)

    def ended(self, length: int) -> bool:
        """No schedule has so many steps. Asked of the solver only now and then, unless it is what the last answer
        shows."""
        if length % EVERY and not self.hopeless:
            return False
        self.hopeless = bool(self.solver.check() == self.z3.unsat)
        return self.hopeless

    def wrong(self, length: int, name: str) -> Term:
        """The property is violated after exactly `length` steps, the last of which need not have an end."""
        if name not in self.places:
            return self.z3.BoolVal(False)
        place = 2 + 2 * self.places[name]
        if not length:
            return self._copy(0)[place]
        last = self._copy(length - 1)
        return self.z3.Or(last[place + 1], self.z3.And(last[0], self._copy(length)[place]))

    def actions(self, model: Any, length: int) -> tuple[int, ...]:
        """The actions of the schedule in a model, each taken again by the reference meaning of expressions."""
        machine = self.step.machine
        state, found = initial_state(machine), []
        for number in range(length):
            who = number_in(model, symbol(f"who@{number}", self.step.who.size()))
            pick = number_in(model, symbol(f"pick@{number}", self.step.pick.size()))
            location = state[machine.roles[who].counter] if who < len(machine.roles) else None
            ways = self.step.ways[who, location]
            index = ways[pick] if len(ways) > 1 else ways[0]
            after = take(machine, state, index)
            if after is None:
                raise NotASchedule(f"step {number} of the schedule found by Z3 cannot be taken: the readings differ")
            found.append(index)
            state = after
        return tuple(found)


def deepen(
    unrolling: Unrolling,
    depth: int,
    wanted: Sequence[str],
    timeout: float,
    *,
    stop_at_first: bool = False,
    afterthought: float = 0.0,
) -> Bounded:
    """Looks for violations of ever greater length. Goes on from where the unrolling has been taken to before.

    afterthought: once one is found, look for others for so many seconds or as long as it took (0: until the timeout).
    """
    result, start = Bounded(), time.perf_counter()
    left = list(wanted)
    for length in range(depth + 1):
        asked_about = [name for name in left if unrolling.clean.get(name, -1) < length]
        if asked_about and not _ask(unrolling, length, asked_about, left, result, start, timeout):
            break
        if unrolling.ended(length):
            result.complete = True
            break
        if stop_at_first and result.violations:
            break
        if afterthought and result.violations.keys() - {LIMIT}:
            spent = time.perf_counter() - start
            timeout = min(timeout or spent + afterthought, max(2 * spent, spent + afterthought))
            afterthought = 0.0
        for name in left:
            unrolling.clean[name] = max(length, unrolling.clean.get(name, -1))
        result.depth = length
        if not left:
            break
        if unrolling.extended < length:
            unrolling.extend(length - 1)
    result.seconds = time.perf_counter() - start
    return result


def _ask(
    unrolling: Unrolling, length: int, names: list[str], left: list[str], result: Bounded, start: float, timeout: float
) -> bool:
    """Finds all violations of exactly this length; whether there was time for it.

    Raises NotASchedule if a new solver finds one too. The incremental one has been seen to, about once in 150 proofs on
    a busy machine: most of what was asserted was false in its model, and not in that of the same question again.
    """
    z3 = z3_module()
    renewed = False
    wrong = {name: unrolling.wrong(length, name) for name in names}
    while asked_about := [name for name in names if name in left]:
        remaining = timeout - (time.perf_counter() - start) if timeout else 0.0
        if timeout and remaining <= 0:
            result.ran_out = f"the timeout of {timeout:g} s"
            return False
        unrolling.solver.set("timeout", int(remaining * 1000) + 1 if timeout else NO_TIMEOUT)
        unrolling.questions += 1
        asked = z3.Bool(f"question {unrolling.questions}")
        unrolling.solver.add(z3.Implies(asked, z3.Or([wrong[name] for name in asked_about])))
        answer = unrolling.solver.check(asked)
        if answer == z3.sat:
            try:
                actions = unrolling.actions(unrolling.solver.model(), length)
                found = violation_of(unrolling.step.machine, actions, asked_about)
            except NotASchedule:
                if renewed:
                    raise
                unrolling.begin()
                renewed = True
                continue
            result.violations[found.property] = found
            left.remove(found.property)
        unrolling.solver.add(z3.Not(asked))
        if answer == z3.unsat:
            unrolling.hopeless = not len(unrolling.solver.unsat_core())
            return True
        if answer == z3.unknown:
            result.ran_out = f"the timeout of {timeout:g} s"
            return False
    return True


def violation_of(machine: Machine, actions: tuple[int, ...], properties: Sequence[str]) -> Violation:
    """The first of the properties that the schedule violates at its end, by the reference meaning of expressions.

    Raises NotASchedule if it violates none of them: then a reading of the machine is wrong.
    """
    states = [initial_state(machine)]
    for index in actions[:-1]:
        states.append(_taken(machine, states[-1], index))
    if actions:
        for check in machine.actions[actions[-1]].checks:
            if check.property in properties and evaluate(check.when, states[-1]):
                return Violation(check.property, check.because, check.object, actions, True)
        states.append(_taken(machine, states[-1], actions[-1]))
    for check in state_checks(machine, states[-1]):
        if check.property in properties and evaluate(check.when, states[-1]):
            return Violation(check.property, check.because, check.object, actions, False)
    able = any(take(machine, states[-1], index) is not None for index in range(len(machine.actions)))
    stuck = tuple(role.name for role in machine.roles if not role.locations[states[-1][role.counter]].final)
    if "deadlock" in properties and stuck and not able:
        return Violation("deadlock", GOES_ON.said(roles=listed(stuck)), "", actions, False, stuck)
    raise NotASchedule("the schedule found by Z3 violates nothing when it is executed: the readings differ")


def state_checks(machine: Machine, state: dict[str, int]) -> Iterable[Check]:
    """The checks that stand in a state: those of the machine, and those of each role's location."""
    yield from machine.checks
    for role in machine.roles:
        yield from role.locations[state[role.counter]].checks


def _taken(machine: Machine, state: dict[str, int], index: int) -> dict[str, int]:
    after = take(machine, state, index)
    if after is None:
        raise RuntimeError(f"{machine.actions[index].name} cannot be taken in this schedule")
    return after
