"""What can still happen after a schedule: whether roles that wait at its end wait for ever."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from sm90_verify.counterexample import waiting
from sm90_verify.counterexample.trace import State, is_enabled, take
from sm90_verify.spec.model.machine import Action, Machine
from sm90_verify.spec.model.spinning import spinning

MOST_STATES = 20_000


def wait_for_ever(
    machine: Machine, state: State, roles: Collection[str], most: int = MOST_STATES
) -> Literal["yes", "no", "open"]:
    """Whether none of the roles can do anything but spin in any state that can follow; open: there are more than
    `most` of them.
    """
    if waiting.starved(machine, state, roles):
        return "yes"
    spins = spinning(machine)
    at: dict[tuple[str, int | None], list[tuple[int, Action]]] = {}
    for index, action in enumerate(machine.actions):
        at.setdefault((action.role, action.location), []).append((index, action))
    copies = [one for (_, location), some in at.items() if location is None for one in some]
    seen, todo = {tuple(state.values())}, [state]
    while todo:
        here = todo.pop()
        ways = [one for role in machine.roles for one in at.get((role.name, here[role.counter]), ())]
        for index, action in (*ways, *copies):
            if not is_enabled(machine, action, here):
                continue
            if action.role in roles and index not in spins:
                return "no"
            after = take(machine, action, here)
            if (key := tuple(after.values())) not in seen:
                if len(seen) == most:
                    return "open"
                seen.add(key)
                todo.append(after)
    return "yes"
