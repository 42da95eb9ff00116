"""An edit of PTX, decided twice: by order, and by a search of the states of the same programs.

Search holds only launches of a few tiles. A fault that it shows has to be found by order, and what order violates must
not be proved by search. What each finds is a schedule that was executed.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import NamedTuple

from sm90_verify.counterexample.trace import make_trace
from sm90_verify.decide.ptx import cases_of
from sm90_verify.engines.effort import Effort, RanOut, memory_bound
from sm90_verify.engines.engine import Question, Subject
from sm90_verify.engines.order.engine import OrderEngine
from sm90_verify.engines.order.outcome import hands_on
from sm90_verify.engines.search.engine import reduced_search
from sm90_verify.engines.search.exploration import is_undetermined
from sm90_verify.evidence.mutation.of_ptx import Edited
from sm90_verify.frontends.ptx.lift import lift
from sm90_verify.frontends.ptx.operands import Undetermined
from sm90_verify.frontends.ptx.parser import parse
from sm90_verify.frontends.ptx.read import entry_of
from sm90_verify.result import PROVED, VIOLATED, severity
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.model.machine import LIMIT

BOTH_FIND, BOTH_PROVE, ORDER_FINDS, ORDER_PROVES, ORDER_OPEN = (
    "both find a fault",
    "both prove it",
    "order finds a fault, search ends at its bound",
    "order proves it, search ends at its bound",
    "order leaves it open, search finds nothing",
)
NOT_READ = "refused: nobody reads it or executes it"
MISSED, CONTRADICTED = "search finds a fault that order leaves open", "contradicted"
JUDGEMENTS = (BOTH_FIND, BOTH_PROVE, ORDER_FINDS, ORDER_PROVES, ORDER_OPEN, NOT_READ, MISSED, CONTRADICTED)


class SearchBound(NamedTuple):
    """What one search may cost: states, and seconds."""

    states: int = 100_000
    seconds: float = 100.0


class EngineAnswer(NamedTuple):
    """violated, proved: properties, the most severe first; search stops at its first. why: why something is open."""

    violated: tuple[str, ...] = ()
    proved: tuple[str, ...] = ()
    why: str = ""
    states: int = 0

    @property
    def word(self) -> str:
        return self.violated[0] if self.violated else "undetermined" if self.why else PROVED


@dataclass(frozen=True)
class TwiceDecided:
    """An edit of a kernel, the answers, and what they come to: one of JUDGEMENTS. why: of what is open or refused."""

    kernel: str
    number: int
    operator: str
    line: int
    was: str
    change: str
    order: str
    search: str
    judgement: str
    why: str = ""
    states: int = 0
    seconds: tuple[float, float] = (0.0, 0.0)
    """Of CPU: until order has answered, and of search."""


def decide_twice(edited: Edited, number: int, bound: SearchBound) -> TwiceDecided:
    """Both answers to one edit."""
    edit = edited.edits[number]
    start = time.process_time()

    def told(order: str, search: str, judgement: str, why: str, states: int, middle: float) -> TwiceDecided:
        seconds = (round(middle - start, 2), round(time.process_time() - middle, 2))
        what = (edited.name, number, edit.operator, edit.line, edit.was, edit.change)
        return TwiceDecided(*what, order, search, judgement, why, states, seconds)

    try:
        subjects = _subjects(edited, edit.of(edited.text))
    except (Undetermined, RanOut) as error:
        return told("undetermined", "undetermined", ORDER_OPEN, str(error), 0, time.process_time())
    except SpecError as error:
        return told("refused", "refused", NOT_READ, str(error), 0, time.process_time())
    first = _of_all([_by_order(subject, whole) for subject, whole in subjects])
    middle = time.process_time()
    try:
        second = _of_all([by_search(subject, bound) for subject, _ in subjects])
    except AssertionError as error:
        return told(first.word, "?", CONTRADICTED, f"the schedule of search shows nothing: {error}", 0, middle)
    judgement = judged(first, second)
    why = "; ".join(one.why for one in (first, second) if one.why and not one.violated)
    return told(first.word, second.word, judgement, why, second.states, middle)


def judged(by_order: EngineAnswer, by_states: EngineAnswer) -> str:
    """What two answers come to: one of JUDGEMENTS."""
    if set(by_states.violated) & set(by_order.proved):
        return CONTRADICTED
    if by_states.violated:
        return BOTH_FIND if by_order.violated else MISSED
    if by_states.why:
        return ORDER_FINDS if by_order.violated else ORDER_OPEN if by_order.why else ORDER_PROVES
    if by_order.violated:
        return CONTRADICTED
    return ORDER_OPEN if by_order.why else BOTH_PROVE


def _subjects(edited: Edited, text: str) -> list[tuple[Subject, bool]]:
    """The cases of the launch, and whether all that each does is known."""
    module = parse(text, edited.path)
    cases = cases_of(module, entry_of(module, edited.name, edited.launch), edited.launch, Effort())
    executions = [case.execution for case in cases]
    return [
        (Subject(lift(one, "kernel"), hands_on=hands_on), one.stuck is None and not one.parted) for one in executions
    ]


def _by_order(subject: Subject, whole: bool) -> EngineAnswer:
    answer = OrderEngine().answer(Question(subject, spent=Effort(memory=memory_bound(), trace_seconds=0.0)))
    findings = [one for one in answer.findings if one.id not in subject.noted]
    violated = [one.id for one in findings if one.verdict == VIOLATED]
    proved = tuple(one.id for one in findings if one.verdict == PROVED and whole)
    why = next((one.note for one in findings if one.verdict not in (VIOLATED, PROVED)), "")
    return EngineAnswer(
        tuple(sorted(violated, key=severity)), proved, why or ("" if whole else "the run that was made is no whole one")
    )


def by_search(subject: Subject, bound: SearchBound) -> EngineAnswer:
    """The first violation that the reduced search finds, executed. Raises AssertionError if its schedule shows none."""
    effort = Effort(bound.seconds, memory_bound(), limit=bound.states)
    try:
        machine, found, _ = reduced_search(Question(subject, limit=bound.states, spent=effort))
    except RanOut as error:
        return EngineAnswer(why=str(error))
    for property, violation in found.violations.items():
        if property == LIMIT:
            continue
        try:
            make_trace(machine, property, violation.because, violation.actions, violation.stuck)
        except SpecError as error:
            raise AssertionError(str(error)) from error
        return EngineAnswer((property,), states=found.states)
    return EngineAnswer(proved=machine.properties, why=is_undetermined(found), states=found.states)


def _of_all(answers: list[EngineAnswer]) -> EngineAnswer:
    """Of the cases of a launch: what is violated in any, and proved in all."""
    found = {name for one in answers for name in one.violated}
    proved = tuple(name for name in answers[0].proved if all(name in one.proved for one in answers))
    why = next((one.why for one in answers if one.why), "")
    return EngineAnswer(tuple(sorted(found, key=severity)), proved, why, sum(one.states for one in answers))
