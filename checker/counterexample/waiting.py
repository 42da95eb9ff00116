"""Why roles wait for ever: what each of them waits for, what has come, who has not brought the rest and where they are,
and the cycle.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from sm90_verify.result import Blocked, Trace
from sm90_verify.spec.model.machine import BarrierInfo, Location, Machine, Role
from sm90_verify.spec.model.spinning import spinning
from sm90_verify.spec.model.words import listed
from sm90_verify.spec.ptx.expr import evaluate
from sm90_verify.spec.ptx.mbarrier import LAPPED

State = dict[str, int]
Came = Mapping[str, Mapping[str, int]]
"""By mbarrier, how many arrivals of its current phase each role has brought."""
NAMED = 4
"""Roles that a sentence names, of those that have not arrived."""


def arrivals_in(machine: Machine, path: Sequence[tuple[str, State]], last: State) -> Came:
    """The arrivals in the phases that are current at the end of a schedule. path: the role of each step ("" for a copy)
    and the state before it.
    """
    came: dict[str, dict[str, int]] = {info.name: {} for info in machine.structure.barriers}
    states = (*(before for _, before in path), last)
    infos = [(info.phase, info.pending, info.expected or info.phase, info) for info in machine.structure.barriers]
    for (role, before), after in zip(path, states[1:], strict=True):
        for phase, pending, expected, info in infos:
            if (
                before[pending] == after[pending]
                and before[phase] == after[phase]
                and before[expected] == after[expected]
            ):
                continue
            mine, more = came[info.name], _arrived(after, info) - _arrived(before, info)
            if before[info.phase] != after[info.phase] or more < 0:
                mine.clear()
            elif more:
                mine[role] = mine.get(role, 0) + more
    return came


def explain(machine: Machine, state: State, stuck: Sequence[str], came: Came) -> tuple[Blocked, ...]:
    """One entry per stuck role: the barrier, its phase, the arrivals and bytes that are missing, and where those roles
    are that have not arrived. To blame is whose wait was lapped, or else who waits for what nobody can bring any more,
    or else the first of a cycle, or else of those who wait for nobody but each other, be it at a barrier of threads.
    """
    blamed = _blamed(machine, state, stuck, came)
    return tuple(
        replace(_blocked(machine, state, role, stuck, came), to_blame=role.name == blamed)
        for role in machine.roles
        if role.name in stuck
    )


def _blamed(machine: Machine, state: State, stuck: Sequence[str], came: Came) -> str:
    for role in machine.roles:
        if role.name in stuck and _is_lapped(role, state):
            return role.name
    for role in machine.roles:
        info = awaited(machine, role, state) if role.name in stuck else None
        if info is not None and not [one for one in _who_could_arrive(machine, state, info.name) if one != role.name]:
            return role.name
    cycle = find_cycle(machine, state, stuck, came)
    return cycle[0] if cycle else _last_in_line(machine, state, stuck, came)


def _is_lapped(role: Role, state: State) -> bool:
    """Two phases or more have completed since the one before that which it waits for."""
    return any(LAPPED in check.because and evaluate(check.when, state) for check in _place(role, state).checks)


def _last_in_line(machine: Machine, state: State, stuck: Sequence[str], came: Came) -> str:
    """The first of those that wait for nobody but each other, be it at a barrier of threads."""
    import networkx

    graph = networkx.DiGraph()
    graph.add_nodes_from(stuck)
    for role in (one for one in machine.roles if one.name in stuck):
        graph.add_edges_from((role.name, other) for other in _waits_for(machine, state, role, came) if other in stuck)
    whole = networkx.condensation(graph)
    ends = [whole.nodes[one]["members"] for one in whole if not whole.out_degree(one)]
    return next(name for name in stuck if any(name in one for one in ends))


def _waits_for(machine: Machine, state: State, role: Role, came: Came) -> list[str]:
    """The roles whose arrival a role waits for, or could be waiting for."""
    info, place = awaited(machine, role, state), _place(role, state)
    if info is not None:
        return [one.name for some in _still_to_come(machine, state, info.name, came) for one in some]
    if place.kind != "inside":
        return []
    others = (one for one in machine.roles if one is not role)
    return [one.name for one in others if any({*place.things} & {*each.things} for each in one.locations)]


def sentence(machine: Machine, state: State, stuck: Sequence[str], came: Came) -> str:
    """The `because` of a deadlock: each role and what it waits for, and the cycle if there is one."""
    parts = []
    for entry in explain(machine, state, stuck, came):
        parts.append(
            f"{entry.role} waits for {entry.waits_for}{' ' + entry.phase if entry.phase else ''}: {entry.missing}"
        )
    text = "; ".join(parts)
    cycle = find_cycle(machine, state, stuck, came)
    if len(cycle) > 1:
        text += f" -- {' waits for '.join((*cycle, cycle[0]))}"
    return text


def never_enough(machine: Machine, state: State, stuck: Sequence[str]) -> BarrierInfo | None:
    """The barrier of which some stuck role waits for arrivals that no role can ever bring, if there is one."""
    for role in machine.roles:
        info = awaited(machine, role, state) if role.name in stuck else None
        if info is not None and state[info.pending] and not _who_could_arrive(machine, state, info.name):
            return info
    return None


def starved(machine: Machine, state: State, roles: Collection[str]) -> bool:
    """Each of the roles stands at a blocking wait for arrivals that nobody but these roles could bring: they wait for
    ever, whatever the others do. False also where it is not as easy as that.
    """
    places = [place for role in machine.roles for place in role.locations]
    for role in machine.roles:
        if role.name not in roles:
            continue
        info = awaited(machine, role, state)
        if info is None or _place(role, state).kind != "wait" or not state[info.pending]:
            return False
        if not set(_who_could_arrive(machine, state, info.name)) <= {*roles}:
            return False
        if any(place.barrier == info.name and place.kind == "other" for place in places):  # it may be initialised again
            return False
    return bool(roles)


def find_cycle(machine: Machine, state: State, stuck: Sequence[str], came: Came) -> tuple[str, ...]:
    """Roles of which each waits for an arrival of the next, the first cycle in declaration order; () if there is
    none.
    """
    import networkx

    graph = networkx.DiGraph()
    for role in machine.roles:
        info = awaited(machine, role, state) if role.name in stuck else None
        if info is None:
            continue
        for other in (one for some in _still_to_come(machine, state, info.name, came) for one in some):
            if other.name in stuck and info.name in _place(other, state).arrives_on:
                graph.add_edge(role.name, other.name)
    try:
        return tuple(source for source, _ in networkx.find_cycle(graph))
    except (networkx.NetworkXNoCycle, networkx.NetworkXError):
        return ()


def reproduces(machine: Machine, state: State, trace: Trace) -> bool:
    """The roles that the trace calls blocked have not ended and can do nothing there, or nothing but spin."""
    spins = spinning(machine)
    for entry in trace.blocked:
        role = next((role for role in machine.roles if role.name == entry.role), None)
        if role is None:
            return False
        place = state[role.counter]
        can_run = any(
            action.location == place
            and action.role == role.name
            and index not in spins
            and evaluate(action.guard, state)
            for index, action in enumerate(machine.actions)
        )
        if can_run or role.locations[place].final:
            return False
    return bool(trace.blocked)


def _blocked(machine: Machine, state: State, role: Role, stuck: Sequence[str], came: Came) -> Blocked:
    place = _place(role, state)
    info = awaited(machine, role, state)
    if info is None:
        where = f"it stands at `{place.op}`, line {place.source.line}{_value(machine, state, place)}"
        return Blocked(role.name, place.object or place.op, "", where, place.source.file, place.source.line)
    missing = []
    if state[info.pending]:
        missing.append(_arrivals(state, info, came))
    bytes_left = _bytes(machine, state, info)
    if bytes_left:
        missing.append(f"{bytes_left} bytes are still expected" if bytes_left > 0 else f"{-bytes_left} bytes too many")
    if _is_lapped(role, state):
        missing.append("the phase has completed, and another one since: it was lapped")
    elif not missing:
        missing.append("its phase has completed, but its parity is the one that the wait blocks on: it was lapped")
    elif state[info.pending]:
        missing += _who_is_missing(machine, state, info, role, stuck, came)
    phase = f"phase parity {'token' if place.parity is None else place.parity}"
    all_came = bool(state[info.pending]) and not _is_lapped(role, state) and _all_came(machine, state, info, came)
    file, line = place.source.file, place.source.line
    return Blocked(role.name, info.name, phase, ", ".join(missing), file, line, all_came=all_came)


def _all_came(machine: Machine, state: State, info: BarrierInfo, came: Came) -> bool:
    """Every role has arrived on the barrier in this phase, but for those that wait for it; and none can again."""
    if _who_could_arrive(machine, state, info.name):
        return False
    others = [role for role in machine.roles if _place(role, state).waits_for != info.name]
    return bool(came[info.name]) and all(role.name in came[info.name] for role in others)


def _value(machine: Machine, state: State, place: Location) -> str:
    """What the word has that a role looks at."""
    words = [one for one in machine.of_kind("value") if one.of == place.object]
    return f", and {place.object} is {state[words[0].name]}" if words else ""


def _arrivals(state: State, info: BarrierInfo, came: Came) -> str:
    """`2 of 3 arrivals (1 from math0 and 1 from math1)`."""
    text = f"{_arrived(state, info)} of {expected_arrivals(state, info)} arrivals"
    by = [f"{count} from {role or 'cp.asyncs'}" for role, count in came[info.name].items()]
    told = by and sum(came[info.name].values()) == _arrived(state, info)
    return f"{text} ({listed(by)})" if told else text


def _who_is_missing(
    machine: Machine, state: State, info: BarrierInfo, role: Role, stuck: Sequence[str], came: Came
) -> Iterator[str]:
    """Who has not arrived in the phase that the role waits for, and why not."""
    if not _who_could_arrive(machine, state, info.name):
        yield "nobody can arrive any more"
    for what, roles in zip(("none", "no more"), _still_to_come(machine, state, info.name, came), strict=True):
        told = [f"{one.name} ({_where(machine, state, info, one, one is role, stuck)})" for one in roles[:NAMED]]
        more = [f"{len(roles) - NAMED} others"] if roles[NAMED:] else []
        if told:
            yield f"{what} from {listed([*told, *more])}"


def _where(machine: Machine, state: State, info: BarrierInfo, other: Role, itself: bool, stuck: Sequence[str]) -> str:
    """Why a role does not arrive on the barrier, in a few words."""
    place = _place(other, state)
    barrier = awaited(machine, other, state)
    does = f"stands at `{place.op}`" if barrier is None else f"waits for {barrier.name}"
    if place.final:
        return "has ended"
    if itself and info.name in place.arrives_on:
        return "only after this wait"
    if other.name in stuck:
        return f"{does}, line {place.source.line}"
    return "has not come there" if info.name in place.arrives_on else "does not come there any more"


def _still_to_come(machine: Machine, state: State, barrier: str, came: Came) -> tuple[list[Role], list[Role]]:
    """The roles that arrive on the barrier and have not in this phase; and if none of them can any more, those that
    have, and can again.
    """
    mine, could = came[barrier], _who_could_arrive(machine, state, barrier)
    absent = [role for role in machine.roles if barrier in role.locations[0].arrives_on and role.name not in mine]
    if any(role.name in could for role in absent):
        return absent, []
    return absent, [role for role in machine.roles if role.name in could]


def awaited(machine: Machine, role: Role, state: State) -> BarrierInfo | None:
    """The mbarrier that a role waits for."""
    name = _place(role, state).waits_for
    return next((info for info in machine.structure.barriers if info.name == name), None)


def _place(role: Role, state: State) -> Location:
    return role.locations[state[role.counter]]


def _who_could_arrive(machine: Machine, state: State, barrier: str) -> tuple[str, ...]:
    """The roles whose program, from where they are, still contains an arrival on the barrier."""
    return tuple(role.name for role in machine.roles if barrier in _place(role, state).arrives_on)


def _arrived(state: State, info: BarrierInfo) -> int:
    """Arrivals of the current phase; those that have dropped out are no more expected."""
    return expected_arrivals(state, info) - state[info.pending]


def expected_arrivals(state: State, info: BarrierInfo) -> int:
    """How many arrivals the current phase of a barrier needs."""
    return state[info.expected] if info.expected else info.arrivals


def _bytes(machine: Machine, state: State, info: BarrierInfo) -> int:
    if not info.tx:
        return 0
    width = next(variable.width for variable in machine.variables if variable.name == info.tx)
    value = state[info.tx]
    return value - (1 << width) if value >> width - 1 else value
