"""Which roles each CTA of a launch has, in how many copies and parts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sm90_verify.spec.errors import place_of, placed
from sm90_verify.spec.language.declarations import RoleDeclaration, check_role
from sm90_verify.spec.language.pipeline import Pipeline, roles_of
from sm90_verify.spec.model.kernel import Node, Threads
from sm90_verify.spec.ptx import operations as op


def instances(pipeline: Pipeline) -> Iterator[tuple[RoleDeclaration, Threads, str]]:
    """Each with its declaration, the threads that run it, and the name that its parts have in common; CTA by CTA, in
    declaration order. Raises SpecError for a declaration that cannot be meant.
    """
    launch = pipeline._launch
    for cta in range(launch.ctas):
        rank, cluster, grid = launch.rank(cta), launch.cluster_of(cta), launch.grid_of(cta)
        for name, declaration in roles_of(type(pipeline)).items():
            with placed(place_of(declaration.body)):
                copies = pipeline.value(declaration.copies)
                threads = pipeline.value(declaration.threads)
                split = declaration.split or (threads,)
                check_role(name, threads, split, copies, declaration, launch)
            if not declaration.has(rank, cluster, grid):
                continue
            for copy in range(copies):
                label = launch.home(cta) + (f"{name}{copy}" if copies > 1 else name)
                for index, part in enumerate(split):
                    full = f"{label}.{index}" if len(split) > 1 else label
                    me = Threads(full, part, index, copy, rank, sum(split[:index]), cluster, cta - rank)
                    yield declaration, me, label


def in_turn(nodes: tuple[Node, ...], me: Threads, pipeline: Pipeline) -> tuple[Node, ...]:
    """The program of a role, with the start of its CTA before it if others may keep that waiting."""
    launch = pipeline._launch
    if not launch.earlier(launch.block(me.number), resident=pipeline.resident):
        return nodes
    start = Node(op.CtaStart(), nodes[0].source, successors={None: 1})
    moved = [replace(node, successors={answer: to + 1 for answer, to in node.successors.items()}) for node in nodes]
    return start, *moved
