"""wgmma by four warps that are programs of their own: what one warp does to matrices that all of them multiply.

A wgmma is one operation of the warpgroup, and its matrices are read when all four warps have issued it: an H200 waits
for the last one, whatever rows and columns it brings (docs/results.md); PTX says no more than that all warps execute
the same (9.7.15). A group is over for all warps as soon as it is for one (spec.model.warpgroups). So what a warp writes
into a matrix is ordered with the reads of all four by its own program alone: it comes before its own wgmma, with a
proxy fence, or after its own wait, and what is wrong with that is wrong there (spec.ptx.own_accesses). That holds of
warps whose wgmmas, commits and waits are the same, one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from sm90_verify.spec.model.accesses import Bystander, Spot
from sm90_verify.spec.model.flow import warpgroups_of
from sm90_verify.spec.model.kernel import Program
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.memory import Access


class Together:
    """partners: by program of such a warpgroup, those of the others whose wgmmas are the same; reads: what its wgmmas
    read of shared memory, and nothing else of it.
    """

    def __init__(self, programs: Sequence[Program]) -> None:
        found, by_name = warpgroups_of(programs), {program.name: program for program in programs}
        known = {name: _multiplied(by_name[name]) for name in found}
        self.partners = {
            name: frozenset(other for other in others if known[other] == known[name]) for name, others in found.items()
        }
        self.reads = {name: _only_by_wgmmas(by_name[name]) for name in found}

    def ordered(self, role: str, access: Access, other: str, earlier: Access) -> bool:
        """One of the accesses of two roles is a wgmma's that both execute, and the program of the other orders them."""
        return other in self.partners.get(role, ()) and (access in self.reads[role] or earlier in self.reads[other])

    def seen_by(self, role: str, access: Access, others: Iterable[Bystander]) -> list[Bystander]:
        """The others, as far as something of them may not be ordered with the role's access."""
        partners = self.partners.get(role)
        if not partners:
            return list(others)
        if access in self.reads[role]:
            return [other for other in others if other.name not in partners]
        return [self._without(other) if other.name in partners else other for other in others]

    def _without(self, other: Bystander) -> Bystander:
        """The program as if it executed no wgmma."""
        reads = self.reads[other.name]
        spots = []
        for held, ahead in other.spots:
            left = tuple(one for one in held.unordered if one not in reads)
            begun = tuple(one for one in ahead if one not in reads)
            spots.append(Spot(held.without_wgmmas()._replace(unordered=left), begun))
        inside = tuple(
            one._replace(releases=tuple(each for each in one.releases if each not in reads)) for one in other.inside
        )
        return Bystander(other.name, other.counter, tuple(spots), inside)


def _multiplied(program: Program) -> list[object]:
    """Its wgmmas, commits and waits for them, one by one."""
    found: list[object] = []
    for node in program.nodes:
        reads = effects_of(node.operation).lasting("mma_group")
        if reads:
            found.append(tuple(one for one in reads if one.space == "shared"))
        elif isinstance(node.operation, op.Group) and node.operation.kind.startswith("mma"):
            found.append((node.operation.kind, node.operation.pending))
    return found


def _only_by_wgmmas(program: Program) -> frozenset[Access]:
    multiplied, others = set[Access](), set[Access]()
    for effects in (effects_of(node.operation) for node in program.nodes):
        for begun in effects.begins:
            (multiplied if begun.until == "mma_group" else others).add(begun.access)
        others.update(access for copies, _ in effects.lands for access in copies.accesses)
    return frozenset(one for one in multiplied - others if one.space == "shared")
