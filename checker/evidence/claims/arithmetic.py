"""Statements about PipelineState, for every stage count and every number of steps at once.

Division by a symbolic stage count is replaced by what defines it: a quotient and a remainder with
number = quotient * stages + remainder, 0 <= remainder < stages. That there is only one such pair is a question of its
own, and so is each induction over the number of steps: Z3 is asked whether any counterexample exists.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from sm90_verify.engines.smt.read_z3 import z3_module
from sm90_verify.evidence.claims.models.state_arithmetic import (
    Arithmetic,
    State,
    advance,
    increment,
    increment_by_count,
)
from sm90_verify.evidence.claims.runs import COMMAND, STATEMENT, TIMEOUT_MS
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED, Finding, Result, Trace


class Lemmas:
    """Symbols of one proof and what is known about them; `divmod` names a quotient and a remainder."""

    def __init__(self) -> None:
        self.z3 = z3_module()
        self.stages = self.z3.Int("stages")
        self.known: list[Any] = [self.stages >= 1]
        self.divisions: list[tuple[Any, Any, Any]] = []
        self.numbers = Arithmetic(self.z3.If, self.z3.And, self.divmod, lambda number: number)

    def number(self, name: str) -> Any:
        symbol = self.z3.Int(name)
        self.known.append(symbol >= 0)
        return symbol

    def state(self, name: str = "") -> State:
        """Any state: 0 <= index < stages, phase 0 or 1."""
        index, phase, count = (self.number(f"{part}{name}") for part in ("index", "phase", "count"))
        self.known += [index < self.stages, phase <= 1]
        return State(index, phase, count)

    def divmod(self, number: Any, stages: Any) -> tuple[Any, Any]:
        for known, quotient, remainder in self.divisions:
            if known.eq(number):
                return quotient, remainder
        quotient, remainder = (self.z3.Int(f"{part}{len(self.divisions)}") for part in ("quotient", "remainder"))
        self.known += [number == quotient * stages + remainder, remainder >= 0, remainder < stages, quotient >= 0]
        self.divisions.append((number, quotient, remainder))
        return quotient, remainder

    def successor(self, one: int, other: int) -> None:
        """The second division is of a number that is one larger: its quotient is the same or the next."""
        (_, quotient, remainder), (_, after, rest) = self.divisions[one], self.divisions[other]
        wraps = remainder + 1 == self.stages
        self.known += [
            after == self.z3.If(wraps, quotient + 1, quotient),
            rest == self.z3.If(wraps, 0, remainder + 1),
        ]

    def below_two(self, division: int, total: Any) -> None:
        """A number below two laps has a quotient of 0 or 1."""
        _, quotient, _ = self.divisions[division]
        self.known.append(self.z3.Implies(total < 2 * self.stages, quotient <= 1))


def unique_division(lemmas: Lemmas) -> Any:
    """What `successor` and `below_two` rely on: one pair, the pair of the next number, quotients below two laps."""
    z3, stages = lemmas.z3, lemmas.stages
    q, r, p, s = (lemmas.number(name) for name in ("q", "r", "p", "s"))
    lemmas.known += [r < stages, s < stages]
    same = z3.Implies(q * stages + r == p * stages + s, z3.And(q == p, r == s))
    after = z3.If(r + 1 == stages, (q + 1) * stages, q * stages + r + 1) == q * stages + r + 1
    return z3.And(same, after, z3.Implies(q * stages + r < 2 * stages, q <= 1))


def advance_zero(lemmas: Lemmas) -> Any:
    """advance(0) changes nothing."""
    state = lemmas.state()
    return _equal(lemmas, state, advance(lemmas.numbers, state, 0, lemmas.stages))


def advance_one_more(lemmas: Lemmas) -> Any:
    """advance(n + 1) is advance(n) and then one increment."""
    a, stages = lemmas.numbers, lemmas.stages
    state, n = lemmas.state(), lemmas.number("n")
    once, more = advance(a, state, n, stages), advance(a, state, n + 1, stages)
    lemmas.successor(0, 1)
    for division, total in ((0, state.index + n), (1, state.index + n + 1)):
        lemmas.below_two(division, total)
    return _equal(lemmas, increment(a, once, stages), more)


def phase_is_laps(lemmas: Lemmas) -> Any:
    """If count = laps * stages + index and phase = laps & 1, as at a consumer's start, then so after an increment."""
    z3, stages = lemmas.z3, lemmas.stages
    laps, state = lemmas.number("laps"), lemmas.state()
    lemmas.known += [state.count == laps * stages + state.index, state.phase == laps % 2]
    after = increment(lemmas.numbers, state, stages)
    wraps = state.index + 1 == stages
    then = z3.If(wraps, laps + 1, laps)
    keeps = z3.If(wraps, (laps + 1) * stages, laps * stages + after.index) == after.count
    return z3.And(keeps, after.index >= 0, after.index < stages, after.phase == then % 2)


