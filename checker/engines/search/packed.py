"""States packed into one Python int each, and a Machine as generated Python functions over them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any, NamedTuple

from sm90_verify.engines.search.read_python import python_source
from sm90_verify.engines.search.reduction import find_reduction
from sm90_verify.engines.search.symmetry import Interchangeable, find_groups
from sm90_verify.spec.model.machine import Action, Check, Machine
from sm90_verify.spec.model.tick import Tick, unheard
from sm90_verify.spec.ptx.expr import FALSE, Expr, Lit

Successors = list[tuple[int, int]]
"""(action index, next state)."""
Violations = list[tuple[int, int]]
"""(check index, action index, or -1 if the state itself is wrong)."""
Expand = Callable[[int, Successors, Violations], None]
Test = Callable[[int], bool]
Filled = tuple[str, tuple[int, ...]]
"""A function by its name in the generated module, and its numbers: of actions and checks, and what is added."""
_FIELDS = re.compile(r"\bv\d+\b")
"""Variables in the text of an expression."""


class PackedMachine(NamedTuple):
    """The code of a Machine: expand a state with `roles[i][location]` for every role, then `agents`, then `whole`.

    roles: per role, (shift, mask) of its counter and a function per location. checks: what the indices stand for.
    """

    machine: Machine
    initial: int
    checks: tuple[Check, ...]
    shifts: dict[str, tuple[int, int]]
    roles: tuple[tuple[int, int, tuple[Expand, ...]], ...]
    agents: tuple[Expand, ...]
    whole: Expand
    prompt: tuple[tuple[Test | None, ...], ...]
    awaits: tuple[tuple[int, ...], ...]
    """Per role and location, a bit for every agent whose copy the role makes land there."""
    expects: tuple[tuple[int, ...], ...]
    """The same, for agents that must also be `drained`."""
    drained: tuple[Test, ...]
    final: tuple[frozenset[int], ...]
    groups: tuple[tuple[Interchangeable, tuple[int, ...], int], ...]
    """What is interchangeable, with a shift for each and a mask: what the state says about it alone."""

    def successors(self, state: int) -> Successors:
        """Everything that can happen in a state and is followed, whatever it violates."""
        out: Successors = []
        bad: Violations = []
        for shift, mask, functions in self.roles:
            functions[state >> shift & mask](state, out, bad)
        for agent in self.agents:
            agent(state, out, bad)
        return out

    def unpack(self, state: int) -> dict[str, int]:
        return {name: state >> shift & mask for name, (shift, mask) in self.shifts.items()}


class _Writer:
    """Generates one module of functions for a machine, whose expressions must live as long as the writer."""

    def __init__(self, machine: Machine, groups: tuple[Interchangeable, ...]) -> None:
        self.machine = machine
        self.shifts: dict[str, tuple[int, int]] = {}
        shift = 0
        grouped = dict.fromkeys(name for group in groups for names in group.variables for name in names)
        widths = {variable.name: variable.width for variable in machine.variables}
        for name in [*(name for name in widths if name not in grouped), *grouped]:
            self.shifts[name] = (shift, (1 << widths[name]) - 1)
            shift += widths[name]
        self.names = {variable.name: f"v{index}" for index, variable in enumerate(machine.variables)}
        self.written = {short: name for name, short in self.names.items()}
        self.checks: list[Check] = []
        self.numbers: dict[int, int] = {}
        self.tests: dict[str, str] = {}
        self.sources: dict[int, str] = {}
        self.sets: dict[tuple[int, ...], str] = {}
        self.lines: list[str] = []
        self.templates: dict[str, str] = {}

    def function(self, standing: tuple[Check, ...], actions: list[tuple[int, Action]], counter: str = "") -> Filled:
        """A function that appends the successors and violations of a state at one location (or of one agent). Places
        that are alike but for numbers, such as those of a loop that is unrolled, share its code.
        """
        numbers: list[int] = []

        def number(value: int) -> str:
            numbers.append(value)
            return f"k{len(numbers)}"

        body: list[str] = []
        used: dict[str, None] = {}
        read = self._reader(used)
        for check in standing:
            if check.when is not FALSE:
                body.append(f"    if {read(check.when)}: bad.append(({number(self._number(check))}, -1))")
        for place, action in actions:
            index = number(place)
            indent = "    "
            if not _is_true(action.guard):
                body.append(f"    if {read(action.guard)}:")
                indent = "        "
            halting = [check for check in action.checks if check.halts]
            if halting:
                body.append(f"{indent}go = True")
            for check in action.checks:
                tail = "; go = False" if check.halts else ""
                text = number(self._number(check))
                body.append(f"{indent}if {read(check.when)}: bad.append(({text}, {index})){tail}")
            go = "if go: " if halting else ""
            body.append(f"{indent}{go}out.append(({index}, {self._next(action, read, used, counter, number)}))")
        text = "\n".join((*self._loads(used), *body)) or "    pass"
        name = self.templates.get(text)
        if name is None:
            name = self.templates[text] = f"at{len(self.templates)}"
            given = "".join(f", k{place}=0" for place in range(1, len(numbers) + 1))
            self.lines += f"def {name}(s, out, bad{given}):", text
        return name, tuple(numbers)

    def test(self, condition: Expr) -> str:
        """The name of a function that says whether a condition holds in a state; equal conditions share one."""
        used: dict[str, None] = {}
        text = self._reader(used)(condition)
        name = self.tests.get(text)
        if name is None:
            name = self.tests[text] = f"test{len(self.tests)}"
            self.lines += f"def {name}(s):", *self._loads(used), f"    return {text}"
        return name

    def _loads(self, used: dict[str, None]) -> Iterator[str]:
        for field in used:
            shift, mask = self.shifts[field]
            yield f"    {self.names[field]} = s{f' >> {shift}' if shift else ''} & {mask}"

    def _next(
        self,
        action: Action,
        read: Callable[[Expr], str],
        used: dict[str, None],
        counter: str,
        number: Callable[[int], str],
    ) -> str:
        constant, parts = 0, ["s"]
        if counter and action.target is not None and action.location is not None:
            constant += (action.target - action.location) << self.shifts[counter][0]
        for name, value in action.updates:
            shift, _ = self.shifts[name]
            used[name] = None
            parts.append(f"({read(value)} - {self.names[name]} << {shift})")
        if constant:
            parts.append(number(constant))
        return " + ".join(parts)

    def _reader(self, used: dict[str, None]) -> Callable[[Expr], str]:
        def read(expr: Expr) -> str:
            text = python_source(expr, self.names.__getitem__, self.sources, self._set)
            for short in _FIELDS.findall(text):
                used[self.written[short]] = None
            return text

        return read

    def _set(self, numbers: tuple[int, ...]) -> str:
        return self.sets.setdefault(numbers, f"S{len(self.sets)}")

    def _number(self, check: Check) -> int:
        number = self.numbers.get(id(check))
        if number is None:
            number = self.numbers[id(check)] = len(self.checks)
            self.checks.append(check)
        return number


def pack(machine: Machine, *, exchange: bool = False, beyond: bool = False, tick: Tick = unheard) -> PackedMachine:
    """Generates and compiles the code of a machine. exchange: look for interchangeable roles. beyond: follow the steps
    that are beyond what the machine knows.
    """
    whole_machine = machine
    machine = machine.beyond() if beyond else machine
    groups = find_groups(machine, tick) if exchange else ()
    writer = _Writer(machine, groups)
    by_place: dict[tuple[str, int | None], list[tuple[int, Action]]] = {}
    agents: list[tuple[int, Action]] = []
    for index, action in enumerate(machine.actions):
        if action.location is None:
            agents.append((index, action))
        else:
            by_place.setdefault((action.role, action.location), []).append((index, action))
    roles = []
    for role in machine.roles:
        functions = []
        for place, location in enumerate(role.locations):
            tick("packing", role.name, place, location.source)
            functions.append(writer.function(location.checks, by_place.get((role.name, place), []), role.counter))
        roles.append(functions)
    landing = [writer.function((), [pair]) for pair in agents]
    whole = writer.function(machine.checks, [])
    reduction = find_reduction(machine, tick)
    prompt = [
        ["" if condition is FALSE else writer.test(condition) for condition in conditions]
        for conditions in reduction.prompt
    ]
    drained = [writer.test(condition) for condition in reduction.drained]
    space: dict[str, Any] = {name: frozenset(numbers) for numbers, name in writer.sets.items()}
    exec(compile("\n".join(writer.lines), f"<{machine.name}>", "exec"), space)
    initial = sum(variable.initial << writer.shifts[variable.name][0] for variable in machine.variables)
    return PackedMachine(
        whole_machine,
        initial,
        tuple(writer.checks),
        writer.shifts,
        tuple(
            (*writer.shifts[role.counter], tuple(_filled(space, *place) for place in places))
            for role, places in zip(machine.roles, roles, strict=True)
        ),
        tuple(_filled(space, *agent) for agent in landing),
        _filled(space, *whole),
        tuple(tuple(space[name] if name else None for name in names) for names in prompt),
        _bits(machine, reduction.lands_at),
        _bits(machine, reduction.expects_at),
        tuple(space[name] for name in drained),
        tuple(frozenset(i for i, place in enumerate(role.locations) if place.final) for role in machine.roles),
        tuple(_lanes(writer.shifts, group) for group in groups),
    )


def _filled(space: dict[str, Any], name: str, numbers: tuple[int, ...]) -> Expand:
    """The function of that name with its own numbers."""
    return FunctionType(space[name].__code__, space, name, numbers)


def _lanes(shifts: dict[str, tuple[int, int]], group: Interchangeable) -> tuple[Interchangeable, tuple[int, ...], int]:
    """Where the variables of each member of the group are, all in one piece."""
    shift, mask = shifts[group.variables[0][-1]]
    lanes = tuple(shifts[names[0]][0] for names in group.variables)
    return group, lanes, (mask + 1 << shift - lanes[0]) - 1


def _is_true(expr: Expr) -> bool:
    return isinstance(expr, Lit) and expr.value == 1


def _bits(machine: Machine, places: tuple[tuple[frozenset[int], ...], ...]) -> tuple[tuple[int, ...], ...]:
    """Per role and location, the agents whose places contain it, a bit each."""
    return tuple(
        tuple(
            sum(1 << agent for agent, by_role in enumerate(places) if place in by_role[number])
            for place in range(len(role.locations))
        )
        for number, role in enumerate(machine.roles)
    )
