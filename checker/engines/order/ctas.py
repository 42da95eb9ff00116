"""What belongs to a whole CTA: its memory, which is gone when its roles have ended, and its pool of registers."""

from __future__ import annotations

from sm90_verify.engines.order.clocks import Clock, join
from sm90_verify.engines.order.plan import Move
from sm90_verify.engines.order.progress import Progress
from sm90_verify.spec.model.flow import before_dec
from sm90_verify.spec.model.words import in_flight_at_exit
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.memory import Access
from sm90_verify.spec.ptx.needs import BEGUN, GRANTED, LANDED_AT_EXIT, THERE
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
    run.fail(
        BEGUN.property,
        BEGUN.said(cta=run.plan.kernel.launch.called(cta)),
        thing,
        run.now(role),
        (role, run.state.at[role]),
    )


def role_ends(run: Progress, role: int) -> None:
    """If it was the last role of its CTA: everything that reaches into the CTA must be before that."""
    cta = run.plan.programs[role].me.number
    if not _is_gone(run, cta):
        return
    ends = _exit(run, cta)
    for other, (event, _) in run.state.reached[cta].items():
        if ends[other] <= event:
            _gone(run, other, cta, ends)
    regions = {region.object: region.cta for region in run.plan.kernel.layout.regions}
    for flights in run.state.flights:
        for barrier, (stage, issuer, event, *_) in flights.items():
            load = run.plan.moves[issuer][run.node_of(issuer, event)]
            for use in load.uses:
                if use.lands == barrier and regions[use.access.object] == cta:
                    look_at_flight(run, use.access, barrier, stage, issuer, event)


def look_at_flight(run: Progress, access: Access, barrier: int, stage: int, role: int, event: int) -> None:
    """The roles of a CTA have ended: every copy into it must be known to have landed."""
    if access.space != "shared" or not _is_gone(run, access.cta):
        return
    ends = _exit(run, access.cta)
    if ends[run.roles + barrier] > stage:
        return
    reached = ends if ends[role] > event else join(ends, run.clock_at(role, event + 1))
    because = in_flight_at_exit(access, run.plan.kernel.launch)
    run.fail(LANDED_AT_EXIT.property, because, access.object, reached, late=(role, event, barrier))


def _gone(run: Progress, role: int, cta: int, ends: Clock) -> None:
    event, node = run.state.reached[cta][role]
    because = THERE.said(role=run.plan.programs[role].name, cta=run.plan.kernel.launch.called(cta))
    run.fail(THERE.property, because, "", join(ends, run.clock_at(role, event)), (role, node))


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
    change, cta = effects_of(move.node.operation).registers, program.me.number
    assert change is not None
    before = plan.kernel.registers_at(move.node)
    left, violates = change_registers(state.free[cta], before, program.me.threads, change)
    if left is None:
        return False
    for property, because in violates:
        run.fail(property, because, "registers", run.now(role), (role, state.at[role]))
    need, clock = state.free[cta] - left, run.now(role)
    state.free[cta] = left
    if need > 0:
        state.incs[role] = state.done[role]
    else:
        state.given = join(state.given, run.publish(role))
    if need < 0 and any(clock[other] > event for other, event in state.incs.items()):
        run.contested = f"the order in which setmaxnreg requests are granted may matter ({move.node.source})"
    if plan.endless and any(entry[:2] == (role, state.at[role]) for entry in state.log):
        run.unsure = f"setmaxnreg in a loop without end ({move.node.source})"
    return True


def look_at_requests(run: Progress) -> None:
    """Roles are stuck: who waits for registers that nobody can give back any more?"""
    programs, state = run.plan.programs, run.state
    for role, program in enumerate(programs):
        others = [other for other in run.plan.homes[program.me.number] if other != role]
        node = run.plan.moves[role][state.at[role]].node
        change = effects_of(node.operation).registers
        if change is not None and not any(state.at[other] in before_dec(programs[other]) for other in others):
            need = (change.registers - run.plan.kernel.registers_at(node)) * program.me.threads
            because = f"registers: {GRANTED.said(role=program.name, registers=need)}"
            run.fail(GRANTED.property, because, "registers", run.everything(), happened=True)
