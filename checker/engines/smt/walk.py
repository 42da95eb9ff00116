"""Concrete walks through a Machine: what has really been reached, as a witness that a proof is about something.

A walk is deterministic: the same model walks the same way. It prefers actions that it has taken least often, and goes
back to the initial state when nothing can happen, after a number of steps, or when a check says that what follows is
undefined.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from sm90_verify.engines.search.read_python import python_source
from sm90_verify.engines.smt.tables import graph_of, reaching
from sm90_verify.spec.model.machine import Check, Machine
from sm90_verify.spec.ptx.expr import Expr, Lit

FRUITLESS = 24
"""Walks in a row that find no state and take no action that others have not, after which there is nothing to find."""

StateValues = tuple[int, ...]
"""The values of the variables, in declaration order."""


@dataclass
class Walk:
    """What walks have seen. `rounds`: a walk in which every role ended, or came back to a location where it had been.

    suspects: by property, the schedule that violated it; not necessarily a shortest one.
    """

    states: list[StateValues] = field(default_factory=list)
    taken: list[int] = field(default_factory=list)
    rounds: bool = False
    suspects: dict[str, tuple[int, ...]] = field(default_factory=dict)


def compile_tests(machine: Machine, conditions: Sequence[Expr]) -> Callable[[StateValues], list[int]]:
    """A function that gives the numbers of the one-bit conditions that do not hold in a state."""
    name_of = _names(machine)
    memo: dict[int, str] = {}
    lines = ["def failing(v):", "    bad = []"]
    for number, condition in enumerate(conditions):
        lines.append(f"    if not {python_source(condition, name_of, memo)}: bad.append({number})")
    lines.append("    return bad")
    return _compiled(lines, "failing")


def walk(machine: Machine, *, seconds: float = 5.0, runs: int = 400, steps: int = 1200) -> Walk:
    """Walks until every action that the model knows all about was taken, or no walk finds anything new, or for so many
    seconds, runs and steps.
    """
    return _Walker(machine).run(time.perf_counter() + seconds, runs, steps)


class _Walker:
    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.leaving = _leaving(machine)
        self.order = {variable.name: number for number, variable in enumerate(machine.variables)}
        self.counters = [self.order[role.counter] for role in machine.roles]
        self.known = [index for index, action in enumerate(machine.actions) if not action.beyond]
        self.by_place: dict[tuple[int, int], list[int]] = {}
        self.agents: list[int] = []
        numbers = {role.name: number for number, role in enumerate(machine.roles)}
        for index, action in enumerate(machine.actions):
            if action.location is None:
                self.agents.append(index)
            else:
                self.by_place.setdefault((numbers[action.role], action.location), []).append(index)
        name_of = _names(machine)
        lines = []
        for index, action in enumerate(machine.actions):
            updates = [(self.order[name], python_source(value, name_of)) for name, value in action.updates]
            if action.location is not None and action.target is not None:
                updates.append((self.counters[numbers[action.role]], str(action.target)))
            lines.append(f"def guard{index}(v): return {python_source(action.guard, name_of)}")
            lines.append(f"def after{index}(v):")
            lines.append("    w = list(v)")
            lines += [f"    w[{place}] = int({text})" for place, text in updates]
            lines.append("    return tuple(w)")
        self.checks: list[Check] = []
        self._check_functions(lines, name_of)
        space: dict[str, Callable[[StateValues], object]] = {}
        exec(compile("\n".join(lines), f"<walk {machine.name}>", "exec"), space)
        self.space = space

    def _check_functions(self, lines: list[str], name_of: Callable[[str], str]) -> None:
        def function(name: str, checks: Sequence[Check]) -> None:
            lines.append(f"def {name}(v):")
            lines.append("    bad = []")
            for check in checks:
                if not (isinstance(check.when, Lit) and check.when.value == 0):
                    lines.append(f"    if {python_source(check.when, name_of)}: bad.append({len(self.checks)})")
                    self.checks.append(check)
            lines.append("    return bad")

        function("whole", self.machine.checks)
        for number, role in enumerate(self.machine.roles):
            for place, location in enumerate(role.locations):
                function(f"at{number}_{place}", location.checks)
        for index, action in enumerate(self.machine.actions):
            function(f"by{index}", action.checks)

    def run(self, deadline: float, runs: int, steps: int) -> Walk:
        chance = random.Random(0)
        result = Walk()
        seen: dict[StateValues, None] = {}
        taken = [0] * len(self.machine.actions)
        initial = tuple(variable.initial for variable in self.machine.variables)
        before, fruitless = (0, 0), 0
        for number in range(runs):
            path: list[int] = []
            state = initial
            visited = [{state[counter]} for counter in self.counters]
            again = [False] * len(self.counters)
            length = 40 * (number + 1) if number < 8 else steps
            favourite = chance.randrange(len(self.machine.roles)) if number % 3 else -1
            while len(path) <= length:
                seen.setdefault(state)
                enabled, halted = self._enabled(state, path, result)
                if not enabled or halted:
                    break
                index = self._pick(enabled, taken, chance, favourite)
                state = self.space[f"after{index}"](state)  # type: ignore[assignment]
                taken[index] += 1
                path.append(index)
                for role, counter in enumerate(self.counters):
                    moved = self.machine.actions[index].role == self.machine.roles[role].name
                    again[role] |= moved and state[counter] in visited[role]
                    visited[role].add(state[counter])
            ends = [role.locations[state[c]].final for role, c in zip(self.machine.roles, self.counters, strict=True)]
            result.rounds |= bool(path) and all(e or a for e, a in zip(ends, again, strict=True))
            if time.perf_counter() > deadline or (result.rounds and all(taken[index] for index in self.known)):
                break
            now = len(seen), sum(map(bool, taken))
            before, fruitless = now, fruitless + 1 if now == before else 0
            if fruitless == FRUITLESS and result.rounds:
                break
        result.states = list(seen)
        result.taken = taken
        return result

    def _enabled(self, state: StateValues, path: list[int], result: Walk) -> tuple[list[int], bool]:
        halted = False
        for name in ("whole", *(f"at{role}_{state[counter]}" for role, counter in enumerate(self.counters))):
            halted |= self._note(name, state, path, result)
        enabled = []
        refused = False
        for index in self._candidates(state):
            if self.space[f"guard{index}"](state):
                if self._note(f"by{index}", state, path, result, index):
                    refused = True
                else:
                    enabled.append(index)
        finished = all(
            role.locations[state[counter]].final
            for role, counter in zip(self.machine.roles, self.counters, strict=True)
        )
        if not enabled and not refused and not halted and not finished and "deadlock" not in result.suspects:
            result.suspects["deadlock"] = tuple(path)
        return enabled, halted

    def _candidates(self, state: StateValues) -> list[int]:
        found = []
        for role, counter in enumerate(self.counters):
            found += self.by_place.get((role, state[counter]), [])
        return found + self.agents

    def _note(self, name: str, state: StateValues, path: list[int], result: Walk, *last: int) -> bool:
        """What is violated there, or by the last step, and whether that is not followed."""
        halts = False
        for number in self.space[name](state):  # type: ignore[attr-defined]
            check = self.checks[number]
            if check.property not in result.suspects:
                result.suspects[check.property] = (*path, *last)
            halts |= check.halts
        return halts

    def _pick(self, enabled: list[int], taken: list[int], chance: random.Random, favourite: int) -> int:
        if favourite >= 0 and chance.random() < 0.8:
            name = self.machine.roles[favourite].name
            enabled = [index for index in enabled if self.machine.actions[index].role == name] or enabled
        if chance.random() < 0.97:
            enabled = [index for index in enabled if index not in self.leaving] or enabled
        if chance.random() < 0.5:
            return chance.choice(enabled)
        return min(enabled, key=lambda index: (taken[index], chance.random()))


def _leaving(machine: Machine) -> frozenset[int]:
    """The actions that leave a loop: from where they start one could come back, from where they lead one cannot."""
    found: set[int] = set()
    for role in machine.roles:
        graph = graph_of(machine, role)
        for location, way in enumerate(graph.ways):
            if len({action.target for _, action in way}) > 1:
                back = reaching(graph, [location])
                if any(target in back for target in graph.successors(location)):
                    found.update(index for index, action in way if action.target not in back)
    return frozenset(found)


def _names(machine: Machine) -> Callable[[str], str]:
    order = {variable.name: number for number, variable in enumerate(machine.variables)}
    return lambda name: f"v[{order[name]}]"


def _compiled(lines: list[str], name: str) -> Callable[[StateValues], list[int]]:
    space: dict[str, Callable[[StateValues], list[int]]] = {}
    exec(compile("\n".join(lines), "<tests>", "exec"), space)
    return space[name]
