"""Breadth-first search through all reachable states of a Machine: the ground truth that other engines are held to.

A state is inserted once, before its checks are evaluated; a violation of a state counts the steps to it, a violation
by a step counts that step too, so the first one found of a property is a shortest one. A step whose violation leaves
the behaviour undefined (Check.halts) is not followed.
"""

from __future__ import annotations

import sys
import time
from array import array
from collections.abc import Iterable

from sm90_verify.engines.effort import Effort
from sm90_verify.engines.search.bounds import SearchBounds
from sm90_verify.engines.search.exchange import Exchange, Takes
from sm90_verify.engines.search.exploration import ALL_FOUND, Exploration
from sm90_verify.engines.search.packed import PackedMachine, Successors, Violations
from sm90_verify.engines.search.reached import Steps, kinds_of, movers_later, movers_surely, never_taken
from sm90_verify.engines.violation import Violation
from sm90_verify.spec.model.machine import LIMIT, Check
from sm90_verify.spec.model.spinning import spinning
from sm90_verify.spec.model.words import listed
from sm90_verify.spec.ptx.needs import GOES_ON


class Search:
    """One search. wanted: the properties that count, none for all. hurried: the actions that were prompt somewhere;
    left_flying: some state was left without its copies landing. beyond: steps beyond what the machine knows are
    followed; put_off: states where some were not.
    """

    def __init__(self, packed: PackedMachine, bounds: SearchBounds, stop_at_first: bool) -> None:
        self.packed, self.bounds = packed, bounds
        self.stop_at_first, self.reduced, self.enough = stop_at_first, False, 0
        self.beyond, self.stop_beyond, self.stop_after = False, False, 0
        self.wanted: frozenset[str] = frozenset()
        self.effort: Effort | None = None
        self.hurries = [(*role, tests) for role, tests in zip(packed.roles, packed.prompt, strict=True)]
        self.out: Successors = []
        self.order: list[int] = [packed.initial]
        self.index: dict[int, int] = {packed.initial: 0}
        self.parent = array("q", [-1])
        self.via = array("i", [-1])
        self.edges = array("I")
        self.edge_movers = array("Q")
        self.edge_exchanges = array("I")
        self.edge_kinds = array("I")
        self.kinds = kinds_of(packed.machine)
        self.put_off: set[int] = set()
        self.exchanges: dict[Takes, int] = {}
        self.exchange = Exchange(packed)
        numbers = {role.name: 1 << number for number, role in enumerate(packed.machine.roles)}
        final = {role.name: [place.final for place in role.locations] for role in packed.machine.roles}
        self.fails = [action.fails and not final[action.role][action.target or 0] for action in packed.machine.actions]
        self.polls = any(self.fails)
        spins = spinning(packed.machine)
        self.movers = [
            0 if index in spins else numbers.get(action.role, 0) for index, action in enumerate(packed.machine.actions)
        ]
        self.taken = bytearray(len(packed.machine.actions))
        self.hurried: set[int] = set()
        self.left_flying = False
        self.offsets = array("Q", [0])
        self.result = Exploration()

    def run(self) -> Exploration:
        start = time.perf_counter()
        result = self.result
        result.ran_out = self._visit(start)
        result.complete = not result.ran_out
        result.states, result.transitions = len(self.order), len(self.edges)
        self.exchange.take_for_all(self.taken)
        result.unreached = never_taken(self.packed.machine, self.taken, self.reduced)
        if result.complete and self._counts("deadlock") and (self.polls or "deadlock" not in result.violations):
            self._find_stuck_roles()
        result.seconds = time.perf_counter() - start
        return result

    def _visit(self, start: float) -> str:
        """Expands states in order until none is left; gives what ran out, or nothing."""
        packed, order, index = self.packed, self.order, self.index
        parent, via, edges, edge_movers, offsets = self.parent, self.via, self.edges, self.edge_movers, self.offsets
        taken = self.taken
        lands = zip(packed.roles, packed.awaits, packed.expects, strict=True)
        roles = [(*role, awaits, expects) for role, awaits, expects in lands]
        agents, whole = packed.agents, packed.whole
        out: Successors = []
        bad: Violations = []
        position, level_end, cap = 0, 1, self.bounds.states or sys.maxsize
        while position < len(order):
            if position == level_end:
                level_end = len(order)
                self.result.depth += 1
                if self.wanted and self.wanted <= self.result.violations.keys():
                    return ALL_FOUND
            if position % 1024 == 0 or len(order) > cap:
                ran_out = self._ran_out(start)
                if ran_out:
                    return ran_out
            state = order[position]
            out.clear()
            whole(state, out, bad)
            awaited = expected = 0
            for shift, mask, functions, awaits, expects in roles:
                place = state >> shift & mask
                functions[place](state, out, bad)
                awaited |= awaits[place]
                expected |= expects[place]
            if self.reduced and (awaited or expected):
                for number, agent in enumerate(agents):
                    if awaited >> number & 1 or (expected >> number & 1 and packed.drained[number](state)):
                        agent(state, out, bad)
            if not self.reduced or not out or (self.polls and all(self.fails[action] for action, _ in out)):
                for agent in agents:
                    agent(state, out, bad)
            else:
                self.left_flying = True
            refused = False
            if bad:
                halted, refused = self._record(bad, position)
                bad.clear()
                if self.stop_at_first and self.result.violations:
                    return "the search was asked to stop at the first violation"
                if self.stop_beyond and self.result.beyond:
                    return self.result.beyond
                if halted:
                    offsets.append(len(edges))
                    position += 1
                    continue
            if not out and not refused:
                self._at_rest(state, position)
            for action, successor in out:
                movers = self.movers[action]
                if self.reduced:
                    successor, more = self._hurry(successor, position, action)
                    movers |= more
                if packed.groups:
                    successor, exchange = self.exchange.in_order(successor)
                    self.edge_exchanges.append(self.exchanges.setdefault(exchange, len(self.exchanges)))
                known = index.get(successor)
                if known is None:
                    known = index[successor] = len(order)
                    order.append(successor)
                    parent.append(position)
                    via.append(action)
                edges.append(known)
                edge_movers.append(movers)
                if self.beyond:
                    self.edge_kinds.append(self.kinds[action])
                taken[action] = 1
            offsets.append(len(edges))
            position += 1
        return ""

    def _hurry(self, state: int, position: int, first: int) -> tuple[int, int]:
        """The state after all prompt steps, and the roles that took them; `first` led from `position` to the state."""
        state, path, bad = self._run_prompt(state)
        if bad:
            self._record(bad, position, (first, *path))
        movers = 0
        self.hurried.update(path)
        for action in path:
            self.taken[action] = 1
            movers |= self.movers[action]
        return state, movers

    def _run_prompt(self, state: int) -> tuple[int, list[int], Violations]:
        """Takes prompt steps until none is left or one of them violates something.

        What others do can make a step prompt only where a condition says so: after the first round, only roles that
        stand there are asked again.
        """
        out = self.out
        bad: Violations = []
        path: list[int] = []
        turn, moved = self.hurries, True
        while turn and moved:
            waiting, moved = [], False
            for hurry in turn:
                shift, mask, functions, tests = hurry
                place = state >> shift & mask
                test = tests[place]
                while test is not None:
                    if not test(state):
                        waiting.append(hurry)
                        break
                    functions[place](state, out, bad)
                    if bad:
                        out.clear()
                        return state, path, bad
                    action, state = out.pop()
                    path.append(action)
                    moved = True
                    place = state >> shift & mask
                    test = tests[place]
            turn = waiting
        return state, path, bad

    def _ran_out(self, start: float) -> str:
        if self.enough and self.result.violations:
            self.stop_after = self.stop_after or len(self.order) + self.enough
            if len(self.order) > self.stop_after:
                if list(self.result.violations) == [LIMIT]:
                    return self.result.violations[LIMIT].because
                return f"the search ended {self.enough} states after the first violation"
        if self.effort is not None:
            self.effort.tell(f"search, {len(self.order)} states")
        ran_out = self.bounds.ran_out(len(self.order), time.perf_counter() - start)
        return ran_out or ("" if self.effort is None else self.effort.ran_out())

    # ---------------------------------------------------------------- violations

    def _record(self, bad: Violations, position: int, beyond: tuple[int, ...] = ()) -> tuple[bool, bool]:
        """Keeps the first violation of each property; whether nothing is defined behind the state, or behind a step
        of it.
        """
        halted = refused = False
        for number, action in bad:
            check = self.packed.checks[number]
            if check.property == LIMIT and action >= 0:
                self.result.beyond = self.result.beyond or check.because
                self.put_off.add(position)
                refused = True
                continue
            if check.halts:
                self.put_off.add(position)
                if check.property not in self.result.halted:
                    self.result.halted.append(check.property)
            halted |= check.halts and action < 0
            refused |= check.halts and action >= 0
            if not self._counts(check.property):
                continue
            known = self.result.violations.get(check.property)
            shorter = known is not None and action < 0 and not beyond and self.result.depth < len(known.actions)
            if known is None or shorter:
                actions, takes = self._path(position)
                last = (action,) if action >= 0 else ()
                actions += [self.exchange.really(step, takes) for step in (*beyond, *last)]
                self._keep(self.exchange.really_of(check, actions, bool(last)), tuple(actions), bool(last))
        return halted, refused

    def _counts(self, property: str) -> bool:
        return not self.wanted or property in self.wanted or property == LIMIT

    def _keep(self, check: Check, actions: tuple[int, ...], by_step: bool) -> None:
        self.result.violations[check.property] = Violation(
            check.property, check.because, check.object, actions, by_step
        )

    def _at_rest(self, state: int, position: int) -> None:
        """Nothing can happen any more: the end, or a deadlock of every role that has not ended."""
        stuck = self._unfinished(state, range(len(self.packed.roles)))
        if not stuck:
            self.result.finished = True
        elif "deadlock" not in self.result.violations and self._counts("deadlock"):
            self._deadlock(stuck, position)

    def _unfinished(self, state: int, roles: Iterable[int]) -> tuple[int, ...]:
        """Those of the roles that have not ended."""
        packed = self.packed
        places = ((role, state >> packed.roles[role][0] & packed.roles[role][1]) for role in roles)
        return tuple(role for role, place in places if place not in packed.final[role])

    def _deadlock(self, stuck: tuple[int, ...], position: int) -> None:
        actions, takes = self._path(position)
        names = tuple(self.packed.machine.roles[role].name for role in sorted(takes[role] for role in stuck))
        because = GOES_ON.said(roles=listed(names))
        self.result.violations["deadlock"] = Violation("deadlock", because, "", tuple(actions), False, names)

    def _path(self, position: int) -> tuple[list[int], Takes]:
        """The actions that lead to a state; with reduction, the prompt ones in between are taken again. And which role
        really is where the state has each.
        """
        edges = []
        while position > 0:
            edges.append((self.parent[position], self.via[position]))
            position = self.parent[position]
        actions: list[int] = []
        takes = tuple(range(len(self.packed.roles)))
        for before, action in reversed(edges):
            after, hurried = self._hurried(self.order[before], action) if self.reduced else (0, [])
            actions += [self.exchange.really(step, takes) for step in (action, *hurried)]
            takes = tuple(takes[role] for role in self.exchange.in_order(after)[1])
        return actions, takes

    def _hurried(self, state: int, first: int) -> tuple[int, list[int]]:
        out = self.packed.successors(state)
        return self._run_prompt(next(successor for action, successor in out if action == first))[:2]

    def _find_stuck_roles(self) -> None:
        """A role that has not ended and that can never run again, while others go on for ever; or that only spins from
        then on, which is no step of it. First a state in which nobody can and all copies have landed, and who spins is
        at its test.
        """
        if self.result.halted and self.beyond:  # behind a step that was not followed, any role may run again
            return
        takes = tuple(self.exchanges)
        steps = Steps(self.offsets, self.edges, self.edge_movers, self.edge_exchanges, takes, self.edge_kinds)
        everyone = (1 << len(self.packed.machine.roles)) - 1
        later = movers_surely(steps, everyone) if self.beyond else movers_later(steps, everyone, self.put_off)
        found: tuple[tuple[bool, bool], int, tuple[int, ...]] | None = None
        still = {can: [role for role in range(everyone.bit_length()) if not can >> role & 1] for can in set(later)}
        for position, can in enumerate(later):
            if can == everyone:
                continue
            stuck = self._unfinished(self.order[position], still[can])
            if stuck:
                goes_on = bool(can) or self._still_lands(position)
                if found is not None and goes_on and not any(found[0]):
                    continue
                unlike = goes_on, not self._all_wait(position, stuck)
                if found is None or unlike < found[0]:
                    found = unlike, position, stuck
                if not any(unlike):
                    break
        if found is not None:
            self._deadlock(found[2], found[1])

    def _all_wait(self, position: int, roles: Iterable[int]) -> bool:
        """Whether none of the roles can do anything there but fail a test."""
        successors = self.packed.successors(self.order[position])
        names = {self.packed.machine.roles[role].name for role in roles}
        return all(self.fails[action] for action, _ in successors if self.packed.machine.actions[action].role in names)

    def _still_lands(self, position: int) -> bool:
        out: Successors = []
        for agent in self.packed.agents:
            agent(self.order[position], out, [])
        return bool(out)
