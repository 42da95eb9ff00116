"""Templates for the decisions that all roles share: how often a trip-count loop turns, and what was chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise, permutations
from math import gcd
from typing import NamedTuple

from sm90_verify.engines.smt.tables import (
    Candidate,
    Graph,
    TabledMachine,
    count_along,
    lookup,
    lookup_all,
    reaching,
    recent_along,
    sum_of_cases,
)
from sm90_verify.spec.model.accesses import in_locations
from sm90_verify.spec.model.machine import Action
from sm90_verify.spec.ptx.expr import FALSE, TRUE, Expr, Field, all_of, any_of, fields_of, where

MOST_AGES = 6
"""How many of a role's last choices are told apart: every one more doubles the ways to a location."""


def loop_candidates(model: TabledMachine) -> Iterable[Candidate]:
    """Iterations done plus iterations behind are the same for all roles of a trip-count loop; the first is not
    behind.
    """
    iterations = {p.role: p for p in model.machine.structure.progress if p.kind == "iteration"}
    for ended in model.machine.of_kind("ended"):
        loop, behind = ended.of, model.by_role("iterations behind", ended.of)
        stopped = model.fields[ended.name] == 1
        if len(behind) < 2:
            continue
        yield Candidate("loops", f"somebody leads {loop}", any_of(field == 0 for field in behind.values()))
        yield from _bounds("loops", behind)
        counts = {
            role: (tuple(value or 0 for value in iterations[role].by_location), iterations[role].modulus)
            for role in behind
            if role in iterations
        }
        if len(counts) == len(behind):
            yield from _in_step("loops", model, behind, counts)
        for role, field in behind.items():
            heads = _reading(model.graphs[role], field.name)
            past = set(range(len(model.graphs[role].ways))) - reaching(model.graphs[role], heads)
            inside = ~in_locations(model.graphs[role].counter, past)
            yield Candidate("loops", f"{role} has ended {loop}", inside | (field == 0) & stopped)


def _bounds(template: str, behind: dict[str, Field]) -> Iterable[Candidate]:
    for role, field in behind.items():
        for most in range(1, (1 << field.width) - 1):
            yield Candidate(template, f"{role} is at most {most} behind", field <= most, f"{field.name} <=")


def _in_step(
    template: str, model: TabledMachine, behind: dict[str, Field], counts: dict[str, tuple[tuple[int, ...], int]]
) -> Iterable[Candidate]:
    """count by location + behind is the same for all, modulo what the counts recur with."""
    roles = list(behind)
    for one, other in pairwise(roles):
        width = behind[one].width
        modulus = gcd(counts[one][1], counts[other][1])
        if modulus == 0:
            largest = max(*counts[one][0], *counts[other][0]) + (1 << max(width, behind[other].width))
            wide = largest.bit_length()
            exact = [
                lookup(model.graphs[role].counter, counts[role][0], wide) + _widened(behind[role], wide)
                for role in (one, other)
            ]
            yield Candidate(template, f"{one} and {other} are in step", exact[0] == exact[1])
            continue
        if modulus == 1 or behind[other].width != width or modulus > 1 << width:
            continue
        sides = []
        small: list[Expr] = []
        for role in (one, other):
            done = lookup(model.graphs[role].counter, [value % modulus for value in counts[role][0]], width)
            sides.append(_modulo(done + behind[role], modulus))
            if modulus & (modulus - 1):
                small.append(behind[role] < (1 << width) - modulus)
        yield Candidate(template, f"{one} and {other} are in step", all_of([*small, sides[0] == sides[1]]))


def _widened(field: Field, width: int) -> Expr:
    cases = [(field == number, number) for number in range(1, 1 << field.width)]
    return sum_of_cases([[*cases, (TRUE, 0)]], width)


