"""The models whose mutants are counted: a row each, at sizes at which every mutant can be searched."""

from __future__ import annotations

from checker.mutation.catalogue import Model
from spec.library import PIPELINES

SIZES = {
    "tma-async": ((2, 1), (2, 2), (3, 1), (3, 2)),
    "transaction-async": ((2, 1), (2, 2), (3, 1), (3, 2)),
    "async": ((2, 1), (2, 2), (3, 1), (3, 2)),
    "tma-store": ((2, 1), (3, 1)),
    "ordered-sequence": ((2, 1), (2, 2), (3, 1), (3, 2)),
}
"""(stages, consumers) of the pipeline classes; those of tma-store are not told apart by the number of consumers."""


def models() -> list[Model]:
    """All rows."""
    rows = [
        Model(PIPELINES[name], {"stages": stages, "consumers": consumers}, {"trips": 2 * stages + 1})
        for name, sizes in SIZES.items()
        for stages, consumers in sizes
    ]
    for name, more in (
        ("tma-async", {"stages": 2, "consumers": 1, "peek": True}),
        ("tma-async", {"stages": 2, "consumers": 1, "producers": 2}),
        ("async", {"stages": 2, "consumers": 1, "producers": 2}),
    ):
        rows.append(Model(PIPELINES[name], more, {"trips": 5}))
    return rows
