"""The table of claims: every row, by its number."""

from __future__ import annotations

from collections.abc import Sequence

from sm90_verify.evidence.claims import barriers, clusters, kernels, rings, states
from sm90_verify.evidence.claims.claim import Claim
from sm90_verify.spec.errors import SpecError


def table() -> tuple[Claim, ...]:
    """All claims, in the order of their numbers; a number stands for one claim only."""
    rows = sorted(
        (*rings.ROWS, *barriers.ROWS, *states.ROWS, *clusters.ROWS, *kernels.ROWS), key=lambda claim: claim.id
    )
    numbers = [claim.id for claim in rows]
    assert len(set(numbers)) == len(numbers), "two claims with one number"
    return tuple(rows)


def chosen(ids: Sequence[int]) -> tuple[Claim, ...]:
    """The claims with these numbers, in the table's order; all of them if there are none."""
    rows = {claim.id: claim for claim in table()}
    for id in ids:
        if id not in rows:
            raise SpecError(f"no claim {id}: use one of {', '.join(map(str, rows))}")
    return tuple(claim for id, claim in rows.items() if id in ids or not ids)
