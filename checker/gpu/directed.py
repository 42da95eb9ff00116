"""Directed runs: the schedule of a counterexample, step by step on the GPU, so that what it predicts happens.

Each step of a role that can be held waits for its turn on a counter, in shared memory if there is one CTA and else in
global memory, and then lets the next step go.
Until the schedule has been taken, no role goes beyond its last step in it, so that a wait that is to be lapped does not
pass before. Then everything runs freely, except that one of the roles may be held for a while: a race is two accesses
that nothing orders, and held back, one comes after all that should have come after it.
Copies land by themselves: where the schedule lets one land, the next step waits for a while, and steps change places
so that as few as possible come between its start and its landing (gpu.schedule). Those that are in flight
at the end, or while other steps are taken, can be made late, all or each alone, by giving the copy engine, which works
in order, much else to do before them. Of a barrier of threads, a turn is to come to it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher

from sm90_verify.gpu.schedule import promptly
from sm90_verify.recordings.plan import CONTROL, ExecutorPlan, Instruction, Lowered
from sm90_verify.spec.model.machine import Machine
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of

HELD = 60_000
"""Nanoseconds for which a role is held: longer than everything else takes."""
LANDING = 6_000
"""Nanoseconds in which a copy surely lands."""
BUSY = 4
"""Sums of gpu.executor.BALLAST bytes before a copy that is to be late. On an H100 they last 16 us if it has one
CTA, 22 to 43 if it has a hundred. The copy engine queues six operations; who starts more has to wait itself.
"""
APART = 8
"""Steps between two late copies from which on the second needs sums of its own."""
LAUNCH = 500_000
"""Nanoseconds for which a role is held where there is a second grid: it has surely begun by then, if it can."""
LATE = 150_000
"""Nanoseconds in which a late copy surely lands, and for which a role is held that is to come after one."""
LIMIT = 3_000_000
"""Nanoseconds after which the waits of a directed run give up."""
PATIENCE = 20_000
"""Nanoseconds that a step of the twin waits for its turn where nothing is late."""
FREE = ("meet", "nothing", "launch_dependents", *CONTROL)
"""Instructions that are not held in their turn: they go on when others come."""
COPYING = ("load", "load_global", "load_shared", "store", "store_to", "reduce_to")
"""Those that the copy engine does."""


@dataclass(frozen=True)
class Direction:
    """The roles with gates and a hold. held: the role that is held at the end, or nobody. late: copies that are in
    flight at the end, or while other steps are taken, are made late.
    """

    roles: tuple[Lowered, ...]
    held: str
    steps: int
    late: bool = False
    choices: tuple[int, ...] = ()
    """The options that its schedule takes; () if there are none."""

    @property
    def limit(self) -> int:
        """Nanoseconds after which its waits give up."""
        return 4 * LIMIT if self.late else LIMIT

    @property
    def patience(self) -> int:
        """Nanoseconds that a step of the twin waits for a turn that may never come."""
        return PATIENCE + LATE if self.late else PATIENCE


@dataclass(frozen=True)
class _Copy:
    """A copy of a schedule: what starts it, where, and where it lands: in its buffers one by one, and in the last."""

    role: str
    node: int
    start: int
    landings: tuple[int, ...] = ()
    landing: int | None = None


def deadlock_directions(plan: ExecutorPlan, machine: Machine, actions: Sequence[int]) -> list[Direction]:
    """The ways to run the schedule of a deadlock: with copies that land in time, and with late ones if it has any."""
    return [way for way in directions(plan, machine, _prompt(plan, machine, actions)) if not way.held]


def race_directions(plan: ExecutorPlan, machine: Machine, actions: Sequence[int]) -> list[Direction]:
    """The ways to run the schedule of a race, which ends in one of two accesses that nothing orders: with it, and up to
    it, so that the other one may come first.
    """
    before = _prompt(plan, machine, actions[:-1])
    return [*directions(plan, machine, (*before, *actions[-1:])), *directions(plan, machine, before)]


def directions(plan: ExecutorPlan, machine: Machine, actions: Sequence[int]) -> list[Direction]:
    """The ways to run a schedule: one that holds nobody at its end, one for each role that has something left to do,
    those that stand before an access first; and then the same with late copies: all that can be, or each alone.
    """
    at = {role.name: 0 for role in machine.roles}
    turns: dict[str, dict[int, int]] = {role.name: {} for role in machine.roles}
    steps = [0]
    codes = {role.name: _by_node(role) for role in plan.roles}
    for index in actions:
        action = machine.actions[index]
        steps.append(steps[-1])
        if action.location is None:
            continue
        if action.target is not None:
            at[action.role] = action.target
        instructions = codes[action.role].get(action.location, [])
        waiting = sum(1 for one in instructions if one.code not in FREE)
        if waiting and action.location not in turns[action.role]:
            turns[action.role][action.location] = steps[-2]
            steps[-1] += waiting
    at = {role: _launched(plan, role, node) for role, node in at.items()}
    copies = _copies(plan, machine, actions)
    slow = [one for one in copies if one.landing is None or steps[one.landing] > steps[one.start + 1]]
    chosen = [[], *([slow] if slow else ()), *([one] for one in slow if len(slow) > 1)]
    landed = {steps[n]: LANDING for n, index in enumerate(actions) if machine.actions[index].location is None}
    ctas = {role.name: role.cta for role in plan.roles}
    going = [role.name for role in plan.roles if _operation(plan, role.name, at[role.name]) is not None]
    candidates = sorted(going, key=lambda name: not _accesses(plan, name, at[name]))  # the likeliest first

    def gated(held: str, late: Sequence[_Copy]) -> tuple[Lowered, ...]:
        busy, behind = _made_late(copies, late, ctas, steps)
        holds = {held: LAUNCH if plan.kernel.launch.grids > 1 else LATE if late else HELD}
        return tuple(
            _gated(role, turns[role.name], at[role.name], steps[-1], holds.get(role.name, 0), landed | behind, busy)
            for role in plan.roles
        )

    options = _options(plan, machine, actions)
    return [
        Direction(gated(held, late), held, steps[-1], bool(late), options)
        for late in chosen
        for held in ("", *candidates)
    ]


def _launched(plan: ExecutorPlan, role: str, at: int) -> int:
    """Where a role is to wait for the end of the schedule: whoever may let the second grid begin has done so."""
    while _operation(plan, role, at) == op.Griddepcontrol("launch_dependents"):
        (at,) = plan.nodes[role][at].successors.values()
    return at


def _operation(plan: ExecutorPlan, role: str, at: int) -> op.Operation | None:
    """What a role is at; None at its end, and inside a barrier of threads."""
    return plan.nodes[role][at].operation if at < len(plan.nodes[role]) else None


def _options(plan: ExecutorPlan, machine: Machine, actions: Sequence[int]) -> tuple[int, ...]:
    """Which option of each choice a schedule takes, as its roles go on there: the first one where that says nothing."""
    open = [set(range(options)) for options in plan.choices]
    numbers = {(role.name, one.node): one.a for role in plan.roles for one in role.instructions if one.code == "choose"}
    for action in (machine.actions[index] for index in actions):
        number = numbers.get((action.role, -1 if action.location is None else action.location))
        if number is not None and action.location is not None:
            ways = plan.nodes[action.role][action.location].successors
            open[number] &= {answer for answer, to in ways.items() if to == action.target and isinstance(answer, int)}
    return tuple(min(some, default=0) for some in open)


def _made_late(
    copies: Sequence[_Copy], late: Collection[_Copy], ctas: Mapping[str, int], steps: Sequence[int]
) -> tuple[set[tuple[str, int]], dict[int, int]]:
    """Role and node of the copies before which the copy engine of their CTA gets much to do, so that those of `late`
    are late; and the turns before which a copy behind such a one lands.
    """
    places: set[tuple[str, int]] = set()
    behind: dict[int, int] = {}
    busy: dict[int, int] = {}  # by CTA, since which step
    for one in copies:
        cta = ctas[one.role]
        if one in late and steps[one.start] - busy.get(cta, -APART) >= APART:
            busy[cta] = steps[one.start]
            places.add((one.role, one.node))
        if cta in busy:
            behind |= {steps[n]: LATE for n in one.landings}
    return places, behind


def _prompt(plan: ExecutorPlan, machine: Machine, actions: Sequence[int]) -> tuple[int, ...]:
    return promptly(machine, actions, [one.start for one in _copies(plan, machine, actions)])


def _copies(plan: ExecutorPlan, machine: Machine, actions: Sequence[int]) -> list[_Copy]:
    """All that a schedule starts, the older first. A copy into several buffers has landed when it has in each."""
    found: list[_Copy] = []
    flying: list[tuple[int, set[str]]] = []
    for place, index in enumerate(actions):
        action = machine.actions[index]
        if action.location is not None:
            for buffers in _starts(plan, action.role, action.location):
                flying.append((len(found), buffers))
                found.append(_Copy(action.role, action.location, place))
            continue
        landing = _landing(machine, index)
        for number, buffers in flying:
            if buffers & landing:
                buffers -= landing
                landed = replace(found[number], landings=(*found[number].landings, place))
                found[number] = landed if buffers else replace(landed, landing=place)
                if not buffers:
                    flying.remove((number, buffers))
                break
    return found


def _starts(plan: ExecutorPlan, role: str, node: int) -> list[set[str]]:
    """The buffers that a node's copy fills; none if it starts no copy, and none to fill if it stores."""
    effects = effects_of(plan.nodes[role][node].operation if node < len(plan.nodes[role]) else None)
    if effects.lands:
        return [{copies.write.object for copies, _ in effects.lands}]
    return [set()] if effects.lasting("bulk_group") else []


