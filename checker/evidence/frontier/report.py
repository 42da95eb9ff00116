"""The report on the frontier: what is safe, what the assertions say, and where the two differ."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from sm90_verify.evidence.frontier.box import Box, Configuration
from sm90_verify.evidence.frontier.formula import Formula
from sm90_verify.evidence.frontier.run import Decided, Family, Frontier, shortest_trace
from sm90_verify.report.as_json import trace_object
from sm90_verify.report.of_result import sections_of
from sm90_verify.report.sections import (
    Break,
    Column,
    JsonValues,
    Lines,
    Nested,
    Paragraph,
    Report,
    Section,
    Table,
    Tally,
)
from sm90_verify.result import UNDETERMINED, VIOLATED, Result

ASSERTIONS = (
    ("E:172", "ReuseSmemC needs StagesD <= StagesC and as many elements in a stage of C as of D"),
    ("E:731", "DelayTmaStore with ReuseSmemC needs StagesC > StagesD"),
    ("P:658", "PipelineTmaStore needs a stage"),
    ("P:659", "PipelineTmaStore needs StagesD >= 1"),
)


COLUMNS = (
    Column("schedule", 12),
    Column("reuse", 6),
    Column("delay", 6),
    Column("sizes", 14),
    Column("points", 8, right=True),
    Column("condition", gap=2),
)


def report(frontier: Frontier) -> Report:
    """Everything that a person wants to know; for scripts, `points` has every configuration with its verdict and the
    assertions that reject it.
    """
    differences = tuple(_differences(frontier))
    sections: list[Section] = [*_summary_of(frontier), Break(), Paragraph("safe exactly if")]
    sections.append(_table(frontier.groups, lambda group: group.safe, lambda group: len(group.decided)))
    sections += [Break(), Paragraph("CUTLASS 4.2's static assertions (E: the collective epilogue, P: the pipelines)")]
    sections.append(Table((Column(), Column(gap=2)), ASSERTIONS, indent=2))
    for difference in differences:
        members = difference.members
        sections += [Break(), Paragraph(f"{difference.title}: {len(members)} configurations")]
        if members:
            sections += [_table(frontier.groups, difference.chosen, _counter(members)), Break()]
            sections += _example(difference)
    open_points = [one for one in frontier.decided if one.verdict == UNDETERMINED]
    sections += [
        Lines(tuple(f"undetermined: {describe(one.configuration)}: {one.why}" for one in open_points)),
        Break(),
        Tally(
            frontier.verdict.upper(),
            "epilogue frontier",
            (f"{len(frontier.decided)} configurations", f"{frontier.seconds:.1f} s"),
        ),
        JsonValues("epilogue", _values(frontier, differences)),
    ]
    return tuple(sections)


def _values(frontier: Frontier, differences: Sequence[FrontierDifference]) -> dict[str, Any]:
    return {
        "model": {"name": "epilogue frontier", "parameters": box_object(frontier.box)},
        "verdict": frontier.verdict,
        "engine": "order",
        "seconds": round(frontier.seconds, 2),
        "events": sum(one.events for one in frontier.decided),
        "safe": [_group_object(group, group.safe) for group in frontier.groups],
        "differences": {one.title.replace(" ", "_"): _difference_object(one, frontier.groups) for one in differences},
        "points": [_object(one) for one in frontier.decided],
    }


def _difference_object(difference: FrontierDifference, groups: Sequence[Family]) -> dict[str, Any]:
    smallest, result = difference.smallest, difference.example
    return {
        "configurations": len(difference.members),
        "groups": [_group_object(group, difference.chosen(group)) for group in groups],
        "smallest": None if smallest is None else _object(smallest),
        "trace": None if result is None or result.trace is None else trace_object(result.trace),
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


Chosen = Callable[[Family], Formula | None]


def _counter(members: Sequence[Decided]) -> Callable[[Family], int]:
    chosen = {one.configuration for one in members}
    return lambda group: sum(one.configuration in chosen for one in group.decided)


@dataclass(frozen=True)
class FrontierDifference:
    """Where the verdicts and the assertions differ: the configurations, and the formula of each group for them.

    smallest: of the configurations; example: the violation that it has, if it has one.
    """

    title: str
    members: tuple[Decided, ...]
    chosen: Chosen
    smallest: Decided | None
    example: Result | None


def _differences(frontier: Frontier) -> Iterable[FrontierDifference]:
    yield _difference(
        "rejected although safe",
        tuple(one for one in frontier.decided if one.safe and one.rejected),
        lambda group: group.rejected_though_safe,
    )
    yield _difference(
        "accepted although violated",
        tuple(one for one in frontier.decided if one.verdict == VIOLATED and not one.rejected),
        lambda group: group.accepted_though_violated,
    )


def _difference(title: str, members: tuple[Decided, ...], chosen: Chosen) -> FrontierDifference:
    smallest = min(members, key=lambda one: one.configuration.size, default=None)
    violated = smallest is not None and smallest.verdict == VIOLATED
    example = shortest_trace(smallest.configuration) if smallest is not None and violated else None
    return FrontierDifference(title, members, chosen, smallest, example)


def _summary_of(frontier: Frontier) -> list[Section]:
    box, decided = frontier.box, frontier.decided
    numbers = [
        f"{name} {_range(values)}"
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
        Lines(
            (
                f"epilogue: {', '.join(numbers)}, {' '.join(box.schedules)}, reuse {_range(box.reuses)}, "
                f"delay {_range(box.delays)}, {len(box.bytes)} pairs of stage sizes",
                f"{len(decided)} configurations: {proved} proved, {len(violated)} violated, each with a trace that was "
                f"executed; {events} operations",
            )
        )
    ]


def _range(values: Sequence[Any]) -> str:
    if all(isinstance(value, bool) for value in values):
        return "/".join(str(int(value)) for value in values)
    whole = [value for value in values if isinstance(value, int)]
    if len(whole) > 2 and whole == list(range(whole[0], whole[-1] + 1)):
        return " ".join([f"{whole[0]}..{whole[-1]}", *(str(value) for value in values if value not in whole)])
    return " ".join(map(str, values))


def _table(groups: Sequence[Family], formula: Chosen, count: Callable[[Family], int]) -> Table:
    """A line per schedule, reuse, delay and kind of sizes that has any; those that differ in nothing else together."""
    rows: dict[tuple[str, bool, str], list[Family]] = {}
    for group in groups:
        if count(group):
            condition = formula(group)
            shown = "no short formula: see the points of --format json" if condition is None else condition.text
            rows.setdefault((group.schedule, group.reuse, shown), []).append(group)
    lines: list[tuple[str, ...]] = []
    for (schedule, reuse, shown), members in rows.items():
        for part in _rectangles(members):
            delays = "/".join("yes" if delay else "no" for delay in dict.fromkeys(one.delay for one in part))
            sizes = "/".join("equal" if equal else "unequal" for equal in dict.fromkeys(one.equal for one in part))
            points = sum(count(one) for one in part)
            lines.append((schedule, "yes" if reuse else "no", delays, sizes, str(points), shown))
    return Table(COLUMNS, tuple(lines), indent=2)


def _rectangles(members: list[Family]) -> list[list[Family]]:
    """All together if they are every combination of their delays and sizes, else each alone."""
    delays, sizes = {one.delay for one in members}, {one.equal for one in members}
    return [members] if len(members) == len(delays) * len(sizes) else [[one] for one in members]


def _example(difference: FrontierDifference) -> list[Section]:
    if difference.smallest is None:
        return []
    configuration = difference.smallest.configuration
    smallest = Lines((f"  smallest: {describe(configuration)}",))
    if difference.example is None:
        return [smallest, Paragraph(f"  rejected by {', '.join(configuration.rejected_by())}")]
    return [smallest, Nested(sections_of(difference.example), indent=2)]


def _group_object(group: Family, formula: Formula | None) -> dict[str, Any]:
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
