"""That no role can be stuck for ever while others go on: the half of deadlock that no single state shows.

A role is stuck in a state if no continuation of any length lets it take a step, although it has not ended. Suppose
role r stands blocked at location i. Let only a set A of the actions happen from now on, of which two things are
known: in every state that satisfies the invariant and in which some role has not ended, an action of A can be taken;
and the others can take only finitely many actions of A while r stays blocked at i. Then after finitely many steps an
action of A can be taken and it is not one of theirs, so r takes it: r was not stuck.

The second thing is shown role by role. The locations at which role s can be while r is blocked at i are those for
which the invariant allows both, and the steps that it can take there are those that leave r blocked; if the program of
s, restricted to A and to these, has no cycle, then s takes finitely many steps. (Where s gives r the turn, r is not
stuck.) Or else: of all that the roles of some barriers of threads can be in together (engines.smt.turns), with r
blocked at i, no steps that leave r blocked bring s round. Actions without a role only change variables that their own
guards read, among finitely many values: their graph must have no cycle either, so that between two steps of roles only
finitely many of them happen.

A role that only spins (spec.model.spinning) is stuck too. So A is first all actions but the answers False of try_wait
and test_wait that lie on cycles of spinning, then all but the answers False: leaving them out leaves a step that can be
taken instead, if the first thing still holds. On every such cycle is one of them, so that with the actions of A a role
spins finitely often.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import product
from typing import Any

from sm90_verify.engines.smt.read_z3 import Term, conjunction, disjunction, is_true, z3_module, z3_term
from sm90_verify.engines.smt.tables import Graph, graph_of
from sm90_verify.engines.smt.turns import Waiters
from sm90_verify.engines.smt.unroll import Relation
from sm90_verify.spec.model.machine import Action, Machine
from sm90_verify.spec.model.spinning import on_cycles
from sm90_verify.spec.ptx.expr import Expr, Lit, any_of, evaluate, fields_of, substituted

LARGEST_GRAPH = 1 << 14


class OutOfTime(Exception):
    """The deadline has passed."""


def never_stuck(step: Relation, invariant: Sequence[Term], remaining: Callable[[], float]) -> str:
    """Why it could not be shown that no role is ever stuck while others go on; "" if it was shown.

    `remaining` gives the seconds left; raises OutOfTime when there are none.
    """
    machine = step.machine
    if not _agents_come_to_rest(machine):
        return "actions without a role could go on for ever"
    reason, waiters = "", Waiters(machine)
    fails = frozenset(index for index, action in enumerate(machine.actions) if action.fails)
    for left_out in dict.fromkeys((fails & on_cycles(machine, fails), fails)):
        reason = _Attempt(step, invariant, left_out, remaining, waiters).reason()
        if not reason:
            return ""
    return reason


class _Attempt:
    def __init__(
        self,
        step: Relation,
        invariant: Sequence[Term],
        left_out: frozenset[int],
        remaining: Callable[[], float],
        waiters: Waiters,
    ) -> None:
        self.z3 = z3_module()
        self.step, self.left_out, self.remaining = step, left_out, remaining
        self.waiters = waiters
        self.but_failed_tests = " but tests that fail" if left_out else ""
        self.machine = step.machine
        self.memo: dict[int, Term] = {}
        self.solver = self.z3.SolverFor("QF_FD")
        self.solver.add(*invariant)
        for role in self.machine.roles:
            self.solver.add(*step.before[role.counter].well_formed())
        self.graphs = [graph_of(self.machine, role) for role in self.machine.roles]
        self.names = 0

    def reason(self) -> str:
        if self._dead_end():
            return f"the invariant does not rule out a state in which nothing can happen{self.but_failed_tests}"
        hints: dict[tuple[int, int], list[int]] = {}
        for one, graph in enumerate(self.graphs):
            for location, place in enumerate(graph.role.locations):
                if place.final or any(is_true(action.guard) for _, action in self._ways(graph, location)):
                    continue
                blocked = self._named(self._blocked(graph, location))
                if not self._possible([blocked]):
                    continue
                can = any_of(action.guard for _, action in self._ways(graph, location))
                for other, moving in enumerate(self.graphs):
                    known = hints.setdefault((one, other), [])
                    if (
                        other != one
                        and not self._comes_to_rest(moving, blocked, can, known)
                        and not self.waiters.comes_to_rest(moving.role.name, graph.role.name, location, self.left_out)
                    ):
                        return (
                            f"{moving.role.name} might go on for ever while {graph.role.name} waits for {place.object}"
                        )
        return ""

    def _ways(self, graph: Graph, location: int) -> list[tuple[int, Action]]:
        return [(index, action) for index, action in graph.ways[location] if index not in self.left_out]

    def _guard(self, action: Action) -> Term:
        return z3_term(action.guard, self.step.before.__getitem__, self.memo)

    def _blocked(self, graph: Graph, location: int) -> Term:
        here = self.step.before[graph.role.counter].equals(location)
        guards = [self._guard(action) for _, action in self._ways(graph, location)]
        return conjunction([here, self.z3.Not(disjunction(guards))])

    def _dead_end(self) -> bool:
        everyone = []
        for graph in self.graphs:
            at = self.step.before[graph.role.counter]
            everyone.append(
                disjunction(
                    at.equals(location) if place.final else self._blocked(graph, location)
                    for location, place in enumerate(graph.role.locations)
                )
            )
        agents = [self.z3.Not(self._guard(action)) for action in self.machine.actions if action.location is None]
        unfinished = disjunction(
            self.step.before[graph.role.counter].equals(location)
            for graph in self.graphs
            for location, place in enumerate(graph.role.locations)
            if not place.final
        )
        return self._possible([self._named(conjunction([*everyone, *agents, unfinished]))])

    def _named(self, term: Term) -> Term:
        self.names += 1
        name = self.z3.Bool(f"case {self.names}")
        self.solver.add(self.z3.Implies(name, term))
        return name

    def _possible(self, terms: list[Term]) -> bool:
        """Whether the invariant and the terms have a model."""
        left = self.remaining()
        if left <= 0:
            raise OutOfTime
        self.solver.set("timeout", int(1000 * left) + 1)
        answer = self.solver.check(*terms)
        if answer == self.z3.unknown:
            raise OutOfTime
        return bool(answer == self.z3.sat)

    def _comes_to_rest(self, graph: Graph, blocked: Term, can: Expr, hints: list[int]) -> bool:
        """Whether every cycle of the role has a location that is ruled out while `blocked` holds, or a step after which
        it does not hold: then `can` does.
        """
        at = self.step.before[graph.role.counter]
        impossible: set[int] = set()
        possible: set[int] = set()
        released: dict[tuple[int, int], bool] = {}
        while True:
            cycle = self._cycle(graph, impossible, released)
            if not cycle:
                return True
            unknown = [location for location in cycle if location not in possible]
            if not unknown:
                for edge in zip(cycle, (*cycle[1:], cycle[0]), strict=True):
                    if edge not in released:
                        released[edge] = self._releases(graph, edge, blocked, can)
                        if released[edge]:
                            break
                else:
                    return False
                continue
            hint = next((location for location in hints if location in unknown), None)
            location = self._farthest(cycle, possible) if hint is None else hint
            if self._possible([blocked, *_fixed(at, location)]):
                possible.add(location)
            else:
                impossible.add(location)
                if location in hints:
                    hints.remove(location)
                hints.insert(0, location)

    def _releases(self, graph: Graph, edge: tuple[int, int], blocked: Term, can: Expr) -> bool:
        """Whether `can` holds after each step of the role from one location to the other, if `blocked` held before."""
        place, target = edge
        steps = []
        for _, action in self._ways(graph, place):
            if action.target == target:
                moved = {**dict(action.updates), graph.counter.name: Lit(target, graph.counter.width)}
                after = z3_term(substituted(can, moved), self.step.before.__getitem__)
                steps.append(conjunction([self._guard(action), self.z3.Not(after)]))
        stays = self._named(disjunction(steps))
        return not self._possible([blocked, stays, *_fixed(self.step.before[graph.role.counter], place)])

    @staticmethod
    def _farthest(cycle: list[int], possible: set[int]) -> int:
        """The middle of the longest stretch of the cycle of which nothing is known."""
        known = [position for position, location in enumerate(cycle) if location in possible]
        if not known:
            return cycle[0]
        best, chosen = -1, cycle[0]
        for number, position in enumerate(known):
            following = known[(number + 1) % len(known)] + (len(cycle) if number + 1 == len(known) else 0)
            if following - position > best and following - position > 1:
                best = following - position
                chosen = cycle[(position + best // 2) % len(cycle)]
        return chosen

    def _cycle(self, graph: Graph, without: set[int], cut: Mapping[tuple[int, int], bool]) -> list[int]:
        """A cycle of the program that avoids some locations and steps, or nothing."""
        state = [0] * len(graph.ways)
        for start in range(len(graph.ways)):
            if state[start] or start in without:
                continue
            path, pending = [start], [self._targets(graph, start, without, cut)]
            state[start] = 1
            while path:
                if not pending[-1]:
                    state[path.pop()] = 2
                    pending.pop()
                    continue
                target = pending[-1].pop()
                if state[target] == 1:
                    return path[path.index(target) :]
                if state[target] == 0:
                    state[target] = 1
                    path.append(target)
                    pending.append(self._targets(graph, target, without, cut))
        return []

    def _targets(
        self, graph: Graph, location: int, without: set[int], cut: Mapping[tuple[int, int], bool]
    ) -> list[int]:
        targets = dict.fromkeys(action.target for _, action in self._ways(graph, location) if action.target is not None)
        return [to for to in reversed(list(targets)) if to not in without and not cut.get((location, to))]


def _fixed(at: Any, location: int) -> list[Term]:
    z3 = z3_module()
    fixed = [at.at_least(location)] if location else []
    return [*fixed, *([z3.Not(at.at_least(location + 1))] if location < len(at.bits) else [])]


def _agents_come_to_rest(machine: Machine) -> bool:
    """Whether the actions without a role have no cycle, by trying all values of the variables that their guards
    read."""
    agents = [action for action in machine.actions if action.location is None]
    read = [fields_of(action.guard) for action in agents]
    groups: list[tuple[set[str], list[Action]]] = []
    for action, names in zip(agents, read, strict=True):
        touched = set(names)
        merged = [action]
        for group in [group for group in groups if group[0] & touched]:
            groups.remove(group)
            touched |= group[0]
            merged = [*group[1], *merged]
        groups.append((touched, merged))
    everything = set[str]().union(*read)
    return all(_group_comes_to_rest(machine, sorted(names), actions, everything) for names, actions in groups)


def _group_comes_to_rest(machine: Machine, names: list[str], actions: list[Action], guarded: set[str]) -> bool:
    widths = {variable.name: variable.width for variable in machine.variables}
    if sum(widths[name] for name in names) > LARGEST_GRAPH.bit_length() - 1:
        return False
    edges: dict[tuple[int, ...], list[tuple[int, ...]]] = {}
    for values in product(*(range(1 << widths[name]) for name in names)):
        state = dict(zip(names, values, strict=True))
        for action in actions:
            if not evaluate(action.guard, state):
                continue
            after = dict(state)
            for name, update in action.updates:
                if name in guarded:
                    if name not in state or not fields_of(update) <= set(names):
                        return False
                    after[name] = evaluate(update, state)
            edges.setdefault(values, []).append(tuple(after[name] for name in names))
    degree: dict[tuple[int, ...], int] = {}
    for targets in edges.values():
        for target in targets:
            degree[target] = degree.get(target, 0) + 1
    todo = [values for values in edges if not degree.get(values)]
    removed = 0
    while todo:
        values = todo.pop()
        if values in edges:
            removed += 1
        for target in edges.get(values, ()):
            degree[target] -= 1
            if not degree[target]:
                todo.append(target)
    return removed == len(edges)
