"""Questions about a traced program that need no hardware: what can follow, what has just happened, who is at its
end.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import TYPE_CHECKING, assert_never

from sm90_verify.spec.model.kernel import Node, Program
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.launch import LaunchShape
from sm90_verify.spec.ptx.limits import WARP, WARPGROUP
from sm90_verify.spec.ptx.memory import Access

if TYPE_CHECKING:
    from sm90_verify.spec.model.machine import LocationKind


ANY = -1
"""The distance of a wait that only the machine knows."""


def blocks_inside(operation: op.Operation | None) -> bool:
    """The role waits inside the operation, in a location of its own."""
    meeting = effects_of(operation).meets
    match meeting:
        case op.CtaSync() | op.WarpSync():
            return True
        case op.NamedSync():
            return meeting.blocks
        case None | op.ClusterArrive() | op.ClusterWait():
            return False
        case _:
            assert_never(meeting)


def meeting_of(program: Program, operation: op.Operation | None) -> str | None:
    """The barrier of threads that the role comes to."""
    meeting = effects_of(operation).meets
    match meeting:
        case op.NamedSync():
            return f"{program.home}bar{meeting.id:d}"
        case op.CtaSync():
            return f"{program.home}cta"
        case op.ClusterArrive() | op.ClusterWait():
            return f"{program.peers}cluster"
        case op.WarpSync():
            warp = f".{meeting.warp}" if meeting.warp >= 0 else ""
            return f"warp.{program.role}{warp}" + (f".{meeting.lanes:#x}" if meeting.lanes else "")
        case None:
            return None
        case _:
            assert_never(meeting)


def share_a_warp(one: Program, other: Program) -> bool:
    """Two parts of a role have threads of the same warp, as far as their first threads and their numbers tell."""
    (first, last), (start, stop) = (
        (me.first // WARP, (me.first + me.threads - 1) // WARP) for me in (one.me, other.me)
    )
    return one.role == other.role and first <= stop and start <= last


def threads_of_warp(programs: Iterable[Program], program: Program, sync: op.WarpSync) -> int:
    """How many threads meet at a barrier of a warp, or of the whole role."""
    if sync.lanes:
        return sync.lanes.bit_count()
    parts = (other for other in programs if other.role == program.role)
    return sum(part.me.threads for part in parts if sync.warp in (-1, part.me.first // WARP))


def warpgroups_of(programs: Sequence[Program]) -> dict[str, tuple[str, ...]]:
    """By program of a warpgroup that executes wgmma as parts, the other programs of it."""
    groups: dict[tuple[str, int], list[str]] = {}
    joint = {
        (program.role, program.me.first // WARPGROUP)
        for program in programs
        if any(effects_of(node.operation).joins is not None for node in program.nodes)
    }
    for program in programs:
        key = program.role, program.me.first // WARPGROUP
        if key in joint:
            groups.setdefault(key, []).append(program.name)
    return {name: tuple(other for other in some if other != name) for some in groups.values() for name in some}


def closed_meetings(programs: tuple[Program, ...]) -> frozenset[str]:
    """The named barriers and barriers of a warp of which every generation needs each participant once: all of them
    block there, and the count is the number of all their threads.
    """
    threads: dict[str, dict[str, int]] = {}
    counts: dict[str, set[int | None]] = {}
    for program in programs:
        for node in program.nodes:
            name = meeting_of(program, node.operation)
            if name is None:
                continue
            threads.setdefault(name, {})[program.name] = program.me.threads
            total: int | None = None
            if isinstance(node.operation, op.NamedSync) and node.operation.blocks and not node.operation.by:
                total = node.operation.threads
            elif isinstance(node.operation, op.WarpSync):
                total = threads_of_warp(programs, program, node.operation)
            counts.setdefault(name, set()).add(total)
    return frozenset(name for name, found in counts.items() if found == {sum(threads[name].values())})


def releasing_steps(programs: Sequence[Program]) -> frozenset[tuple[str, int]]:
    """(role, location) of the arrivals that release what was left without a release before; at a barrier of threads,
    of all that come there.
    """
    steps = [(one, at, node) for one in programs for at, node in enumerate(one.nodes) if node.operation is not None]
    released = {(one.name, at): meeting_of(one, node.operation) for one, at, node in steps if _releases(node)}
    at_barriers = {name for name in released.values() if name}
    also = ((one.name, at) for one, at, node in steps if at_barriers and meeting_of(one, node.operation) in at_barriers)
    return frozenset((*released, *also))


def _releases(node: Node) -> bool:
    return node.held.released_by(node.operation)


def waits_for_a_grid(program: Program, operation: op.Operation | None, launch: LaunchShape) -> bool:
    """griddepcontrol.wait in a grid that depends on another; in the first it does nothing."""
    return isinstance(effects_of(operation).turns, op.Griddepcontrol) and launch.grid_of(program.me.number) > 0


def final_nodes(program: Program) -> list[int]:
    """Where the role has ended."""
    return [index for index, node in enumerate(program.nodes) if not node.successors]


def lets_others_go_on(operation: op.Operation | None) -> bool:
    """An arrival, or a write that somebody may wait for."""
    others = op.Arrive | op.TriggeredArrive | op.NamedSync | op.ClusterArrive | op.WordStore | op.Atom
    return isinstance(operation, others)


def is_local(operation: op.Operation | None) -> bool:
    """Accesses, groups and fences: nothing that another role could need to go on."""
    return operation is not None and effects_of(operation).local


def kind_of(node: Node) -> LocationKind:
    """What engines may know of a location's operation; see spec.model.machine.Location."""
    if node.operation is None:
        return "loop" if node.loop else "end"
    effects = effects_of(node.operation)
    if effects.waits is not None:
        return "wait" if effects.waits.kind == "wait" else "peek"
    match effects.signal:
        case op.Arrive(kind="arrive", also=()):
            return "arrive"
        case op.Transaction(bytes=bytes) if bytes >= 0:
            return "expect"
        case op.Init() | op.Inval() | op.Arrive() | op.Transaction():
            return "other"
        case None if effects.lands:
            return "load"
        case None if effects.triggers is not None:
            return "other"
        case None if effects.registers is not None:
            return "registers"
        case None if effects.chooses is not None:
            return "choice"
        case None:
            return "local" if effects.local else "other"
        case _:
            assert_never(effects.signal)


