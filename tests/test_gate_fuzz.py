"""Whatever a field of a kernel holds: it is refused with one line, or the engines agree about what there is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass, replace
from random import Random
from typing import Any

import pytest
from handmade_kernels import JUNK, Loop, Mixed, Pair, Ring

from sm90_verify.engines.check import check
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.annotate import annotate
from sm90_verify.spec.model.kernel import Kernel


def is_record(value: object) -> bool:
    return (is_dataclass(value) and not isinstance(value, type)) or hasattr(value, "_fields")


def names_of(record: Any) -> tuple[str, ...]:
    return record._fields if hasattr(record, "_fields") else tuple(field.name for field in fields(record))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Every field of a record and of what lies in it, and every part of a collection."""
    if is_record(value):
        parts = [((*path, name), getattr(value, name)) for name in names_of(value)]
    elif isinstance(value, tuple):
        parts = [((*path, index), one) for index, one in enumerate(value)]
    elif isinstance(value, dict):
        parts = [((*path, (key,)), one) for key, one in value.items()]
    else:
        return
    for place, one in parts:
        yield place, one
        yield from places(one, place)


def put(value: Any, path: tuple[Any, ...], new: object) -> Any:
    """The value with another part at a place."""
    if not path:
        return new
    head, *rest = path
    if is_record(value):
        part = put(getattr(value, head), tuple(rest), new)
        return value._replace(**{head: part}) if hasattr(value, "_fields") else replace(value, **{head: part})
    if isinstance(value, tuple):
        return (*value[:head], put(value[head], tuple(rest), new), *value[head + 1 :])
    return {**value, head[0]: put(value[head[0]], tuple(rest), new)}


def mutations(kernel: Kernel, random: Random, number: int) -> Iterator[Kernel]:
    """Kernels with one other value each: of another type, out of range, or that of the same field elsewhere; every
    name of a field as often as others. Half of them are annotated again.
    """
    by_name: dict[str, list[tuple[tuple[Any, ...], Any]]] = {}
    for place, old in places(kernel):
        name = next(part for part in reversed(place) if isinstance(part, str))
        by_name.setdefault(name, []).append((place, old))
    for _ in range(number):
        name = random.choice(list(by_name))
        place, old = random.choice(by_name[name])
        new = random.choice((random.choice(JUNK), random.choice(by_name[name])[1]))
        if isinstance(old, int) and random.random() < 0.4:
            new = random.choice((old + 1, old - 1, 2 * old, -old, old + 16))
        elif isinstance(old, tuple) and not is_record(old) and random.random() < 0.4:
            new = random.choice((old[:-1], (*old, *old), list(old)))
        changed = put(kernel, place, new)
        if random.random() < 0.5 and isinstance(changed.programs, tuple):
            changed = replace(changed, programs=tuple(annotate(program) for program in changed.programs))
        yield changed


def decided(kernels: Iterator[Kernel], engine: str) -> Iterator[str]:
    """What becomes of each; engines that contradict each other, and all errors but SpecErrors, are raised."""
    while True:
        try:
            yield check(next(kernels), engine=engine, limit=5_000).verdict
        except StopIteration:
            return
        except SpecError as error:
            assert "\n" not in str(error)
            yield "refused"


def fates(pipeline: type[Pipeline], seed: int, number: int) -> dict[str, int]:
    """How many of so many mutations end how; a SpecError of a mutation itself ends a round of them."""
    random, found = Random(seed), dict.fromkeys(("refused", PROVED, VIOLATED, UNDETERMINED), 0)
    kernel, engine = (
        trace(pipeline()),
        "search" if pipeline is Mixed else "search+order",
    )  # order says nothing of choices
    while sum(found.values()) < number:
        for verdict in decided(mutations(kernel, random, number - sum(found.values())), engine):
            found[verdict] += 1
    return found


@pytest.mark.parametrize(("pipeline", "number"), [(Ring, 50), (Loop, 12), (Mixed, 50), (Pair, 50)])
def test_every_mutation_of_a_field_is_refused_or_decided_in_one_way(pipeline, number):
    found = fates(pipeline, 1, number)
    assert found["refused"] > number // 3 and found[PROVED] > 0
