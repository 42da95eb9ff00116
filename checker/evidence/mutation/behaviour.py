"""What a model shows: the sequences of hardware states and accesses that its schedules produce, and how two models'
sequences compare.

Three projections. "hardware": every field of every barrier, what buffers hold and what is in flight into them, the
start of every access, the end of every asynchronous one, which may come at any time until it has been waited for, and
the end of every role. "memory": the same without barriers. "contents": only what buffers hold and receive. Steps that
show nothing are left out, so that models are compared by what could be measured on them and not by how they get there.
What goes on for ever without showing anything, or stops, is not told apart: only models that have been proved free of
deadlock are compared.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from sm90_verify.engines.search.packed import pack
from sm90_verify.spec.model.flow import blocks_inside
from sm90_verify.spec.model.kernel import Program
from sm90_verify.spec.model.machine import Machine, Variable, VariableKind
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.memory import Access

SAME, FEWER, MORE, OTHER, OPEN = "same", "fewer", "more", "other", "open"
"""How the sequences of a second model compare with those of a first one; open: the comparison was cut short."""
HARDWARE, MEMORY, CONTENTS = "hardware", "memory", "contents"

Identity: TypeAlias = tuple[VariableKind, str, str, int]
"""What two machines know a variable by: its kind, whose it is (of what, of which role), and which one of several."""


@dataclass(frozen=True)
class Behaviour:
    """All states of a model. shown: what a state shows; steps: per state, (what the step does, next state)."""

    shown: list[int]
    steps: list[list[tuple[Hashable, int]]]


def behaviour(
    machine: Machine,
    programs: tuple[Program, ...],
    projection: str,
    other: Machine,
    most: int,
    names: dict[Hashable, int],
) -> Behaviour | None:
    """The behaviour of a machine, or None if it has more than `most` states.

    programs: those that the machine was compiled from. other: the machine to compare with; what only that one has is
    shown as if it never changed here. names: numbers for what states show, shared by all behaviours to be compared.
    """
    packed = pack(machine)
    show = _shows(machine, projection, other, packed.shifts)
    events = [None] * len(machine.actions) if projection == CONTENTS else _events(machine, programs)
    unfinished = _Unfinished(machine, programs, projection == CONTENTS)
    start = (packed.initial, unfinished.nothing)
    order, index = [start], {start: 0}
    shown: list[int] = []
    steps: list[list[tuple[Hashable, int]]] = []
    for state, rest in order:
        found: list[tuple[Hashable, int]] = []
        targets = [
            (events[action], (successor, after))
            for action, successor in packed.successors(state)
            if (after := unfinished.after(rest, action)) is not None
        ]
        targets += [(event, (state, after)) for event, after in unfinished.ends(rest)]
        for event, target in targets:
            known = index.get(target)
            if known is None:
                known = index[target] = len(order)
                order.append(target)
            found.append((event, known))
        steps.append(found)
        shown.append(names.setdefault(show(state), len(names)))
        if len(order) > most:
            return None
    return Behaviour(shown, steps)


def compare(first: Behaviour, second: Behaviour, most: int) -> str:
    """How the second model's sequences compare with the first's; open after `most` pairs of sets of states."""
    one, two = _Sets(first), _Sets(second)
    more = _includes(one, two, most)
    fewer = _includes(two, one, most)
    if more is None or fewer is None:
        return OPEN
    if more and fewer:
        return SAME
    return FEWER if more else MORE if fewer else OTHER


def _includes(outer: _Sets, inner: _Sets, most: int) -> bool | None:
    """Whether every sequence of the inner model is one of the outer model."""
    if outer.start[0] != inner.start[0]:
        return False
    first = (outer.start[1], inner.start[1])
    seen, todo = {first}, [first]
    while todo:
        wide, narrow = todo.pop()
        if len(seen) > most:
            return None
        ways = outer.after(wide)
        for label, target in inner.after(narrow).items():
            other = ways.get(label)
            if other is None:
                return False
            pair = (other, target)
            if pair not in seen:
                seen.add(pair)
                todo.append(pair)
    return True


class _Sets:
    """The sets of states that a model can be in after a sequence, numbered, and what can be shown next."""

    def __init__(self, behaviour: Behaviour) -> None:
        self.behaviour = behaviour
        self.numbers: dict[frozenset[int], int] = {}
        self.members: list[frozenset[int]] = []
        self.known: dict[int, dict[Hashable, int]] = {}
        self.start = (behaviour.shown[0], self._number(frozenset((0,))))

    def _number(self, states: Iterable[int]) -> int:
        shown, steps = self.behaviour.shown, self.behaviour.steps
        closed, todo = set(states), list(states)
        while todo:
            state = todo.pop()
            for event, target in steps[state]:
                if event is None and shown[target] == shown[state] and target not in closed:
                    closed.add(target)
                    todo.append(target)
        whole = frozenset(closed)
        number = self.numbers.setdefault(whole, len(self.members))
        if number == len(self.members):
            self.members.append(whole)
        return number

    def after(self, number: int) -> dict[Hashable, int]:
        """By what is shown next, the set of states that follows."""
        if number not in self.known:
            shown, steps = self.behaviour.shown, self.behaviour.steps
            targets: dict[Hashable, set[int]] = {}
            for state in self.members[number]:
                for event, target in steps[state]:
                    if event is not None or shown[target] != shown[state]:
                        targets.setdefault((event, shown[target]), set()).add(target)
            self.known[number] = {label: self._number(states) for label, states in targets.items()}
        return self.known[number]


# ---------------------------------------------------------------- what is shown


def columns(machine: Machine, other: Machine, projection: str) -> tuple[Identity, ...]:
    """What two machines are compared by: variables, sorted, so that both show the same in the same order.

    What a buffer holds is a variable only if somebody reads it; otherwise it is left out for both.
    """
    own, foreign = _shown_in(machine, projection), _shown_in(other, projection)
    return tuple(one for one in sorted({**own, **foreign}) if (one in own and one in foreign) or one[0] != "holds")


def _shows(
    machine: Machine, projection: str, other: Machine, shifts: dict[str, tuple[int, int]]
) -> Callable[[int], Hashable]:
    own, foreign = _shown_in(machine, projection), _shown_in(other, projection)
    read: list[tuple[int, int, tuple[str, ...], Hashable]] = []
    for one in columns(machine, other, projection):
        variable = own.get(one) or foreign[one]
        shift, mask = shifts[variable.name] if one in own else (0, 0)
        read.append((shift, mask, variable.labels, _text(variable, variable.initial)))

    def show(state: int) -> Hashable:
        values: list[Hashable] = []
        for shift, mask, labels, initial in read:
            value = state >> shift & mask
            values.append(initial if not mask else labels[value] if labels else value)
        return tuple(values)

    return show


Open: TypeAlias = frozenset[tuple[str, Access | None]]
"""Asynchronous accesses by role that have not ended; None for a role that has done everything and may end."""


class _Unfinished:
    """What has begun and may end at any time, by itself."""

    def __init__(self, machine: Machine, programs: tuple[Program, ...], off: bool) -> None:
        self.nothing: Open = frozenset()
        self.off = off
        self.steps: list[tuple[str, Open, Open]] = []
        held: dict[str, list[Open]] = {}
        for program in programs:
            nodes = [*program.nodes, *(node for node in program.nodes if blocks_inside(node.operation))]
            held[program.name] = [
                frozenset((program.name, access) for access in node.held.in_progress()) for node in nodes
            ]
        nodes_of = {program.name: program.nodes for program in programs}
        final = {role.name: [place.final for place in role.locations] for role in machine.roles}
        for action in machine.actions:
            if action.location is None or action.target is None:
                self.steps.append(("", self.nothing, self.nothing))
                continue
            operation = None
            if action.location < len(nodes_of[action.role]):
                operation = nodes_of[action.role][action.location].operation
            may = held[action.role][action.target]
            begun = may & frozenset((action.role, access) for access in effects_of(operation).accesses)
            end: Open = frozenset(((action.role, None),)) if final[action.role][action.target] else self.nothing
            self.steps.append((action.role, begun | end, may | end))

    def after(self, rest: Open, action: int) -> Open | None:
        """The set after an action; None if the action has to wait for one of its role's accesses."""
        role, begun, may = self.steps[action]
        if self.off or not role:
            return rest
        if any(one[0] == role and one not in may for one in rest):
            return None
        return rest | begun

    def ends(self, rest: Open) -> list[tuple[Hashable, Open]]:
        return [(("ends", one), rest - {one}) for one in rest]


