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

The write of a cp.async is made by the time when its group has been waited for, and a fence before that need not be
after it: the wait sets the bit again. What st.async writes, and cp.asyncs that an arrival follows, is made when the
bytes land or the arrival comes; that a fence of their own thread comes later in its program does not put it after them.
So such a write (`late`) has a bit wherever there are fences, and the landing, or the arrival, sets it again. That is
taken in every order with the fences of roles, but for bytes that land on a balanced barrier, which the reduced search
may put off until somebody stands at it: then more fences come before them, so that no fewer bits are set.

A tensormap goes by the same argument, with two fences on the way: the release of who has written it, and after that
the acquire of who uses it (MAPPED). By write X and user there is a variable: X makes it 1, a release by the writer of X
makes 1 to 2, an acquire by the user 2 to 0, and the use must find 0. Where an acquire is not after the release, some
schedule has it before the release, when it does nothing.

Where some operations order less than all that came before (spec.model.weaker), a fence that has been executed need not
be before what could not go on without it. There spec.model.causality follows the order of fences and releases as it
follows that of accesses: whether what shows a write (`Shown`) is before whatever a role does next.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, TypeAlias

from sm90_verify.spec.errors import Source
from sm90_verify.spec.model.kernel import Kernel, Node, Program
from sm90_verify.spec.ptx import effect_parts
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.effect_parts import TriggeredArrivals
from sm90_verify.spec.ptx.effects import effects_of
from sm90_verify.spec.ptx.expr import TRUE, Expr, Field, Lit, all_of, where
from sm90_verify.spec.ptx.groups import Held
from sm90_verify.spec.ptx.memory import Access

Bare = Mapping[tuple[str, Access], Field]
"""By role and generic write, the bit."""
Edited = Mapping[tuple[str, Access, str], Field]
"""By role, its write of a tensormap, and the role that uses it: 1 once it is written, 2 once that is released."""
RELEASES: dict[bool, effect_parts.Shown] = {True: "maps", False: "maps_to_ctas"}
"""What shows a tensormap to users in the own CTA, and in others."""


class Shown(NamedTuple):
    """A role's generic write, and what shows it through another proxy: a fence of that kind."""

    role: str
    access: Access
    by: effect_parts.Shown


Pending: TypeAlias = Mapping[TriggeredArrivals, tuple[Field, Source]]
"""How many of the arrivals that follow cp.asyncs have not been made, and where they are written."""
Known: TypeAlias = Callable[[str, Shown], Expr] | None
"""Whether what shows a write is before a role's next operation."""


def bare_writes(kernel: Kernel) -> list[tuple[str, Access]]:
    """The writes that have a bit: some async access is to their bytes, their role lets others go on without a fence
    after them, and another role has fences; or they are late, and any role has.
    """
    fencing = {program.name for program in kernel.programs if any(shows_accesses(node) for node in program.nodes)}
    wanting = dict.fromkeys(
        access
        for program in kernel.programs
        for node in program.nodes
        for access in effects_of(node.operation).accesses
        if access.wants_fence
    )
    found = {
        (program.name, access): None
        for program in kernel.programs
        for node in program.nodes
        for access in late(node.operation)
        if fencing and any(access.overlaps(other) for other in wanting)
    }
    known: dict[Access, bool] = {}
    for program in kernel.programs:
        if fencing <= {program.name} or kernel.rules.strict:
            continue
        for node in program.nodes:
            if node.held.unfenced and (effects_of(node.operation).lets_go_on or not node.successors):
                for access in node.held.unfenced:
                    if access not in known:
                        known[access] = access.write and any(access.overlaps(other) for other in wanting)
                    if known[access]:
                        found[program.name, access] = None
    return list(found)


def late(operation: op.Operation | None) -> list[Access]:
    """Generic writes that are over only when something without a program says so: bytes that land, or an arrival."""
    does = effects_of(operation)
    tracked = () if does.triggers is None else does.triggers.tracks
    return [
        *(one.write for one, _ in does.lands if one.write.proxy == "generic"),
        *(one for one in tracked if one.write),
    ]


def shows_accesses(node: Node) -> bool:
    """The operation is a fence between the generic and the async proxy."""
    return "accesses" in effects_of(node.operation).shows


def sets(bare: Bare, program: Program, node: Node) -> list[Field]:
    """The bits of the writes that the operation makes."""
    return [bare[program.name, access] for access in _made(node) if (program.name, access) in bare]


def _made(node: Node) -> list[Access]:
    """The generic accesses that the operation makes, and the writes that it waits for."""
    begun = [one.access for one in effects_of(node.operation).begins if one.raw]
    return [*begun, *node.held.copied_by(node.operation)]