def _landing(machine: Machine, index: int) -> set[str]:
    """The buffer of the copy that an action lands, or of which it lands a piece."""
    copy = machine.landing(machine.actions[index])
    return set() if copy is None else {copy.buffer}


def with_turns_of(twin: ExecutorPlan, roles: Sequence[Lowered]) -> tuple[Lowered, ...]:
    """The twin of a directed pipeline, with the turns and holds of the roles where the programs agree.

    What the faulty pipeline does in a turn the right one may have to wait with, so its gates must be passed in the end:
    it is run with patience.
    """
    directed = {role.name: role for role in roles}
    return tuple(
        replace(role, instructions=_as_directed(role.instructions, directed[role.name].instructions))
        if role.name in directed
        else role
        for role in twin.roles
    )


def _as_directed(own: Sequence[Instruction], theirs: Sequence[Instruction]) -> tuple[Instruction, ...]:
    ours, others = ([(one.code, one.a, one.b, one.c, one.object) for one in some] for some in (own, theirs))
    found = list(own)
    for block in SequenceMatcher(None, ours, others, autojunk=False).get_matching_blocks():
        for offset in range(block.size):
            like = theirs[block.b + offset]
            found[block.a + offset] = replace(found[block.a + offset], gate=like.gate, hold=like.hold, late=like.late)
    return tuple(found)


