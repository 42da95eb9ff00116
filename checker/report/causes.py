"""Where the cause of a violation lies before its last step, and which other steps a report shows beside it: told by the
sentences of the needs (spec.ptx.needs), which name roles and things, and by what the steps are on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from sm90_verify.result import Blocked, Trace, TraceStep


class Beside(NamedTuple):
    """A step that a report shows beside the one to blame. why: what it is."""

    at: int
    why: str


ACCESSED = (
    re.compile(r"the generic access to (?P<thing>\S+) by (?P<role>[^\s,]+)"),
    re.compile(r"^(?P<role>\S+) has not executed \S+ since its generic access to (?P<thing>[^\s,]+)"),
    re.compile(r"uses (?P<thing>\S+) as a tensormap, which (?P<role>\S+) has written"),
)
"""What lacks a proxy fence."""
UNSEEN = re.compile(r"\bno fence\.mbarrier_init\b")
EXITED = re.compile(r"reaches into CTA (?P<rank>\d+), which may have exited")
IN_FLIGHT = re.compile(r"have ended while a copy \w+ (?P<things>.+) is still in flight")


def cause(trace: Trace) -> int | None:
    """The step at which it goes wrong, where that is not the last one: the access that lacks a proxy fence; the init
    that is not made visible; the last step of a CTA that exits while others reach into it; the copy that nobody waits
    for; the second arrival of a role in a phase, where another one's only arrival is one too many. None otherwise.
    """
    steps, last = trace.steps, len(trace.steps) - 1
    if trace.property == "missing-fence":
        said = next((found for one in ACCESSED if (found := one.search(trace.because))), None)
        return None if said is None else _latest(steps, last, role=said["role"], thing=said["thing"])
    if trace.property == "barrier-init" and UNSEEN.search(trace.because):
        barriers = [thing for step in steps for thing in step.things if _is_init(step) and thing in trace.because]
        return max((at for one in barriers if (at := init_of(steps, one)) is not None), default=None)
    if trace.property == "exit-hazard" and (exited := EXITED.search(trace.because)):
        home = re.match(r"((?:grid\d+\.)?(?:cluster\d+\.)?)cta\d+\.", steps[last].role)
        gone = f"{home[1] if home else ''}cta{exited['rank']}."
        done = (at for at in range(last) if steps[at].role.startswith(gone) and _does(steps[at]))
        return max(done, default=None)
    if trace.property == "exit-hazard" and (flying := IN_FLIGHT.search(trace.because)):
        things = re.split(r", | and ", flying["things"])
        copies = [at for at in range(last + 1) if {*things} & {*steps[at].things} and _copies(steps[at])]
        return max(copies, default=None)
    if trace.property == "arrival-count" and not trace.blocked:
        return _too_many(steps)
    return None


def beside(trace: Trace, guilty: int | None, accesses: Sequence[int]) -> tuple[Beside, ...]:
    """What is shown with the step to blame. accesses: the two of a race."""
    last = len(trace.steps) - 1
    found: list[Beside] = []
    if trace.property == "race":
        found = [Beside(at, "one of the two accesses") for at in accesses]
    elif trace.property == "missing-fence":
        found = [Beside(last, "the access that a proxy fence has to come before")]
    elif trace.property == "exit-hazard":
        found = [
            Beside(
                last, "what is executed while the CTA may have exited" if EXITED.search(trace.because) else "the end"
            )
        ]
    elif trace.property == "barrier-init" and guilty != last:
        found = [Beside(last, "what uses the barrier")]
    elif trace.property == "arrival-count" and not trace.blocked:
        inits = {init_of(trace.steps, thing) for thing in trace.steps[last].things}
        found = [Beside(at, "how many arrivals are expected") for at in sorted(at for at in inits if at is not None)]
    return tuple(one for one in found if one.at != guilty)


def short_init(trace: Trace) -> tuple[TraceStep, Blocked] | None:
    """The init of a barrier that expects more arrivals than there are, and who waits there: all others have arrived on
    it, nobody does again, and no phase of it has completed.
    """
    for entry in trace.blocked:
        at = init_of(trace.steps, entry.waits_for) if entry.all_came else None
        if at is None or any(f"{entry.waits_for}.phase" in step.changes for step in trace.steps[at:]):
            continue
        return trace.steps[at], entry
    return None


def init_of(steps: Sequence[TraceStep], barrier: str) -> int | None:
    """The latest initialisation of a barrier."""
    return max((at for at, step in enumerate(steps) if _is_init(step) and barrier in step.things), default=None)


def _is_init(step: TraceStep) -> bool:
    return step.op.startswith("init ")


def _does(step: TraceStep) -> bool:
    """It does more than decide where its role goes on."""
    return step.kind != "loop" and not step.op.startswith("choose")


def _copies(step: TraceStep) -> bool:
    """It issues a copy."""
    return step.kind != "lands" and re.match(r"load|store|reduce|cp\.async|st\.async|red\.async", step.op) is not None


def _latest(steps: Sequence[TraceStep], before: int, *, role: str, thing: str) -> int | None:
    mine = (at for at in range(before) if steps[at].role == role and thing in steps[at].things)
    return max(mine, default=None)


def _too_many(steps: Sequence[TraceStep]) -> int | None:
    """The latest arrival of a role that has come to this phase before, if the last step's role has not."""
    last = len(steps) - 1
    barrier = next(iter(steps[last].things), "")
    begun = max((at for at in range(last) if f"{barrier}.phase" in steps[at].changes), default=-1)
    came = [
        at for at in range(begun + 1, last) if f"{barrier}.pending" in steps[at].changes and not _is_init(steps[at])
    ]
    if any(steps[at].role == steps[last].role for at in came):
        return None
    again = [at for number, at in enumerate(came) if any(steps[at].role == steps[one].role for one in came[:number])]
    return max(again, default=None)
