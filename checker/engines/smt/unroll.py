"""A Machine as a relation between two states in Z3: one step of one process, and what is wrong with a state or a
step.

A step chooses a process (a role, or an action that has no role) and, where a role has several actions at its
location, which of them. What a variable becomes is a chain over the groups of actions that update it alike, so that
the relation grows with the number of different updates and not with the number of actions. The relation is built once
over `before` and `after` and copied by substitution from then on.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from sm90_verify.engines.smt.read_z3 import (
    MovedPlaces,
    Places,
    Term,
    conjunction,
    disjunction,
    is_false,
    is_true,
    symbol,
    value,
    z3_module,
    z3_term,
)
from sm90_verify.engines.smt.reorder import footprints, independent, processes_of
from sm90_verify.spec.model.machine import Check, Machine
from sm90_verify.spec.ptx.expr import Expr, evaluate


@dataclass(frozen=True)
class Relation:
    """One step of a machine, over the terms `before` and `after` by variable name, and over `who` and `pick`.

    moved: as `after`, but what is said of a role's location is said in terms of before, who and pick.
    step: the chosen action can be taken, is followed, and leads from before to after.
    wrong_state: by property, over before. wrong_step: by property, over before, who and pick.
    ordered: of two steps, the second with who_next and pick_next, those whose swap would lose nothing are ruled out.
    ways: by process and location (None for an action without a role), the actions that `pick` chooses from.
    """

    machine: Machine
    before: dict[str, Term]
    after: dict[str, Term]
    moved: dict[str, Term]
    who: Term
    pick: Term
    who_next: Term
    pick_next: Term
    step: Term
    ordered: Term
    initial: Term
    wrong_state: dict[str, Term]
    wrong_step: dict[str, Term]
    stuck: Term
    ways: dict[tuple[int, int | None], tuple[int, ...]]


def relation(machine: Machine, *, ordered: bool = True) -> Relation:
    """The relation of a machine; `ordered` adds the constraint on neighbouring steps (see engines.smt.reorder)."""
    return _Builder(machine).build(ordered)


class _Builder:
    def __init__(self, machine: Machine) -> None:
        self.z3 = z3_module()
        self.machine = machine
        self.processes = processes_of(machine)
        self.widths = {variable.name: variable.width for variable in machine.variables}
        self.before, self.after = state_terms(machine, "'0"), state_terms(machine, "'1")
        self.memo: dict[int, Term] = {}
        self.here: dict[tuple[int, bool], list[Term]] = {}
        self.counters = {role.name: role.counter for role in machine.roles}
        self.ways: dict[tuple[int, int | None], tuple[int, ...]] = {}
        self.place: dict[int, tuple[int, int]] = {}
        for process, actions in enumerate(self.processes):
            for index in actions:
                key = (process, machine.actions[index].location)
                self.place[index] = (process, len(self.ways.get(key, ())))
                self.ways[key] = (*self.ways.get(key, ()), index)
        most = max((len(ways) for ways in self.ways.values()), default=1)
        self.who_width = max(2, (len(self.processes) - 1).bit_length())
        self.pick_width = max(2, (most - 1).bit_length())
        self.who, self.pick = symbol("who'0", self.who_width), symbol("pick'0", self.pick_width)
        self.who_next, self.pick_next = symbol("who'1", self.who_width), symbol("pick'1", self.pick_width)

    def build(self, ordered: bool) -> Relation:
        z3, machine = self.z3, self.machine
        halting_states = [term for check, term in self._state_checks() if check.halts]
        follows = []
        for process, actions in enumerate(self.processes):
            can = [conjunction([*self._chosen_here(index), *self._goes(index)]) for index in actions]
            follows.append(conjunction([self.who == process, disjunction(can)]))
        places = [term for role in machine.roles for term in self.before[role.counter].well_formed()]
        step = conjunction([*places, disjunction(follows), *(z3.Not(term) for term in halting_states), *self._next()])
        initial = conjunction(
            self.before[v.name].equals(v.initial)
            if isinstance(self.before[v.name], Places)
            else self.before[v.name] == value(v.initial, v.width)
            for v in machine.variables
        )
        wrong_state: dict[str, list[Term]] = {}
        for check, term in self._state_checks():
            wrong_state.setdefault(check.property, []).append(term)
        stuck = self._stuck(halting_states)
        wrong_state.setdefault("deadlock", []).append(stuck)
        wrong_step: dict[str, list[Term]] = {}
        for index, action in enumerate(machine.actions):
            for check in action.checks:
                if not is_false(check.when):
                    parts = [self._chosen(index), self._read(action.guard), self._read(check.when)]
                    wrong_step.setdefault(check.property, []).append(conjunction(parts))
        return Relation(
            machine,
            self.before,
            self.after,
            {**self.after, **self._moved()},
            self.who,
            self.pick,
            self.who_next,
            self.pick_next,
            step,
            self._ordered() if ordered else z3.BoolVal(True),
            initial,
            {name: disjunction(terms) for name, terms in wrong_state.items()},
            {name: disjunction(terms) for name, terms in wrong_step.items()},
            stuck,
            self.ways,
        )

    # ---------------------------------------------------------------- parts of the relation

    def _chosen_here(self, index: int, next: bool = False) -> list[Term]:
        """The action's location and its pick, without its process."""
        known = self.here.get((index, next))
        if known is not None:
            return known
        action = self.machine.actions[index]
        process, number = self.place[index]
        state, pick = (self.after, self.pick_next) if next else (self.before, self.pick)
        parts = []
        if action.location is not None:
            parts.append(state[self.counters[action.role]].equals(action.location))
        if len(self.ways[process, action.location]) > 1:
            parts.append(pick == number)
        self.here[index, next] = parts
        return parts

    def _chosen(self, index: int) -> Term:
        return conjunction([self.who == self.place[index][0], *self._chosen_here(index)])

    def _goes(self, index: int) -> list[Term]:
        """The guard holds and no check stops the action from being followed."""
        action = self.machine.actions[index]
        stops = [self.z3.Not(self._read(check.when)) for check in action.checks if check.halts]
        return [*([] if is_true(action.guard) else [self._read(action.guard)]), *stops]

    def _next(self) -> Iterable[Term]:
        groups: dict[str, dict[int, tuple[Term, list[int]]]] = {name: {} for name in self.widths}
        for index, action in enumerate(self.machine.actions):
            for name, update in action.updates:
                term = self._read(update)
                groups[name].setdefault(term.get_id(), (term, []))[1].append(index)
        for process, role in enumerate(self.machine.roles):
            del groups[role.counter]
            yield from self._moves(process, self.before[role.counter], self.after[role.counter])
        for name, found in groups.items():
            result = self.before[name]
            for term, actions in found.values():
                if not term.eq(self.before[name]):
                    result = self.z3.If(self._any_chosen(actions), term, result)
            yield self.after[name] == result

    def _moves(self, process: int, before: Places, after: Places) -> Iterable[Term]:
        """The role's location becomes the target of its action, if it is the one that moves."""
        by_target: dict[int, list[int]] = {}
        for index in self.processes[process]:
            by_target.setdefault(self.machine.actions[index].target or 0, []).append(index)
        for number in range(len(before.bits), 0, -1):
            coming = [conjunction(self._chosen_here(index)) for index in by_target.get(number, ())]
            moved = disjunction([after.at_least(number + 1), *coming])
            yield after.at_least(number) == self.z3.If(self.who == process, moved, before.at_least(number))

    def _moved(self) -> dict[str, Term]:
        found = {}
        for process, role in enumerate(self.machine.roles):
            edges: dict[tuple[int, int], list[int]] = {}
            for index in self.processes[process]:
                action = self.machine.actions[index]
                edges.setdefault((action.location or 0, action.target or 0), []).append(index)
            taken = [(*edge, self._any_chosen(actions)) for edge, actions in edges.items()]
            found[role.counter] = MovedPlaces(self.after[role.counter].bits, self.before[role.counter], tuple(taken))
        return found

    def _any_chosen(self, actions: Iterable[int], next: bool = False) -> Term:
        """One of the actions is chosen, whether or not it can be taken."""
        by_process: dict[int, list[int]] = {}
        for index in actions:
            by_process.setdefault(self.place[index][0], []).append(index)
        who = self.who_next if next else self.who
        return disjunction(
            conjunction([who == process, disjunction(conjunction(self._chosen_here(index, next)) for index in group)])
            for process, group in by_process.items()
        )

    def _ordered(self) -> Term:
        groups = footprints(self.machine)
        rules = []
        for first in groups:
            earlier = [other for other in groups if other.process < first.process and independent(first, other)]
            if earlier:
                second = self._any_chosen((index for other in earlier for index in other.actions), next=True)
                rules.append(self.z3.Not(conjunction([self._any_chosen(first.actions), second])))
        return conjunction(rules)

    # ---------------------------------------------------------------- what is wrong

    def _state_checks(self) -> Iterable[tuple[Check, Term]]:
        for check in self.machine.checks:
            if not is_false(check.when):
                yield check, self._read(check.when)
        for role in self.machine.roles:
            for index, location in enumerate(role.locations):
                here = self.before[role.counter].equals(index)
                for check in location.checks:
                    if not is_false(check.when):
                        yield check, conjunction([here, self._read(check.when)])

    def _stuck(self, halting_states: list[Term]) -> Term:
        z3 = self.z3
        parts = [z3.Not(term) for term in halting_states]
        unfinished = []
        for process, actions in enumerate(self.processes):
            can = [
                conjunction([*self._place_of(index), self._read(self.machine.actions[index].guard)])
                for index in actions
            ]
            parts.append(z3.Not(disjunction(can)))
            if process < len(self.machine.roles):
                role = self.machine.roles[process]
                ends = [self.before[role.counter].equals(i) for i, place in enumerate(role.locations) if place.final]
                unfinished.append(z3.Not(disjunction(ends)))
        return conjunction([*parts, disjunction(unfinished)])

    def _place_of(self, index: int) -> list[Term]:
        action = self.machine.actions[index]
        if action.location is None:
            return []
        return [self.before[self.counters[action.role]].equals(action.location)]

    # ---------------------------------------------------------------- small

    def _read(self, expr: Expr) -> Term:
        return z3_term(expr, self.before.__getitem__, self.memo)


