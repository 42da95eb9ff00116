"""What the programs of a kernel use of each mbarrier, and so which of its parts can change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

from sm90_verify.spec.model.kernel import Kernel
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effect_parts import TriggeredArrivals
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.limits import COUNT_LIMIT

MOST_TRIGGERED = 3
"""Of one cp.async.mbarrier.arrive, arrivals that are followed at once; what has more is undetermined."""


@dataclass
class BarrierPlan:
    """What the programs use of one mbarrier, and so which of its parts are variables.

    arrivals: its count at the start, if `initialised`, else 1. inits: some role executes mbarrier.init or inval;
    invals: inval. transactions: bytes are expected or delivered. drops: arrive_drop. tokens: some wait has a token;
    token_roles: whose. most: the largest count of an init or an arrival. triggered: arrivals that follow cp.asyncs, as
    many as may be under way at once. distance: by role that waits for a parity, how many phases after its last wait on
    the barrier a wait of it is at most for, 1 where its waits skip phases; skipping: the roles of which they do.
    """

    arrivals: int
    initialised: bool = True
    inits: bool = False
    invals: bool = False
    transactions: bool = False
    drops: bool = False
    tokens: bool = False
    most: int = 0
    triggered: int = 0
    distance: dict[str, int] = field(default_factory=dict)
    token_roles: list[str] = field(default_factory=list)
    skipping: dict[str, None] = field(default_factory=dict)


def plans_of(kernel: Kernel) -> dict[str, BarrierPlan]:
    """By name of the mbarrier, in the order of the layout."""
    arrivals = kernel.layout.arrivals
    plans: dict[str, BarrierPlan] = {}
    triggered: dict[TriggeredArrivals, None] = {}
    for region in kernel.layout.regions:
        if region.declaration in kernel.layout.barriers:
            count = arrivals.get(region.object, 1)
            plans[region.object] = BarrierPlan(max(count, 1), region.object in arrivals)
    for program, node in ((one, node) for one in kernel.programs for node in one.nodes):
        effects = effects_of(node.operation)
        for copies, _ in effects.lands:
            plans[copies.barrier].transactions = True
        if effects.triggers is not None:
            triggered[effects.triggers] = None
        for signal in effects.signals:
            _plan_signal(plans[signal.barrier], signal)
        if effects.waits is not None:
            plan = plans[effects.waits.barrier]
            if not isinstance(effects.waits.phase, op.Token):
                distance = 1 if node.skips else node.distance
                plan.distance[program.name] = max(plan.distance.get(program.name, 0), distance)
                if node.skips:
                    plan.skipping[program.name] = None
            else:
                plan.tokens = True
                if program.name not in plan.token_roles:
                    plan.token_roles.append(program.name)
    for one in triggered:
        plans[one.barrier].triggered += MOST_TRIGGERED * one.threads
    return plans


def _plan_signal(plan: BarrierPlan, signal: op.Signal) -> None:
    match signal:
        case op.Init():
            plan.inits = True
            plan.most = max(plan.most, min(signal.count, COUNT_LIMIT))
        case op.Inval():
            plan.inits = plan.invals = True
        case op.Arrive():
            plan.most = max(plan.most, signal.count)
            plan.transactions |= signal.expect is not None
            plan.drops |= signal.kind == "drop"
        case op.Transaction():
            plan.transactions = True
        case _:
            assert_never(signal)
