"""What a finished search has reached: which roles can still run from each state on, and which actions nobody took."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sm90_verify.engines.search.exchange import Replaced, Takes
from sm90_verify.spec.model.machine import Machine


@dataclass(frozen=True)
class Steps:
    """All steps between the states of a search; those of state i are numbers offsets[i] to offsets[i + 1].

    targets: by step, the state that it leads to. movers: by step, a bit for each role that takes a step. exchanges: by
    step, which of `takes` its end exchanges the roles by; nothing if none are exchanged.
    """

    offsets: Sequence[int]
    targets: Sequence[int]
    movers: Sequence[int]
    exchanges: Sequence[int]
    takes: tuple[Takes, ...]


def movers_later(steps: Steps, everyone: int) -> list[int]:
    """By state, a bit for each role that can still take a step there or at some state after it."""
    moves = [0] * (len(steps.offsets) - 1)
    offsets, targets, movers, exchanges = steps.offsets, steps.targets, steps.movers, steps.exchanges
    replaced = [Replaced(takes) for takes in steps.takes]
    changed = True
    while changed:
        changed = False
        for state in range(len(moves) - 1, -1, -1):
            can = moves[state]
            if can == everyone:
                continue
            before = can
            for step in range(offsets[state], offsets[state + 1]):
                later = moves[targets[step]]
                can |= movers[step] | (replaced[exchanges[step]][later] if replaced else later)
            if can != before:
                moves[state] = can
                changed = True
    return moves


def never_taken(machine: Machine, taken: Sequence[int], reduced: bool) -> tuple[int, ...]:
    """Actions that were never taken. With reduction, of those who meet always the same one may be last: then it is
    enough that the role has been there.
    """
    missing = [index for index, was in enumerate(taken) if not was]
    if not reduced:
        return tuple(missing)
    kinds = {role.name: [place.kind for place in role.locations] for role in machine.roles}
    been = {(action.role, action.location) for action, was in zip(machine.actions, taken, strict=True) if was}
    entered = {
        (action.role, action.target)
        for action in machine.actions
        if action.location is not None and kinds[action.role][action.location] == "meet"
        if (action.role, action.location) in been
    }
    met = {
        (role, place)
        for role, place in (*been, *entered)
        if place is not None and kinds[role][place] in ("meet", "inside")
    }
    left = {(action.role, action.location) for action in machine.actions if action.kind == "leaves"} & been
    return tuple(
        index for index in missing if (machine.actions[index].role, machine.actions[index].location) not in met | left
    )
