"""A Result as text, 100 columns wide: what a person reads of every model, log and recording that is checked.

Claims, frontiers and mutation scores are tables of many results, which their own reports lay out.
"""

from __future__ import annotations

import linecache
import os
import re
from dataclasses import replace

from sm90_verify.report.explain import what_is
from sm90_verify.result import PROPERTIES, PROVED, UNDETERMINED, VIOLATED, Result, Trace, TraceStep

WIDTH = 100


def render(result: Result, *, every_step: bool = False) -> str:
    """A result as text; the last line is the summary that scripts look for."""
    lines: list[str] = []
    if result.verdict == VIOLATED and result.trace is not None:
        lines += _counterexample(result, result.trace, every_step)
    lines += _findings(result)
    lines += [f"note: {note}" for note in result.notes]
    lines.append(summary(result))
    return "\n".join(lines)


def summary(result: Result) -> str:
    """verify: PROVED tma-async stages=4 consumers=2  6472 states  0.31 s"""
    shown = result.extra.get("shown", ())
    parameters = "".join(f" {name}={result.parameters[name]}" for name in shown)
    size = f"  {result.states} states" if result.states else ""
    return f"verify: {result.verdict.upper()} {result.model}{parameters}{size}  {result.seconds:.2f} s"


def _findings(result: Result) -> list[str]:
    if result.verdict == PROVED:
        return [f"proved  {finding.id}" for finding in result.findings]
    lines = []
    shortest = result.trace
    for finding in result.findings:
        if finding.verdict == VIOLATED and finding.trace is not shortest:
            steps = "" if finding.trace is None else f" ({len(finding.trace.steps)} steps)"
            because = "" if finding.trace is None else f": {finding.trace.because}"
            lines += wrap(f"violated  {finding.id}{steps}{because}", "          ")
    held = [finding.id for finding in result.findings if finding.verdict == PROVED]
    if held:
        lines += wrap(f"  proved   {' | '.join(held)}", "           ")
    open_questions: dict[str, list[str]] = {}
    for finding in result.findings:
        if finding.verdict == UNDETERMINED:
            open_questions.setdefault(finding.note, []).append(finding.id)
    for note, ids in open_questions.items():
        lines += wrap(f"undetermined  {' | '.join(ids)}: {note}", "              ")
    return lines


# ---------------------------------------------------------------- a counterexample


def _counterexample(result: Result, trace: Trace, every_step: bool) -> list[str]:
    lines = wrap(f"error[{trace.property}]: {title_of(trace)}", "    ")
    told = replace(trace, steps=(*trace.steps, *trace.next))
    guilty = guilty_step(told)
    blamed = next((entry for entry in trace.blocked if entry.to_blame and entry.line), None)
    if blamed is not None:
        lines += _source_lines(trace, blamed.file, blamed.line, blamed.role)
    elif guilty is not None:
        step = told.steps[guilty]
        lines += _source_lines(trace, step.file, step.line, step.role)
    lines += _lanes(told, every_step, len(trace.steps))
    for entry in trace.blocked:
        phase = f" {entry.phase}" if entry.phase else ""
        at = f", line {entry.line}" if entry.line and "line" not in entry.missing else ""
        lines += wrap(f"  blocked  {entry.role} waits for {entry.waits_for}{phase}{at}: {entry.missing}", "           ")
    because = trace.because.partition(" -- ")[2] if trace.blocked else trace.because
    if because:
        lines += wrap(f"  because  {because}", "           ")
    kind = "shortest trace" if result.extra.get("shortest") else "trace"
    steps = f"{kind}: {len(trace.steps)} step{'s' * (len(trace.steps) != 1)}"
    lines.append(f"  {steps}     replay: verify replay trace.json (write it with --format json -o trace.json)")
    lines.append("")
    return lines


def title_of(trace: Trace) -> str:
    """What is violated, in general; a deadlock names who is stuck."""
    if trace.blocked:
        names = [entry.role for entry in trace.blocked]
        who = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
        return f"{who} can never run again"
    return what_is(trace.property) if trace.property in PROPERTIES else trace.because


