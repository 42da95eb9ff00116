"""What must not hold in any state, wherever the roles are."""

from __future__ import annotations

from collections.abc import Iterable

from sm90_verify.spec.model.barrier_bytes import undeclared_overlaps
from sm90_verify.spec.model.machine import Check
from sm90_verify.spec.model.properties import HALTING
from sm90_verify.spec.model.variables import Variables
from sm90_verify.spec.ptx.expr import TRUE, Expr, all_of, any_of, is_false
from sm90_verify.spec.ptx.step import Illegal


def state_checks(v: Variables, gone: dict[str, Expr]) -> Iterable[Check]:
    """gone: by the home of a CTA, all its roles have ended."""
    layout = v.kernel.layout
    for one, other in undeclared_overlaps(layout, v.programs):
        because = (
            f"{one.object} [{one.start}, {one.stop}) and {other.object} [{other.start}, {other.stop}) "
            "lie in the same bytes, which no `shares` declares"
        )
        yield Check("smem-overlap", TRUE, because, other.object)
    for name, count in layout.arrivals.items():
        if count < 1:
            yield Check("barrier-init", TRUE, f"{name} is initialised with the arrival count {count}", name, True)
    if v.copies:
        for key, (busy, _, _) in v.copies.items():
            ended = gone.get(v.kernel.cluster.home(key.write.cta), TRUE)
            if not is_false(ended):
                whose = "all roles" if v.kernel.cluster.size == 1 else f"all roles of CTA {key.write.cta}"
                because = f"{whose} have ended while a copy into {key.write.object} is still in flight"
                yield Check("exit-hazard", ended & (busy != 0), because, key.write.object)
        finished = all_of(gone.values())
        if not is_false(finished):
            for name, b in v.barriers.items():
                flying = any_of(busy != 0 for key, (busy, _, _) in v.copies.items() if key.barrier == name)
                because = f"{name}: all roles have ended and all copies landed, and its tx-count is not zero"
                yield Check("tx-count", finished & ~flying & (b.tx != 0), because, name)


def check_of(illegal: Illegal, thing: str) -> Check:
    because = (
        illegal.because
        if illegal.property in ("smem-overlap", "limit", "exit-hazard")
        else f"{thing}: {illegal.because}"
    )
    return Check(illegal.property, illegal.when, because, thing, illegal.property in HALTING)
