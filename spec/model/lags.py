"""How far a role that waits at an mbarrier is behind it: ghosts, without which one bit of parity says too little."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from sm90_verify.spec.model.barrier_plans import BarrierPlan
from sm90_verify.spec.model.kernel import SKIPPED
from sm90_verify.spec.ptx.expr import Field

AGE_WIDTH, TOO_OLD = 2, 2
"""Bits of the phases since a token's arrival, of which more are held at 3; so many are too many, and so is an init."""
SINCE_WIDTH = (2 * SKIPPED - 1).bit_length()
LOST = (0, (1 << SINCE_WIDTH) - 1)
"""What `since` stays at once it has come there: any number of phases that is as small, or as large."""


class Lags(NamedTuple):
    """By role and barrier. unseen: phases completed since the role's last wait there. since: since the one SKIPPED
    before that which the role has moved on to, if its waits skip phases. fresh: the barrier is initialised again since
    the role waited. ages: of a token, phases completed since its arrival.
    """

    unseen: dict[tuple[str, str], Field]
    since: dict[tuple[str, str], Field]
    fresh: dict[tuple[str, str], Field]
    ages: dict[tuple[str, str], Field]


def lags_of(plans: Mapping[str, BarrierPlan], new: Callable[..., Field]) -> Lags:
    """The variables, made by `new`."""
    found = Lags({}, {}, {}, {})
    for name, plan in plans.items():
        for role, distance in plan.distance.items():
            width = (max(distance, int(plan.invals)) + 1).bit_length()
            about = f"phases of {name} that {role} has not seen"
            found.unseen[role, name] = new(
                f"unseen.{role}.{name}", width, 0, about, kind="unseen", of=name, role=role, ghost=True
            )
    for role, name in found.unseen:
        if plans[name].invals:
            about = f"{name} is initialised again since {role} waited"
            found.fresh[role, name] = new(
                f"fresh.{role}.{name}", 1, 0, about, kind="fresh", of=name, role=role, ghost=True
            )
    for name, plan in plans.items():
        for role in plan.token_roles:
            about = f"phases of {name} since {role} arrived"
            found.ages[role, name] = new(
                f"age.{role}.{name}", AGE_WIDTH, 0, about, kind="age", of=name, role=role, ghost=True
            )
    for name, plan in plans.items():
        for role in plan.skipping:
            about = f"phases of {name} since the one {SKIPPED} before that which {role} has moved on to"
            found.since[role, name] = new(
                f"since.{role}.{name}", SINCE_WIDTH, SKIPPED, about, kind="since", of=name, role=role, ghost=True
            )
    return found
