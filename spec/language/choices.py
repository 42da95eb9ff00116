"""Choices that roles share: the n-th choice of a name is one value, in whichever order a role names the values."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.model.kernel import Node, Program
from sm90_verify.spec.ptx import operations as op


def agreed(programs: Iterable[Program]) -> tuple[Program, ...]:
    """The programs with the options of each choice in one order, that of its longest one.

    Raises SpecError where two choices of a name leave different values open.
    """
    programs = tuple(programs)
    longest: dict[str, tuple[Hashable, ...]] = {}
    for node in (node for program in programs for node in program.nodes):
        choice = node.operation
        if isinstance(choice, op.Choose) and len(choice.options) > len(longest.get(choice.name, ())):
            longest[choice.name] = choice.options
    return tuple(
        replace(program, nodes=tuple(_in_order(node, longest) for node in program.nodes)) if longest else program
        for program in programs
    )


def _in_order(node: Node, longest: dict[str, tuple[Hashable, ...]]) -> Node:
    choice = node.operation
    if not isinstance(choice, op.Choose) or _told(choice.options) == _told(longest[choice.name][: len(choice.options)]):
        return node
    known = longest[choice.name]
    if set(_told(choice.options)) != set(_told(known)):
        one, other = (", ".join(map(repr, options)) for options in (choice.options, known))
        what = f"choose({choice.name!r}) of {one}, which is of {other} elsewhere"
        raise SpecError(f"{what}: it is one choice for all roles, so give it the same values", node.source)
    where = {told: number for number, told in enumerate(_told(known))}
    leads = {where[told]: node.successors[number] for number, told in enumerate(_told(choice.options))}
    return replace(node, operation=op.Choose(choice.name, known), successors=dict(sorted(leads.items())))


def _told(options: tuple[Hashable, ...]) -> tuple[tuple[type, Hashable], ...]:
    """Values that are not the same if they are equal and of other types, such as 1 and True."""
    return tuple((type(option), option) for option in options)
