"""Why roles wait for ever: what each of them waits for, what is missing there, who could have brought it, and the
cycle.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sm90_verify.result import Blocked, Trace
from sm90_verify.spec.model.machine import BarrierInfo, Location, Machine, Role
from sm90_verify.spec.model.words import listed
from sm90_verify.spec.ptx.expr import evaluate

State = dict[str, int]


def explain(machine: Machine, state: State, stuck: Sequence[str]) -> tuple[Blocked, ...]:
    """One entry per stuck role: the barrier, its phase, the arrivals and bytes that are missing, and who could
    arrive. To blame is who waits for what nobody can bring any more, or else the first of a cycle.
    """
    blamed = _blamed(machine, state, stuck)
    return tuple(
        replace(_blocked(machine, state, role), to_blame=role.name == blamed)
        for role in machine.roles
        if role.name in stuck
    )


def _blamed(machine: Machine, state: State, stuck: Sequence[str]) -> str:
    for role in machine.roles:
        info = _awaited(machine, role, state) if role.name in stuck else None
        if info is not None and not [one for one in _who_could_arrive(machine, state, info.name) if one != role.name]:
            return role.name
    cycle = find_cycle(machine, state, stuck)
    return cycle[0] if cycle else stuck[0]


def sentence(machine: Machine, state: State, stuck: Sequence[str]) -> str:
    """The `because` of a deadlock: each role and what it waits for, and the cycle if there is one."""
    parts = []
    for entry in explain(machine, state, stuck):
        parts.append(
            f"{entry.role} waits for {entry.waits_for}{' ' + entry.phase if entry.phase else ''}: {entry.missing}"
        )
    text = "; ".join(parts)
    cycle = find_cycle(machine, state, stuck)
    if len(cycle) > 1:
        text += f" -- {' waits for '.join((*cycle, cycle[0]))}"
    return text


def never_enough(machine: Machine, state: State, stuck: Sequence[str]) -> BarrierInfo | None:
    """The barrier of which some stuck role waits for arrivals that no role can ever bring, if there is one."""
    for role in machine.roles:
        info = _awaited(machine, role, state) if role.name in stuck else None
        if info is not None and state[info.pending] and not _who_could_arrive(machine, state, info.name):
            return info
    return None


def find_cycle(machine: Machine, state: State, stuck: Sequence[str]) -> tuple[str, ...]:
    """Roles of which each waits for an arrival of the next, the first cycle in declaration order; () if there is
    none.
    """
    import networkx

    graph = networkx.DiGraph()
    for role in machine.roles:
        info = _awaited(machine, role, state) if role.name in stuck else None
        for other in _who_could_arrive(machine, state, info.name) if info is not None else ():
            if other in stuck:
                graph.add_edge(role.name, other)
    try:
        return tuple(source for source, _ in networkx.find_cycle(graph))
    except (networkx.NetworkXNoCycle, networkx.NetworkXError):
        return ()


def reproduces(machine: Machine, state: State, trace: Trace) -> bool:
    """The roles that the trace calls blocked have not ended and can do nothing there, or nothing but fail a test."""
    for entry in trace.blocked:
        role = next((role for role in machine.roles if role.name == entry.role), None)
        if role is None:
            return False
        place = state[role.counter]
        can_run = any(
            action.location == place
            and action.role == role.name
            and evaluate(action.guard, state)
            and not (action.fails and action.target is not None and not role.locations[action.target].final)
            for action in machine.actions
        )
        if can_run or role.locations[place].final:
            return False
    return bool(trace.blocked)


def _blocked(machine: Machine, state: State, role: Role) -> Blocked:
    place = _place(role, state)
    info = _awaited(machine, role, state)
    if info is None:
        where = f"it stands at `{place.op}`, line {place.source.line}"
        return Blocked(role.name, place.object or place.op, "", where, place.source.file, place.source.line)
    missing = []
    arrived = _expected(state, info) - state[info.pending]
    if state[info.pending]:
        missing.append(f"{arrived} of {_expected(state, info)} arrivals")
    bytes_left = _bytes(machine, state, info)
    if bytes_left:
        missing.append(f"{bytes_left} bytes are still expected" if bytes_left > 0 else f"{-bytes_left} bytes too many")
    who = _who_could_arrive(machine, state, info.name)
    if not missing:
        missing.append("its phase has completed, but its parity is the one that the wait blocks on: it was lapped")
    elif state[info.pending]:
        missing.append(f"{listed(who)} could still arrive" if who else "nobody can arrive any more")
    phase = f"phase parity {'token' if place.parity is None else place.parity}"
    return Blocked(role.name, info.name, phase, ", ".join(missing), place.source.file, place.source.line)


def _awaited(machine: Machine, role: Role, state: State) -> BarrierInfo | None:
    name = _place(role, state).waits_for
    return next((info for info in machine.structure.barriers if info.name == name), None)


def _place(role: Role, state: State) -> Location:
    return role.locations[state[role.counter]]


def _who_could_arrive(machine: Machine, state: State, barrier: str) -> tuple[str, ...]:
    """The roles whose program, from where they are, still contains an arrival on the barrier."""
    return tuple(role.name for role in machine.roles if barrier in _place(role, state).arrives_on)


def _expected(state: State, info: BarrierInfo) -> int:
    return state[info.expected] if info.expected else info.arrivals


def _bytes(machine: Machine, state: State, info: BarrierInfo) -> int:
    if not info.tx:
        return 0
    width = next(variable.width for variable in machine.variables if variable.name == info.tx)
    value = state[info.tx]
    return value - (1 << width) if value >> width - 1 else value
