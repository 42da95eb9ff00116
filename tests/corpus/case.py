"""What the corpus says about a case: what must be found in the broken pipeline, and which twins must be proved."""

from __future__ import annotations

from dataclasses import dataclass

from spec.pipeline import Pipeline


@dataclass(frozen=True)
class Case:
    """A broken pipeline with everything that must be found in it, and the twins that must be proved.

    finds: by property, a word that its report must name: the barrier or buffer to blame, or a role that is stuck. These
    are all the properties that the pipeline violates. A correct pattern that is easily taken for wrong has no broken
    side.
    """

    id: str
    broken: Pipeline | None
    finds: dict[str, str]
    fixed: tuple[Pipeline, ...]