def guilty_step(trace: Trace) -> int | None:
    """The step to blame: for two accesses that are not ordered, the signal by which a role gave the bytes away too
    early, or the wait for another slot than the one that is accessed; otherwise the last step. None for an empty
    trace.
    """
    if not trace.steps:
        return None
    last = len(trace.steps) - 1
    if trace.blocked:
        mine = [i for i, step in enumerate(trace.steps) if step.role == trace.blocked[0].role and not _is_loop(step)]
        return mine[-1] if mine else last
    if trace.property in ("race", "stale-read"):
        wrong = _wait_for_another_slot(trace)
        if wrong is not None:
            return wrong
    if trace.property == "race":
        other = _other_access(trace)
        if other is not None:
            given = _signals_of(trace, trace.steps[other].role, other + 1, last)
            if given:
                return given[0]
            early = _signals_of(
                trace, trace.steps[last].role, _last_wait(trace, trace.steps[last].role, last) + 1, other
            )
            if early:
                return early[-1]
    return last


def _signals_of(trace: Trace, role: str, start: int, stop: int) -> list[int]:
    """The steps from start to stop by which a role lets others go on."""
    return [
        index
        for index in range(start, stop)
        if trace.steps[index].role == role
        and trace.steps[index].op.startswith(("arrive", "bar.", "barrier.cluster.arrive"))
    ]


def _last_wait(trace: Trace, role: str, before: int) -> int:
    """The last wait that a role has passed before a step, -1 if there is none."""
    waits = ("wait", "try_wait", "test_wait")
    mine = (i for i in range(before - 1, -1, -1) if trace.steps[i].role == role)
    return next((i for i in mine if trace.steps[i].op.startswith(waits)), -1)


def _wait_for_another_slot(trace: Trace) -> int | None:
    """The wait before the last step, if it is on another slot than the access, of an array that has this slot too."""
    last = len(trace.steps) - 1
    wait = _last_wait(trace, trace.steps[last].role, last)
    slots = {slot for _, slot in _objects(trace.steps[last])}
    if wait < 0 or "" in slots:
        return None
    everywhere = {one for step in trace.steps for one in _objects(step)}
    for base, slot in _objects(trace.steps[wait]):
        elsewhere = slot and slot not in slots and any((base, other) in everywhere for other in slots)
        accessed = any(step.role == trace.steps[last].role for step in trace.steps[wait + 1 : last])
        if elsewhere and not accessed:
            return wait
    return None


def _other_access(trace: Trace) -> int | None:
    """The latest earlier step of another role on the bytes that the last step touches."""
    touched = _objects(trace.steps[-1])
    for index in range(len(trace.steps) - 2, -1, -1):
        step = trace.steps[index]
        if step.role != trace.steps[-1].role and step.role != "copies" and touched & _objects(step):
            return index
    return None


def _source_lines(trace: Trace, file: str, blamed: int, role: str) -> list[str]:
    """The guilty line and its neighbours in the user's file, with the steps of the role that executed them."""
    lines = [f"  --> {_short(file)}:{blamed}"]
    executed: dict[int, int] = {}
    for number, other in enumerate(trace.steps):
        if other.file == file and abs(other.line - blamed) <= 1 and other.role == role:
            executed[other.line] = number + 1
    lines.append("     |")
    for line in range(blamed - 1, blamed + 2):
        text = linecache.getline(file, line).rstrip()
        if not text.strip():
            continue
        mark = ">" if line == blamed else " "
        when = f"step {executed[line]}" if line in executed else ""
        lines.append(f"{mark}{line:4d}| {text[:76]:<76} {when}".rstrip())
    lines.append("     |")
    return lines