def barrier_of(operation: op.Operation | None) -> str:
    """The mbarrier that the operation itself is on, "" if it is on none; a load is on its buffers."""
    effects = effects_of(operation)
    on = [one.barrier for one in (effects.signal, effects.waits, effects.triggers) if one is not None]
    return on[0] if on else ""


def parity_of(operation: op.Operation | None) -> int | None:
    """The phase parity that a wait is for; None for a wait by token, and for anything else."""
    if isinstance(operation, op.Wait) and not isinstance(operation.phase, op.Token):
        return int(operation.phase)
    return None


def just_waited(program: Program, distance: int) -> list[tuple[str, ...]]:
    """By node, the barriers whose wait the role has passed, on every path, with only accesses, groups, fences,
    other waits and decisions since: nothing that another role could have needed, for whoever comes to a decision first
    makes it. Only waits of at least that distance count: one of distance 0 sees no phase that was not seen before."""
    unknown = None
    found: list[tuple[str, ...] | None] = [(), *[unknown] * (len(program.nodes) - 1)]
    changed = {0}
    while changed:
        for index, node in enumerate(program.nodes):
            here = found[index]
            if here is None or index not in changed:
                continue
            changed.remove(index)
            for answer, target in node.successors.items():
                then = waited_after(node, here, answer, distance)
                before = found[target]
                joined = then if before is None else tuple(name for name in before if name in then)
                if joined != before:
                    found[target] = joined
                    changed.add(target)
    return [names or () for names in found]


def waited_after(node: Node, before: tuple[str, ...], answer: Hashable, distance: int) -> tuple[str, ...]:
    """What just_waited says behind a node, from what it says there."""
    wait = node.operation
    if isinstance(wait, op.Wait):
        if answer is False or isinstance(wait.phase, op.Token) or wait.barrier in before or node.distance < distance:
            return before
        return (*before, wait.barrier)
    decides = isinstance(wait, op.Choose) or (wait is None and node.loop)
    return before if decides or is_local(wait) else ()