def _is_made(pending: Pending, node: Node, access: Access) -> Expr:
    """The operation makes the access, or waits for what need not have been made: no arrival has told that it is."""
    held = node.held
    if access not in held.copied_by(node.operation) or any(
        one.raw and one.access == access for one in effects_of(node.operation).begins
    ):
        return TRUE
    first = next((index for index, (_, some) in enumerate(held.tracked) if access in some), len(held.tracked))
    return all_of(pending[later][0] != 0 for later, _ in held.tracked[first:])


def edited_maps(kernel: Kernel) -> list[tuple[str, Access, str]]:
    """Every generic write over a tensormap that some role uses, with that role."""

    def begun() -> Iterator[tuple[str, effect_parts.Begun]]:
        for program in kernel.programs:
            for node in program.nodes:
                yield from ((program.name, one) for one in effects_of(node.operation).begins)

    used = dict.fromkeys((role, one.access) for role, one in begun() if one.access.proxy == "tensormap")
    written = dict.fromkeys((role, one.access) for role, one in begun() if one.raw and one.access.write) if used else {}
    found = ((writer, access, user) for writer, access in written for user, map in used if access.overlaps(map))
    return list(dict.fromkeys(found))


def edits(
    edited: Edited, homes: Mapping[str, str], known: Known, pending: Pending, program: Program, node: Node
) -> Iterator[tuple[str, Expr]]:
    """What the operation does to tensormaps. homes: the CTA of each role, for fences whose scope is their own. known:
    what tells that a release is before the user's next operation, if that does not follow from its having been made.
    """
    does = effects_of(node.operation)
    written = _made(node)
    for (writer, access, user), field in edited.items():
        after: Expr = field
        if writer == program.name and access in written:
            after = where(_is_made(pending, node, access), Lit(1, field.width), after)
        here = homes[writer] == homes[user]
        if writer == program.name and RELEASES[here] in does.shows:
            after = where(after == 1, Lit(2, field.width), after)
        seen = does.acquires
        if user == program.name and seen is not None and (here or seen.wide) and access.overlaps(seen.map):
            released = after == 2 if known is None else known(user, Shown(writer, access, RELEASES[here]))
            after = where(released, Lit(0, field.width), after)
        if after is not field:
            yield field.name, after


def is_seen(bare: Bare, program: Program, node: Node) -> bool:
    """It matters when others make their accesses and fences, before or after the operation."""
    return bool(bare) and (shows_accesses(node) or bool(sets(bare, program, node)))


def fences(bare: Bare, pending: Pending, program: Program, node: Node) -> Iterator[tuple[str, Expr]]:
    """What the operation does to the bits."""
    if shows_accesses(node):
        yield from ((bit.name, Lit(0, 1)) for bit in bare.values())
    for access in _made(node):
        bit = bare.get((program.name, access))
        if bit is not None:
            yield bit.name, where(_is_made(pending, node, access), Lit(1, 1), bit)


def told_by_place(covered: Container[tuple[str, Access]], role: str, held: Held) -> Held:
    """What is held, without the unfenced accesses for which it is not the place of the role that tells."""
    return held._replace(unfenced=tuple(access for access in held.unfenced if (role, access) not in covered))


def bare_bits(writes: Iterable[tuple[str, Access]], new: Callable[..., Field]) -> dict[tuple[str, Access], Field]:
    """A bit for each of the writes."""
    found = {}
    for role, access in writes:
        name, about = f"bare.{role}.{access.object}", f"no proxy fence since {role} wrote {access.object}"
        found[role, access] = new(name, 1, 0, about, kind="bare", of=access.object, role=role, ghost=True)
    return found


def edit_fields(kernel: Kernel, new: Callable[..., Field]) -> dict[tuple[str, Access, str], Field]:
    """A variable for each write of a tensormap and each user of it."""
    found = {}
    for number, (writer, access, user) in enumerate(edited_maps(kernel)):
        name, about = f"edited.{writer}.{access.object}.{user}", f"what {writer} wrote to {access.object}, for {user}"
        more: dict[str, Any] = {"kind": "edited", "of": access.object, "role": writer, "index": number, "ghost": True}
        found[writer, access, user] = new(name, 2, 0, about, labels=("acquired", "written", "released"), **more)
    return found


def shown_writes(kernel: Kernel) -> list[Shown]:
    """What spec.model.causality has to follow."""
    homes = {program.name: program.home for program in kernel.programs}
    bare = [Shown(role, access, "accesses") for role, access in bare_writes(kernel)]
    edited = (
        Shown(writer, access, RELEASES[homes[writer] == homes[user]]) for writer, access, user in edited_maps(kernel)
    )
    return list(dict.fromkeys((*bare, *edited)))