def _modulo(number: Expr, modulus: int) -> Expr:
    if modulus & (modulus - 1) == 0:
        return number & (modulus - 1)
    result = number
    for times in range(1, ((1 << number.width) - 1) // modulus + 1):
        result = where(number >= times * modulus, number - times * modulus, result)
    return result


def _reading(graph: Graph, name: str) -> list[int]:
    """The locations with an action whose guard reads the variable."""
    return [
        location for location, way in enumerate(graph.ways) if any(name in fields_of(action.guard) for _, action in way)
    ]


def choice_candidates(model: TabledMachine) -> Iterable[Candidate]:
    """What a role has chosen is in the history for as long as somebody has yet to read it, and what two roles have
    chosen last is the same, as far as they are apart.
    """
    chosen_by_age = model.machine.of_kind("chosen")
    for choice in dict.fromkeys(variable.of for variable in chosen_by_age):
        behind = model.by_role("choices behind", choice)
        history = [model.fields[variable.name] for variable in chosen_by_age if variable.of == choice]
        yield Candidate("choices", f"somebody leads {choice}", any_of(field == 0 for field in behind.values()))
        yield from _bounds("choices", behind)
        counts: dict[str, tuple[tuple[int, ...], int]] = {}
        answers: dict[str, list[_Answers]] = {}
        for role, field in behind.items():
            yield Candidate("choices", f"{role} has lost {choice} or not", field <= len(history) + 1)
            graph = model.graphs[role]
            heads = frozenset(_reading(graph, field.name))
            counts[role] = count_along(graph, _one_at(heads))
            chosen = recent_along(graph, min(len(history), MOST_AGES), _answers(graph, heads))
            answers[role] = [_of_age(chosen, age) for age in range(min(len(history), MOST_AGES))]
            others = [other for name, other in behind.items() if name != role]
            for age, (past, given) in enumerate(answers[role]):
                known = [~in_locations(graph.counter, past)]
                for distance, entry in enumerate(history[age:]):
                    unread = any_of(_between(other, distance + age + 1, len(history)) for other in others)
                    known.append((field == distance) & (~unread | lookup_all(graph.counter, given, entry)))
                known.append(field >= len(history) - age)
                yield Candidate("choices", f"{role} chose {choice}, {age} before its last", any_of(known))
        yield from _alike(model, choice, behind, answers)
        yield from _in_step("choices", model, behind, counts)


class _Answers(NamedTuple):
    """places: locations to which every way has so many choices. given: by location, which it may have been."""

    places: list[int]
    given: list[frozenset[int]]


def _of_age(chosen: Sequence[frozenset[tuple[int, ...]]], age: int) -> _Answers:
    places = [place for place, recent in enumerate(chosen) if all(len(one) > age for one in recent)]
    return _Answers(places, [frozenset(one[age] for one in recent if len(one) > age) for recent in chosen])


def _between(field: Field, least: int, most: int) -> Expr:
    return FALSE if least > most else (field >= least) & (field <= most)


def _alike(
    model: TabledMachine, choice: str, behind: dict[str, Field], answers: dict[str, list[_Answers]]
) -> Iterable[Candidate]:
    """Of two roles so many choices apart, one has made the choice so many before its last that the other made last."""
    for one, other in permutations(behind, 2):
        counters = model.graphs[one].counter, model.graphs[other].counter
        (places, given), *_ = answers[other]
        for apart, (before, earlier) in enumerate(answers[one]):
            if not apart and one > other:
                continue
            distance = any_of(
                (behind[one] == own) & (behind[other] == own + apart) for own in range(len(answers[one]) - apart)
            )
            past = in_locations(counters[0], before) & in_locations(counters[1], places)
            numbers = sorted(frozenset[int]().union(*earlier, *given))
            same = any_of(
                in_locations(counters[0], [place for place, found in enumerate(earlier) if number in found])
                & in_locations(counters[1], [place for place, found in enumerate(given) if number in found])
                for number in numbers
            )
            about = f"{other} chose {choice} as {one} did, {apart} before its last"
            yield Candidate("choices", about, ~distance | ~past | same)


def _one_at(heads: frozenset[int]) -> Callable[[Action], int]:
    return lambda action: int(action.location in heads)


def _answers(graph: Graph, heads: frozenset[int]) -> Callable[[Action], int | None]:
    """The number of the option that an action at a choice takes: options come in order, each picked or found."""

    def answer(action: Action) -> int | None:
        if action.location not in heads:
            return None
        targets = list(dict.fromkeys(other.target for _, other in graph.ways[action.location or 0]))
        return targets.index(action.target)

    return answer
