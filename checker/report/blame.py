"""Which step of a trace is to blame for its violation, and which of the others matter."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import replace

from sm90_verify.report.causes import beside, cause, short_init
from sm90_verify.report.handed_on import WIDER, lost_at
from sm90_verify.result import Blocked, Trace, TraceStep

LONG = 100
"""Steps of a deadlock from which on only those matter that are on what somebody waits for."""
MOST_ROWS = 36
"""Steps that are shown, unless all are asked for."""
MEETS = re.compile(r"bar\.(sync|arrive)|__syncthreads|__syncwarp|barrier\.cluster\.arrive")
WITHIN_WARP = re.compile(r"(leave )?lanes meet|leave ")
"""What only says that lanes or warps go on."""


def to_blame(trace: Trace) -> Blocked | TraceStep | None:
    """What a report points at: the init of a barrier that expects more arrivals than there are, where a role is stuck,
    or the step to blame; None if there is none of these.
    """
    short = short_init(trace)
    if short is not None:
        return short[0]
    stuck = next((entry for entry in trace.blocked if entry.to_blame and entry.line), None)
    if stuck is not None:
        return stuck
    told = replace(trace, steps=(*trace.steps, *trace.next))
    guilty = guilty_step(told)
    return None if guilty is None else told.steps[guilty]


def shown_beside(trace: Trace) -> tuple[tuple[Blocked | TraceStep, str], ...]:
    """What a report shows beside what is to blame, and what that is; nothing that stands at the same line."""
    first, short = to_blame(trace), short_init(trace)
    if short is not None:
        return ((short[1], "who waits for more"),)
    if first is None or trace.blocked:
        return ()
    told = replace(trace, steps=(*trace.steps, *trace.next))
    found: dict[tuple[str, int], tuple[TraceStep, str]] = {}
    for at, why in beside(told, guilty_step(told), _accesses(told)):
        step = told.steps[at]
        if (step.file, step.line) != (first.file, first.line):
            found.setdefault((step.file, step.line), (step, why))
    return tuple(found.values())


def _accesses(trace: Trace) -> list[int]:
    """The two of a race: the last step, and the other one, which is the last that was taken if more is to come."""
    last = len(trace.steps) - 1
    other = last - len(trace.next) if trace.next else _other_access(trace)
    return [at for at in (other, last) if at is not None and at >= 0]


def guilty_step(trace: Trace) -> int | None:
    """The step to blame: what `causes.cause` finds; for two accesses that are not ordered, the signal by which a role
    gave the bytes away too early, what acquires nothing or has too narrow a scope, or the wait for another slot than
    the one that is accessed; for a wait that is lapped, the step that laps it; for bytes that are over at the end, the
    step that last changed how many are missing; otherwise the last step, which may be one that nobody has taken yet.
    None for an empty trace. The trace's steps are followed by its next.
    """
    if not trace.steps:
        return None
    last = len(trace.steps) - 1
    if trace.blocked:
        mine = [i for i, step in enumerate(trace.steps) if step.role == trace.blocked[0].role and step.kind != "loop"]
        return mine[-1] if mine else last
    caused = cause(trace)
    if caused is not None:
        return caused
    if trace.property == "phase-lapped":
        taken = last - len(trace.next)
        return taken if taken >= 0 and trace.steps[taken].kind in ("signals", "lands") else last
    if trace.property == "tx-count":
        missing = f"{trace.because.partition(':')[0]}.tx"
        return next((i for i in range(last, -1, -1) if missing in trace.steps[i].changes), last)
    if trace.property in ("race", "stale-read"):
        wrong = _wait_for_another_slot(trace)
        if wrong is not None:
            return wrong
    if trace.property == "race":
        other = _other_access(trace)
        near = _too_near(trace, other)
        if near is not None:
            return near
        if other is not None:
            given = _signals_of(trace, trace.steps[other].role, other + 1, last)
            met = _signals_of(trace, trace.steps[other].role, other + 1, last, meetings=True)
            looked = [one for one in sorted((*given, *met)) if _waited_for(trace, one)]
            if looked or given:
                return (looked or given)[0]
            early = _signals_of(
                trace, trace.steps[last].role, _last_wait(trace, trace.steps[last].role, last) + 1, other
            )
            if early:
                return early[-1]
    return last


def _too_near(trace: Trace, other: int | None) -> int | None:
    """Of two strong accesses that race, the one of the narrower scope. Of others, what hands less on than all on the
    way from the one to the other.
    """
    last = len(trace.steps) - 1
    scopes = re.findall(r"the atomic \.(\w+) ", trace.because)
    if len(scopes) == 2 and scopes[0] != scopes[1]:
        return last if WIDER.index(scopes[0]) < WIDER.index(scopes[1]) else other
    return None if other is None else lost_at(trace.steps, other)


def _signals_of(trace: Trace, role: str, start: int, stop: int, *, meetings: bool = False) -> list[int]:
    """The steps from start to stop by which a role lets others go on; or those at which it meets them."""
    mine = (index for index in range(start, stop) if trace.steps[index].role == role)
    if meetings:
        return [index for index in mine if MEETS.match(trace.steps[index].op)]
    return [index for index in mine if trace.steps[index].kind == "signals"]


def _waited_for(trace: Trace, signal: int) -> bool:
    """Whether the role of the last step has looked after a signal at what it is on."""
    last, on = trace.steps[-1], _objects(trace.steps[signal])
    return any(one.role == last.role and on & _objects(one) for one in trace.steps[signal:])


def _last_wait(trace: Trace, role: str, before: int) -> int:
    """The last wait that a role has passed before a step, -1 if there is none."""
    mine = (i for i in range(before - 1, -1, -1) if trace.steps[i].role == role)
    return next((i for i in mine if trace.steps[i].kind == "waits"), -1)


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
        mine = [step for step in trace.steps[wait + 1 : last] if step.role == trace.steps[last].role]
        accessed = any(step.things for step in mine)
        if elsewhere and not accessed:
            return wait
    return None


def _other_access(trace: Trace) -> int | None:
    """The latest earlier step of another role on the bytes that the last step touches, or the copy that has landed
    there. What the sentence names is the other access, be it of another buffer over the same bytes; None if it is still
    to come.
    """
    mine = trace.steps[-1].role
    if copied := re.search(r" of (\S+) by a bulk copy", trace.because):
        landed = (i for i, one in enumerate(trace.steps) if one.kind == "lands" and copied[1] in one.things)
        return max(landed, default=None)
    said = [(thing, role) for thing, role in re.findall(r" of (\S+) by ([^\s,]+)", trace.because) if role != mine]
    touched = _objects(trace.steps[-1])
    if any(one.role == role and thing in one.things for one in trace.next for thing, role in said):
        return None
    for index in range(len(trace.steps) - 2, -1, -1):
        step = trace.steps[index]
        if step.role == mine or step.kind == "lands":
            continue
        if (
            (any(step.role == role and thing in step.things for thing, role in said))
            if said
            else touched & _objects(step)
        ):
            return index
    return None


def that_matter(trace: Trace, most: int = MOST_ROWS) -> tuple[int, ...]:
    """The steps that matter, about as many as `most` and the last of them: not the decisions of trip-count loops, not
    how lanes of a warp meet, and not the same things in another stage than the one to blame. Of a long way to a
    deadlock, those on what is waited for in the end; of another one, those on what is accessed, and by which its roles
    wait or let others go on.
    """
    if not trace.steps:
        return ()
    last = len(trace.steps) - 1
    others = {at for at, _ in beside(trace, None, _accesses(trace))}
    always = {last, guilty_step(trace), *others, _last_wait(trace, trace.steps[last].role, last)}
    objects = [_objects(step) for step in trace.steps]
    waited = {entry.waits_for for entry in trace.blocked}
    bases = {base for base, _ in objects[last]}
    slots = {slot for _, slot in objects[last]}
    same_kind = {base for one in objects for base, slot in one if slot in slots} | bases

    roles = [step.role for step in trace.steps]

    def matters(index: int) -> bool:
        if index in always or trace.steps[index].kind == "loop":
            return index in always
        if WITHIN_WARP.match(trace.steps[index].op):
            return trace.property != "race" and roles[index] not in roles[index + 1 :]
        if trace.blocked and last >= LONG:
            return index > last - len(trace.next) or not waited.isdisjoint(trace.steps[index].things)
        if trace.property == "deadlock" or not objects[index]:
            return True
        return any(slot in slots or base not in same_kind for base, slot in objects[index])

    chosen = [index for index in range(len(trace.steps)) if matters(index)]
    if len(chosen) <= most:
        return tuple(chosen)
    near = [index for index in chosen if index in always or _concerns(trace, index, always)]
    kept = {*near[-most:], *always}
    return tuple(index for index in near if index in kept)


def _concerns(trace: Trace, index: int, always: Collection[int | None]) -> bool:
    """Of a long way: a step on what those are on that are shown in any case, or by which one of their roles waits for
    others or lets them go on.
    """
    if trace.blocked:
        return True
    shown = [trace.steps[at] for at in always if at is not None and at >= 0]
    step = trace.steps[index]
    lets = step.kind in ("waits", "signals") or MEETS.match(step.op) is not None
    things = {thing for one in shown for thing in one.things}
    return not things.isdisjoint(step.things) or (lets and any(step.role == one.role for one in shown))


def _objects(step: TraceStep) -> set[tuple[str, str]]:
    """(array, slot) of each object of a step."""
    found = set()
    for name in step.things:
        match = re.fullmatch(r"(.+)\[(\d+)\]", name)
        if match:
            found.add((match.group(1), match.group(2)))
        else:
            found.add((name, ""))
    return found
