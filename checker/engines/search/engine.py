"""All reachable states: first without the schedules that nobody can tell apart, then for the shortest traces."""

from __future__ import annotations

import time
from typing import Literal, TypedDict, Unpack

from sm90_verify.engines.engine import Answer, Bound, Question
from sm90_verify.engines.search.bounds import memory_bound
from sm90_verify.engines.search.exploration import Exploration, is_undetermined
from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.shown import finding
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.machine import COPIES, LIMIT, Machine

ENOUGH = 50_000
"""States to visit after the first violation, for the violations of other properties."""
FEW = 1
"""Decisions to remember where roles lose some whatever is remembered."""
REFINED = 1_000_000
"""States to visit for the shortest trace of a violation that the reduced search has found."""


class SearchEngine:
    """sm90_verify.engines.search.explore."""

    name = "search"
    needs: Literal["machine"] = "machine"
    heeds: tuple[Bound, ...] = ("limit", "timeout", "memory", "reduced")

    def answer(self, question: Question) -> Answer:
        asked = question.asked()
        machine, quick = question.subject.machine, None
        if question.reduced:
            machine, quick = _explored(question, stop_at_first=True, reduced=True)
        if quick is not None and not quick.violations and not quick.open:
            exploration = quick
        elif quick is not None:
            most = question.limit or REFINED
            exploration = explore(machine, **_bounds(question) | {"limit": most}, enough=ENOUGH)
        else:
            machine, exploration = _explored(question, enough=ENOUGH)
        vacuous = _vacuous(machine, exploration)
        lost = quick.beyond if quick is not None and quick.open and not exploration.complete else ""
        known = {} if quick is None or exploration.complete else quick.violations
        violations = {**known, **exploration.violations}
        return Answer(
            self.name,
            tuple(
                finding(machine, property, violations, lost or is_undetermined(exploration, property) or vacuous)
                for property in asked
            ),
            tuple(_notes(machine, exploration)),
            exploration.states,
            exploration.transitions,
            reduced=exploration is quick,
            shortest=bool(exploration.violations),
        )


class _Bounds(TypedDict):
    limit: int
    timeout: float
    memory: int


class _How(TypedDict, total=False):
    stop_at_first: bool
    reduced: bool
    enough: int


def _bounds(question: Question, spent: float = 0.0) -> _Bounds:
    left = max(question.timeout - spent, 1e-9) if question.timeout else 0.0
    return {"limit": question.limit, "timeout": left, "memory": question.memory or memory_bound()}


def _explored(question: Question, **how: Unpack[_How]) -> tuple[Machine, Exploration]:
    """A search, and the machine that it went through: one that remembers only a few decisions, if roles lose some
    anyway and nothing is wrong whatever these were.
    """
    machine, start = question.subject.machine, time.perf_counter()
    exploration = explore(machine, **_bounds(question), **how, known=True)
    if not exploration.beyond:
        return machine, exploration
    if question.subject.kernel is not None and not exploration.violations:
        small = compile_kernel(question.subject.kernel, kept=FEW)
        spent = time.perf_counter() - start
        found = explore(small, **_bounds(question, spent), reduced=how.get("reduced", False), stop_at_first=True)
        if not found.violations and not is_undetermined(found):
            return small, found
    return machine, explore(machine, **_bounds(question, time.perf_counter() - start), **how)


def _vacuous(machine: Machine, exploration: Exploration) -> str:
    """Why a complete search proves nothing: nothing ever moved."""
    if exploration.transitions == 0 and any(role.locations[0].kind != "end" for role in machine.roles):
        return "no step was ever taken"
    return ""


def _notes(machine: Machine, exploration: Exploration) -> list[str]:
    notes = []
    if exploration.complete and not exploration.violations:
        for index in exploration.unreached:
            action = machine.actions[index]
            what = f"{action.role or COPIES}: {action.op} {action.object}"
            notes.append(f"never happens: {what} ({action.source})")
    if LIMIT in exploration.violations:
        notes.append(exploration.violations[LIMIT].because)
    return list(dict.fromkeys(notes))
