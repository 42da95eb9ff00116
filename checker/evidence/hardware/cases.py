"""The pipelines whose predictions are put to the GPU: every epilogue of a box of sizes, the mutants of the library, and
faults that a folder of Python files defines.

A case is named by its model, its parameters and, if it is a mutant, by what was changed; that is what is kept with what
the GPU did, so that another version of the specification can be held to it.
"""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from sm90_verify.evidence.mutation.models import models
from sm90_verify.mutation.catalogue import Model, Mutant, mutants_of
from sm90_verify.python_file import load_classes, load_module
from sm90_verify.recordings.lower import lower
from sm90_verify.recordings.plan import ExecutorPlan
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.cutlass.epilogue import Epilogue
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace

TRIPS = 4
"""Iterations of a loop that has no end of its own, beyond what fills the stages."""


@dataclass(frozen=True)
class Case:
    """model: its name, or FILE.py:CLASS; parameters that are not the defaults; mutant: what is changed, or nothing.
    right: model and parameters of the pipeline without the fault, where it is not that of the mutant.
    """

    model: str
    parameters: tuple[tuple[str, Any], ...]
    mutant: str = ""
    right: tuple[str, tuple[tuple[str, Any], ...]] | None = None

    @property
    def label(self) -> str:
        return " ".join([self.model, *(f"{name}={value}" for name, value in self.parameters), self.mutant]).rstrip()

    def line(self) -> dict[str, Any]:
        """As JSON."""
        line = {"model": self.model, "parameters": dict(self.parameters), "mutant": self.mutant}
        return {**line, "right": (self.right[0], dict(self.right[1]))} if self.right else line

    def twin(self) -> Case | None:
        """The same without the fault, if it is known."""
        return Case(*self.right) if self.right else Case(self.model, self.parameters) if self.mutant else None

    def pipeline(self) -> Pipeline:
        """Raises SpecError where the change leaves no meaning, or there is no such mutant any more."""
        kernel, parameters = _kernel(self.model), dict(self.parameters)
        if not self.mutant:
            return kernel(**parameters)
        model = Model(kernel, parameters, thin=True)
        found = _mutants(model.name, self.parameters).get(self.mutant)
        if found is None:
            raise SpecError(f"{self.model} has no mutant {self.mutant!r}")
        return found.of(model)


def _kernel(model: str) -> type[Pipeline]:
    path, _, name = model.rpartition(":")
    return load_classes(path, name)[0] if path else kernels()[model]


def faults(folder: str) -> Iterator[Case]:
    """The rows of CASES, (name, faulty pipeline, ..., right pipelines), of the Python files in a folder. The twin
    of each is the first right one that the executor can run, if need be with the trip count of the faulty one; that has
    one if it loops without end.

    Raises SpecError if no file has any.
    """
    for path, broken, fixed in _rows(folder):
        if _plan_of(broken) is None:
            broken = _bounded(broken, broken.stages + TRIPS)
        twins = (*fixed, *(_bounded(one, broken.trips) for one in fixed))
        right = next((one for one in twins if _plan_of(one) is not None), None)
        yield replace(_named(path, broken), right=None if right is None else _key(_named(path, right)))


def right_pipelines(folder: str) -> Iterator[tuple[str, Pipeline, ExecutorPlan]]:
    """The right ones of them, each once, that the executor can run, if need be with a trip count; with their files and
    plans.
    """
    seen = set()
    for path, _, fixed in _rows(folder):
        for one in fixed:
            if (case := _named(path, one)) in seen:
                continue
            seen.add(case)
            runs, plan = one, _plan_of(one)
            if plan is None:
                runs = _bounded(one, one.stages + TRIPS)
                if (case := _named(path, runs)) in seen:
                    continue
                seen.add(case)
                plan = _plan_of(runs)
            if plan is not None:
                yield path.as_posix(), runs, plan


def _rows(folder: str) -> Iterator[tuple[Path, Pipeline, tuple[Pipeline, ...]]]:
    """By row its file, the faulty pipeline and the right ones."""
    one, found = Path(folder), False
    for path in sorted(one.glob("[a-z]*.py")) if one.is_dir() else (one,):
        for _, broken, *_, fixed in getattr(load_module(str(path)), "CASES", ()):
            found = True
            yield path, broken, fixed
    if not found:
        raise SpecError(f"{folder}: no Python file in it has a list CASES of faulty pipelines and their twins")


def _bounded(pipeline: Pipeline, trips: Any) -> Pipeline:
    return type(pipeline)(**pipeline.parameters() | {"trips": trips})


def _plan_of(pipeline: Pipeline) -> ExecutorPlan | None:
    """None if the executor cannot run it."""
    try:
        return lower(trace(pipeline))
    except SpecError:
        return None


def _named(path: Path, pipeline: Pipeline) -> Case:
    return Case(f"{path.as_posix()}:{type(pipeline).__name__}", tuple(pipeline.parameters().items()))


def _key(case: Case) -> tuple[str, tuple[tuple[str, Any], ...]]:
    return case.model, case.parameters


@lru_cache(maxsize=4)
def _mutants(name: str, parameters: tuple[tuple[str, Any], ...]) -> dict[str, Mutant]:
    """By names without line numbers, so that they stay when lines move; equal ones are numbered."""
    found: dict[str, Mutant] = {}
    seen: Counter[str] = Counter()
    for mutant in mutants_of(Model(kernels()[name], dict(parameters), thin=True)):
        where = re.sub(r"(\.py):\d+", r"\1", re.sub(r" > :\d+", "", mutant.where))
        text = replace(mutant, where=where).text
        seen[text] += 1
        found[text if seen[text] == 1 else f"{text} #{seen[text]}"] = mutant
    return found


def epilogues() -> Iterator[Case]:
    """StagesC and StagesD 1 to 5, with delay and reuse and without, 1 to 6 subtiles, 1 to 3 tiles, all schedules."""
    for schedule, c, d, delay, reuse, subtiles, tiles in itertools.product(
        ("ws", "cooperative", "pingpong"),
        range(1, 6),
        range(1, 6),
        (False, True),
        (False, True),
        range(1, 7),
        (1, 2, 3),
    ):
        if schedule == "ws" and tiles > 1:
            continue
        parameters = {
            "schedule": schedule,
            "stages_c": c,
            "stages_d": d,
            "delay_tma_store": delay,
            "reuse_smem_c": reuse,
            "subtiles": subtiles,
            "tiles": tiles,
            "bytes_c": 2048,
            "bytes_d": 2048,
        }
        yield Case(Epilogue(**parameters).name, tuple(parameters.items()))


def mutants() -> Iterator[Case]:
    """Every change at all executions, of the models of `verify mutants` with a trip count and of a cluster's size."""
    for model in models():
        parameters = {**model.parameters, **model.bounded}
        if "trips" in parameters or not model.bounded:
            key = tuple(parameters.items())
            for text in _mutants(model.name, key):
                yield Case(model.name, key, text)
