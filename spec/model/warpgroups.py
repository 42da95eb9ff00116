"""wgmma by a warpgroup whose warps are programs of their own (PTX ISA 9.7.15): they issue each group of wgmmas
together, and it is over for all of them at once.

By program there is a variable: how many groups it has committed that nobody has waited for. A group is complete when
all warps have issued it, and not before; so a program waits until the others have committed as many, less those that it
leaves pending. What it has waited for is over for all, and every variable goes down by as many groups: the group that a
program has committed n groups ago is in progress as long as its variable is above n.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from sm90_verify.spec.model.flow import warpgroups_of
from sm90_verify.spec.model.kernel import Program
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.expr import FALSE, TRUE, Expr, Field, Lit, all_of, where
from sm90_verify.spec.ptx.step import Way

WIDTH = 6
"""Bits: groups that a program commits and nobody waits for."""
MOST_COMMITTED = (1 << WIDTH) - 1


class Warpgroups:
    """ahead: by program of a warpgroup, its variable; others: the other programs of its warpgroup."""

    def __init__(self, programs: Sequence[Program], new: Callable[..., Field]) -> None:
        self.others: Mapping[str, tuple[str, ...]] = warpgroups_of(programs)
        self.endless = {one.name: None for one in programs if one.name in self.others and _commits_more(one)}
        about = "groups of wgmmas that {} has committed and nobody of its warpgroup has waited for"
        self.ahead = {
            name: new(f"{name}.groups", WIDTH, 0, about.format(name), kind="groups", role=name) for name in self.others
        }

    def way(self, role: str, group: op.Group) -> Way:
        """A commit or a wait."""
        mine = self.ahead[role]
        if group.kind == "mma_commit":
            return Way(TRUE, ((mine.name, mine + Lit(1, WIDTH)),))
        pending = Lit(group.pending, WIDTH)
        left = where(mine < pending, Lit(0, WIDTH), mine - pending)
        them = [self.ahead[other] for other in self.others[role]]
        updates = tuple((one.name, one - left) for one in (mine, *them))
        return Way(all_of(~(one < left) for one in them), updates)

    def uncounted(self, role: str, group: op.Group) -> Expr:
        """The program stands at a commit of more groups than are counted."""
        return self.ahead[role] == MOST_COMMITTED if group.kind == "mma_commit" and role in self.endless else FALSE


def _commits_more(program: Program) -> bool:
    """The program may commit more groups than are counted before it waits for some itself."""
    most = {0: 0}
    todo = [0]
    while todo:
        index = todo.pop()
        node = program.nodes[index]
        group, count = effects_of(node.operation).joins, most[index]
        if group is not None:
            count = count + 1 if group.kind == "mma_commit" else min(count, group.pending)
        if count > MOST_COMMITTED:
            return True
        for target in node.successors.values():
            if count > most.get(target, -1):
                most[target] = count
                todo.append(target)
    return False
