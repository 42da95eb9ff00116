"""Reports as text, 100 columns wide: what a person reads of every model, log, recording, claim and score."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, assert_never

from sm90_verify.made_of import KernelTable, LeftOut, compiled_from
from sm90_verify.report.hung import sections_of_hang
from sm90_verify.report.kernel_table import sections_of_table
from sm90_verify.report.of_result import sections_of
from sm90_verify.report.recovered import tables_of
from sm90_verify.report.sections import (
    Advice,
    Because,
    Break,
    Column,
    Excerpt,
    Execution,
    Findings,
    Headline,
    JsonValues,
    Lines,
    Nested,
    Noted,
    Notes,
    Paragraph,
    Redundant,
    Report,
    ScheduleRow,
    ScheduleTable,
    Section,
    Stuck,
    Table,
    Tally,
    Verdict,
)
from sm90_verify.result import ALLOWED, PROVED, UNDETERMINED, VIOLATED, HangState, Recovered, Result
from sm90_verify.spec.errors import SpecError

WIDTH = 100


def render(result: Result, *, every_step: bool = False) -> str:
    """A result as text; the last line is the summary that scripts look for. SpecError for what is no Result."""
    if not isinstance(result, Result):
        raise SpecError(f"a {type(result).__name__} is no result: give render what check, check_log or replay gave")
    return text([sections_of(result, every_step=every_step)])


def text(reports: Iterable[Report]) -> str:
    """Reports one after the other."""
    return "\n".join(line for report in reports for line in _lines(report))


def _lines(report: Sequence[Section]) -> list[str]:
    return [line for section in report for line in _section(section)]


def _section(section: Section) -> list[str]:
    match section:
        case Headline():
            return wrap(f"error[{section.property}]: {section.title}", "    ")
        case Excerpt():
            return _excerpt(section)
        case ScheduleTable():
            return _schedule(section)
        case Stuck():
            return _stuck(section)
        case Because():
            return wrap(f"  because  {section.text}", "           ")
        case Advice():
            return wrap(f"  advice   {section.text}", "           ")
        case Execution():
            return _execution(section)
        case Findings():
            return _findings(section)
        case Notes():
            return [f"note: {note}" for note in section.notes]
        case Noted():
            return _noted(section)
        case Verdict():
            return [*_scope(section), *_answered(section), _summary(section)]
        case Recovered():
            return _lines(tables_of(section))
        case Redundant():
            return [line for some in _by_origin(section.operations) for line in _redundant(some)]
        case KernelTable():
            return _lines(sections_of_table(section))
        case HangState():
            return _lines(tuple(sections_of_hang(section)))
        case Paragraph():
            return wrap(section.text, " " * section.hang)
        case Lines():
            return list(section.lines)
        case Break():
            return [""]
        case Table():
            return _table(section)
        case Nested():
            return [f"{'':{section.indent}}{line}".rstrip() for line in _lines(section.sections)]
        case Tally():
            return [f"verify: {'  '.join((f'{section.word} {section.what}', *section.figures))}"]
        case JsonValues():
            return []
        case _:
            assert_never(section)


# ---------------------------------------------------------------- a result


def _summary(verdict: Verdict) -> str:
    """verify: PROVED tma-async stages=4 consumers=2  6472 states  0.31 s"""
    parameters = "".join(f" {name}={verdict.parameters[name]}" for name in verdict.shown)
    size = f"  {verdict.states} states" if verdict.states else ""
    size = f"  {verdict.events} events" if verdict.events and verdict.engine == "order" else size
    return f"verify: {verdict.verdict.upper()} {verdict.model}{parameters}{size}  {verdict.seconds:.2f} s"


def _scope(verdict: Verdict) -> list[str]:
    """scope   every trip count"""
    every = verdict.scope.get("trips") == "all" and "runs" not in verdict.scope
    if verdict.verdict == PROVED and "periods" in verdict.scope:
        return [_by_periods(verdict.scope)]
    if verdict.verdict == PROVED and "sweep" in verdict.scope:
        return [f"scope   {_values(verdict.scope)}, one by one"]
    return ["scope   every trip count"] if verdict.verdict == PROVED and every else []


def _by_periods(scope: dict[str, Any]) -> str:
    """scope   every n from 0 to 1073741824: 0 to 7 one by one, from 8 on by periods of 4"""
    said = scope["periods"]
    low, high = said["one_by_one"]
    ways = f"{low} to {high} one by one, from {said['from']} on by periods of {said['period']}"
    return f"scope   {_values(scope)}: {ways}"


def _values(scope: dict[str, Any]) -> str:
    """every n from 0 to 48 in steps of 8"""
    step = scope["sweep"]["step"]
    ((name, (first, last)),) = ((name, some) for name, some in scope["sweep"].items() if name != "step")
    return f"every {name} from {first} to {last}" + (f" in steps of {step}" if step > 1 else "")


def _answered(verdict: Verdict) -> list[str]:
    """engine  order: all schedules do what one of them does, which was looked at"""
    return wrap(f"engine  {verdict.engine}: {verdict.because}", "        ") if verdict.because else []


def _findings(section: Findings) -> list[str]:
    findings = section.findings
    if all(finding.verdict in (PROVED, ALLOWED) for finding in findings):
        return [f"{finding.verdict}  {finding.id}" for finding in findings]
    lines = []
    for finding in findings:
        if finding.verdict == VIOLATED and (finding.trace is None or finding.trace is not section.led):
            steps = "" if finding.trace is None else f" ({len(finding.trace.steps)} steps)"
            because = "" if finding.trace is None else f": {finding.trace.because}"
            lines += wrap(f"violated  {finding.id}{steps}{because}", "          ")
    for verdict in (PROVED, ALLOWED):
        held = [finding.id for finding in findings if finding.verdict == verdict]
        if held:
            lines += wrap(f"  {verdict:<9}{' | '.join(held)}", "           ")
    open_questions: dict[str, list[str]] = {}
    for finding in findings:
        if finding.verdict == UNDETERMINED:
            open_questions.setdefault(finding.note, []).append(finding.id)
    for note, ids in open_questions.items():
        lines += wrap(f"undetermined  {' | '.join(ids)}: {note}", "              ")
    return lines


def _noted(section: Noted) -> list[str]:
    note = section.note
    return [
        *wrap(
            f"note[{note.property}] {_short(note.file)}:{note.line}{compiled_from(note.origin)}: {note.because}", "  "
        ),
        *wrap(f"  {section.rule}", "  "),
    ]


def _stuck(section: Stuck) -> list[str]:
    lines = []
    for entry in section.roles:
        phase = f" {entry.phase}" if entry.phase else ""
        at = f", line {entry.line}{compiled_from(entry.origin)}" if entry.line and entry.phase else ""
        lines += wrap(f"  blocked  {entry.role} waits for {entry.waits_for}{phase}{at}: {entry.missing}", "           ")
    return lines


def _execution(section: Execution) -> list[str]:
    count = len(section.trace.steps)
    steps = f"  {'shortest trace' if section.shortest else 'trace'}: {count} step{'s' * (count != 1)}"
    steps += "" if section.shortest is not False else ", and there may be a shorter one"
    if section.again is None:
        return [f"{steps}     replay: verify replay trace.json (write it with --format json -o trace.json)"]
    return [steps, f"  again: {section.again}"] if section.again else [steps]


def _by_origin(operations: Iterable[LeftOut]) -> Iterable[Sequence[LeftOut]]:
    """Those that were compiled from the same lines together; others each by itself."""
    found: dict[object, list[LeftOut]] = {}
    for number, one in enumerate(operations):
        found.setdefault((one.file, one.origin, one.together) if one.origin else number, []).append(one)
    return found.values()


def _redundant(some: Sequence[LeftOut]) -> list[str]:
    """redundant  k.ptx:66, 92 (common.cuh:8 < k.cu:52): fence, fence.proxy"""
    one, what = some[0], ", ".join(dict.fromkeys(each.what for each in some))
    lines = ", ".join(str(each.line) for each in some)
    how = "" if one.together else " (not with all the others)"
    return wrap(f"redundant  {_short(one.file)}:{lines}{compiled_from(one.origin)}: {what}{how}", "           ")


def _excerpt(section: Excerpt) -> list[str]:
    place = f"{_short(section.file)}:{section.line}"
    if section.beside:
        lines = [*wrap(f"  and {place}{compiled_from(section.origin)}: {section.beside}", "      "), "     |"]
    else:
        lines = [f"  --> {place}", "     |"]
    for line in section.lines:
        mark = ">" if line.number == section.line and not section.beside else " "
        when = f"step {line.step}" if line.step else ""
        lines.append(f"{mark}{line.number:4d}| {line.text[:76]:<76} {when}".rstrip())
    origin = () if section.beside else section.origin
    places = [f"     {'      ' if number else '= from'} {_short(one)}" for number, one in enumerate(origin)]
    return [*lines, "     |", *places]


def _schedule(section: ScheduleTable) -> list[str]:
    """One lane per role, only what changed on the right; as a plain list where the lanes do not fit."""
    rows = section.rows
    if not rows:
        return []
    roles = list(dict.fromkeys(row.role for row in rows))
    widths = {role: max(len(role), *(len(row.does) for row in rows if row.role == role)) for role in roles}
    lines = []
    if 13 + sum(width + 2 for width in widths.values()) <= WIDTH - 20:
        header = "  step line  " + "".join(f"{role:<{widths[role] + 2}}" for role in roles) + "changes"
        lines.append(header.rstrip())
        for row in rows:
            lanes = "".join(f"{row.does if row.role == role else '':<{widths[role] + 2}}" for role in roles)
            head = f"{_number(row)} {row.line:4d}  {lanes}"
            lines += wrap(head + row.changes, " " * len(head))
    else:
        width = max(len(role) for role in roles)
        lines.append(f"  step line  {'role':<{width}}  operation: changes")
        for row in rows:
            head = f"{_number(row)} {row.line:4d}  {row.role:<{width}}  {row.does}"
            lines += wrap(head + (f": {row.changes}" if row.changes else ""), " " * (15 + width))
    if section.hidden:
        lines.append(f"  ({section.hidden} steps that do not matter here are left out; --all shows them)")
    return lines


def _number(row: ScheduleRow) -> str:
    return f"{'x' if row.marked else ' '} {row.number:4d}" if row.number else "x next"


# ---------------------------------------------------------------- tables


def _table(table: Table) -> list[str]:
    names = tuple(column.name for column in table.columns)
    rows = (names, *table.rows) if any(names) else table.rows
    hang = table.indent + sum(column.gap + column.width for column in table.columns) - table.columns[0].gap
    lines = []
    for row in rows:
        cells = [_cell(column, cell) for column, cell in zip(table.columns, row, strict=True)]
        line = " " * table.indent + "".join(cells)[table.columns[0].gap :]
        lines += wrap(line, " " * hang)
    return lines


def _cell(column: Column, cell: str) -> str:
    padded = f"{cell:>{column.width}}" if column.right else f"{cell:<{column.width}}"
    return " " * column.gap + padded


def _short(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def wrap(line: str, indent: str) -> list[str]:
    """Lines of at most WIDTH columns; inner spacing of what fits is kept."""
    lines: list[str] = []
    indent = indent[: WIDTH - 18]
    while len(line) > WIDTH:
        cut = line.rfind(" ", len(indent) + 1, WIDTH + 1)
        cut = cut if cut > len(indent) else WIDTH
        lines.append(line[:cut].rstrip())
        line = indent + line[cut:].lstrip()
    return [*lines, line.rstrip()]
