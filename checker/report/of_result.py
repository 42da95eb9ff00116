"""The sections of one Result: what is violated and how, what holds, what is open, and the verdict."""

from __future__ import annotations

import linecache
from dataclasses import replace

from sm90_verify.report.blame import guilty_step, shown_beside, that_matter, to_blame
from sm90_verify.report.explain import rule_of, what_is
from sm90_verify.report.sections import (
    Advice,
    Because,
    Break,
    Excerpt,
    Execution,
    Findings,
    Headline,
    Noted,
    Notes,
    Redundant,
    Report,
    ScheduleRow,
    ScheduleTable,
    Section,
    SourceLine,
    Stuck,
    Verdict,
)
from sm90_verify.result import PROPERTIES, Blocked, Result, Trace, TraceStep

NOT_REPLAYED = ("ptx", "log", "hang")
"""Commands whose kernels are made of other files than a specification: `verify replay` does not read these."""


def sections_of(result: Result, *, every_step: bool = False, again: str | None = None) -> Report:
    """The report on a result. every_step: all of its trace, not only those that matter. again: as in Execution; what
    was replayed is not to be written over its file.
    """
    again = "" if again is None and result.command in ("replay", "log") else again
    sections: list[Section] = [one for one in (result.recovered, result.hang, result.table) if one is not None]
    if result.trace is not None:
        sections += _counterexample(result.trace, every_step)
        told = "" if again is None and result.command in NOT_REPLAYED else again
        sections += [Execution(result.trace, result.shortest, told), Break()]
    sections += [
        Findings(result.findings, result.trace),
        *(() if result.redundant is None else (Redundant(result.redundant),)),
        Notes(result.notes),
        *(Noted(note, rule_of(note.property)) for note in result.noted),
        Verdict(
            result.command,
            result.model,
            result.parameters,
            result.verdict,
            result.engine,
            result.scope,
            result.states,
            result.transitions,
            result.seconds,
            result.shown,
            result.definition,
            result.reduced,
            result.shortest,
            result.asked,
            result.because,
            result.events,
        ),
    ]
    return tuple(sections)


def _counterexample(trace: Trace, every_step: bool) -> list[Section]:
    sections: list[Section] = [Headline(trace.property, title_of(trace))]
    told = replace(trace, steps=(*trace.steps, *trace.next))
    blamed = to_blame(trace)
    if blamed is not None:
        sections.append(_excerpt(trace, blamed))
        near = (blamed.file, range(blamed.line - 1, blamed.line + 2))
        beside = [one for one in shown_beside(trace) if one[0].file != near[0] or one[0].line not in near[1]]
        sections += [_excerpt(trace, one, why) for one, why in beside]
    sections.append(_schedule(told, len(trace.steps), every_step))
    if trace.blocked:
        sections.append(Stuck(trace.blocked))
    because = trace.because.partition(" -- ")[2] if trace.blocked else trace.because
    sections += [Because(because)] if because else []
    return [*sections, Advice(trace.advice)] if trace.advice else sections


def title_of(trace: Trace) -> str:
    """What is violated, in general; a deadlock names who is stuck."""
    if trace.blocked:
        names = [entry.role for entry in trace.blocked]
        who = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
        return f"{who} can never run again"
    return what_is(trace.property) if trace.property in PROPERTIES else trace.because


def _excerpt(trace: Trace, shown: Blocked | TraceStep, beside: str = "") -> Excerpt:
    """A line, and its neighbours if it is the one to blame, with the steps of the role that executed them."""
    file, line = shown.file, shown.line
    mine = (each for each in enumerate(trace.steps, 1) if (each[1].file, each[1].role) == (file, shown.role))
    executed = {step.line: number for number, step in mine}
    lines = [
        SourceLine(number, text, executed.get(number, 0))
        for number in ((line,) if beside else range(line - 1, line + 2))
        if (text := linecache.getline(file, number).rstrip()).strip()
    ]
    return Excerpt(file, line, tuple(lines), shown.origin, beside)


def _schedule(told: Trace, taken: int, every_step: bool) -> ScheduleTable:
    """Steps beyond those that were taken are what comes next. A race is between two steps; other violations are at one,
    which may be one that comes next.
    """
    chosen = tuple(range(len(told.steps))) if every_step else that_matter(told)
    ahead = told.property != "race" and guilty_step(told) == taken
    rows = tuple(_row(told.steps[index], index + 1, taken, taken + ahead) for index in chosen)
    return ScheduleTable(rows, len(told.steps) - len(rows))


def _row(step: TraceStep, number: int, taken: int, violating: int) -> ScheduleRow:
    does = f"{step.op} {step.object}".strip()
    shown = number if number <= taken else 0
    return ScheduleRow(shown, number >= violating, step.line, step.role, does, _changes(step))


def _changes(step: TraceStep) -> str:
    """`full[0] pending 1->0 bytes 0->16384` from the names of variables."""
    by_object: dict[str, list[str]] = {}
    for name, change in step.changes.items():
        thing, _, part = name.rpartition(".")
        words = {"tx": "bytes", "flight": "in flight"}.get(part, part)
        by_object.setdefault(thing, []).append(f"{words} {change}")
    return "  ".join(f"{thing} {' '.join(parts)}" for thing, parts in by_object.items())
