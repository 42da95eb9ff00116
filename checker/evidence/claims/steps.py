"""Statements about one mbarrier operation, for every state of the mbarrier: Z3 is asked for a state that is an
exception.

The state is any that a phase can be in: expected at least 1, pending and tx in their ranges, and not both zero, since
that would have completed the phase.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from sm90_verify.engines.smt.read_z3 import number_in, symbol, z3_module, z3_term
from sm90_verify.evidence.claims.runs import COMMAND, STATEMENT, TIMEOUT_MS
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED, Finding, Result, Trace, TraceStep
from sm90_verify.spec.errors import place_of
from sm90_verify.spec.ptx import mbarrier
from sm90_verify.spec.ptx.expr import TRUE, Expr, Field, Lit, all_of, where
from sm90_verify.spec.ptx.limits import COUNT_LIMIT
from sm90_verify.spec.ptx.mbarrier import COUNT_WIDTH, TX_WIDTH, Mbarrier
from sm90_verify.spec.ptx.numbers import signed_tx
from sm90_verify.spec.ptx.step import Step

NAMES = ("phase", "expected", "pending", "tx", "observed")

FUNCTIONS: dict[str, Callable[..., Step]] = {
    "arrive": mbarrier.arrive,
    "arrive.expect_tx": mbarrier.arrive_expect_tx,
    "complete_tx": mbarrier.complete_tx,
    "expect_tx": mbarrier.expect_tx,
    "wait": mbarrier.wait_parity,
}
"""Where each operation is defined."""

BARRIER = Mbarrier(
    TRUE,
    Field("phase", 1),
    Field("expected", COUNT_WIDTH),
    Field("pending", COUNT_WIDTH),
    Field("tx", TX_WIDTH),
    Field("observed", 1),
)
"""A live mbarrier in any state."""


def in_range(b: Mbarrier) -> Expr:
    """A state that a phase can be in."""
    negative = (b.tx & Lit(1 << TX_WIDTH - 1, TX_WIDTH)) != 0
    magnitude = where(negative, Lit(0, TX_WIDTH) - b.tx, b.tx)
    return all_of(
        (b.expected >= 1, magnitude <= COUNT_LIMIT, ~((b.pending == 0) & (b.tx == 0)), b.pending <= b.expected)
    )


def after(b: Mbarrier, step: Step) -> Mbarrier:
    """The mbarrier as the step leaves it."""
    return b._replace(**{name: step.then[name] for name in NAMES if name in step.then})


def before_settling(b: Mbarrier, step: Step, arrivals: int) -> tuple[Expr, Expr]:
    """Pending arrivals and bytes once the operation has been counted, before the phase may complete."""
    return b.pending - arrivals, step.then.get("tx", b.tx)


def legal(step: Step) -> Expr:
    """Nothing that PTX forbids, the observation rule apart."""
    return all_of(~part.when for part in step.illegal if part.property != "unobserved-phase")


def same(one: Mbarrier, other: Mbarrier) -> Expr:
    return all_of(getattr(one, name) == getattr(other, name) for name in NAMES)


def both_ways(one: Expr, other: Expr) -> Expr:
    """One-bit equivalence."""
    return one == other


def implies(one: Expr, other: Expr) -> Expr:
    return ~one | other


def for_every_state(
    operation: str, step: Step, statement: Expr, premise: Expr = TRUE, because: str = ""
) -> Callable[[], Result]:
    """Whether the statement is true of the operation in every state in which the premise holds and it is legal."""

    def run() -> Result:
        start = time.perf_counter()
        z3 = z3_module()
        terms: dict[str, Any] = {}

        def term(name: str) -> Any:
            width = getattr(BARRIER, name).width
            return terms.setdefault(name, symbol(name, width))

        for name in NAMES:
            term(name)
        solver = z3.Solver()
        solver.set("timeout", TIMEOUT_MS)
        solver.add(z3_term(all_of((in_range(BARRIER), legal(step), premise)), term))
        possible = solver.check()
        solver.add(z3.Not(z3_term(statement, term)))
        answer = solver.check() if possible == z3.sat else z3.unknown
        trace, note = None, ""
        if answer == z3.sat:
            solver.push()
            solver.add(z3.ULE(term("expected"), 2))
            if solver.check() != z3.sat:
                solver.pop()
                solver.check()
            trace = _example(operation, step, because, lambda expr: number_in(solver.model(), z3_term(expr, term)))
        elif answer == z3.unknown:
            note = "no state satisfies the premise" if possible == z3.unsat else "Z3 decides nothing"
        verdict = VIOLATED if answer == z3.sat else PROVED if answer == z3.unsat else UNDETERMINED
        finding = Finding(STATEMENT, verdict, trace, note)
        scope = {"states": "all"}
        return Result(COMMAND, operation, {}, "smt", (finding,), scope, seconds=time.perf_counter() - start)

    return run


def _example(operation: str, step: Step, because: str, number: Callable[[Expr], int]) -> Trace:
    """The state that is an exception, and what the operation makes of it."""
    values = {name: number(getattr(BARRIER, name)) for name in NAMES}
    changed = {name: number(getattr(after(BARRIER, step), name)) for name in NAMES}
    changes = {
        f"mbarrier.{name}": f"{_signed(name, values[name])}->{_signed(name, changed[name])}"
        for name in NAMES
        if values[name] != changed[name] and name != "observed"
    }
    state = ", ".join(f"{name} {_signed(name, values[name])}" for name in NAMES if name != "observed")
    wrong = f"{because}: {state}" if because else f"it is wrong for {state}"
    source = place_of(FUNCTIONS[operation.replace(",", "").split(" ", maxsplit=1)[0]])
    return Trace(STATEMENT, wrong, (TraceStep("thread", operation, "mbarrier", source.file, source.line, changes),))


def _signed(name: str, number: int) -> int:
    return signed_tx(number) if name == "tx" else number
