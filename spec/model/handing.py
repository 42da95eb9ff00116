"""Meetings at which nothing is released, after a role has learnt something: what it knows is not handed on there.

Lanes of a warp meet at elect.sync, shfl.sync and the like, which order no memory, and CTAs at
barrier.cluster.arrive.relaxed. What the roles themselves have accessed is kept account of (spec.ptx.groups, Held);
that others may not rely on what one of them has waited for is for spec.model.causality to follow.
"""

from __future__ import annotations

from sm90_verify.spec.model.kernel import Kernel, Program
from sm90_verify.spec.model.weaker import tracked_accesses
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import acquires as acquires_by
from sm90_verify.spec.ptx.effects import effects_of


def is_loose(operation: op.Operation | None) -> bool:
    """Roles meet there, and who comes releases nothing."""
    effects = effects_of(operation)
    return effects.meets is not None and effects.orders == "relaxed"


def may_hand_on(kernel: Kernel) -> bool:
    """Some role can come to such a meeting with something learnt, and there are accesses for which that matters."""
    return any(map(_learns_before, kernel.programs)) and any(True for _ in tracked_accesses(kernel))


def _learns_before(program: Program) -> bool:
    if not any(is_loose(node.operation) for node in program.nodes):
        return False
    todo = [index for index, node in enumerate(program.nodes) if _acquires(node.operation)]
    reached = set(todo)
    while todo:
        for target in program.nodes[todo.pop()].successors.values():
            if is_loose(program.nodes[target].operation):
                return True
            if target not in reached:
                reached.add(target)
                todo.append(target)
    return False


def _acquires(operation: op.Operation | None) -> bool:
    """Something of others is before what comes next."""
    effects = effects_of(operation)
    meets = effects.meets is not None and effects.orders != "relaxed"
    word = effects.word is not None and acquires_by(effects.word.order)
    return meets or word or effects.waits is not None or effects.turns is not None or effects.joins is not None
