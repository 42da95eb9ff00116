"""The frontier as text and as JSON: what is safe, what the assertions say, and where the two differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sm90_verify.evidence.frontier.box import Box, Configuration
from sm90_verify.evidence.frontier.formula import Formula
from sm90_verify.evidence.frontier.run import Decided, Frontier, Group, shortest_trace
from sm90_verify.report.as_json import header, trace_object
from sm90_verify.report.text import render
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED

ASSERTIONS = (
    ("E:172", "ReuseSmemC needs StagesD <= StagesC and as many elements in a stage of C as of D"),
    ("E:731", "DelayTmaStore with ReuseSmemC needs StagesC > StagesD"),
    ("P:658", "PipelineTmaStore needs a stage"),
    ("P:659", "PipelineTmaStore needs StagesD >= 1"),
)


def text(frontier: Frontier) -> str:
    """Everything that a person wants to know; the last line is the summary that scripts look for."""
    lines = [*_summary_of(frontier), "", "safe exactly if"]
    lines += _table(frontier.groups, lambda group: group.safe, lambda group: len(group.decided))
    lines += ["", "CUTLASS 4.2's static assertions (E: the collective epilogue, P: the pipelines)"]
    lines += [f"  {name}  {what}" for name, what in ASSERTIONS]
    for title, members, formula in _differences(frontier):
        lines += ["", f"{title}: {len(members)} configurations"]
        if members:
            lines += _table(frontier.groups, formula, _counter(members))
            lines += ["", *_example(min(members, key=lambda one: one.configuration.size))]
    open_points = [one for one in frontier.decided if one.verdict == UNDETERMINED]
    lines += [f"undetermined: {describe(one.configuration)}: {one.why}" for one in open_points]
    word = frontier.verdict.upper()
    lines += ["", f"verify: {word} epilogue frontier  {len(frontier.decided)} configurations  {frontier.seconds:.1f} s"]
    return "\n".join(lines)


def to_json(frontier: Frontier) -> dict[str, Any]:
    """The same as one object; `points` has every configuration with its verdict and the assertions that reject it."""
    differences = {}
    for title, members, formula in _differences(frontier):
        smallest = min(members, key=lambda one: one.configuration.size, default=None)
        result = None if smallest is None else shortest_trace(smallest.configuration)
        differences[title.replace(" ", "_")] = {
            "configurations": len(members),
            "groups": [_group_object(group, formula(group)) for group in frontier.groups],
            "smallest": None if smallest is None else _object(smallest),
            "trace": None if result is None or result.trace is None else trace_object(result.trace),
        }
    return {
        **header("epilogue"),
        "model": {"name": "epilogue frontier", "parameters": box_object(frontier.box)},
        "verdict": frontier.verdict,
        "engine": "order",
        "seconds": round(frontier.seconds, 2),
        "events": sum(one.events for one in frontier.decided),
        "safe": [_group_object(group, group.safe) for group in frontier.groups],
        "differences": differences,
        "points": [_object(one) for one in frontier.decided],
    }


def describe(configuration: Configuration) -> str:
    """One configuration in CUTLASS's words."""
    return (
        f"{configuration.schedule} StagesC={configuration.stages_c} StagesD={configuration.stages_d} "
        f"ReuseSmemC={int(configuration.reuse_smem_c)} DelayTmaStore={int(configuration.delay_tma_store)} "
        f"subtiles={configuration.subtiles} tiles={configuration.tiles} "
        f"bytes C={configuration.bytes_c} D={configuration.bytes_d}"
    )


def box_object(box: Box) -> dict[str, list[Any]]:
    return {name: list(values) for name, values in vars(box).items()}


Chosen = Callable[[Group], Formula | None]


def _counter(members: Sequence[Decided]) -> Callable[[Group], int]:
    chosen = {one.configuration for one in members}
    return lambda group: sum(one.configuration in chosen for one in group.decided)


