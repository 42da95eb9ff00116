"""One question about one model, from the engines to a Result: the only place where verdicts are put together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from checker import waiting
from checker.result import PROPERTIES, PROVED, UNDETERMINED, VIOLATED, Finding, Result
from checker.search import Exploration, Violation, explore, is_undetermined
from checker.trace import execute, make_trace
from spec.compile import compile_pipeline
from spec.errors import SpecError
from spec.machine import LIMIT, Machine
from spec.pipeline import Pipeline


ENOUGH = 50_000
"""States to visit after the first violation, for the violations of other properties."""
REFINED = 1_000_000
"""States to visit for the shortest trace of a violation that the reduced search has found."""


def check_pipeline(
    pipeline: Pipeline,
    *,
    command: str,
    properties: Sequence[str] = (),
    engine: str = "search",
    limit: int = 0,
    timeout: float = 0.0,
    memory: int = 0,
    reduced: bool = True,
) -> Result:
    """Searches a pipeline's whole state space. With `reduced`, first without the schedules that nobody can tell
    apart; if anything is wrong there, again with all of them, for the shortest trace of every property."""
    start = time.perf_counter()
    machine = compile_pipeline(pipeline)
    asked = _asked(machine, properties)
    bounds: dict[str, Any] = {"limit": limit, "timeout": timeout, "memory": memory}
    quick = None
    if reduced:
        quick = explore(machine, **bounds, stop_at_first=True, reduced=True)
    if quick is not None and not quick.violations and not quick.halted:
        exploration = quick
    elif quick is not None:
        exploration = explore(machine, **{**bounds, "limit": limit or REFINED}, enough=ENOUGH)
    else:
        exploration = explore(machine, **bounds, enough=ENOUGH)
    findings = tuple(_finding(machine, property, exploration, quick) for property in asked)
    return Result(
        command,
        machine.name,
        machine.parameters,
        "search",
        findings,
        {"trips": "all" if machine.parameters.get("trips") in ("all", "forever") else machine.parameters.get("trips")},
        exploration.states,
        exploration.transitions,
        time.perf_counter() - start,
        tuple(_notes(machine, exploration)),
        {"reduced": exploration is quick, "shortest": bool(exploration.violations) and exploration is not quick},
    )


def _asked(machine: Machine, properties: Sequence[str]) -> tuple[str, ...]:
    applies = tuple(property for property in PROPERTIES if property in machine.properties)
    unknown = [property for property in properties if property not in PROPERTIES]
    if unknown:
        raise SpecError(f"unknown property {unknown[0]!r}: use one of {', '.join(PROPERTIES)}")
    chosen = tuple(property for property in applies if property in properties) if properties else applies
    if not chosen:
        raise SpecError(f"nothing to check: {', '.join(properties)} cannot be violated by {machine.name}")
    return chosen


def _finding(machine: Machine, property: str, exploration: Exploration, quick: Exploration | None) -> Finding:
    for found in (exploration, quick):
        violation = None if found is None else _violation(machine, property, found)
        if violation is not None:
            trace = make_trace(machine, property, violation.because, violation.actions, violation.stuck)
            return Finding(property, VIOLATED, trace)
    why = is_undetermined(exploration) or _vacuous(machine, exploration)
    return Finding(property, UNDETERMINED, note=why) if why else Finding(property, PROVED)


def _violation(machine: Machine, property: str, exploration: Exploration) -> Violation | None:
    """The violation that the search recorded, or the ones that only the end of a deadlock shows."""
    found = exploration.violations.get(property)
    deadlock = exploration.violations.get("deadlock")
    if found is not None or deadlock is None or property != "arrival-count":
        return found
    state = execute(machine, deadlock.actions).last
    barrier = waiting.never_enough(machine, state, deadlock.stuck)
    if not barrier:
        return None
    return Violation(property, "", barrier, deadlock.actions, False, deadlock.stuck)


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
            notes.append(f"never happens: {action.role}: {action.op} {action.object} ({action.source})".rstrip())
    if LIMIT in exploration.violations:
        notes.append(exploration.violations[LIMIT].because)
    return notes
