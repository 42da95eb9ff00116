"""The pipelines whose predictions are put to the GPU: every epilogue of a box of sizes, and the mutants of the library.

A case is named by its model, its parameters and, if it is a mutant, by what was changed; that is what is kept with what
the GPU did, so that another version of the specification can be held to it.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from checker.collectives import MODELS
from checker.mutation.catalogue import Model, mutants_of
from checker.mutation.models import models
from spec.epilogue import Epilogue
from spec.errors import SpecError
from spec.library import PIPELINES
from spec.pipeline import Pipeline

KERNELS: dict[str, type[Pipeline]] = {**PIPELINES, **MODELS}
TRIPS = 4
"""Iterations of a loop that has no end of its own, beyond what fills the stages."""


@dataclass(frozen=True)
class Case:
    """model: its name; parameters that are not the defaults; mutant: what is changed, or nothing."""

    model: str
    parameters: tuple[tuple[str, Any], ...]
    mutant: str = ""

    @property
    def label(self) -> str:
        return " ".join([self.model, *(f"{name}={value}" for name, value in self.parameters), self.mutant]).rstrip()

    def pipeline(self) -> Pipeline:
        """Raises SpecError where the change leaves no meaning, or there is no such mutant any more."""
        kernel, parameters = KERNELS[self.model], dict(self.parameters)
        if not self.mutant:
            return kernel(**parameters)
        model = Model(kernel, parameters, thin=True)
        found = _mutants(model.name, self.parameters).get(self.mutant)
        if found is None:
            raise SpecError(f"{self.model} has no mutant {self.mutant!r}")
        return found.of(model)  # type: ignore[no-any-return]


@lru_cache(maxsize=4)
def _mutants(name: str, parameters: tuple[tuple[str, Any], ...]) -> dict[str, Any]:
    return {mutant.text: mutant for mutant in mutants_of(Model(KERNELS[name], dict(parameters), thin=True))}


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
