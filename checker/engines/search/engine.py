"""All reachable states: first without the schedules that nobody can tell apart, then for the shortest traces."""

from __future__ import annotations

from typing import Literal

from sm90_verify.engines.engine import Answer, Bound, Question
from sm90_verify.engines.search.bounds import memory_bound
from sm90_verify.engines.search.exploration import Exploration, is_undetermined
from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.shown import finding
from sm90_verify.spec.model.machine import COPIES, LIMIT, Machine

ENOUGH = 50_000
"""States to visit after the first violation, for the violations of other properties."""
REFINED = 1_000_000
"""States to visit for the shortest trace of a violation that the reduced search has found."""


class SearchEngine:
    """sm90_verify.engines.search.explore."""

    name = "search"
    needs: Literal["machine"] = "machine"
    heeds: tuple[Bound, ...] = ("limit", "timeout", "memory", "reduced")

    def answer(self, question: Question) -> Answer:
        machine, limit, timeout = question.subject.machine, question.limit, question.timeout
        memory = question.memory or memory_bound()
        asked = question.asked()
        quick = None
        if question.reduced:
            quick = explore(machine, limit=limit, timeout=timeout, memory=memory, stop_at_first=True, reduced=True)
        if quick is not None and not quick.violations and not quick.open:
            exploration = quick
        else:
            limit = limit if quick is None else limit or REFINED
            exploration = explore(machine, limit=limit, timeout=timeout, memory=memory, enough=ENOUGH)
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
