"""Where a kernel has operations that order less than all that came before them, so that going on because of another
role does not mean to be ordered after it; and the accesses for which that could matter.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator
from typing import NamedTuple

from sm90_verify.spec.model.kernel import Kernel, Node, Program
from sm90_verify.spec.model.proxies import shown_writes
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effect_parts import Copies
from sm90_verify.spec.ptx.effects import acquires, effects_of, releases
from sm90_verify.spec.ptx.memory import WIDER, Access


class Tracked(NamedTuple):
    """An access that others could race with, of a role, or of the bulk copies of a kind."""

    owner: str
    access: Access
    copies: Copies | None = None


def tracked_accesses(kernel: Kernel) -> Iterator[Tracked]:
    """The accesses of roles and of copies that conflict with one of another role, or with a copy."""
    own, copied = _begun(kernel)
    everything = _Touching([*own, *(("", one.access) for one in copied)])
    for role, access in own:
        if everything.races(access, role):
            yield Tracked(role, access)
    for one in copied:
        if everything.races(one.access):
            yield one


class _Touching:
    """Accesses by the pieces of memory in which they lie, so that few have to be compared with another one."""

    PIECE = 512

    def __init__(self, owned: Iterable[tuple[str, Access]]) -> None:
        self.found: dict[tuple[str, int, int, bool], list[tuple[str, Access]]] = {}
        for owner, access in owned:
            for piece in self._pieces(access):
                self.found.setdefault((access.space, access.cta, piece, access.write), []).append((owner, access))

    def _pieces(self, access: Access) -> range:
        return range(access.start // self.PIECE, (access.stop - 1) // self.PIECE + 1)

    def races(self, access: Access, owner: str | None = None) -> bool:
        """Some access of another owner races with this one; two reads never do."""
        for piece in self._pieces(access):
            for writes in (True, False) if access.write else (True,):
                for other, theirs in self.found.get((access.space, access.cta, piece, writes), ()):
                    if other != owner and access.races(theirs):
                        return True
        return False


def _begun(kernel: Kernel) -> tuple[list[tuple[str, Access]], dict[Tracked, frozenset[str]]]:
    """(role, access), and those of copies with the roles that issue them."""
    own: dict[tuple[str, Access], None] = {}
    copied: dict[Tracked, frozenset[str]] = {}
    for program, node in ((one, node) for one in kernel.programs for node in one.nodes):
        effects = effects_of(node.operation)
        taken = {access: key for key, _ in effects.lands for access in key.accesses}
        for access in effects.accesses:
            if access in taken:
                copy = Tracked("a bulk copy", access, taken[access])
                copied[copy] = copied.get(copy, frozenset()) | {program.name}
            else:
                own[program.name, access] = None
    return list(own), copied


def reads_its_own(program: Program, node: Node) -> bool:
    """Whatever way the role has come there, it has just written the value that it reads."""
    before = (one for one in program.nodes if any(program.nodes[to] is node for to in one.successors.values()))
    written = tuple(access._replace(write=True) for access in effects_of(node.operation).accesses)
    return node is not program.nodes[0] and all(effects_of(one.operation).accesses == written for one in before)


class _OfInterest:
    """By role, its accesses that conflict with one of another role, or with a copy that another role issues."""

    def __init__(self, kernel: Kernel) -> None:
        self.own, copied = _begun(kernel)
        owners = ((issuers, one.access) for one, issuers in copied.items())
        single = ((next(iter(some)) if len(some) == 1 else "", access) for some, access in owners)
        self.everything = _Touching([*self.own, *single])

    def of(self, role: str) -> frozenset[Access]:
        return frozenset(one for name, one in self.own if name == role and self.everything.races(one, role))


def is_needed(kernel: Kernel) -> bool:
    """Some operation that lets others go on orders less than all that its role has done before, or some wait less than
    all that others have; and there is something that could race because of it.
    """
    return bool(weaker_operation(kernel))


def weaker_operation(kernel: Kernel) -> str:
    """Where the first of them stands, for a sentence; "" if there is none."""
    tracked: Tracked | None = None
    interest: _OfInterest | None = None
    relaxed = any(_leaves_behind(node.operation) for program in kernel.programs for node in program.nodes)
    shown = {(one.role, one.access) for one in shown_writes(kernel)} if relaxed else set()
    for program in kernel.programs:
        weaker = [node for node in program.nodes if _orders_less(node.operation, kernel.launch.reach)]
        weaker += _leaves_unfenced(program, shown)
        hands_over = any(_only_signals(node.operation) for node in program.nodes)
        if not weaker and not hands_over:
            continue
        tracked = next(tracked_accesses(kernel), None) if tracked is None else tracked
        if tracked is None:
            return ""
        if not weaker:
            interest = interest or _OfInterest(kernel)
            weaker = list(_left_behind(program, interest.of(program.name)))
        if weaker:
            return str(weaker[0].source)
    return ""


def _leaves_unfenced(program: Program, shown: Container[tuple[str, Access]]) -> Iterator[Node]:
    """Arrivals without a release, at barrier.cluster, where lanes meet, or after cp.asyncs, after writes that another
    role may fence, or acquire.
    """
    relaxed = (node for node in program.nodes if _leaves_behind(node.operation))
    return (node for node in relaxed if any((program.name, one) in shown for one in node.held.recent))


def _leaves_behind(operation: op.Operation | None) -> bool:
    effects = effects_of(operation)
    threads = isinstance(effects.meets, op.ClusterArrive | op.WarpSync)
    return effects.orders == "relaxed" and (effects.triggers is not None or threads)


def _orders_less(operation: op.Operation | None, reach: int) -> bool:
    """A relaxed operation, or one of a scope that leaves out some CTAs of several."""
    effects = effects_of(operation)
    scope: op.AnyScope = ""
    less = False
    if isinstance(effects.signal, op.Arrive):
        less, scope = effects.signal.sem == "relaxed", effects.signal.scope
    elif effects.waits is not None:
        less, scope = effects.waits.sem == "relaxed", effects.waits.scope
    elif effects.word is not None:
        word, scope = effects.word, effects.word.order.scope
        reads = isinstance(word, op.WordLoad | op.Spin) or (isinstance(word, op.Atom) and word.answers)
        writes = isinstance(word, op.WordStore | op.Atom)
        less = (reads and not acquires(word.order)) or (writes and not releases(word.order))
    return less or (scope in WIDER and WIDER.index(scope) < reach)


def _only_signals(operation: op.Operation | None) -> bool:
    """A bulk copy, whose signal orders its own bytes alone, or expect_tx or complete_tx, which are relaxed."""
    effects = effects_of(operation)
    return bool(effects.lands) or isinstance(effects.signal, op.Transaction)


def _left_behind(program: Program, mine: frozenset[Access]) -> Iterator[Node]:
    """The copies and transactions before which the role has made one of these accesses and released nothing since."""
    recent: dict[int, frozenset[Access]] = {0: frozenset()}
    todo = [0]
    while todo:
        index = todo.pop()
        node = program.nodes[index]
        after = recent[index].union(mine.intersection(_over(node)))
        if effects_of(node.operation).orders == "release":
            after = frozenset()
        for target in node.successors.values():
            known = recent.get(target)
            if known is None or not after <= known:
                recent[target] = after.union(known or ())
                todo.append(target)
    return (program.nodes[index] for index in recent if recent[index] and _only_signals(program.nodes[index].operation))


def _over(node: Node) -> Iterable[Access]:
    """The accesses that are over with the operation."""
    if node.operation is None:
        return ()
    now = node.held.after(node.operation).in_progress()
    ended = (access for access in node.held.in_progress() if access not in now)
    return (*effects_of(node.operation).lasting("done"), *ended)
