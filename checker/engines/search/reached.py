"""What a finished search has reached: which roles can still run from each state on, and which actions nobody took."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from sm90_verify.engines.search.exchange import Replaced, Takes
from sm90_verify.spec.model.machine import Machine


@dataclass(frozen=True)
class Steps:
    """All steps between the states of a search; those of state i are numbers offsets[i] to offsets[i + 1].

    targets: by step, the state that it leads to. movers: by step, a bit for each role that takes a step. exchanges: by
    step, which of `takes` its end exchanges the roles by; nothing if none are exchanged. kinds: by step, what
    `kinds_of` says of it; nothing if no step beyond what the machine knows was followed.
    """

    offsets: Sequence[int]
    targets: Sequence[int]
    movers: Sequence[int]
    exchanges: Sequence[int]
    takes: tuple[Takes, ...]
    kinds: Sequence[int] = ()


ORDINARY, LEADS, READS = range(3)
"""Kinds of steps: neither of these; of a role that falls no further behind, while others do; READS and more, a role
each: of those of the role that are beyond what the machine knows.
"""


def kinds_of(machine: Machine) -> list[int]:
    """By action, its kind."""
    behind = {
        variable.name: variable.role
        for kind in ("iterations behind", "choices behind")
        for variable in machine.of_kind(kind)
    }
    numbers = {role.name: number for number, role in enumerate(machine.roles)}
    return [
        READS + numbers[action.role]
        if action.beyond
        else LEADS
        if any(behind.get(name, action.role) != action.role for name, _ in action.updates)
        else ORDINARY
        for action in machine.actions
    ]


def movers_later(steps: Steps, everyone: int, open: Container[int] = ()) -> list[int]:
    """By state, a bit for each role that can still take a step there or at some state after it. open: states behind
    which more may happen.
    """
    moves = [everyone if state in open else 0 for state in range(len(steps.offsets) - 1)]
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


def movers_surely(steps: Steps, everyone: int) -> list[int]:
    """The same, of roles that can whatever the decisions were that others have lost. Of the steps by which a role reads
    one of these, not all can really be taken, so that the role must be able to go on behind each.

    A role has lost finitely many. If it is assumed of the states behind such steps, and shown from there by steps with
    which nobody loses any more, it holds: each time that the assumption is used, there is one less.
    """
    moves = _surely(steps, everyone, [0] * (len(steps.offsets) - 1), None)
    while any(can != everyone for can in moves):
        assumed = [everyone] * len(moves)
        while (shown := _surely(steps, everyone, moves, assumed)) != assumed:
            assumed = shown
        if shown == moves:
            break
        moves = shown
    return moves


def _surely(steps: Steps, everyone: int, known: list[int], assumed: list[int] | None) -> list[int]:
    """What follows from what is known of states and, of those behind a step that reads what is lost, assumed."""
    moves = list(known)
    replaced = [Replaced(takes) for takes in steps.takes]
    offsets, targets, movers, kinds = steps.offsets, steps.targets, steps.movers, steps.kinds
    changed = True
    while changed:
        changed = False
        for state in range(len(moves) - 1, -1, -1):
            if moves[state] == everyone:
                continue
            can, reads = moves[state], dict[int, int]()
            for step in range(offsets[state], offsets[state + 1]):
                kind, target = kinds[step], targets[step]
                later = moves[target]
                if assumed is not None and kind != ORDINARY:
                    later = known[target] if kind == LEADS else assumed[target]
                ways = movers[step] | (replaced[steps.exchanges[step]][later] if replaced else later)
                if kind < READS:
                    can |= ways
                else:
                    reads[kind] = reads.get(kind, everyone) & ways
            for all_ways in reads.values():
                can |= all_ways
            if can != moves[state]:
                moves[state], changed = can, True
    return moves


def never_taken(machine: Machine, taken: Sequence[int], reduced: bool) -> tuple[int, ...]:
    """Actions that were never taken. With reduction, of those who meet always the same one may be last: then it is
    enough that the role has been there.
    """
    missing = [index for index, was in enumerate(taken) if not was and not machine.actions[index].beyond]
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