def _text(variable: Variable, value: int) -> Hashable:
    return variable.labels[value] if variable.labels else value


def _shown_in(machine: Machine, projection: str) -> dict[Identity, Variable]:
    """Neither ghosts and locations nor what roles agree on; for the memory alone what buffers hold or receive."""
    return {
        (variable.kind, variable.of, variable.role, variable.index): variable
        for variable in machine.variables
        if not variable.ghost and variable.kind not in ("location", "ended")
        if projection == HARDWARE or variable.kind in ("holds", "flight", "pieces")
    }


def _events(machine: Machine, programs: tuple[Program, ...]) -> list[Hashable]:
    """By action, the accesses that it starts, or its request for registers; None if it shows nothing but changes."""
    nodes = {program.name: program.nodes for program in programs}
    return [
        shown_of(action.role, nodes[action.role][action.location].operation)
        if action.location is not None and action.location < len(nodes[action.role])
        else None
        for action in machine.actions
    ]


def shown_of(role: str, operation: op.Operation | None) -> Hashable:
    """What a role shows when it begins an operation: its accesses, or its request for registers."""
    effects = effects_of(operation)
    if effects.registers is not None:
        return role, operation
    if not effects.begins or effects.signal is not None:
        return None
    tags = tuple(tag for _, tag in effects.lands) or tuple(one.data for one in effects.begins)
    return role, type(operation).__name__, effects.accesses, tags
