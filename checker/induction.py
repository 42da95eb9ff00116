"""Unbounded proofs in Z3: generated invariants that hold at the start and that every step keeps, and k-induction on top."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from checker.invariants import candidates
from checker.read_z3 import Term, number_in, z3_module, z3_term
from checker.tables import Candidate
from checker.unroll import Relation
from checker.walk import Values, Walk, compile_tests
from spec.machine import Machine


CHAIN = 3
"""How many candidates of one chain are tried."""


def strengthen(step: Relation, guesses: Sequence[Candidate], seen: Walk, deadline: float) -> list[Candidate] | None:
    """The largest set of candidates that hold initially and that no step breaks, given all of them (Houdini).

    None if the deadline passes before that is known. What `seen` refutes is not even asked about.
    """
    z3, machine = z3_module(), step.machine
    tests = compile_tests(machine, [guess.holds for guess in guesses])
    active = dict.fromkeys(range(len(guesses)))
    for state in seen.states:
        for number in tests(state):
            active.pop(number, None)
    chains: dict[str, int] = {}
    for number in list(active):
        chain = guesses[number].chain
        chains[chain] = chains.get(chain, 0) + 1
        if chain and chains[chain] > CHAIN:
            del active[number]
    solver = z3.SolverFor("QF_FD")
    solver.add(step.step)
    memo: dict[int, Term] = {}
    after: dict[int, Term] = {}
    for number in active:
        holds = z3_term(guesses[number].holds, step.before.__getitem__, memo)
        kept = z3_term(guesses[number].holds, step.moved.__getitem__, after)
        solver.add(z3.Implies(z3.Bool(f"before {number}"), holds))
        solver.add(z3.Implies(z3.Bool(f"broken {number}"), z3.Not(kept)))
    round_number = 0
    while active:
        if time.perf_counter() > deadline:
            return None
        solver.set("timeout", max(1, int(1000 * (deadline - time.perf_counter()))))
        asked = z3.Bool(f"round {round_number}")
        solver.add(z3.Implies(asked, z3.Or([z3.Bool(f"broken {number}") for number in active])))
        answer = solver.check(asked, *(z3.Bool(f"before {number}") for number in active))
        if answer == z3.unsat:
            break
        if answer == z3.unknown:
            return None
        model = solver.model()
        reached: Values = tuple(number_in(model, step.after[v.name]) for v in machine.variables)
        failing = [number for number in tests(reached) if number in active]
        if not failing:
            raise RuntimeError("a broken candidate holds when it is evaluated: the readings of expressions differ")
        for number in failing:
            del active[number]
        solver.add(z3.Not(asked))
        round_number += 1
    return [guesses[number] for number in active]
