"""What a kernel synchronises more than it has to: operations without which the proof still holds.

Each line is tried alone, then line after line is left out as long as the proof holds without all of them: of every
kernel that the verdict is about, those of the cases of a launch and of the values of a sweep, and those with loops that
stand for all others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, TypeAlias

from sm90_verify.made_of import LeftOut
from sm90_verify.result import PROVED
from sm90_verify.spec.errors import Source, SpecError
from sm90_verify.spec.model.annotate import annotate
from sm90_verify.spec.model.flow import meeting_of
from sm90_verify.spec.model.kernel import Kernel, Node, Program
from sm90_verify.spec.model.validate import validate
from sm90_verify.spec.model.words import words_of
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.limits import MMA_GROUPS

UNKNOWN = -1
"""Phases that were skipped, as many as a loop has rounds."""
Verdict: TypeAlias = Callable[[Kernel], str]
"""proved, violated or undetermined."""


@dataclass(frozen=True)
class _Candidate:
    """key: what is tried together. source, what: of its first operation. loosens: a wait_group that leaves one more."""

    key: Hashable
    source: Source
    what: str
    loosens: bool = False


class Proved(NamedTuple):
    """A kernel that is proved, and what decides it when something is left out."""

    kernel: Kernel
    verdict: Verdict


def redundant(proved: Sequence[Proved], tick: Callable[[int, int], None]) -> tuple[LeftOut, ...]:
    """What can be left out of all of these kernels: each line by itself, and `together` those of one choice.

    tick: is told how many are done of how many.
    """
    smallest_first = sorted(proved, key=lambda one: sum(len(program.nodes) for program in one.kernel.programs))
    candidates = {key: one for each in proved for key, one in _candidates(each.kernel).items()}
    alone = []
    for number, one in enumerate(candidates.values()):
        tick(number, len(candidates))
        if all(_holds(each, (one,)) for each in smallest_first):
            alone.append(one)
    together: list[_Candidate] = []
    for number, one in enumerate(alone):
        tick(number, len(alone))
        if all(_holds(each, (*together, one)) for each in smallest_first):
            together.append(one)
    return tuple(LeftOut(one.what, one.source.file, one.source.line, one in together) for one in alone)


def _holds(proved: Proved, left_out: Sequence[_Candidate]) -> bool:
    keys = {one.key for one in left_out}
    if keys.isdisjoint(_key(program, node) for program in proved.kernel.programs for node in program.nodes):
        return True
    try:
        changed = without(proved.kernel, keys)
    except SpecError:
        return False
    return storing_at_exit(changed) <= storing_at_exit(proved.kernel) and proved.verdict(changed) == PROVED


def storing_at_exit(kernel: Kernel) -> frozenset[str]:
    """The programs that end while a bulk store of theirs may still read shared memory: no property forbids that without
    `strict`, and no wait is redundant that keeps it from happening.
    """
    return frozenset(
        program.name
        for program in kernel.programs
        for node in program.nodes
        if node.operation is None and (any(node.held.bulk_reads) or node.held.fresh_reads)
    )


def in_flight_at_exit(kernels: Iterable[Kernel]) -> list[str]:
    """A note for each of them."""
    return [
        f"{name} ends while a bulk store of its own may still read shared memory: nothing says that this is safe; "
        "cp.async.bulk.wait_group.read 0 waits for it"
        for name in sorted({name for kernel in kernels for name in storing_at_exit(kernel)})
    ]


def no_longer_ordering(kernel: Kernel, changed: Kernel) -> frozenset[int]:
    """The lines at which fewer operations wait or meet in the changed kernel."""
    return frozenset(_ordering(kernel) - _ordering(changed))


def _ordering(kernel: Kernel) -> Counter[int]:
    nodes = ((node, effects_of(node.operation)) for program in kernel.programs for node in program.nodes)
    return Counter(node.source.line for node, does in nodes if does.waits is not None or does.meets is not None)


def _candidates(kernel: Kernel) -> dict[Hashable, _Candidate]:
    found: dict[Hashable, _Candidate] = {}
    for program in kernel.programs:
        for node in program.nodes:
            key = _key(program, node)
            if key is not None and key not in found:
                found[key] = _Candidate(key, node.source, left_out(node), isinstance(node.operation, op.Group))
    return found


def left_out(node: Node) -> str:
    """What is tried, in words: to do without an operation, or to wait for one group less."""
    what = words_of(node)[0]
    return f"{what}: one more group may be pending" if isinstance(node.operation, op.Group) else what


def _key(program: Program, node: Node) -> Hashable | None:
    """What is left out together with an operation: the same line; of a barrier of threads, all that meet there."""
    effects = effects_of(node.operation)
    if effects.waits is not None:
        return node.source if effects.waits.kind == "wait" else None
    if effects.meets is not None:
        if isinstance(effects.meets, op.NamedSync | op.ClusterArrive | op.ClusterWait):
            return str(meeting_of(program, node.operation)).removeprefix(program.home).removeprefix(program.peers)
        return None if effects.orders == "relaxed" else node.source
    if effects.ends is not None:
        return node.source if effects.ends.pending < MMA_GROUPS - 1 else None
    return node.source if effects.shows and not effects.begins else None


def without(kernel: Kernel, keys: set[Hashable]) -> Kernel:
    """The kernel without these operations, or with waits for groups that leave one more pending.

    Raises SpecError where nothing sensible is left.
    """
    programs = tuple(annotate(_without(program, keys), checked=True) for program in kernel.programs)
    changed = replace(kernel, programs=programs)
    validate(changed, annotated=True)
    return changed


def _without(program: Program, keys: set[Hashable]) -> Program:
    gone = {
        at
        for at, node in enumerate(program.nodes)
        if not isinstance(node.operation, op.Group) and _key(program, node) in keys
    }
    kept = [at for at in range(len(program.nodes)) if at not in gone]
    more, place = _skipped(program, gone), {at: number for number, at in enumerate(kept)}

    def target(at: int) -> int:
        while at in gone:
            (at,) = program.nodes[at].successors.values()
        return place[at]

    nodes = []
    for at in kept:
        node = program.nodes[at]
        operation = node.operation
        if isinstance(operation, op.Group) and _key(program, node) in keys:
            operation = replace(operation, pending=operation.pending + 1)
        successors = {answer: target(to) for answer, to in node.successors.items()}
        distance = node.distance + more.get(at, 0)
        nodes.append(Node(operation, node.source, distance=distance, successors=successors, loop=node.loop))
    if target(0):
        raise SpecError("the first operation that is left is not where the role begins")
    return replace(program, nodes=tuple(nodes))


def _skipped(program: Program, gone: set[int]) -> dict[int, int]:
    """By wait that is left, how many phases the waits before it that are gone were for.

    Raises SpecError where that depends on the way that the role has come.
    """
    states: dict[int, dict[str, int]] = {0: {}}
    found: dict[int, int] = {}
    todo = [0]
    while todo:
        at = todo.pop()
        node, state = program.nodes[at], dict(states[at])
        if isinstance(node.operation, op.Wait):
            before = state.pop(node.operation.barrier, 0)
            if at in gone:
                state[node.operation.barrier] = UNKNOWN if before == UNKNOWN else before + node.distance
            else:
                found[at] = before
        for to in node.successors.values():
            known = states.get(to)
            both = state if known is None else _either(known, state)
            if both != known:
                states[to] = both
                todo.append(to)
    if UNKNOWN in found.values():
        raise SpecError("how many phases a wait is for depends on how often the role goes round a loop")
    return {at: phases for at, phases in found.items() if phases}


def _either(one: dict[str, int], other: dict[str, int]) -> dict[str, int]:
    names = one.keys() | other.keys()
    return {name: one.get(name, 0) if one.get(name, 0) == other.get(name, 0) else UNKNOWN for name in names}
