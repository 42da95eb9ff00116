"""What belongs to a whole CTA: its memory, which is gone when its roles have ended, and its pool of registers."""

from __future__ import annotations

from sm90_verify.engines.order.plan import Move
from sm90_verify.engines.order.progress import Progress
from sm90_verify.engines.order.state import Clock, join
from sm90_verify.spec.model.flow import before_dec
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.memory import Access
from sm90_verify.spec.ptx.numbers import change_registers

# ---------------------------------------------------------------- start and exit


def reach(run: Progress, role: int, cta: int, thing: str) -> None:
    """An operation on the memory of another CTA: some role there must not end before it."""
    must_have_begun(run, role, cta, thing)
    state = run.state
    state.reached[cta][role] = (state.done[role], state.at[role])
    if _is_gone(run, cta):
        _gone(run, role, cta, _exit(run, cta))


def must_have_begun(run: Progress, role: int, cta: int, thing: str) -> None:
    """Unless all CTAs have met before the roles begin, the operation must be after something that the CTA did."""
    if run.plan.kernel.rules.met or any(run.state.clock[role][other] for other in run.plan.homes[cta]):
        return
    because = f"CTA {cta} may not have started yet: no barrier.cluster shows that its shared memory exists"
    run.fail("exit-hazard", because, thing, run.now(role), (role, run.state.at[role]))


def role_ends(run: Progress, role: int) -> None:
    """If it was the last role of its CTA: everything that reaches into the CTA must be before that."""
    cta = run.plan.programs[role].me.cta
    if not _is_gone(run, cta):
        return
    ends = _exit(run, cta)
    for other, (event, _) in run.state.reached[cta].items():
        if ends[other] <= event:
            _gone(run, other, cta, ends)
    regions = {region.object: region.cta for region in run.plan.kernel.layout.regions}
    for flights in run.state.flights:
        for barrier, (stage, issuer, event) in flights.items():
            load = run.plan.moves[issuer][run.node_of(issuer, event)]
            for use, number in zip(load.uses, load.things, strict=True):
                if number == barrier and regions[use.access.object] == cta:
                    look_at_flight(run, use.access, barrier, stage, issuer, event)


def look_at_flight(run: Progress, access: Access, barrier: int, stage: int, role: int, event: int) -> None:
    """The roles of a CTA have ended: every copy into it must be known to have landed."""
    if not _is_gone(run, access.cta):
        return
    ends = _exit(run, access.cta)
    if ends[run.roles + barrier] > stage:
        return
    reached = ends if ends[role] > event else join(ends, run.clock_at(role, event + 1))
    because = f"all roles have ended while a copy into {access.object} is still in flight"
    run.fail("exit-hazard", because, access.object, reached, late=(role, event, barrier))


def _gone(run: Progress, role: int, cta: int, ends: Clock) -> None:
    event, node = run.state.reached[cta][role]
    because = f"{run.plan.programs[role].name} reaches into CTA {cta}, which may have exited: its shared memory is gone"
    run.fail("exit-hazard", because, "", join(ends, run.clock_at(role, event)), (role, node))


def _is_gone(run: Progress, cta: int) -> bool:
    return all(run.ended(role) for role in run.plan.homes[cta])


def _exit(run: Progress, cta: int) -> Clock:
    ends = [0] * run.plan.width
    for role in run.plan.homes[cta]:
        ends = join(ends, run.now(role))
    return ends


# ---------------------------------------------------------------- registers


def registers(run: Progress, role: int, move: Move) -> bool:
    """setmaxnreg: a pool. Where a request waits it is ordered after nothing, which can only lose order; that every
    request is granted in the end needs that nobody gives back registers only after somebody was granted some.
    """
    state, program, plan = run.state, run.plan.programs[role], run.plan
    change, cta = move.node.operation, program.me.cta
    assert isinstance(change, op.Setmaxnreg)
    before = move.node.held.registers or plan.kernel.registers
    left, violates = change_registers(state.free[cta], before, program.me.threads, change)
    for property, because in violates:
        run.fail(property, because, "registers", run.now(role), (role, state.at[role]))
    if left is None:
        return False
    need, clock = state.free[cta] - left, run.now(role)
    state.free[cta] = left
    if need > 0:
        state.incs[role] = state.done[role]
    else:
        state.given = join(state.given, run.publish(role))
    if need < 0 and any(clock[other] > event for other, event in state.incs.items()):
        run.unsure = f"the order in which setmaxnreg requests are granted may matter ({move.node.source})"
    if plan.endless and any(entry[:2] == (role, state.at[role]) for entry in state.log):
        run.unsure = f"setmaxnreg in a loop without end ({move.node.source})"
    return True


def look_at_requests(run: Progress) -> None:
    """Roles are stuck: who waits for registers that nobody can give back any more?"""
    programs, state = run.plan.programs, run.state
    for role, program in enumerate(programs):
        others = [other for other in run.plan.homes[program.me.cta] if other != role]
        waits = run.plan.moves[role][state.at[role]].kind == "registers"
        if waits and not any(state.at[other] in before_dec(programs[other]) for other in others):
            because = f"{program.name} needs more registers than it has, and nobody can give back as many any more"
            run.fail("register-pool", because, "registers", run.everything(), happened=True)