def _differences(frontier: Frontier) -> Iterable[tuple[str, list[Decided], Chosen]]:
    yield (
        "rejected although safe",
        [one for one in frontier.decided if one.safe and one.rejected],
        lambda group: group.rejected_though_safe,
    )
    yield (
        "accepted although violated",
        [one for one in frontier.decided if one.verdict == VIOLATED and not one.rejected],
        lambda group: group.accepted_though_violated,
    )


def _summary_of(frontier: Frontier) -> list[str]:
    box, decided = frontier.box, frontier.decided
    numbers = [
        f"{name} {_values(values)}"
        for name, values in (
            ("StagesC", box.stages_c),
            ("StagesD", box.stages_d),
            ("subtiles", box.subtiles),
            ("tiles", box.tiles),
        )
    ]
    violated = [one for one in decided if one.verdict == VIOLATED]
    events = sum(one.events for one in decided)
    proved = sum(one.safe for one in decided)
    return [
        f"epilogue: {', '.join(numbers)}, {' '.join(box.schedules)}, reuse {_values(box.reuses)}, "
        f"delay {_values(box.delays)}, {len(box.bytes)} pairs of stage sizes",
        f"{len(decided)} configurations: {proved} proved, {len(violated)} violated, each with a trace that was "
        f"executed; {events} operations",
    ]


def _values(values: Sequence[Any]) -> str:
    if all(isinstance(value, bool) for value in values):
        return "/".join(str(int(value)) for value in values)
    whole = [value for value in values if isinstance(value, int)]
    if len(whole) > 2 and whole == list(range(whole[0], whole[-1] + 1)):
        return " ".join([f"{whole[0]}..{whole[-1]}", *(str(value) for value in values if value not in whole)])
    return " ".join(map(str, values))


def _table(groups: Sequence[Group], formula: Chosen, count: Callable[[Group], int]) -> list[str]:
    """A line per schedule, reuse, delay and kind of sizes that has any; those that differ in nothing else together."""
    rows: dict[tuple[str, bool, str], list[Group]] = {}
    for group in groups:
        if count(group):
            condition = formula(group)
            shown = "no short formula: see the points of --format json" if condition is None else condition.text
            rows.setdefault((group.schedule, group.reuse, shown), []).append(group)
    lines = [f"  {'schedule':<12} reuse  delay  sizes            points  condition"]
    for (schedule, reuse, shown), members in rows.items():
        for part in _rectangles(members):
            delays = "/".join("yes" if delay else "no" for delay in dict.fromkeys(one.delay for one in part))
            sizes = "/".join("equal" if equal else "unequal" for equal in dict.fromkeys(one.equal for one in part))
            points = sum(count(one) for one in part)
            reused = "yes" if reuse else "no"
            lines.append(f"  {schedule:<12} {reused:<6} {delays:<6} {sizes:<14} {points:>8}  {shown}")
    return lines


def _rectangles(members: list[Group]) -> list[list[Group]]:
    """All together if they are every combination of their delays and sizes, else each alone."""
    delays, sizes = {one.delay for one in members}, {one.equal for one in members}
    return [members] if len(members) == len(delays) * len(sizes) else [[one] for one in members]


def _example(one: Decided) -> list[str]:
    lines = [f"  smallest: {describe(one.configuration)}"]
    if one.verdict == PROVED:
        return [*lines, f"  rejected by {', '.join(one.configuration.rejected_by())}"]
    result = shortest_trace(one.configuration)
    return [*lines, *(f"  {line}".rstrip() for line in render(result).splitlines())]


def _group_object(group: Group, formula: Formula | None) -> dict[str, Any]:
    return {
        "schedule": group.schedule,
        "reuse_smem_c": group.reuse,
        "delay_tma_store": group.delay,
        "equal_bytes": group.equal,
        "condition": None if formula is None else formula.text,
    }


def _object(one: Decided) -> dict[str, Any]:
    found: dict[str, Any] = {**vars(one.configuration), "verdict": one.verdict}
    if one.violated:
        found["violated"] = dict(zip(one.violated, one.steps, strict=True))
    if one.configuration.rejected_by():
        found["rejected_by"] = list(one.configuration.rejected_by())
    if one.why:
        found["why"] = one.why
    return found