def same_by_count(lemmas: Lemmas) -> Any:
    """If index = count mod stages, flipping on `count % stages == 0` is operator++, and index = count mod stages
    again.
    """
    stages, laps, state = lemmas.stages, lemmas.number("laps"), lemmas.state()
    lemmas.divisions.append((state.count, laps, state.index))
    lemmas.known += [state.count == laps * stages + state.index]
    mine, theirs = increment_by_count(lemmas.numbers, state, stages), increment(lemmas.numbers, state, stages)
    lemmas.successor(0, 1)
    return _equal(lemmas, mine, theirs)


def by_hand(parity: int, wanted: int) -> Callable[[Lemmas], Any]:
    """The parity of a loop that starts with `parity` and flips after iteration i when (i + 1) % stages == 0 is
    (i / stages + wanted) & 1 in every iteration: at the start, and from one iteration to the next.
    """

    def statement(lemmas: Lemmas) -> Any:
        z3, stages = lemmas.z3, lemmas.stages
        i, kept = lemmas.number("i"), lemmas.number("parity")
        lemmas.known += [kept <= 1]
        laps, _ = lemmas.divmod(i, stages)
        later, rest = lemmas.divmod(i + 1, stages)
        lemmas.successor(0, 1)
        lemmas.known.append(kept == (laps + wanted) % 2)
        after = z3.If(rest == 0, 1 - kept, kept)
        return z3.And(parity == wanted, after == (later + wanted) % 2)

    return statement


def at_the_start(phase: int) -> Callable[[Lemmas], Any]:
    """The state (0, phase, 0) satisfies what `phase_is_laps` keeps up, with no lap completed."""

    def statement(lemmas: Lemmas) -> Any:
        laps, state = lemmas.number("laps"), State(0, phase, 0)
        lemmas.known += [state.count == laps * lemmas.stages + state.index]
        return state.phase == laps % 2

    return statement


def for_all(name: str, statement: Callable[[Lemmas], Any], **parameters: Any) -> Callable[[], Result]:
    """Asks Z3 for a counterexample; that what is assumed can be true at all is asked first."""

    def run() -> Result:
        start = time.perf_counter()
        lemmas = Lemmas()
        wanted = statement(lemmas)
        z3 = lemmas.z3
        solver = z3.Solver()
        solver.set("timeout", TIMEOUT_MS)
        solver.add(*lemmas.known)
        possible = solver.check()
        solver.add(z3.Not(wanted))
        answer = solver.check() if possible == z3.sat else z3.unknown
        trace, note = None, ""
        if answer == z3.sat:
            found = solver.model()
            values = ", ".join(f"{d.name()} = {found[d]}" for d in sorted(found.decls(), key=lambda d: str(d.name())))
            trace = Trace(STATEMENT, f"it is wrong for {values}", ())
        elif answer == z3.unknown:
            note = "Z3 decides nothing" if possible == z3.sat else "what is assumed may never be so"
        verdict = VIOLATED if answer == z3.sat else PROVED if answer == z3.unsat else UNDETERMINED
        finding = Finding(STATEMENT, verdict, trace, note)
        scope = {"stages": "all", "steps": "all"}
        return Result(COMMAND, name, parameters, "smt", (finding,), scope, seconds=time.perf_counter() - start)

    return run


def _equal(lemmas: Lemmas, one: State, other: State) -> Any:
    return lemmas.z3.And(one.index == other.index, one.phase == other.phase, one.count == other.count)
