"""What a search has found, and what it decides."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from sm90_verify.engines.violation import Violation
from sm90_verify.spec.model.machine import LIMIT, Machine
from sm90_verify.spec.model.words import listed

ALL_FOUND = "the search ended when everything that it was asked for was found"


@dataclass
class Exploration:
    """What a search found. `complete`: every reachable state was visited; otherwise `ran_out` says what ran out.

    halted: properties of steps that were not followed, behind which nothing is known. beyond: why some step is beyond
    what the machine knows, "" if none is. open: by property, why what was found of it behind such steps may be no
    violation.
    """

    states: int = 0
    transitions: int = 0
    depth: int = 0
    complete: bool = False
    ran_out: str = ""
    seconds: float = 0.0
    violations: dict[str, Violation] = field(default_factory=dict)
    halted: list[str] = field(default_factory=list)
    unreached: tuple[int, ...] = ()
    finished: bool = False
    beyond: str = ""
    open: dict[str, str] = field(default_factory=dict)


def with_all(machine: Machine, known: Exploration, everything: Exploration) -> Exploration:
    """The result of two complete searches, of which only the second has followed steps beyond what the machine knows.
    What the first has found is violated; what the second finds besides may not be.
    """
    found = everything.violations
    possible = {
        property: next((why for step in one.actions if (why := machine.actions[step].beyond)), known.beyond)
        for property, one in found.items()
        if property not in known.violations
    }
    return replace(
        everything,
        violations=known.violations,
        beyond=known.beyond,
        open=possible,
        ran_out=known.beyond if everything.ran_out and possible else everything.ran_out,
        seconds=known.seconds + everything.seconds,
    )


def is_undetermined(exploration: Exploration, property: str = "") -> str:
    """Why the exploration does not decide a property (default: one or another) that it has not found violated, or
    nothing.
    """
    if not exploration.complete:
        return exploration.ran_out
    if LIMIT in exploration.violations:
        return exploration.violations[LIMIT].because
    for halted in exploration.halted:
        if halted in exploration.open:
            return exploration.open[halted]
    if exploration.halted:
        return f"what follows a violation of {listed(exploration.halted)} is undefined and was not explored"
    if property:
        return exploration.open.get(property, "")
    return next(iter(exploration.open.values()), "")
