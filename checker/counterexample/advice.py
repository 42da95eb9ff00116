"""What to write instead, where a deadlock has one likely cause."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from sm90_verify.counterexample.waiting import awaited, expected_arrivals
from sm90_verify.spec.model.machine import BarrierInfo, Machine
from sm90_verify.spec.model.words import listed

State = dict[str, int]


def advice(machine: Machine, path: Sequence[tuple[str, State]], last: State, stuck: Collection[str]) -> str:
    """Where roles of several threads arrive once and the barrier counts their threads: to arrive with each of them.

    path: as of waiting.arrivals_in.
    """
    for role in machine.roles:
        info = awaited(machine, role, last) if role.name in stuck else None
        if info is None or not last[info.pending]:
            continue
        came = _counts(info, path, last)
        single = [name for name, counts in came.items() if {*counts} == {1}]
        roles = [other for other in machine.roles if other.name in single and other.threads > 1]
        others = sum(sum(counts) for name, counts in came.items() if name not in single)
        alone = sum(1 for other in machine.roles if other.name in single and other.threads == 1)
        expected = expected_arrivals(last, info)
        if roles and expected == others + alone + sum(other.threads for other in roles):
            names = listed([other.name for other in roles])
            threads = {other.threads for other in roles}
            count = f", here arrive({threads.pop()})," if len(threads) == 1 else ""
            return (
                f"{info.name} expects {expected} arrivals, and arrive() of {names} is one, whatever its threads: "
                f"arrive(me.threads){count} arrives with each of them"
            )
    return ""


def _counts(info: BarrierInfo, path: Sequence[tuple[str, State]], last: State) -> dict[str, list[int]]:
    """By role, the counts of its arrivals in the phase that is current at the end."""
    found: dict[str, list[int]] = {}
    states = (*(before for _, before in path), last)
    for (role, before), after in zip(path, states[1:], strict=True):
        if before[info.phase] != after[info.phase]:
            found.clear()
        elif before[info.pending] > after[info.pending]:
            found.setdefault(role, []).append(before[info.pending] - after[info.pending])
    return found
