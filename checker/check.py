"""One question about one model, from the engines to a Result: the only place where verdicts are put together."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from checker import waiting
from checker.order import Outcome, confirm, order
from checker.result import ENGINES, PROPERTIES, PROVED, UNDETERMINED, VIOLATED, Finding, Result
from checker.search import Exploration, Violation, explore, is_undetermined, memory_bound
from checker.trace import execute, make_trace
from spec.compile import compile_pipeline, compile_programs
from spec.errors import SpecError
from spec.machine import LIMIT, Machine
from spec.pipeline import Pipeline

ENOUGH = 50_000
"""States to visit after the first violation, for the violations of other properties."""
PROOF_TIMEOUT = 60.0
"""Seconds for a proof in Z3 unless --timeout says otherwise."""
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
    """Decides the properties of a pipeline; the options are those of check_machine."""
    start = time.perf_counter()
    outcome = order(pipeline, timeout=timeout) if "order" in engines_of(engine) else None
    if outcome is not None and engine == "order" and not outcome.failures:
        return _without_machine(outcome, command, properties)
    machine = compile_pipeline(pipeline) if outcome is None else compile_programs(pipeline, outcome.programs)
    result = check_machine(
        machine,
        command=command,
        properties=properties,
        engine=engine,
        limit=limit,
        timeout=timeout,
        memory=memory,
        reduced=reduced,
        outcome=outcome,
    )
    return replace(result, seconds=time.perf_counter() - start)


def _without_machine(outcome: Outcome, command: str, properties: Sequence[str]) -> Result:
    """The result of order where there is no violation to execute."""
    pipeline = outcome.pipeline
    findings = tuple(
        Finding(property, outcome.verdict_on(property), note=outcome.why)
        for property in _asked(pipeline.name, outcome.applies, properties)
    )
    parameters = pipeline.parameters()
    scope = {"trips": _trips(parameters)}
    return Result(command, pipeline.name, parameters, "order", findings, scope, 0, outcome.events, outcome.seconds)


def check_machine(
    machine: Machine,
    *,
    command: str,
    properties: Sequence[str] = (),
    engine: str = "search",
    limit: int = 0,
    timeout: float = 0.0,
    memory: int = 0,
    reduced: bool = True,
    outcome: Outcome | None = None,
) -> Result:
    """Decides the properties of a machine. engine: one of ENGINES, or several with + between them, which must agree.
    Raises SpecError for another word, and for "order" without an outcome.

    outcome: what order says about the pipeline that the machine was compiled from, if it is one of the engines.
    reduced: search first without the schedules that nobody can tell apart, and only if anything is wrong there again
    with all of them, for the shortest trace of every property.
    """
    start = time.perf_counter()
    engines = engines_of(engine)
    if "order" in engines and outcome is None:
        raise SpecError("order decides a pipeline, not a machine: use check_pipeline")
    asked = _asked(machine.name, machine.properties, properties)
    answers = []
    if "search" in engines:
        answers.append(
            _by_search(
                machine, asked, reduced, {"limit": limit, "timeout": timeout, "memory": memory or memory_bound()}
            )
        )
    if "smt" in engines:
        covered = bool(answers) and all(finding.verdict == PROVED for finding in answers[0].findings)
        answers.append(_by_smt(machine, asked, timeout or PROOF_TIMEOUT, covered))
    if outcome is not None:
        answers.append(_by_order(machine, asked, outcome))
    findings, notes, extra = _agreed(answers)
    return Result(
        command,
        machine.name,
        machine.parameters,
        engine,
        findings,
        {"trips": _trips(machine.parameters)},
        answers[0].states,
        answers[0].transitions,
        time.perf_counter() - start,
        notes,
        extra,
    )


def _trips(parameters: dict[str, Any]) -> Any:
    trips = parameters.get("trips")
    return "all" if trips in ("all", "forever") else trips


@dataclass(frozen=True)
class _Answer:
    """What one engine says."""

    engine: str
    findings: tuple[Finding, ...]
    notes: tuple[str, ...]
    states: int = 0
    transitions: int = 0
    extra: dict[str, Any] = field(default_factory=dict)


def _by_search(machine: Machine, asked: Sequence[str], reduced: bool, bounds: dict[str, Any]) -> _Answer:
    quick = None
    if reduced:
        quick = explore(machine, **bounds, stop_at_first=True, reduced=True)
    if quick is not None and not quick.violations and not quick.halted:
        exploration = quick
    elif quick is not None:
        exploration = explore(machine, **{**bounds, "limit": bounds["limit"] or REFINED}, enough=ENOUGH)
    else:
        exploration = explore(machine, **bounds, enough=ENOUGH)
    shortest = bool(exploration.violations) and exploration is not quick
    why = is_undetermined(exploration) or _vacuous(machine, exploration)
    known = {} if quick is None or exploration.complete else quick.violations
    violations = {**known, **exploration.violations}
    return _Answer(
        "search",
        tuple(_finding(machine, property, violations, why) for property in asked),
        tuple(_notes(machine, exploration)),
        exploration.states,
        exploration.transitions,
        {"reduced": exploration is quick, "shortest": shortest},
    )


def _by_smt(machine: Machine, asked: Sequence[str], timeout: float, covered: bool) -> _Answer:
    from checker.prove.induction import prove

    proof = prove(machine, asked, timeout=timeout, covered=covered)
    findings = []
    for property in asked:
        finding = _finding(machine, property, proof.violations, proof.reasons.get(property, ""))
        if finding.verdict == PROVED and proof.verdicts[property] != PROVED:
            finding = Finding(property, UNDETERMINED, note=proof.reasons.get(property, "Z3 decides nothing"))
        findings.append(finding)
    return _Answer("smt", tuple(findings), tuple(proof.notes), extra={"shortest": True})


def _by_order(machine: Machine, asked: Sequence[str], outcome: Outcome) -> _Answer:
    """What a schedule shows on the machine is violated; what one should have shown and did not is open."""
    violations = confirm(outcome, machine)
    findings = []
    for property in asked:
        why = outcome.why
        if outcome.verdict_on(property) == VIOLATED or (property == "arrival-count" and "deadlock" in violations):
            why = "the schedule that should violate it does not"
        elif outcome.verdict_on(property) == UNDETERMINED:
            why = why or "it depends on what a race leaves behind"
        findings.append(_finding(machine, property, violations, why))
    return _Answer("order", tuple(findings), (), transitions=outcome.events)


def engines_of(words: str) -> tuple[str, ...]:
    """The engines that are asked for; SpecError for a word that is none, or that stands twice."""
    names = tuple(words.split("+"))
    for name in names:
        if name not in ENGINES or names.count(name) > 1:
            raise SpecError(f"engine {words!r}: use {', '.join(ENGINES)}, or several, each once: search+order")
    return names


def _agreed(answers: Sequence[_Answer]) -> tuple[tuple[Finding, ...], tuple[str, ...], dict[str, Any]]:
    """The engines' answers as one: they may leave a property open, but never contradict each other."""
    if len(answers) == 1:
        return answers[0].findings, answers[0].notes, answers[0].extra
    findings = []
    for said in zip(*(answer.findings for answer in answers), strict=True):
        by_verdict = {one.verdict: (answer.engine, one) for answer, one in reversed([*zip(answers, said, strict=True)])}
        if PROVED in by_verdict and VIOLATED in by_verdict:
            proves, refutes = by_verdict[PROVED][0], by_verdict[VIOLATED][0]
            raise AssertionError(f"{proves} and {refutes} contradict each other on {said[0].id}")
        if VIOLATED in by_verdict:
            findings.append(by_verdict[VIOLATED][1])
        elif UNDETERMINED in by_verdict:
            engine, left = by_verdict[UNDETERMINED]
            findings.append(Finding(left.id, UNDETERMINED, note=f"{engine}: {left.note}"))
        else:
            findings.append(said[0])
    notes = tuple(dict.fromkeys(note for answer in answers for note in answer.notes))
    extra: dict[str, Any] = {}
    for answer in reversed(answers):
        extra |= answer.extra
    return tuple(findings), notes, extra


