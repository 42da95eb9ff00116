"""Directed runs: the schedule of a counterexample, step by step on the GPU, so that what it predicts happens.

Each step of a role that can be held waits for its turn on a counter in global memory and then lets the next step go.
Until the schedule has been taken, no role goes beyond its last step in it, so that a wait that is to be lapped does not
pass before. Then everything runs freely, except that one of the roles that stand before accesses may be held for a
while: a race is two accesses that nothing orders, and held back, one comes after all that should have come after it.
Copies land by themselves: where the schedule lets one land, the next step waits for a while, but nothing keeps one
from landing before. Barriers of threads order their steps themselves.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass, replace

from checker.hardware.lower import Instruction, Lowered, Plan
from checker.hardware.run import Run
from spec import operations as op
from spec.machine import Machine

HELD = 60_000
"""Nanoseconds for which a role is held: longer than everything else takes."""
LANDING = 6_000
"""Nanoseconds in which a copy surely lands."""
FREE = ("named_sync", "cta_sync", "meet", "nothing")
"""Instructions that are not held in their turn: they go on when others come."""


@dataclass(frozen=True)
class Direction:
    """The roles with gates and a hold. held: the role that is held at the end, or nobody."""

    roles: tuple[Lowered, ...]
    held: str
    steps: int


def directions(plan: Plan, machine: Machine, actions: Sequence[int]) -> list[Direction]:
    """The ways to run a schedule: one that holds nobody at its end, and one for each role that may be held there."""
    at = {role.name: 0 for role in machine.roles}
    turns: dict[str, dict[int, int]] = {role.name: {} for role in machine.roles}
    steps = 0
    codes = {role.name: _by_node(role) for role in plan.roles}
    landed: set[int] = set()
    for index in actions:
        action = machine.actions[index]
        if action.location is None:
            landed.add(steps)
            continue
        if action.target is not None:
            at[action.role] = action.target
        instructions = codes[action.role].get(action.location, [])
        waiting = sum(1 for one in instructions if one.code not in FREE)
        if waiting and action.location not in turns[action.role]:
            turns[action.role][action.location] = steps
            steps += waiting
    candidates = [role.name for role in machine.roles if _accesses(plan, role.name, at[role.name])]
    return [
        Direction(
            tuple(
                _gated(role, turns[role.name], at[role.name], steps, role.name == held, landed) for role in plan.roles
            ),
            held,
            steps,
        )
        for held in ("", *candidates)
    ]


def _by_node(role: Lowered) -> dict[int, list[Instruction]]:
    found: dict[int, list[Instruction]] = {}
    for instruction in role.instructions:
        found.setdefault(instruction.node, []).append(instruction)
    return found


def _accesses(plan: Plan, role: str, node: int) -> bool:
    """The role stands before an access, or before the wait for accesses of its own that are in flight."""
    nodes = plan.nodes[role]
    if node >= len(nodes):
        return False
    match nodes[node].operation:
        case op.Touch() | op.Store() | op.Load() | op.Group():
            return True
    return False


def _gated(role: Lowered, turns: dict[int, int], last: int, steps: int, held: bool, landed: Collection[int]) -> Lowered:
    """The role's instructions with their turns. What it does from node `last` on comes after the schedule, or late.
    landed: the turns before which a copy lands.
    """
    given: dict[int, int] = {}
    instructions = []
    for instruction in role.instructions:
        node = instruction.node
        if node == last and last not in given:
            given[node] = 1
            instruction = replace(instruction, gate=steps, hold=HELD if held else LANDING * (steps in landed))
        elif node != last and node in turns and instruction.code not in FREE:
            turn = turns[node] + given.get(node, 0)
            instruction = replace(instruction, gate=turn, hold=LANDING * (turn in landed))
            given[node] = given.get(node, 0) + 1
        instructions.append(instruction)
    return replace(role, instructions=tuple(instructions))


def wrong_data(plan: Plan, run: Run) -> str:
    """The first read of a run that found other words than its tag says, words of two writes, or none; or nothing."""
    for role_run in run.roles:
        sampled: dict[str, tuple[int, int]] = {}
        for event in role_run.events:
            operation = plan.nodes[role_run.name][event.node].operation
            for nth, (buffer, low, high) in enumerate(event.reads):
                if low != high:
                    return f"{role_run.name} found words of writes {low} and {high} in {buffer}"
                if isinstance(operation, op.Touch):
                    sampled[buffer] = (low, high)
                    expected = operation.tags[nth]
                    tag = _tag(plan, low)
                    if expected is not None and low and tag != expected:
                        return f"{role_run.name} found {buffer} of {tag!r}, not of {expected!r}"
                    if not low and buffer not in plan.pipeline.layout.holds:
                        return f"{role_run.name} found nothing in {buffer}"
                elif sampled.get(buffer, (low, high)) != (low, high):
                    return f"{buffer} changed while the MMA of {role_run.name} read it"
    for (role, node, access, _), (low, high) in zip(plan.stores, run.stored, strict=True):
        store = plan.nodes[role][node].operation
        assert isinstance(store, op.Store)
        expected = dict(zip(store.sources, store.tags, strict=True))[access]
        if low != high:
            return f"the store of {role} took words of writes {low} and {high} from {access.object}"
        tag = _tag(plan, low)
        if expected is not None and not run.hangs and tag != expected:
            return f"the store of {role} took {access.object} of {tag!r}, not of {expected!r}"
    return ""


def _tag(plan: Plan, number: int) -> Hashable:
    """Of a write; None for a number that no write has."""
    return plan.written[number][0] if number in plan.written else None
