"""What a claim is, and how runs settle it.

A claim predicts, for every point of a box of parameters, what an engine will say about the model there. Nothing else
decides: where all predictions come true it holds; where some do and some do not, a condition over the parameters must
separate the two exactly, point by point; otherwise one wrong prediction refutes it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED, Result

HOLDS, REFUTED, DEPENDS, OPEN = "holds", "refuted", "depends", UNDETERMINED


@dataclass(frozen=True)
class Point:
    """One point of the box: its parameters, the run that decides it, and the verdict that the claim predicts.

    beyond: outside of what the claim speaks about; run to show where its scope ends, or that the run can fail.
    """

    at: dict[str, Any]
    run: Callable[[], Result]
    predicts: str = PROVED
    beyond: bool = False


@dataclass(frozen=True)
class Condition:
    """A candidate for the exact condition: its words, and what it says at each point."""

    text: str
    holds: Callable[[dict[str, Any]], bool]


@dataclass(frozen=True)
class Claim:
    """id and text: the row of the table. statement: what the runs prove or violate. scope: the range of its sizes.

    points are made when the claim is asked, so that they may depend on runs of their own.
    """

    id: int
    text: str
    statement: str
    points: Callable[[], Iterable[Point]]
    conditions: tuple[Condition, ...] = ()
    scope: str = ""


@dataclass(frozen=True)
class Evidence:
    """A point and what the engine said there."""

    point: Point
    result: Result

    @property
    def decided(self) -> bool:
        return self.result.verdict != UNDETERMINED

    @property
    def agrees(self) -> bool:
        return self.result.verdict == self.point.predicts


@dataclass(frozen=True)
class Settled:
    """The answer to a claim. condition: when it is true, if that depends. because: one sentence, from the runs."""

    claim: Claim
    verdict: str
    condition: str
    because: str
    evidence: tuple[Evidence, ...]
    seconds: float
    shown: Evidence | None = field(default=None)
    """The run whose counterexample says most: the first that contradicts the claim, else the first that bears it out
    with one."""


def settle(claim: Claim) -> Settled:
    """Runs every point of the claim and draws the conclusion."""
    start = time.perf_counter()
    evidence = tuple(Evidence(point, point.run()) for point in claim.points())
    verdict, condition, because = conclude(claim, evidence)
    return Settled(claim, verdict, condition, because, evidence, time.perf_counter() - start, _shown(evidence))


def conclude(claim: Claim, evidence: tuple[Evidence, ...]) -> tuple[str, str, str]:
    """Verdict, condition and reason, from the evidence alone."""
    within = [one for one in evidence if not one.point.beyond]
    if not within:
        raise ValueError(f"claim {claim.id} asks nothing")
    undecided = [one for one in within if not one.decided]
    if undecided:
        return OPEN, "", f"the run at {place(undecided[0])} decides nothing{_note(undecided[0].result)}"
    right = [one for one in within if one.agrees]
    wrong = [one for one in within if not one.agrees]
    if not wrong:
        return HOLDS, "", f"{claim.statement}: {_all(right)} as it says"
    first = f"at {place(wrong[0])} {_says(wrong[0])}"
    if not right:
        return REFUTED, "", first if len(wrong) == 1 else f"{first}; so do the other points, {len(wrong)} in all"
    if not claim.conditions:
        return REFUTED, "", f"{first}; {len(wrong)} of {len(within)} points contradict it"
    for condition in claim.conditions:
        if all(condition.holds(one.point.at) == one.agrees for one in within):
            return (
                DEPENDS,
                condition.text,
                f"exactly the {len(right)} of {len(within)} points where this is so bear the claim out; {first}",
            )
    return OPEN, "", f"no condition separates the {len(right)} points that bear it out from the {len(wrong)} others"


def _shown(evidence: tuple[Evidence, ...]) -> Evidence | None:
    within = [one for one in evidence if not one.point.beyond]
    for wanted in ([one for one in within if not one.agrees], within, evidence):
        for one in wanted:
            if one.result.trace is not None:
                return one
    return None


def place(evidence: Evidence) -> str:
    """The parameters of a point, as people read them."""
    text = " ".join(f"{name}={value}" for name, value in evidence.point.at.items())
    return f"{evidence.result.model} {text}".rstrip()


def _says(evidence: Evidence) -> str:
    result = evidence.result
    if result.verdict == VIOLATED and result.trace is not None:
        return f"{result.trace.property}: {result.trace.because}"
    if result.verdict == PROVED:
        return "nothing is violated"
    return f"the run is {result.verdict}{_note(result)}"


def _note(result: Result) -> str:
    notes = [finding.note for finding in result.findings if finding.note]
    return f" ({notes[0]})" if notes else ""


def _all(evidence: list[Evidence]) -> str:
    return f"all {len(evidence)} points come out" if len(evidence) > 1 else "the run comes out"
