"""What the threads of one role hand to each other: a role is one in the model, and its threads are not.

A thread sees what another one has written in memory once the two have met: at a barrier of threads, or at an mbarrier
at which all arrive before they wait. That a bulk store has read its source is known to the one that has waited for its
group alone. Where a role of more than one warp accesses bytes twice, and no such thing is in between, it may be that
each thread keeps to its own part, or that the code has a barrier which the model leaves out.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import NamedTuple

from sm90_verify.spec.errors import Source
from sm90_verify.spec.model.flow import blocks_inside
from sm90_verify.spec.model.kernel import Kernel, Program
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.memory import Access, describe

WARP = 32


class _Use(NamedTuple):
    """A generic access, or one of a bulk group, and where. arrived: its threads have arrived at something since."""

    access: Access
    source: Source
    arrived: bool = False


def unmet_threads(kernel: Kernel) -> Iterator[str]:
    """A sentence for each pair of lines of a role and a buffer where its threads may have to meet in between."""
    told: dict[tuple[str, Source, Source], str] = {}
    for program in kernel.programs:
        if program.me.threads > WARP:
            for use, later, at in _pairs(program):
                told.setdefault((program.role, use.source, at), _sentence(program, use, later, at))
    yield from told.values()


def _sentence(program: Program, use: _Use, later: Access, at: Source) -> str:
    return (
        f"assumed: the {program.me.threads} threads of {program.role} meet between {describe(use.access)} "
        f"({use.source}) and {describe(later)} ({at}), or each keeps to its own part: the model takes them for one"
    )


def _pairs(program: Program) -> Iterator[tuple[_Use, Access, Source]]:
    """Two accesses to the same bytes between which the threads have not met on some way there."""
    before: dict[int, frozenset[_Use]] = {0: frozenset()}
    todo = [0]
    found: dict[tuple[_Use, Access, Source], None] = {}
    while todo:
        index = todo.pop()
        node = program.nodes[index]
        for access in effects_of(node.operation).accesses:
            for use in before[index]:
                if _needs_meeting(use.access, access):
                    found[use._replace(arrived=False), access, node.source] = None
        for answer, target in node.successors.items():
            after = before[index]
            if node.operation is not None:
                after = _after(before[index], node.operation, node.source, answer, program.me.threads)
            known = before.get(target)
            if known is None or not after <= known:
                before[target] = after if known is None else known | after
                todo.append(target)
    yield from found


def _needs_meeting(earlier: Access, later: Access) -> bool:
    """What all threads have written one of them, or a copy, reads; or what they have used a copy overwrites; or what
    one thread's copy has used all of them do.
    """
    handed = earlier.write and not later.write
    crosses = earlier.wants_fence != later.wants_fence
    return earlier.conflicts(later) and (handed or crosses)


def _after(
    uses: frozenset[_Use], operation: op.Operation, source: Source, answer: Hashable, threads: int
) -> frozenset[_Use]:
    effects = effects_of(operation)
    if blocks_inside(operation) and not (isinstance(operation, op.NamedSync) and operation.brings(threads) < threads):
        return frozenset()
    goes_on = blocks_inside(operation) or isinstance(operation, op.ClusterWait)
    if goes_on or (effects.waits is not None and answer is not False):
        uses = frozenset(use for use in uses if not use.arrived)
    elif effects.meets is not None or effects.signal is not None:
        uses = frozenset(use._replace(arrived=True) for use in uses)
    generic = (
        one for one in effects.accesses if one.proxy == "generic" and one.space != "registers" and not one.strong
    )
    return uses.union(_Use(one, source) for one in (*generic, *effects.lasting("bulk_group")))
