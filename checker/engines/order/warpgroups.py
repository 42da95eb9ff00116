"""wgmma by a warpgroup whose warps are programs of their own: they issue each group together, and it is over for all.

A group of wgmmas is complete when all warps have issued it, and not before. So who waits for it comes after that, and
whoever has waited for it knows that the reads of all warps are over. The order of a group is its number: all warps of
a warpgroup execute the same wgmmas (PTX ISA 9.7.15).
"""

from __future__ import annotations

from sm90_verify.engines.order.plan import Move
from sm90_verify.engines.order.progress import Progress
from sm90_verify.engines.order.state import Spans, join
from sm90_verify.spec.ptx import operations as op


def joined(run: Progress, role: int, move: Move, event: int) -> None:
    """The program has executed what concerns its warpgroup: a wgmma, a commit, or a wait."""
    mine = run.state.issued[role]
    match move.joins:
        case "begins":
            mine.fresh.update((use.bytes, None) for use in move.uses if use.lasting and not use.write)
        case "commits":
            mine.reads.append(tuple(mine.fresh))
            mine.fresh.clear()
            mine.clocks.append(run.clock_at(role, event + 1))
        case _:
            _passed(run, role, move, event)


def may_go_on(run: Progress, role: int, move: Move) -> bool:
    """wgmma.wait_group: whether all programs of the warpgroup have issued what it waits for."""
    awaited = _awaited(run, role, move)
    return all(len(run.state.issued[other].clocks) >= awaited for other in run.plan.warpgroups[role])


def _passed(run: Progress, role: int, move: Move, event: int) -> None:
    """The groups that it has waited for are over, those of the other programs too."""
    state, awaited = run.state, _awaited(run, role, move)
    mine = state.issued[role]
    for other in run.plan.warpgroups[role]:
        theirs = state.issued[other]
        if awaited > 0:
            state.clock[role] = join(state.clock[role], theirs.clocks[awaited - 1])
        still = {region for group in theirs.reads[awaited:] for region in group} | theirs.fresh.keys()
        for group in theirs.reads[mine.seen : awaited]:
            for region in group:
                spans = state.regions[region][other]
                if region not in still and spans.read >= spans.began:
                    spans.also = (*spans.also, (role, event))
    mine.seen = max(mine.seen, awaited)


def _awaited(run: Progress, role: int, move: Move) -> int:
    """How many groups must be complete."""
    operation = move.node.operation
    assert isinstance(operation, op.Group)
    return len(run.state.issued[role].clocks) - operation.pending


def is_over(run: Progress, role: int, region: int, spans: Spans) -> bool:
    """A role knows that a wgmma's read is over by what another program of the warpgroup has waited for, and released
    since, where it has that to do.
    """
    clock = run.now(role)
    for other, event in spans.also:
        theirs = run.state.regions[region].get(other)
        if clock[other] > max(event, -1 if theirs is None else theirs.loose_read):
            return True
    return False
