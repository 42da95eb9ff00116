"""Each role as others see it, and which of them can meet an access at all, so that only these are asked how: those with
an access to the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from sm90_verify.spec.model.accesses import Bystander, Inside, Spot
from sm90_verify.spec.model.flow import blocks_inside, meeting_of, soon
from sm90_verify.spec.model.kernel import Program
from sm90_verify.spec.model.proxies import told_by_place
from sm90_verify.spec.model.variables import Variables
from sm90_verify.spec.ptx.memory import Access

Place: TypeAlias = tuple[str, int, int, int]
"""Of an access: its space, its CTA, and its bytes."""


def bystanders(v: Variables) -> dict[str, Bystander]:
    """By name, each role, at each of its locations."""
    found = {program.name: _bystander(v, program) for program in v.programs}
    for name, others in v.warpgroups.others.items():
        found[name].partners.extend(found[other] for other in others)
    return found


def _bystander(v: Variables, program: Program) -> Bystander:
    held = [told_by_place(v.covered, program.name, node.held) for node in program.nodes]
    spots = [Spot(one, tuple(ahead)) for one, ahead in zip(held, soon(program), strict=True)]
    inside = []
    for node in program.nodes:
        if node.operation is not None and blocks_inside(node.operation):
            after = node.held.after(node.operation)
            released = tuple(one for one in node.held.unordered if one not in after.unordered)
            if released:
                waits = v.meetings[meeting_of(program, node.operation) or ""].flags[program.name] == 1
                inside.append(Inside(len(spots), released, waits))
            spots.append(Spot(told_by_place(v.covered, program.name, after), ()))
    ahead = v.warpgroups.ahead.get(program.name)
    return Bystander(program.name, v.counters[program.name], tuple(spots), tuple(inside), ahead)


class Touching:
    """The roles of a kernel by the bytes of all accesses that anything says of them, over or not."""

    def __init__(self, bystanders: Sequence[Bystander]) -> None:
        self.bystanders = bystanders
        self.known: dict[Place, frozenset[str]] = {}
        self.by_memory: dict[tuple[str, int], dict[Access, dict[str, None]]] = {}
        for one in bystanders:
            for access in _all_of(one):
                some = self.by_memory.setdefault((access.space, access.cta), {})
                some.setdefault(access, {})[one.name] = None

    def among(self, others: Sequence[Bystander], access: Access) -> list[Bystander]:
        """Those of the others that have an access to some of the same bytes."""
        place = access.space, access.cta, access.start, access.stop
        names = self.known.get(place)
        if names is None:
            some = self.by_memory.get((access.space, access.cta), {})
            names = frozenset(name for own, names in some.items() if own.overlaps(access) for name in names)
            self.known[place] = names
        return [one for one in others if one.name in names]


def _all_of(bystander: Bystander) -> dict[Access, None]:
    """What a Bystander is asked about: all that it may start, and holds somewhere only if it has started it."""
    found: dict[Access, None] = {}
    for spot in bystander.spots:
        found.update(dict.fromkeys(spot.next))
    return found
