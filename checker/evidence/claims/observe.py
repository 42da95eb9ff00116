"""Whether the roles of two models can tell them apart: the same sequences of their own operations, with the same
answers, are possible in both.

What bulk copies do in between nobody sees. So a sequence stands for the set of all states that it can have led to, in
each model; two models differ where an operation can follow in one set and in none of the other.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import TypeAlias

from sm90_verify.counterexample.trace import step_of
from sm90_verify.engines.search.packed import pack
from sm90_verify.evidence.claims.runs import COMMAND, STATEMENT
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED, Finding, Result, Trace
from sm90_verify.spec.language import walk
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.machine import Action, Machine

States: TypeAlias = frozenset[int]
LIMIT = 200_000
"""Pairs of sets to look at before giving up."""


class Seen:
    """One model as its roles see it: from a set of states, which operations can follow and where they lead."""

    def __init__(self, machine: Machine) -> None:
        self.machine, self.packed = machine, pack(machine)
        self.known: dict[int, tuple[list[int], dict[str, list[int]]]] = {}
        self.actions: dict[str, Action] = {action.name: action for action in machine.actions}

    def start(self) -> States:
        return self.closed([self.packed.initial])

    def closed(self, states: Iterable[int]) -> States:
        """With everything that copies can do in between."""
        found = dict.fromkeys(states)
        todo = list(found)
        while todo:
            for state in self._step(todo.pop())[0]:
                if state not in found:
                    found[state] = None
                    todo.append(state)
        return frozenset(found)

    def after(self, states: States) -> dict[str, list[int]]:
        """By operation, the states that it leads to."""
        found: dict[str, list[int]] = {}
        for state in sorted(states):
            for name, targets in self._step(state)[1].items():
                found.setdefault(name, []).extend(targets)
        return found

    def _step(self, state: int) -> tuple[list[int], dict[str, list[int]]]:
        if state not in self.known:
            silent: list[int] = []
            seen: dict[str, list[int]] = {}
            for index, target in self.packed.successors(state):
                action = self.machine.actions[index]
                if action.location is None:
                    silent.append(target)
                else:
                    seen.setdefault(action.name, []).append(target)
            self.known[state] = silent, seen
        return self.known[state]


def same_observations(one: Pipeline, other: Pipeline, name: str) -> Callable[[], Result]:
    """Violated, with the shortest such sequence, if the roles can tell the two models apart."""

    def run() -> Result:
        start = time.perf_counter()
        models = Seen(compile_kernel(walk.trace(one))), Seen(compile_kernel(walk.trace(other)))
        pairs, path = _compare(*models)
        note = f"more than {LIMIT} pairs of sets of states" if pairs > LIMIT else ""
        trace = None if path is None else _trace(models[0], models[1], path)
        verdict = VIOLATED if path is not None else UNDETERMINED if note else PROVED
        finding = Finding(STATEMENT, verdict, trace, note)
        seconds = time.perf_counter() - start
        return Result(COMMAND, name, one.parameters(), "search", (finding,), {}, pairs, 0, seconds)

    return run


def _compare(one: Seen, other: Seen) -> tuple[int, tuple[str, ...] | None]:
    """Pairs of sets visited, and the first sequence that only one of the two allows."""
    first = one.start(), other.start()
    parents: dict[tuple[States, States], tuple[tuple[States, States] | None, str]] = {first: (None, "")}
    queue = [first]
    for pair in queue:
        here, there = one.after(pair[0]), other.after(pair[1])
        for name in (*here, *(name for name in there if name not in here)):
            if name not in here or name not in there:
                return len(queue), (*_path(parents, pair), name)
            following = one.closed(here[name]), other.closed(there[name])
            if following not in parents:
                parents[following] = pair, name
                queue.append(following)
        if len(queue) > LIMIT:
            break
    return len(queue), None


def _path(parents: dict[tuple[States, States], tuple[tuple[States, States] | None, str]], pair: object) -> list[str]:
    path: list[str] = []
    at = pair
    while at is not None:
        at, name = parents[at]  # type: ignore[index]
        path.append(name)
    return path[-2::-1]


def _trace(one: Seen, other: Seen, path: tuple[str, ...]) -> Trace:
    steps = []
    for name in path:
        seen = one if name in one.actions else other
        steps.append(step_of(seen.machine, seen.actions[name], {}))
    last = steps[-1]
    because = f"{last.role} can do `{last.op}` {last.object} after these operations in one of the two models only"
    return Trace(STATEMENT, because, tuple(steps))