def _by_node(role: Lowered) -> dict[int, list[Instruction]]:
    found: dict[int, list[Instruction]] = {}
    for instruction in role.instructions:
        found.setdefault(instruction.node, []).append(instruction)
    return found


def _accesses(plan: ExecutorPlan, role: str, node: int) -> bool:
    """The role stands before an access, or before the wait for accesses of its own that are in flight."""
    effects = effects_of(plan.nodes[role][node].operation)
    if effects.signal is not None:
        return False
    return bool(effects.begins) or effects.commits is not None or effects.ends is not None


def _gated(
    role: Lowered,
    turns: Mapping[int, int],
    last: int,
    steps: int,
    held: int,
    landed: Mapping[int, int],
    busy: Collection[tuple[str, int]],
) -> Lowered:
    """The role's instructions with their turns. What it does from node `last` on comes after the schedule, or late.
    landed: the turns before which a copy lands, and how long that may take. busy: role and node of the copies before
    which the copy engine gets much to do.
    """
    given: dict[int, int] = {}
    begun: set[int] = set()
    instructions = []
    for instruction in role.instructions:
        node = instruction.node
        if node == last and last not in given:
            given[node] = 1
            hold = held or landed.get(steps, 0)
            instruction = replace(instruction, gate=steps, hold=hold)
        elif node != last and node in turns and instruction.code not in FREE:
            turn = turns[node] + given.get(node, 0)
            instruction = replace(instruction, gate=turn, hold=landed.get(turn, 0))
            given[node] = given.get(node, 0) + 1
        if (role.name, node) in busy and instruction.code in COPYING and node not in begun:
            instruction = replace(instruction, late=BUSY)
            begun.add(node)
        instructions.append(instruction)
    return replace(role, instructions=tuple(instructions))
