"""What must not hold in any state, wherever the roles are."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from sm90_verify.spec.model.barrier_bytes import overlap_of, undeclared_overlaps
from sm90_verify.spec.model.machine import Check
from sm90_verify.spec.model.properties import HALTING
from sm90_verify.spec.model.words import in_flight_at_exit
from sm90_verify.spec.ptx.expr import TRUE, Expr, all_of, any_of, is_false
from sm90_verify.spec.ptx.needs import APART, BALANCED, COUNTED, LANDED_AT_EXIT
from sm90_verify.spec.ptx.step import Illegal

if TYPE_CHECKING:
    from sm90_verify.spec.model.variables import Variables


def state_checks(v: Variables, gone: dict[str, Expr]) -> Iterable[Check]:
    """gone: by the home of a CTA, all its roles have ended."""
    layout = v.kernel.layout
    for one, other in undeclared_overlaps(layout, v.programs):
        yield Check(APART.property, TRUE, overlap_of(one, other), other.object)
    for name, count in layout.arrivals.items():
        if count < 1:
            yield Check(COUNTED.property, TRUE, COUNTED.said(barrier=name, count=count), name, True)
    for key, (busy, _, _) in v.copies.items():
        for access in key.accesses:
            ended = gone.get(v.kernel.launch.home(access.cta), TRUE)
            if access.space == "shared" and not is_false(ended):
                because = in_flight_at_exit(access, v.kernel.launch)
                yield Check(LANDED_AT_EXIT.property, ended & (busy != 0), because, access.object)
    finished = all_of(gone.values())
    for name, b in v.barriers.items():
        flying = any_of(busy != 0 for key, (busy, _, _) in v.copies.items() if key.barrier == name)
        if v.plans[name].transactions and not is_false(finished):
            because = BALANCED.said(barrier=name)
            yield Check(BALANCED.property, finished & ~flying & (b.tx != 0), because, name)


def check_of(illegal: Illegal, thing: str) -> Check:
    """A part of a step or way as a check; its sentence begins with the thing that it is about."""
    because = (
        illegal.because
        if illegal.property in ("smem-overlap", "limit", "exit-hazard")
        else f"{thing}: {illegal.because}"
    )
    return Check(illegal.property, illegal.when, because, thing, illegal.property in HALTING)