def _asked(name: str, possible: Sequence[str], properties: Sequence[str]) -> tuple[str, ...]:
    applies = tuple(property for property in PROPERTIES if property in possible)
    unknown = [property for property in properties if property not in PROPERTIES]
    if unknown:
        raise SpecError(f"unknown property {unknown[0]!r}: use one of {', '.join(PROPERTIES)}")
    chosen = tuple(property for property in applies if property in properties) if properties else applies
    if not chosen:
        raise SpecError(f"nothing to check: {', '.join(properties)} cannot be violated by {name}")
    return chosen


def _finding(machine: Machine, property: str, violations: dict[str, Violation], why: str) -> Finding:
    """Violated with its trace, else undetermined if `why` says so, else proved."""
    violation = violations.get(property) or _at_the_end(machine, property, violations.get("deadlock"))
    if violation is not None:
        trace = make_trace(machine, property, violation.because, violation.actions, violation.stuck)
        return Finding(property, VIOLATED, trace)
    return Finding(property, UNDETERMINED, note=why) if why else Finding(property, PROVED)


def _at_the_end(machine: Machine, property: str, deadlock: Violation | None) -> Violation | None:
    """The violation that a deadlock shows besides itself: a barrier that has never completed a phase, and cannot."""
    if deadlock is None or property != "arrival-count":
        return None
    run = execute(machine, deadlock.actions)
    barrier = waiting.never_enough(machine, run.last, deadlock.stuck)
    phase = f"{barrier}.phase"
    if barrier and any(step.before[phase] != run.last[phase] for step in run.steps):
        return None
    return Violation(property, "", barrier, deadlock.actions, False, deadlock.stuck) if barrier else None


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
    return list(dict.fromkeys(notes))
