"""The candidates that prove each other: those that no step breaks, given all that are left (Houdini)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from sm90_verify.engines.smt.read_z3 import Term, disjunction, number_in, z3_module, z3_term
from sm90_verify.engines.smt.tables import Candidate
from sm90_verify.engines.smt.unroll import Relation
from sm90_verify.engines.smt.walk import StateValues, Walk, compile_tests

EVERY = 4
"""Which of the walks' states candidates are tried on before Z3 is asked: neighbours mostly refute the same ones."""
CHAIN = 3
"""How many candidates of one chain are tried."""
CHUNK = 8
"""How many candidates are put into one question."""
UNLIKE = 4
"""Models one after the other that evaluation contradicts, at which it is an error. Z3 has been seen to give one now and
then, with most of what was asserted false in it, and a right one when asked again.
"""


def strengthen(step: Relation, guesses: Sequence[Candidate], seen: Walk, deadline: float) -> list[Candidate] | None:
    """The largest set of candidates that hold initially and that no step breaks, given all of them (Houdini).

    None if the deadline passes before that is known. What `seen` refutes is not even asked about.
    """
    return _Houdini(step, guesses, seen, deadline).run()


class _Houdini:
    def __init__(self, step: Relation, guesses: Sequence[Candidate], seen: Walk, deadline: float) -> None:
        self.z3 = z3_module()
        self.step, self.guesses, self.deadline = step, guesses, deadline
        self.tests: Callable[[StateValues], list[int]] = compile_tests(step.machine, [guess.holds for guess in guesses])
        self.active = dict.fromkeys(range(len(guesses)))
        initial = tuple(variable.initial for variable in step.machine.variables)
        for state in (initial, *seen.states[::EVERY]):
            for number in self.tests(state):
                self.active.pop(number, None)
        self._shorten_chains()
        self.solver = self.z3.SolverFor("QF_FD")
        self.solver.add(step.step)
        memo: dict[int, Term] = {}
        moved: dict[int, Term] = {}
        for number in self.active:
            holds = z3_term(guesses[number].holds, step.before.__getitem__, memo)
            kept = z3_term(guesses[number].holds, step.moved.__getitem__, moved)
            self.solver.add(self.z3.Implies(self._named("before", number), holds))
            self.solver.add(self.z3.Implies(self._named("broken", number), self.z3.Not(kept)))
        self.questions, self.unlike = 0, 0

    def _named(self, kind: str, number: int) -> Term:
        return self.z3.Bool(f"{kind} {number}")

    def _shorten_chains(self) -> None:
        lengths: dict[str, int] = {}
        for number in list(self.active):
            chain = self.guesses[number].chain
            lengths[chain] = lengths.get(chain, 0) + 1
            if chain and lengths[chain] > CHAIN:
                del self.active[number]

    def run(self) -> list[Candidate] | None:
        """Asks about the candidates in chunks, until one whole pass over all of them has lost none."""
        order = list(self.active)
        chunks = [order[first : first + CHUNK] for first in range(0, len(order), CHUNK)]
        position, unchanged = 0, 0
        while unchanged < len(chunks):
            answer = self._keeps(chunks[position])
            if answer is None:
                return None
            unchanged = unchanged + 1 if answer else 0
            position = (position + 1) % len(chunks)
        return [self.guesses[number] for number in self.active]

    def _keeps(self, chunk: list[int]) -> bool | None:
        """Whether no step breaks any of these; those that one breaks are dropped. None when time is up."""
        lost = False
        while asked := [number for number in chunk if number in self.active]:
            left = self.deadline - time.perf_counter()
            if left <= 0:
                return None
            self.solver.set("timeout", int(1000 * left) + 1)
            self.questions += 1
            question = self._named("question", self.questions)
            broken = disjunction(self._named("broken", number) for number in asked)
            self.solver.add(self.z3.Implies(question, broken))
            answer = self.solver.check(question, *(self._named("before", number) for number in self.active))
            if answer == self.z3.unknown:
                return None
            if answer == self.z3.unsat:
                self.solver.add(self.z3.Not(question))
                break
            before, failing = (self._failing(state) for state in (self.step.before, self.step.after))
            self.solver.add(self.z3.Not(question))
            if before or not any(number in failing for number in asked):
                self.unlike += 1
                if self.unlike == UNLIKE:
                    raise RuntimeError("what Z3 says of a step is not what evaluation says: the readings differ")
                continue
            self.unlike = 0
            for number in failing:
                del self.active[number]
            lost = True
        return not lost

    def _failing(self, state: Mapping[str, Term]) -> list[int]:
        """The candidates that are false in a state of the last model."""
        model = self.solver.model()
        values = tuple(number_in(model, state[v.name]) for v in self.step.machine.variables)
        return [number for number in self.tests(values) if number in self.active]
