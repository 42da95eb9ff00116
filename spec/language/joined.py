"""Joins the places of a role that do the same for ever: what was chosen leads to ways that are told apart while they
are followed, and need not be afterwards.

The third block of three and the second of two are followed by the same operations with the same answers: they are one
place (the coarsest partition that is stable under successors, refined class by class).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import replace

from sm90_verify.spec.model.kernel import Node
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.groups import Held


def joined(nodes: Sequence[Node], holds: Sequence[Held]) -> tuple[Node, ...]:
    """The same program with one node, the first, for all that cannot be told apart. A program without choices stays as
    it is. holds: by node, what is in flight there.
    """
    if not any(isinstance(node.operation, op.Choose) for node in nodes):
        return tuple(nodes)
    classes = _classes(nodes, holds)
    first: dict[int, int] = {}
    for index, found in enumerate(classes):
        first.setdefault(found, index)
    numbers = {found: number for number, found in enumerate(first)}
    return tuple(
        replace(
            nodes[index], successors={answer: numbers[classes[to]] for answer, to in nodes[index].successors.items()}
        )
        for index in first.values()
    )


def _classes(nodes: Sequence[Node], holds: Sequence[Held]) -> list[int]:
    """By node, the number of its class."""
    before: list[list[int]] = [[] for _ in nodes]
    for index, node in enumerate(nodes):
        for target in node.successors.values():
            before[target].append(index)
    numbers: dict[Hashable, int] = {}
    classes = [numbers.setdefault((_alone(node), held), len(numbers)) for node, held in zip(nodes, holds, strict=True)]
    sizes = [0] * len(numbers)
    for found in classes:
        sizes[found] += 1
    common: list[tuple[int, ...]] = [()] * len(sizes)  # by class, the classes that all of its nodes lead to
    todo = list(range(len(nodes)))
    while todo:
        groups: dict[int, dict[tuple[int, ...], list[int]]] = {}
        for index in todo:
            leads = tuple(classes[target] for target in nodes[index].successors.values())
            groups.setdefault(classes[index], {}).setdefault(leads, []).append(index)
        moved: list[int] = []
        for found, ways in groups.items():
            looked_at = sum(map(len, ways.values()))
            if looked_at == sizes[found]:  # the largest part keeps the number
                common[found] = max(ways, key=lambda one: len(ways[one]))
            for leads, part in ways.items():
                if leads == common[found]:
                    continue
                sizes[found] -= len(part)
                for index in part:
                    classes[index] = len(sizes)
                sizes.append(len(part))
                common.append(leads)
                moved += part
        todo = sorted({index for target in moved for index in before[target]})
    return classes


def _alone(node: Node) -> Hashable:
    """What a node is by itself. The order of its answers is that of its operation."""
    moves = tuple(node.moves.items())
    return node.operation, node.source, node.loop, node.distance, node.skips, moves, tuple(node.successors)
