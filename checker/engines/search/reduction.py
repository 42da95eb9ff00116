"""Which steps may be taken at once, and which copies may be left to land later, without missing that something is
wrong.

The reduced search keeps this promise: if any schedule violates a property, then some schedule that it visits does. It
does not promise the shortest one, nor one for every property, so whatever it finds is looked for again without
reduction. The argument is that a schedule that violates something can be rearranged, step by step, into one that the
reduced search visits, and that wherever the rearranged one behaves differently, it violates something too.

Prompt steps. Where one of these can be taken, it is the only one that is explored:
  - a decision of the trip-count loop, or a choice, that has already been made by another role and is not lost: nothing
    can change it any more;
  - an access, fence or group operation that follows another one of the same role with nothing in between that another
    role can notice. Other roles count the accesses of the whole chain as about to start from its first location on
    (spec.model.accesses, `Spot.next`), so what conflicts with a later one is seen where the role stands at the first,
    which is not prompt. Where the fences of other roles count (spec.model.proxies), the generic writes that set a bit
    and the proxy fences that clear it are no such operations and never prompt, so that all their orders are visited.
    All other prompt steps leave the bits alone, and of these only accesses and copies ask for them: made before a
    fence of another role they find no fewer bits set, and made before a write that sets one they race with it;
  - a step that nobody else can notice and nobody else can change (engines.search.own_steps). What comes behind it is
    not about to start where such a step is: what follows it and others can notice is first of a chain itself;
  - a wait that passes, in the phase that it is meant for. Made later, it could be lapped, and somebody might find
    that the last phase was not observed; both are checked for a role that has only just passed its wait as if it
    still stood there (`Location.just_waited`), and the first location behind it is not prompt, but for another wait
    or a decision, behind which the role still is one that has only just waited;
  - the start of a bulk copy: from then on it is in flight, which conflicts with everything that being about to start it
    conflicts with, and it may still land at any later time;
  - an arrival on a barrier that is `plain` while the next wait of each of its waiters is for the current phase, or is
    for the last one and that is seen. (A wait may skip phases: then all before the current one are complete.) No such
    wait is early, and none for the current phase can pass before it completes. Arrivals commute with each other and
    with landing bytes: the phase completes with the last one, whoever brings it. If the earlier arrival makes a phase
    complete earlier than in the schedule that is being rearranged, a wait there meets a phase that is further on: it is
    lapped, or passes as before. An arrival that is made while only bytes are missing underflows at once, which is a
    violation that the hardware could show as well. If the phase could do without this arrival, then now another one
    comes after its completion, and before any waiter can have seen that: a violation too (ISA 9.7.13.15.4; it is why a
    barrier is not `plain` without waiters, or where that is not demanded). That
    arrivals commute with bytes holds only where bytes cannot come between the last two arrivals of a phase that would
    be complete without them, so `plain` demands that the barrier is `balanced`: whoever issues a copy or executes
    expect_tx makes an arrival of its own that belongs to it, and nothing between the two waits. Then the bytes of a
    phase are announced when its arrivals have been made, in whichever order, and it completes when these bytes have
    landed. (Not so with arrivals A and B, where an expect_tx waits for something that B's role does after B: with A
    first, B completes the phase before the expect_tx. Nor with a complete_tx that an expect_tx follows.) Where bytes
    are
    announced by expect_tx alone, an arrival is prompt only if it does not complete the phase. An
    arrival from another CTA could be made too late instead, when the CTA of the barrier has exited; it is prompt only
    while some role there must see another phase before it can end, and that is the current one. (An access to another
    CTA's memory needs no such care: the first access of its chain is not prompt, and nothing in the chain makes the CTA
    exit.)
  - expect_tx on a `plain` barrier by a thread whose next operation is its arrival there: until then the phase cannot
    complete, and the tx-count is a sum;
  - an arrival at a barrier of threads of which every generation needs each participant exactly once, all of whom block
    there (`meet`): the last arrival completes it, whoever makes it, so arrivals commute, and nobody can be waiting for
    one to come later. Leaving a completed one: the role's flag stays as it is until the role arrives again.
Where relaxed or scoped operations order less than all (spec.model.causality), nothing is left out. Where a CTA has to
be shown to run (`met` is False), the first step of a role is not prompt: others may find that the
CTA has not begun. Nor is one that releases accesses which an arrival has left without a release: until then others may
meet them. No cycle consists of prompt steps alone, for ever: locations where that could happen are not prompt.
(With every decision that a role reads there is one less that it has not read.) So nothing is put off for ever.

Lazy copies. A copy that signals a `balanced` barrier b lands only where some role stands at an operation on b other
than an arrival or a copy, or has only just waited there, or where nothing else can happen. An expect_tx counts only
while no arrival is pending: otherwise the landing cannot complete the phase, and the two commute. An arrival cannot
complete a phase whose bytes are in flight, so that it commutes too. Landing can enable only a wait on b. In all other
states it commutes with the step after it, or that step is an access to the bytes in flight, which is a race, or an
arrival that underflows. Where b is not balanced an arrival may complete the phase without the copy, which then counts
in the next one: its copies may land in every state. So may arrivals that follow cp.asyncs; a barrier to which they
come is neither `plain` nor `balanced`.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import NamedTuple

from sm90_verify.engines.search.own_steps import own_steps
from sm90_verify.spec.model.accesses import in_locations
from sm90_verify.spec.model.flow import ANY
from sm90_verify.spec.model.machine import Action, BarrierInfo, Machine, Role
from sm90_verify.spec.model.tick import Tick, unheard
from sm90_verify.spec.ptx.expr import FALSE, TRUE, Expr, Field, all_of, any_of


class Reduction(NamedTuple):
    """prompt: per role and location, the condition under which the step there is prompt (FALSE: never).

    lands_at: per copy agent (in the order of the machine's actions without location), per role, the locations at
    which a role makes the copy land; at those in expects_at it does so only if `drained` holds for the agent.
    """

    prompt: tuple[tuple[Expr, ...], ...]
    lands_at: tuple[tuple[frozenset[int], ...], ...]
    expects_at: tuple[tuple[frozenset[int], ...], ...]
    drained: tuple[Expr, ...]


def find_reduction(machine: Machine, tick: Tick = unheard) -> Reduction:
    """Reads off a machine what the reduced search may do."""
    if machine.of_kind("order"):
        return _none(machine)
    widths = {variable.name: variable.width for variable in machine.variables}
    plain = {info.name: info for info in machine.structure.barriers if info.plain}
    current = {name: _wait_for_the_current(machine, info, widths) for name, info in plain.items()}
    awaited = {name: _awaited_in_its_cta(machine, info, widths) for name, info in plain.items()}
    places = {role.name: role.locations for role in machine.roles}
    arrivals: dict[tuple[str, int], Expr] = {}
    for action in machine.actions:
        if action.location is not None:
            name = places[action.role][action.location].barrier
            if name in plain and places[action.role][action.location].kind == "arrive":
                gone = awaited[name] if _may_find_it_gone(action) else TRUE
                arrivals[action.role, action.location] = current[name] & _commutes(action, plain[name]) & gone
    own = own_steps(machine, tick)
    prompt = tuple(_prompt_locations(machine, role, arrivals, plain, own) for role in machine.roles)
    landings = [machine.landing(action) for action in machine.actions if action.location is None]
    barriers = ["" if copy is None else copy.barrier for copy in landings]
    pending = {info.name: info.pending for info in machine.structure.barriers}
    balanced = {info.name for info in machine.structure.barriers if info.balanced}
    return Reduction(
        prompt,
        tuple(
            tuple(_stands_at(role, barrier) if barrier in balanced else _anywhere(role) for role in machine.roles)
            for barrier in barriers
        ),
        tuple(tuple(_expects_at(role, barrier) for role in machine.roles) for barrier in barriers),
        tuple(Field(pending[one], widths[pending[one]]) == 0 if one else FALSE for one in barriers),
    )


def _none(machine: Machine) -> Reduction:
    """Every step is explored: ghosts remember in which order they came."""
    agents = [action for action in machine.actions if action.location is None]
    everywhere = tuple(_anywhere(role) for role in machine.roles)
    nowhere = tuple(frozenset[int]() for _ in machine.roles)
    prompt = tuple(tuple(FALSE for _ in role.locations) for role in machine.roles)
    return Reduction(prompt, (everywhere,) * len(agents), (nowhere,) * len(agents), (FALSE,) * len(agents))


def _expects_at(role: Role, barrier: str) -> frozenset[int]:
    return frozenset(
        index for index, place in enumerate(role.locations) if place.kind == "expect" and place.barrier == barrier
    )


def _stands_at(role: Role, barrier: str) -> frozenset[int]:
    return frozenset(
        index
        for index, place in enumerate(role.locations)
        if (place.barrier == barrier and place.kind not in ("arrive", "expect")) or barrier in place.just_waited
    )


def _anywhere(role: Role) -> frozenset[int]:
    return frozenset(range(len(role.locations)))


def _may_find_it_gone(action: Action) -> bool:
    """The action reaches into another CTA: made later, it might come after the exit of that CTA."""
    return any(check.property == "exit-hazard" for check in action.checks)


def _awaited_in_its_cta(machine: Machine, info: BarrierInfo, widths: dict[str, int]) -> Expr:
    """Some role that waits on the barrier must see another phase of it before it can end."""
    waiters = {name for name, _ in info.unseen}
    return any_of(
        in_locations(
            Field(role.counter, widths[role.counter]),
            [i for i, place in enumerate(role.locations) if info.name in place.waits_ahead],
        )
        for role in machine.roles
        if role.name in waiters
    )


def _prompt_locations(
    machine: Machine,
    role: Role,
    arrivals: dict[tuple[str, int], Expr],
    plain: Container[str],
    unnoticed: Mapping[tuple[str, int], Expr],
) -> tuple[Expr, ...]:
    before: list[list[int]] = [[] for _ in role.locations]
    after: list[list[int]] = [[] for _ in role.locations]
    again: list[list[int]] = [[] for _ in role.locations]
    behind = {v.name for v in machine.variables if v.kind in ("iterations behind", "choices behind")}
    for action in machine.actions:
        if action.role == role.name and action.location is not None and action.target is not None:
            before[action.target].append(action.location)
            after[action.location].append(action.target)
            if not action.beyond and behind.isdisjoint(name for name, _ in action.updates):
                again[action.location].append(action.target)
    own = {index: unnoticed[role.name, index] for index in range(len(before)) if (role.name, index) in unnoticed}
    followed = _chained(role, before, own)
    prompt: list[Expr] = []
    for index, place in enumerate(role.locations):
        chained = index in followed
        rests = place.just_waited and place.kind not in ("wait", "choice", "loop") and not chained
        if rests or place.noticed:
            prompt.append(FALSE)
        elif index in own:
            prompt.append(own[index])
        elif place.kind in ("load", "meet") or (place.kind == "local" and chained):
            prompt.append(TRUE)
        elif place.kind == "expect":
            announced = all(_arrives(role, target, place.barrier) for target in after[index])
            prompt.append(TRUE if announced and place.barrier in plain else FALSE)
        elif place.kind == "arrive":
            prompt.append(arrivals.get((role.name, index), FALSE))
        else:
            prompt.append(place.settled)
    _break_cycles(prompt, again)
    return tuple(prompt)


def _chained(role: Role, before: list[list[int]], own: Container[int]) -> set[int]:
    """Locations that follow nothing but operations of the kind "local", and before each of which the role has rested
    since it did anything else: where it took a step that only it can notice, it has not rested.
    """
    rests = {at for at, place in enumerate(role.locations) if at not in own or place.just_waited or place.noticed}
    chained, found = set[int](), {-1}
    while found:
        found = {
            at
            for at, places in enumerate(before)
            if at not in chained and places
            if all(role.locations[one].kind == "local" and (one in rests or one in chained) for one in places)
        }
        chained |= found
    return chained


def _arrives(role: Role, index: int, barrier: str) -> bool:
    """The role's next operation is an arrival on the barrier."""
    return role.locations[index].kind == "arrive" and role.locations[index].barrier == barrier


def _commutes(action: Action, info: BarrierInfo) -> Expr:
    """Where bytes are announced apart from arrivals, the phase does not complete."""
    after = dict(action.updates).get(info.phase)
    return TRUE if after is None or not info.announces else after == Field(info.phase, 1)


def _wait_for_the_current(machine: Machine, info: BarrierInfo, widths: dict[str, int]) -> Expr:
    """All next waits on the barrier are for the phase after those that are complete, or for the last one, if seen."""
    roles = {role.name: role for role in machine.roles}
    conditions = []
    for name, variable in info.unseen:
        unseen, role = Field(variable, widths[variable]), roles[name]
        places: dict[int, list[int]] = {}
        for index, place in enumerate(role.locations):
            for distance in dict(place.next_waits).get(info.name, ()):
                places.setdefault(distance if distance == ANY else max(distance, 1), []).append(index)
        counter = Field(role.counter, widths[role.counter])
        conditions.append(~in_locations(counter, places.pop(ANY, [])))
        conditions += [~in_locations(counter, where) | (unseen == distance - 1) for distance, where in places.items()]
    return all_of(conditions)


def _break_cycles(prompt: list[Expr], after: list[list[int]]) -> None:
    """Makes a location on every cycle of prompt locations not prompt."""
    state = [0] * len(prompt)
    for root in range(len(prompt)):
        stack = [(root, iter(after[root]))] if prompt[root] is not FALSE and not state[root] else []
        while stack:
            here, rest = stack[-1]
            state[here] = 1
            target = next(rest, None)
            if target is None:
                state[here] = 2
                stack.pop()
            elif prompt[target] is not FALSE and state[target] == 1:
                prompt[target] = FALSE
            elif prompt[target] is not FALSE and not state[target]:
                stack.append((target, iter(after[target])))