def _lanes(trace: Trace, every_step: bool, taken: int) -> list[str]:
    """One lane per role, only what changed on the right; as a plain list where the lanes do not fit. Steps beyond those
    that were taken are what comes next.
    """
    shown = [(number, step) for number, step in enumerate(trace.steps, 1) if every_step or _matters(trace, number - 1)]
    hidden = len(trace.steps) - len(shown)
    if not shown:
        return []
    roles = list(dict.fromkeys(step.role for _, step in shown))
    texts = {number: f"{step.op} {step.object}".strip() for number, step in shown}
    widths = {
        role: max(len(role), *(len(texts[number]) for number, step in shown if step.role == role)) for role in roles
    }
    lines = []
    if 13 + sum(width + 2 for width in widths.values()) <= WIDTH - 20:
        header = "  step line  " + "".join(f"{role:<{widths[role] + 2}}" for role in roles) + "changes"
        lines.append(header.rstrip())
        for number, step in shown:
            lanes = "".join(f"{texts[number] if step.role == role else '':<{widths[role] + 2}}" for role in roles)
            head = f"{_number(number, taken)} {step.line:4d}  {lanes}"
            lines += wrap(head + _changes(step), " " * len(head))
    else:
        width = max(len(role) for role in roles)
        lines.append(f"  step line  {'role':<{width}}  operation: changes")
        for number, step in shown:
            changes = _changes(step)
            head = f"{_number(number, taken)} {step.line:4d}  {step.role:<{width}}  {texts[number]}"
            lines += wrap(head + (f": {changes}" if changes else ""), " " * (15 + width))
    if hidden:
        lines.append(f"  ({hidden} steps that do not matter here are left out; --all shows them)")
    return lines


def _number(number: int, taken: int) -> str:
    """The number of a step with the mark of the last one."""
    return f"{'x' if number == taken else ' '} {number:4d}" if number <= taken else "x next"


def _matters(trace: Trace, index: int) -> bool:
    """Not a decision of the trip-count loop, and not the same thing in another stage than the one to blame."""
    step = trace.steps[index]
    last = len(trace.steps) - 1
    if index in (last, guilty_step(trace), _last_wait(trace, trace.steps[last].role, last)):
        return True
    if _is_loop(step):
        return False
    if trace.property == "deadlock" or not trace.steps:
        return True
    blamed = _objects(trace.steps[-1])
    bases = {base for base, _ in blamed}
    slots = {slot for _, slot in blamed}
    mine = _objects(step)
    if not mine:
        return True
    same_kind = {base for other in trace.steps for base, slot in _objects(other) if slot in slots} | bases
    return any(slot in slots or base not in same_kind for base, slot in mine)


def _objects(step: TraceStep) -> set[tuple[str, str]]:
    """(array, slot) of each object of a step."""
    found = set()
    for name in step.object.split(","):
        match = re.fullmatch(r"(.+)\[(\d+)\]", name)
        if match:
            found.add((match.group(1), match.group(2)))
        elif name:
            found.add((name, ""))
    return found


def _is_loop(step: TraceStep) -> bool:
    return step.op.startswith("next iteration")


def _changes(step: TraceStep) -> str:
    """`full[0] pending 1->0 bytes 0->16384` from the names of variables."""
    by_object: dict[str, list[str]] = {}
    for name, change in step.changes.items():
        thing, _, part = name.rpartition(".")
        words = {"tx": "bytes", "flight": "in flight"}.get(part, part)
        by_object.setdefault(thing, []).append(f"{words} {change}")
    return "  ".join(f"{thing} {' '.join(parts)}" for thing, parts in by_object.items())


def _short(path: str) -> str:
    relative = os.path.relpath(path)
    return path if relative.startswith("..") else relative


def wrap(text: str, indent: str) -> list[str]:
    """Lines of at most WIDTH columns; inner spacing of what fits is kept."""
    lines: list[str] = []
    indent = indent[: WIDTH - 18]
    while len(text) > WIDTH:
        cut = text.rfind(" ", len(indent) + 1, WIDTH + 1)
        cut = cut if cut > len(indent) else WIDTH
        lines.append(text[:cut].rstrip())
        text = indent + text[cut:].lstrip()
    return [*lines, text.rstrip()]
