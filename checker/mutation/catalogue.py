"""All mutants of a model: every operator at every place where a role does something, at the executions that matter."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from sm90_verify.mutation.neighbours import Neighbours
from sm90_verify.mutation.operators import other_counts, variations
from sm90_verify.mutation.starts import starts
from sm90_verify.mutation.stream import (
    AnyEdit,
    Edit,
    InitEdit,
    LoopEdit,
    Place,
    Sites,
    When,
    always,
    edited,
    every,
    has_answer,
    later,
    once,
)
from sm90_verify.mutation.variation import Variation
from sm90_verify.spec.errors import Source
from sm90_verify.spec.language.pipeline import Pipeline, label_of, one_iteration_each
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.kernel import Node
from sm90_verify.spec.model.words import words_of
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.groups import IDLE

AROUND = one_iteration_each.__code__.co_filename
"""The file of the loop around a role that takes `at`, which is no line of the user's."""


@dataclass(frozen=True)
class Model:
    """A pipeline class with sizes; small ones, since every mutant is searched.

    bounded: parameters under which it ends, for mutants whose loops without end cannot be closed. thin: each change at
    all executions by all instances of its role, and no other. limit: states of a search of every schedule.
    """

    kernel: type[Pipeline]
    parameters: dict[str, Any]
    bounded: dict[str, Any] = field(default_factory=dict)
    thin: bool = False
    limit: int = 400_000

    @property
    def name(self) -> str:
        return label_of(self.kernel)

    @property
    def label(self) -> str:
        return " ".join([self.name, *(f"{name}={value}" for name, value in self.parameters.items())])


@dataclass(frozen=True)
class Mutant:
    """One change of a model. number: its place in the model's list; where: role, line and operation; change: what."""

    number: int
    operator: str
    where: str
    change: str
    edit: AnyEdit
    plain: bool = True
    """It applies to all executions by all instances of the role."""

    @property
    def text(self) -> str:
        return f"{self.operator}: {self.where}" + (f": {self.change}" if self.change else "")

    def of(self, model: Model, **parameters: Any) -> Pipeline:
        """The model with this change; raises SpecError if it has no meaning."""
        return edited(model.kernel, self.edit)(**{**model.parameters, **parameters})


def mutants_of(model: Model) -> list[Mutant]:
    """All mutants of a model, in the order of its roles' programs; the same list whenever it is asked for."""
    sites = Sites()
    pipeline = edited(model.kernel, None, sites)(**model.parameters)
    trace(pipeline)
    near = Neighbours(pipeline.layout)
    found = [
        *_at_places(sites, near, pipeline.stages),
        *_of_roles(sites, near),
        *_of_loops(sites),
        *_of_inits(pipeline, near),
    ]
    wanted = [mutant for mutant in found if not model.thin or mutant.plain]
    return [replace(mutant, number=number) for number, mutant in enumerate(wanted)]


def _at_places(sites: Sites, near: Neighbours, stages: int) -> Iterator[Mutant]:
    for (role, place), by_instance in sites.operations.items():
        first = next(iter(by_instance.values()))[0]
        where = f"{role} {_short(place)} {_words(first)}"
        for variation in variations(first, near):
            if variation.rewrite is not None and variation.answer is None and not _changes(variation, by_instance):
                continue
            for when in _executions(variation, stages):
                for roles in _instances(by_instance):
                    edit = Edit(
                        role, frozenset((place,)), variation.rewrite, variation.answer, variation.moves, when, roles
                    )
                    plain = when.text == "" and not roles
                    yield Mutant(0, variation.operator, where, _change(variation.text, when, roles), edit, plain)


def _changes(variation: Variation, by_instance: dict[str, list[op.Operation]]) -> bool:
    assert variation.rewrite is not None
    return any(variation.rewrite(one) != (one,) for operations in by_instance.values() for one in operations)


def _executions(variation: Variation, stages: int) -> list[When]:
    often = [every(stages)] if stages > 1 else []
    if variation.brief:
        return [once(0), once(stages), *often]
    if variation.wide:
        return [always(), once(0), later(stages), once(stages), *often]
    return [always(), later(stages)]


def _instances(names: Iterable[str]) -> list[tuple[str, ...]]:
    """All instances of a role, and if there are several the first and the last alone."""
    several = list(names)
    return [(), (several[0],), (several[-1],)] if len(several) > 1 else [()]


def _of_roles(sites: Sites, near: Neighbours) -> Iterator[Mutant]:
    names: dict[str, dict[str, None]] = {}
    for (role, _), by_instance in sites.operations.items():
        names.setdefault(role, {}).update(dict.fromkeys(by_instance))
    for role, instances in names.items():
        for variation in starts(near):
            for roles in _instances(instances):
                edit = Edit(role, None, variation.rewrite, roles=roles)
                yield Mutant(0, "start", role, _change(variation.text, always(), roles), edit, not roles)


def _of_loops(sites: Sites) -> Iterator[Mutant]:
    for (role, line), instances in sites.loops.items():
        for more in (-1, 1):
            for roles in _instances(instances):
                text = f"one iteration {'more' if more > 0 else 'less'}"
                where = f"{role} loop" if line[0] == AROUND else f"{role} {_short((line,))} loop"
                change = _change(text, always(), roles)
                yield Mutant(0, "trips", where, change, LoopEdit(role, line, more, roles), not roles)


def _of_inits(pipeline: Pipeline, near: Neighbours) -> Iterator[Mutant]:
    arrivals = pipeline.layout.arrivals
    for (declaration, _, _), ring in near.rings.items():
        names = [region.object for region in ring if region.object in arrivals]
        if not names:
            continue
        for count in other_counts(arrivals[names[0]]):
            for chosen in [names, names[-1:]] if len(names) > 1 else [names]:
                where = f"{declaration} of {len(names)}" if len(chosen) > 1 else chosen[0]
                edit = InitEdit(tuple((name, count) for name in chosen))
                yield Mutant(0, "init", where, f"{arrivals[names[0]]} -> {count}", edit, chosen is names)


def _change(text: str, when: When, roles: tuple[str, ...]) -> str:
    return ", ".join(part for part in (text, when.text, f"{roles[0]} alone" if roles else "") if part)


def _short(place: Place) -> str:
    """The lines from the role's own frame to that of the innermost verb; a file is named where it changes."""
    parts, last = [], ""
    written = [one for one in place if one[0] != AROUND] or place
    for file, line in written:
        name = os.path.basename(file)
        parts.append(f"{'' if name == last else name}:{line}")
        last = name
    return " > ".join(parts)


def _words(operation: op.Operation) -> str:
    what, thing = words_of(Node(operation, Source("", 0), IDLE))
    return f"{what} {thing}".rstrip() + ("?" if has_answer(operation) else "")
