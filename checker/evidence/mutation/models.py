"""The models whose mutants are counted: those of the catalogue, at sizes at which every mutant can be searched."""

from __future__ import annotations

from sm90_verify.mutation.catalogue import Model
from sm90_verify.spec.cutlass.catalogue import mutated


def models(*, dense: bool = False) -> list[Model]:
    """All of them. dense: most with changes at single executions and by single instances of a role as well."""
    return [Model(kernel, at.sizes, at.bounded, at.thin or not dense, at.limit) for kernel, at in mutated()]
