"""wgmma by a warpgroup whose warps are programs of their own: they issue each group together, and it is over for all.

A group of wgmmas is complete when all warps have issued it, and not before. So who waits for it comes after that, and
whoever has waited for it knows that the reads of all warps are over. The order of a group is its number: all warps of
a warpgroup execute the same wgmmas (PTX ISA 9.7.15), and a wait for some groups is one for all that were committed
before them.
"""

from __future__ import annotations

from sm90_verify.engines.order.clocks import Clock, join
from sm90_verify.engines.order.plan import Move
from sm90_verify.engines.order.progress import Progress
from sm90_verify.engines.order.state import Spans


def joined(run: Progress, role: int, move: Move, event: int) -> None:
    """The program has executed what concerns its warpgroup: a wgmma, a commit, or a wait."""
    state, mine = run.state, run.state.issued[role]
    match move.joins:
        case "begins":
            for use in move.uses:
                if use.lasting and not use.write:
                    state.regions[use.bytes][role].group = len(mine.clocks)
        case "commits":
            mine.clocks.append(run.clock_at(role, event + 1))
        case _:
            awaited = _awaited(run, role, move)
            for other in run.plan.warpgroups[role] if awaited > 0 else ():
                state.clock[role] = join(state.clock[role], state.issued[other].clocks[awaited - 1])
            mine.waited += [event] * (awaited - len(mine.waited))


def may_go_on(run: Progress, role: int, move: Move) -> bool:
    """wgmma.wait_group: whether all programs of the warpgroup have issued what it waits for."""
    awaited = _awaited(run, role, move)
    return all(len(run.state.issued[other].clocks) >= awaited for other in run.plan.warpgroups[role])


def _awaited(run: Progress, role: int, move: Move) -> int:
    """How many groups must be complete."""
    return len(run.state.issued[role].clocks) - move.pending


def is_over(run: Progress, role: int, clock: Clock, region: int, other: int, spans: Spans) -> bool:
    """A role with that clock knows that the last read by a wgmma of another one is over, by what a third one of that
    warpgroup has waited for, and released since, where it has that to do.
    """
    done = run.state.done[role]
    for part in run.plan.warpgroups[other]:
        waited, theirs = run.state.issued[part].waited, run.state.regions[region].get(part)
        if spans.group < len(waited):
            released = -1 if theirs is None else theirs.loose_read
            if (done if part == role else clock[part]) > max(waited[spans.group], released):
                return True
    return False
