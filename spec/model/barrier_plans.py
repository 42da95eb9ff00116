"""What the programs of a kernel use of each mbarrier, and so which of its parts can change."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import assert_never

from sm90_verify.spec.model.kernel import Kernel
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.limits import COUNT_LIMIT


@dataclass
class BarrierPlan:
    """What the program uses of one mbarrier, and so which of its parts are variables."""

    arrivals: int
    initialised: bool = True
    inits: bool = False
    invals: bool = False
    transactions: bool = False
    drops: bool = False
    tokens: bool = False
    most: int = 0
    distance: dict[str, int] = field(default_factory=dict)
    token_roles: list[str] = field(default_factory=list)


def plans_of(kernel: Kernel) -> dict[str, BarrierPlan]:
    """By name of the mbarrier, in the order of the layout."""
    arrivals = kernel.layout.arrivals
    plans: dict[str, BarrierPlan] = {}
    for region in kernel.layout.regions:
        if region.declaration in kernel.layout.barriers:
            count = arrivals.get(region.object, 1)
            plans[region.object] = BarrierPlan(max(count, 1), region.object in arrivals)
    for program, node in ((one, node) for one in kernel.programs for node in one.nodes):
        match node.operation:
            case op.Init() | op.Inval():
                plan = plans[node.operation.barrier]
                plan.inits = True
                plan.invals |= isinstance(node.operation, op.Inval)
                if isinstance(node.operation, op.Init):
                    plan.most = max(plan.most, min(node.operation.count, COUNT_LIMIT))
            case op.Arrive():
                plan = plans[node.operation.barrier]
                plan.most = max(plan.most, node.operation.count)
                plan.transactions |= node.operation.expect is not None
                plan.drops |= node.operation.kind == "drop"
            case op.Transaction():
                plans[node.operation.barrier].transactions = True
            case op.Load():
                for _, barrier in node.operation.destinations:
                    plans[barrier].transactions = True
            case op.Wait(phase=op.Token()):
                plan = plans[node.operation.barrier]
                plan.tokens = True
                if program.name not in plan.token_roles:
                    plan.token_roles.append(program.name)
            case op.Wait():
                plan = plans[node.operation.barrier]
                plan.distance[program.name] = max(plan.distance.get(program.name, 0), node.distance)
            case None | op.Touch() | op.Store() | op.Group() | op.Fence() | op.NamedSync() | op.CtaSync():
                pass
            case op.ClusterArrive() | op.ClusterWait() | op.WarpSync() | op.Choose() | op.Setmaxnreg():
                pass
            case _:
                assert_never(node.operation)
    return plans
