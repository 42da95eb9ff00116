"""Results as text: the only module that lays out what a person reads, 100 columns wide."""

from __future__ import annotations

import linecache
import os
import re

from checker.result import PROVED, UNDETERMINED, VIOLATED, Result, Trace, TraceStep

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
    guilty = guilty_step(trace)
    lines = wrap(f"error[{trace.property}]: {trace.because}", "    ")
    if guilty is not None:
        lines += _source_lines(trace, guilty)
    lines += _lanes(trace, every_step)
    for entry in trace.blocked:
        phase = f" {entry.phase}" if entry.phase else ""
        lines += wrap(f"  blocked  {entry.role} waits for {entry.waits_for}{phase}: {entry.missing}", "           ")
    lines += wrap(f"  because  {trace.because}", "           ")
    kind = "shortest trace" if result.extra.get("shortest") else "trace"
    steps = f"{kind}: {len(trace.steps)} step{'s' * (len(trace.steps) != 1)}"
    lines.append(f"  {steps}     replay: verify replay trace.json (write it with --format json -o trace.json)")
    lines.append("")
    return lines


def guilty_step(trace: Trace) -> int | None:
    """The step to blame: for two accesses that are not ordered, the signal by which the other role gave the bytes away;
    for a deadlock the last step of the first blocked role; otherwise the last step. None for an empty trace."""
    if not trace.steps:
        return None
    last = len(trace.steps) - 1
    if trace.blocked:
        mine = [i for i, step in enumerate(trace.steps) if step.role == trace.blocked[0].role and not _is_loop(step)]
        return mine[-1] if mine else last
    if trace.property == "race":
        other = _other_access(trace)
        if other is not None:
            for index in range(other + 1, last):
                step = trace.steps[index]
                if step.role == trace.steps[other].role and step.op.startswith(("arrive", "bar.")):
                    return index
    return last


def _other_access(trace: Trace) -> int | None:
    """The latest earlier step of another role on the bytes that the last step touches."""
    touched = _objects(trace.steps[-1])
    for index in range(len(trace.steps) - 2, -1, -1):
        step = trace.steps[index]
        if step.role != trace.steps[-1].role and step.role != "copies" and touched & _objects(step):
            return index
    return None


def _source_lines(trace: Trace, guilty: int) -> list[str]:
    """The guilty line and its neighbours in the user's file, with the steps that executed them."""
    step = trace.steps[guilty]
    lines = [f"  --> {_short(step.file)}:{step.line}"]
    executed: dict[int, int] = {}
    for number, other in enumerate(trace.steps):
        if other.file == step.file and abs(other.line - step.line) <= 1 and other.role == step.role:
            executed[other.line] = number + 1
    lines.append("     |")
    for line in range(step.line - 1, step.line + 2):
        text = linecache.getline(step.file, line).rstrip()
        if not text.strip():
            continue
        mark = ">" if line == step.line else " "
        when = f"step {executed[line]}" if line in executed else ""
        lines.append(f"{mark}{line:4d}| {text[:76]:<76} {when}".rstrip())
    lines.append("     |")
    return lines


def _lanes(trace: Trace, every_step: bool) -> list[str]:
    """One lane per role, only what changed on the right; as a plain list where the lanes do not fit."""
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
            mark = "x" if number == len(trace.steps) else " "
            head = f"{mark} {number:4d} {step.line:4d}  {lanes}"
            lines += wrap(head + _changes(step), " " * len(head))
    else:
        width = max(len(role) for role in roles)
        lines.append(f"  step line  {'role':<{width}}  operation: changes")
        for number, step in shown:
            mark = "x" if number == len(trace.steps) else " "
            changes = _changes(step)
            head = f"{mark} {number:4d} {step.line:4d}  {step.role:<{width}}  {texts[number]}"
            lines += wrap(head + (f": {changes}" if changes else ""), " " * (15 + width))
    if hidden:
        lines.append(f"  ({hidden} steps that do not matter here are left out; --all shows them)")
    return lines


def _matters(trace: Trace, index: int) -> bool:
    """Not a decision of the trip-count loop, and not the same thing in another stage than the one to blame."""
    step = trace.steps[index]
    if index == len(trace.steps) - 1:
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
