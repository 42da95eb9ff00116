"""All cases of the corpus: which findings each broken pipeline must give, and which twins must be proved."""

from __future__ import annotations

from dataclasses import dataclass

from corpus import (
    accumulators,
    arrivals,
    atomics,
    clusters,
    cp_async,
    ctas,
    dependent,
    epilogue,
    grid_words,
    grids,
    groups,
    lifetime,
    loops,
    memory,
    named_barriers,
    parity,
    patterns,
    proxies,
    registers,
    sources,
    store_async,
    tensormaps,
    transactions,
    trips,
    turns,
    unobserved,
    words,
)

from sm90_verify.spec.language.pipeline import Pipeline


@dataclass(frozen=True)
class Case:
    """A broken pipeline with everything that must be found in it, and the twins that must be proved.

    finds: by property, a word that its report must name: the barrier or buffer to blame, or a role that is stuck ("x or
    y": one of them, where several are out of step at once). These are all the properties that the pipeline violates.
    """

    id: str
    broken: Pipeline
    finds: dict[str, str]
    fixed: tuple[Pipeline, ...]


MODULES = (
    arrivals,
    atomics,
    trips,
    words,
    parity,
    transactions,
    lifetime,
    loops,
    named_barriers,
    turns,
    registers,
    groups,
    accumulators,
    cp_async,
    store_async,
    memory,
    proxies,
    sources,
    tensormaps,
    epilogue,
    patterns,
    clusters,
    ctas,
    unobserved,
    grids,
    dependent,
    grid_words,
)
CASES = tuple(Case(*row) for module in MODULES for row in module.CASES)
NOTED: tuple[tuple[Pipeline, str], ...] = (*parity.NOTED, *unobserved.NOTED)
"""Pipelines that are proved with a note about an unobserved phase, and what stands in the line of the arrival."""

LEFT_OUT: dict[str, str] = {}
