"""Where what a role has done is lost on its way to another one: each role on the way lets the next one go on, and one
of these steps, or of the fences beside them, orders less than it would have to.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from sm90_verify.result import TraceStep

WIDER = ("cta", "cluster", "gpu", "sys")
Way = tuple[int, ...]
"""Steps by turns: a signal, the wait that has found it, the next signal of the role that waited, and so on."""


def lost_at(steps: Sequence[TraceStep], access: int) -> int | None:
    """The step that hands less on than the others on the way from an access to the last step; None if there is no such
    way, or no such step.
    """
    way = _way(steps, access)
    if way is None:
        return None
    since = access
    for signal, wait in zip(way[::2], way[1::2], strict=True):
        until = way[way.index(wait) + 1] if way.index(wait) + 1 < len(way) else len(steps) - 1
        away = _distance(steps[signal].role, steps[wait].role)
        released = _fails(steps, signal, away, "release", range(since + 1, signal))
        acquired = _fails(steps, wait, away, "acquire", range(wait + 1, until))
        wrong = released if released is not None else acquired
        if wrong is not None:
            return wrong
        since = wait
    return None


def _way(steps: Sequence[TraceStep], access: int) -> Way | None:
    """The first way by which the last role could have come to know of the access."""
    last = len(steps) - 1
    ways: dict[str, Way] = {steps[access].role: ()}
    open_: dict[str, Way] = {}
    if steps[access].kind == "lands":  # it signals its barrier itself
        phases = [name for name in steps[access].changes if name.endswith(".phase")]
        open_ = {name.removesuffix(".phase"): (access,) for name in phases}
    for index in range(access + 1, last):
        step = steps[index]
        if step.role not in ways and _waits(step):
            found = next((open_[thing] for thing in step.things if thing in open_), None)
            if found is not None:
                ways[step.role] = (*found, index)
        if step.role in ways and step.kind == "signals":
            for thing in step.things:
                open_.setdefault(thing, (*ways[step.role], index))
    return ways.get(steps[last].role)


def _waits(step: TraceStep) -> bool:
    return step.kind == "waits" or re.match(r"ld|atom|bar\.sync|barrier\.cluster\.wait|__sync", step.op) is not None


def _fails(steps: Sequence[TraceStep], index: int, away: int, how: str, beside: range) -> int | None:
    """The step itself, if it neither releases or acquires nor has a fence beside it, or reaches less far than `away`;
    or that fence, if it is what reaches less far.
    """
    step = steps[index]
    if _orders(step, how):
        return None if _reach(step) >= away else index
    fences = [one for one in beside if steps[one].role == step.role and _helps(steps[one], step, how)]
    if not fences or _reach(step) < away:
        return index
    return None if any(_reach(steps[one]) >= away for one in fences) else fences[-1]


def _helps(other: TraceStep, step: TraceStep, how: str) -> bool:
    """A fence, or another operation of the role on the same thing that releases before it, or acquires after it."""
    if re.match(r"fence\.(acq_rel|sc)\.", other.op):
        return True
    return bool({*other.things} & {*step.things}) and (other.kind == "signals" or _waits(other)) and _orders(other, how)


def _orders(step: TraceStep, how: str) -> bool:
    """A word's operation says that it does; of others, those that do not say so."""
    if re.match(r"(ld|st|atom|red)\b", step.op):
        return f".{how}" in step.op or ".acq_rel" in step.op
    return ".relaxed" not in step.op


def _reach(step: TraceStep) -> int:
    """How far its scope reaches; everywhere if it names none."""
    found = re.search(rf"\.({'|'.join(WIDER)})\b", step.op)
    return WIDER.index(found[1]) if found else len(WIDER)


def _distance(one: str, other: str) -> int:
    """How far a scope must reach to include two roles, by their names: 0 in a CTA, 1 in a cluster, 2 beyond."""
    cluster, cta = _home(one)
    return 0 if (cluster, cta) == _home(other) else 1 if cluster == _home(other)[0] else 2


def _home(role: str) -> tuple[str, str]:
    found = re.match(r"((?:grid\d+\.)?(?:cluster\d+\.)?)(cta\d+\.)?", role)
    return (found[1], found[2] or "") if found else ("", "")
