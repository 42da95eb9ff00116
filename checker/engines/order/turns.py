"""CTAs of a dependent grid, and of a grid in waves: what they may wait for, and that nobody may wait for them.

The run starts all of them at once, since a start is after nothing. That no CTA waits for one that need not be started
yet is looked at when the run is over: it is so if none of its events is after one of theirs.
"""

from __future__ import annotations

from sm90_verify.engines.order.clocks import NEVER, Clock, join
from sm90_verify.engines.order.plan import Move, Plan, has_cycle
from sm90_verify.engines.order.progress import Progress
from sm90_verify.spec.model.flow import waits_for_a_grid


def wait(run: Progress, role: int, move: Move) -> bool:
    """griddepcontrol.wait: after everything that the grid before has done; copies have landed when their CTA ends, or
    that is an exit-hazard.
    """
    plan = run.plan
    if not waits_for_a_grid(plan.programs[role], move.node.operation, plan.kernel.launch):
        return True
    before = _first_grid(plan)
    if not all(run.ended(other) for other in before):
        return False
    clock: Clock = run.state.clock[role].copy()
    for other in before:
        clock = join(clock, run.now(other))
        clock[plan.fenced + other] = clock[plan.fenced + other - run.width] = run.state.done[
            other
        ]  # it is shown through every proxy, too
    run.state.clock[role] = clock
    run.state.waited.setdefault(role, run.state.done[role])
    return True


def role_ends(run: Progress, role: int) -> None:
    """If it was the last of the first grid: what it has left in progress is over for those who wait for its end."""
    before = _first_grid(run.plan)
    if run.plan.kernel.grids == 1 or role not in before or not all(run.ended(other) for other in before):
        return
    for region in run.state.regions:
        for other, spans in region.items():
            if other in before:
                spans.close(run.state.done[other] - 1)
    for flights in run.state.flights:
        for barrier, one in list(flights.items()):
            if one.copied and one.role in before and one.waited == NEVER:
                flights[barrier] = one._replace(waited=run.state.done[one.role] - 1)


def unsure(run: Progress) -> str:
    """Why a CTA that is put off may change something: one that comes before it waits for it, or never ends."""
    kernel, programs = run.plan.kernel, run.plan.programs
    launch, resident = kernel.launch, kernel.rules.resident
    for role, program in enumerate(programs):
        earlier = launch.earlier(launch.block(program.me.number), resident=resident)
        for other, before in enumerate(programs):
            if launch.block(before.me.number) not in earlier:
                continue
            if run.state.clock[other][role]:
                return f"{before.name} is after something that {program.name} does, which may not be started by then"
            if has_cycle((before,)):
                return f"{before.name} goes on for ever, and {program.name} may only be started when it has ended"
    return ""


def _first_grid(plan: Plan) -> list[int]:
    launch = plan.kernel.launch
    return [role for role, program in enumerate(plan.programs) if launch.grid_of(program.me.number) == 0]
