"""What the corpus says about a case: what must be found in the broken pipeline, and which twins must be proved."""

from __future__ import annotations

from dataclasses import dataclass

from spec.pipeline import Pipeline


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
