"""Generic writes and the proxy fences after them, where the fence of another role may count.

PTX asks for a proxy fence on the way from a generic write X to an access Y through the async proxy: after X and before
Y in causality order, by whichever thread (spec.ptx.needs, FENCED). As long as only the role that made X could fence it,
where that role is says whether it has (Held.unfenced). A fence of another role is after X only if X has been released
before it. For every X that its role leaves unfenced when it lets others go on, while another role has such a fence, the
model has a bit: X sets it, any fence.proxy.async clears it, and Y must not find it set.

That is exact. If the bit is set when Y is made, no fence has been executed since X, so that none is on the way from X
to Y. And if none is, some schedule shows it: the events that X is not before are closed under happens-before; so those
that Y needs, all of their fences with them, can be executed first, and then X with what comes after it up to Y, which
has no fence in it.

So it matters in which order X and the fences of others are executed, though neither needs anything of the other: where
there are bits, the writes that set them and the fences are no `local` steps of the reduction
(engines.search.reduction).

A tensormap goes by the same argument, with two fences on the way: the release of who has written it, and after that
the acquire of who uses it (MAPPED). By write X and user there is a variable: X makes it 1, a release by the writer of X
makes 1 to 2, an acquire by the user 2 to 0, and the use must find 0. Where an acquire is not after the release, some
schedule has it before the release, when it does nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from sm90_verify.spec.model.kernel import Kernel, Node, Program
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.expr import Expr, Field, Lit, where
from sm90_verify.spec.ptx.groups import Held
from sm90_verify.spec.ptx.memory import Access

Bare = Mapping[tuple[str, Access], Field]
"""By role and generic write, the bit."""
Edited = Mapping[tuple[str, Access, str], Field]
"""By role, its write of a tensormap, and the role that uses it: 1 once it is written, 2 once that is released."""


def bare_writes(kernel: Kernel) -> list[tuple[str, Access]]:
    """The writes that have a bit: some async access is to their bytes, their role lets others go on without a fence
    after them, and another role has fences.
    """
    if kernel.rules.strict:
        return []
    fencing = {program.name for program in kernel.programs if any(shows_accesses(node) for node in program.nodes)}
    wanting = dict.fromkeys(
        access
        for program in kernel.programs
        for node in program.nodes
        for access in effects_of(node.operation).accesses
        if access.wants_fence
    )
    found: dict[tuple[str, Access], None] = {}
    for program in kernel.programs:
        if fencing <= {program.name}:
            continue
        for node in program.nodes:
            if effects_of(node.operation).lets_go_on or not node.successors:
                unfenced = (access for access in node.held.unfenced if access.write)
                found.update(
                    ((program.name, access), None)
                    for access in unfenced
                    if any(access.overlaps(other) for other in wanting)
                )
    return list(found)


def shows_accesses(node: Node) -> bool:
    """The operation is a fence between the generic and the async proxy."""
    return "accesses" in effects_of(node.operation).shows


def sets(bare: Bare, program: Program, node: Node) -> list[Field]:
    """The bits of the writes that the operation makes."""
    written = (one.access for one in effects_of(node.operation).begins if one.raw)
    return [bare[program.name, access] for access in written if (program.name, access) in bare]


def edited_maps(kernel: Kernel) -> list[tuple[str, Access, str]]:
    """Every generic write over a tensormap that some role uses, with that role."""
    begun = [
        (program.name, one)
        for program in kernel.programs
        for node in program.nodes
        for one in effects_of(node.operation).begins
    ]
    used = dict.fromkeys((role, one.access) for role, one in begun if one.access.proxy == "tensormap")
    written = dict.fromkeys((role, one.access) for role, one in begun if one.raw and one.access.write) if used else {}
    found = ((writer, access, user) for writer, access in written for user, map in used if access.overlaps(map))
    return list(dict.fromkeys(found))


def edits(edited: Edited, homes: Mapping[str, str], program: Program, node: Node) -> Iterator[tuple[str, Expr]]:
    """What the operation does to tensormaps. homes: the CTA of each role, for fences whose scope is their own."""
    effects = effects_of(node.operation)
    written = [one.access for one in effects.begins if one.raw]
    for (writer, access, user), field in edited.items():
        after: Expr = field
        if writer == program.name and access in written:
            after = Lit(1, field.width)
        here = homes[writer] == homes[user]
        if writer == program.name and ("maps" if here else "maps_to_ctas") in effects.shows:
            after = where(after == 1, Lit(2, field.width), after)
        seen = effects.acquires
        if user == program.name and seen is not None and (here or seen.wide) and access.overlaps(seen.map):
            after = where(after == 2, Lit(0, field.width), after)
        if after is not field:
            yield field.name, after


def is_seen(bare: Bare, program: Program, node: Node) -> bool:
    """It matters when others make their accesses and fences, before or after the operation."""
    return bool(bare) and (shows_accesses(node) or bool(sets(bare, program, node)))


def fences(bare: Bare, program: Program, node: Node) -> Iterator[tuple[str, Expr]]:
    """What the operation does to the bits."""
    if shows_accesses(node):
        yield from ((bit.name, Lit(0, 1)) for bit in bare.values())
    yield from ((bit.name, Lit(1, 1)) for bit in sets(bare, program, node))


def told_by_place(bare: Bare, role: str, held: Held) -> Held:
    """What is held, without the unfenced accesses that have a bit."""
    if not any(role == one for one, _ in bare):
        return held
    return held._replace(unfenced=tuple(access for access in held.unfenced if (role, access) not in bare))