def soon(program: Program) -> list[list[Access]]:
    """By node, the accesses that can start without anything from another role: its own, and those that follow it with
    only the role's own accesses, groups and fences in between."""
    soon = [dict.fromkeys(effects_of(node.operation).accesses) for node in program.nodes]
    changed = True
    while changed:
        changed = False
        for index in range(len(program.nodes) - 1, -1, -1):
            if is_local(program.nodes[index].operation):
                for target in program.nodes[index].successors.values():
                    missing = [access for access in soon[target] if access not in soon[index]]
                    soon[index].update(dict.fromkeys(missing))
                    changed |= bool(missing)
    return [list(accesses) for accesses in soon]


def before_dec(program: Program) -> list[int]:
    """The locations from which the role can still execute setmaxnreg.dec."""
    into: list[list[int]] = [[] for _ in program.nodes]
    for index, node in enumerate(program.nodes):
        for target in node.successors.values():
            into[target].append(index)
    todo = [
        index
        for index, node in enumerate(program.nodes)
        if isinstance(node.operation, op.Setmaxnreg) and node.operation.kind == "dec"
    ]
    before = set(todo)
    while todo:
        more = [index for index in into[todo.pop()] if index not in before]
        before.update(more)
        todo += more
    inside = [index for index, node in enumerate(program.nodes) if blocks_inside(node.operation)]
    entered = [len(program.nodes) + number for number, index in enumerate(inside) if index in before]
    return sorted((*before, *entered))


def waits_ahead(program: Program) -> list[tuple[str, ...]]:
    """By node, the barriers of which the role must still see a phase on every way to its end; all of them where there
    is no end.
    """
    waited = [
        node.operation.barrier
        if isinstance(node.operation, op.Wait) and node.operation.kind == "wait" and node.distance and not node.skips
        else ""
        for node in program.nodes
    ]
    everything = tuple(dict.fromkeys(name for name in waited if name))
    found = [everything if node.successors else () for node in program.nodes]
    changed = True
    while changed:
        changed = False
        for index in range(len(program.nodes) - 1, -1, -1):
            targets = program.nodes[index].successors.values()
            kept = tuple(
                name for name in found[index] if name == waited[index] or all(name in found[to] for to in targets)
            )
            if kept != found[index]:
                found[index] = kept
                changed = True
    return found


def next_waits(program: Program) -> list[dict[str, tuple[int, ...]]]:
    """By node, how far each barrier's next wait may be from the phase that the role has seen last: the distances of all
    waits that it can come to with no other wait on that barrier passed before; ANY of one that skips phases.
    """
    found: list[dict[str, set[int]]] = [{} for _ in program.nodes]
    changed = True
    while changed:
        changed = False
        for index in range(len(program.nodes) - 1, -1, -1):
            node, here = program.nodes[index], found[index]
            wait = node.operation if isinstance(node.operation, op.Wait) else None
            size = sum(map(len, here.values()))
            if wait is not None:
                here.setdefault(wait.barrier, set()).add(ANY if node.skips else node.distance)
            for answer, target in node.successors.items():
                for name, distances in found[target].items():
                    if wait is None or wait.barrier != name or answer is False:
                        here.setdefault(name, set()).update(distances)
            changed |= sum(map(len, here.values())) != size
    return [{name: tuple(sorted(distances)) for name, distances in one.items()} for one in found]


def _arrives_at(operation: op.Operation | None) -> tuple[str, ...]:
    """The mbarriers that it arrives on, at once or later."""
    if isinstance(operation, op.TriggeredArrive):
        return (operation.barrier,)
    return tuple(one.barrier for one in operation.parts) if isinstance(operation, op.Arrive) else ()


def arrivals_ahead(program: Program) -> list[list[str]]:
    """By node, the barriers on which the role can still arrive, whatever the answers."""
    own = [dict.fromkeys(_arrives_at(node.operation)) for node in program.nodes]
    changed = True
    while changed:
        changed = False
        for index in range(len(program.nodes) - 1, -1, -1):
            for target in program.nodes[index].successors.values():
                missing = [name for name in own[target] if name not in own[index]]
                own[index].update(dict.fromkeys(missing))
                changed |= bool(missing)
    return [list(names) for names in own]


def only_looks(operation: op.Operation | None, answer: Hashable) -> bool:
    """It fails a test, or loads a word."""
    return isinstance(operation, op.WordLoad) or (isinstance(operation, op.Wait) and answer is False)