def state_terms(machine: Machine, suffix: str) -> dict[str, Term]:
    """A term per variable, and Places for the counters of roles."""
    sizes = {role.counter: len(role.locations) for role in machine.roles}
    return {
        v.name: Places.named(v.name + suffix, sizes[v.name]) if v.name in sizes else symbol(v.name + suffix, v.width)
        for v in machine.variables
    }


def renaming(old: dict[str, Term], new: dict[str, Term]) -> list[tuple[Term, Term]]:
    """Pairs for a substitution of the terms of one state by those of another."""
    pairs = []
    for name, term in old.items():
        if isinstance(term, Places):
            pairs += list(zip(term.bits, new[name].bits, strict=True))
        else:
            pairs.append((term, new[name]))
    return pairs


def initial_state(machine: Machine) -> dict[str, int]:
    return {variable.name: variable.initial for variable in machine.variables}


def take(machine: Machine, state: dict[str, int], index: int) -> dict[str, int] | None:
    """The state after an action, by the reference meaning of expressions; None if it cannot be taken in the state."""
    action = machine.actions[index]
    counter = next((role.counter for role in machine.roles if role.name == action.role), "")
    if action.location is not None and state[counter] != action.location:
        return None
    if not evaluate(action.guard, state):
        return None
    after = dict(state)
    if action.location is not None and action.target is not None:
        after[counter] = action.target
    after.update((name, evaluate(update, state)) for name, update in action.updates)
    return after
