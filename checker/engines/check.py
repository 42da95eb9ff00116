"""One question about one kernel or Machine, put to the engines that are chosen: their answers as a Result.

Logs and recordings, claims, frontiers and mutation scores put their own verdicts together.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, Unpack

from sm90_verify.engines.assumed import assumed
from sm90_verify.engines.combine import combine
from sm90_verify.engines.effort import Effort, RanOut, Told, memory_bound
from sm90_verify.engines.engine import Answer, Bound, Bounds, Engine, Question, Subject
from sm90_verify.engines.noted import set_aside
from sm90_verify.engines.some_trips import for_all_trips, of_some_trips
from sm90_verify.engines.table import DEFAULT, ENGINES, heeding, names_of
from sm90_verify.result import PROPERTIES, PROVED, UNDETERMINED, Finding, Result
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.ghost import Unfollowed
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.kernel import Kernel
from sm90_verify.spec.model.tick import Tick, unheard
from sm90_verify.spec.model.validate import validate

if TYPE_CHECKING:
    from sm90_verify.spec.model.machine import Machine

OPTIONS: dict[Bound, str] = {
    "limit": "limit (--limit)",
    "timeout": "timeout (--timeout)",
    "memory": "memory (--memory)",
    "reduced": "reduced=False (--unreduced)",
}
"""What the bounds of a question are called in Python and by the command."""


def check(
    pipeline: Pipeline | Kernel,
    *,
    command: str = "check",
    properties: Sequence[str] = (),
    engine: str = DEFAULT,
    limit: int = 0,
    timeout: float = 0.0,
    memory: int = 0,
    reduced: bool = True,
    progress: Told | None = None,
) -> Result:
    """Decides the properties of a pipeline, or of a kernel (default: all that it could violate).

    engine: names of the table joined by "+", such as "search+order"; they must not contradict each other. By default
    order, and search where order decides nothing. limit: states, timeout: seconds of each engine, of the first one with
    the tracing and compiling of the pipeline, memory: bytes (0: no bound, or the engine's own). reduced: search first
    without the schedules that nobody can tell apart, and only if anything is wrong there again with all of them, for
    the shortest trace of every property. Where a loop without end cannot be followed, some iterations are searched for
    violations, and what is not violated is undetermined. progress: called now and then with a few words about what is
    being done. command: the word that the result carries.

    What only a strict kernel violates (unobserved-phase) is noted beside the verdict. Raises SpecError for a
    specification without a meaning, an unknown property or engine, a question that the engine cannot be asked, a bound
    that none of the engines heeds, and if nothing is asked but what can only be noted, and is.
    """
    start = time.perf_counter()
    properties = (properties,) if isinstance(properties, str) else properties
    if not isinstance(properties, Sequence):
        raise SpecError(f"properties={properties!r}: give a list of ids, () for all")
    properties = tuple(properties)
    question = Question(Subject(), properties, limit, timeout, memory, reduced)
    engines = _engines_of(engine, question)
    effort = Effort(timeout, memory or memory_bound(), progress, start, limit=limit)
    unfollowed: Unfollowed | None = None
    try:
        try:
            kernel = kernel_of(pipeline, effort.tick)
        except Unfollowed as error:
            assert isinstance(pipeline, Pipeline), "a kernel that is there already is not traced"
            kernel, unfollowed = of_some_trips(pipeline, error, effort.tick), error
    except RanOut as error:
        assert isinstance(pipeline, Pipeline), "a kernel that is there already is not traced"
        ids = properties or PROPERTIES
        return _cut_short(command, pipeline.name, pipeline.parameters(), engine, ids, start, error)
    question = question._replace(subject=_subject(kernel, effort), spent=effort)
    result = _ask(question, engines, engine, command)
    return result if unfollowed is None else for_all_trips(result, unfollowed)


def check_valid(
    kernel: Kernel,
    *,
    command: str,
    properties: Sequence[str],
    engine: str,
    trace_seconds: float,
    progress: Told | None = None,
    **bounds: Unpack[Bounds],
) -> Result:
    """Decides the properties of a kernel that has been put through annotate and validate, as check does.

    trace_seconds: how long a shorter schedule of a violation is looked for.
    """
    question = Question(Subject(), tuple(properties), **bounds)
    engines = _engines_of(engine, question)
    memory = question.memory or memory_bound()
    effort = Effort(question.timeout, memory, progress, limit=question.limit, trace_seconds=trace_seconds)
    question = question._replace(subject=_subject(kernel, effort), spent=effort)
    return _ask(question, engines, engine, command)


def kernel_of(pipeline: Pipeline | Kernel, tick: Tick = unheard) -> Kernel:
    """The kernel of a pipeline, or a kernel that a front end or somebody by hand has made, once it is valid."""
    if isinstance(pipeline, Pipeline):
        return trace(pipeline, tick)
    if not isinstance(pipeline, Kernel):
        name = pipeline.__name__ if isinstance(pipeline, type) else repr(pipeline)
        raise SpecError(f"{name} is neither a pipeline nor a kernel: give check an instance, such as Ring(stages=2)")
    validate(pipeline)
    return pipeline


def check_machine(
    machine: Machine,
    *,
    command: str = "check",
    properties: Sequence[str] = (),
    engine: str = DEFAULT,
    **bounds: Unpack[Bounds],
) -> Result:
    """Decides the properties of a Machine, as check does, by engines that need no programs."""
    question = Question(Subject(compiled=machine), tuple(properties), **bounds)
    engines = _engines_of(engine, question)
    return _ask(question._replace(spent=question.effort), engines, engine, command)


def _ask(question: Question, engines: Sequence[Engine], words: str, command: str) -> Result:
    """The same question to all engines, one after the other."""
    start, subject = question.effort.since, question.subject
    if words != DEFAULT:
        for engine in engines:
            _must_have(subject, engine)
    try:
        answer = _by_default(question) if words == DEFAULT else _together(question, engines)
    except RanOut as error:
        from sm90_verify.engines.order.outcome import applicable

        ids = question.asked() if subject.kernel is None else question.asked(applicable(subject.whole))
        return _cut_short(command, subject.name, subject.parameters, words, ids, start, error)
    findings, noted, open_notes = set_aside(subject, answer.findings)
    return Result(
        command,
        subject.name,
        subject.parameters,
        answer.engine if words == DEFAULT else words,
        findings,
        {"trips": _trips(subject.parameters)},
        answer.states,
        answer.transitions or answer.events,
        time.perf_counter() - start,
        (*answer.notes, *open_notes, *(() if subject.kernel is None else assumed(subject.kernel))),
        reduced=answer.reduced,
        shortest=answer.shortest,
        asked=words,
        because=answer.because,
        events=answer.events,
        noted=noted,
    )


def _subject(kernel: Kernel, effort: Effort) -> Subject:
    def follows(kernel: Kernel) -> bool:
        from sm90_verify.engines.order.outcome import hands_on

        return hands_on(kernel, effort)

    return Subject(kernel, tick=effort.tick, hands_on=follows)


def _by_default(question: Question) -> Answer:
    from sm90_verify.engines.by_default import by_default

    return by_default(question)


def _together(question: Question, engines: Sequence[Engine]) -> Answer:
    """One answer of all of them. The Machine is made before anybody's time is counted anew."""
    question = question._replace(together=any(engine.needs == "machine" for engine in engines))
    if question.together:
        question.subject.machine  # noqa: B018
    answers: list[Answer] = []
    for engine in engines:
        spent = question.effort.again() if answers else question.effort
        answers.append(engine.answer(question._replace(covered=_covered(answers, question.subject.noted), spent=spent)))
    return combine(answers)


def _cut_short(
    command: str, model: str, parameters: dict[str, Any], words: str, ids: Sequence[str], start: float, error: RanOut
) -> Result:
    """Something ran out before any engine was asked, or while its Machine was made: all is open."""
    findings = tuple(Finding(id, UNDETERMINED, note=str(error)) for id in ids)
    seconds = time.perf_counter() - start
    return Result(
        command, model, parameters, words, findings, {"trips": _trips(parameters)}, seconds=seconds, asked=words
    )


def _engines_of(words: str, question: Question) -> list[Engine]:
    """Those to ask. Raises SpecError for a question that has no meaning, whatever it is about."""
    _must_be_numbers(question)
    if not isinstance(words, str):
        raise SpecError(f"no engine {words!r}: use {', '.join(ENGINES)}, or several joined by +")
    unknown = [property for property in question.properties if property not in PROPERTIES]
    if unknown:
        raise SpecError(f"unknown property {unknown[0]!r}: use one of {', '.join(PROPERTIES)}")
    engines = [ENGINES[name]() for name in names_of(words)]
    _must_be_heeded(question, engines)
    return engines


def _must_be_numbers(question: Question) -> None:
    for name, value in (("limit", question.limit), ("timeout", question.timeout), ("memory", question.memory)):
        kind, what = (int | float, "number") if name == "timeout" else (int, "whole number")
        if not isinstance(value, kind) or (isinstance(value, float) and not isfinite(value)):
            raise SpecError(f"{name}={value!r}: give a {what}, 0 for no bound")
        if value < 0:
            raise SpecError(f"{name}={value!r}, a bound below 0: use 0 for none")


def _must_have(subject: Subject, engine: Engine) -> None:
    if engine.needs == "programs" and subject.kernel is None:
        raise SpecError(f"engine {engine.name!r} reads programs, and {subject.name} is a Machine alone: leave it out")


def _must_be_heeded(question: Question, engines: Sequence[Engine]) -> None:
    given: dict[Bound, bool] = {
        "limit": question.limit > 0,
        "timeout": question.timeout > 0,
        "memory": question.memory > 0,
        "reduced": not question.reduced,
    }
    for bound, is_given in given.items():
        if is_given and not any(bound in engine.heeds for engine in engines):
            names = " and ".join(engine.name for engine in engines)
            others = " or ".join(heeding(bound))
            raise SpecError(f"{OPTIONS[bound]} means nothing to {names}: leave it out, or choose {others}")


def _covered(answers: Sequence[Answer], noted: Sequence[str]) -> bool:
    """Whether a search has visited everything and found nothing, or nothing but what is only noted."""
    return any(
        answer.engine == "search" and all(one.verdict == PROVED for one in answer.findings if one.id not in noted)
        for answer in answers
    )


def _trips(parameters: dict[str, Any]) -> Any:
    trips = parameters.get("trips")
    return "all" if trips in ("all", "forever") else trips
