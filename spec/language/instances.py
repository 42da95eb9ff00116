"""The roles of a class, and who executes them: which roles each CTA of a launch has, in how many copies and parts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from sm90_verify.spec.errors import place_of, placed
from sm90_verify.spec.language.declarations import RoleDeclaration, check_role
from sm90_verify.spec.model.kernel import Threads

if TYPE_CHECKING:
    from sm90_verify.spec.language.values import Owner


class Instance(NamedTuple):
    """The role of a program, the threads that run it, and the name that the parts of the role have in common."""

    declaration: RoleDeclaration
    me: Threads
    label: str


def roles_of(kernel: type) -> dict[str, RoleDeclaration]:
    """The roles of a class by name, those of its bases first; none if it is only there to be inherited from."""
    found: dict[str, RoleDeclaration] = {}
    for base in reversed(kernel.__mro__):
        found.update((name, value) for name, value in vars(base).items() if isinstance(value, RoleDeclaration))
    return found


def instances(pipeline: Owner) -> Iterator[Instance]:
    """CTA by CTA, in declaration order. Raises SpecError for a declaration that cannot be meant."""
    launch = pipeline._launch
    for cta in range(launch.ctas):
        rank, cluster, grid = launch.rank(cta), launch.cluster_of(cta), launch.grid_of(cta)
        for name, declaration in roles_of(type(pipeline)).items():
            with placed(place_of(declaration.body)):
                copies = pipeline.value(declaration.copies)
                threads = pipeline.value(declaration.threads)
                check_role(name, threads, copies, declaration, launch)
            if not declaration.has(rank, cluster, grid):
                continue
            for copy in range(copies):
                label = launch.home(cta) + (f"{name}{copy}" if copies > 1 else name)
                parts = declaration.parts(threads)
                for index, part in enumerate(parts):
                    full = f"{label}.{index}" if len(parts) > 1 else label
                    me = Threads(full, len(part), index, copy, rank, min(part), cluster, cta - rank)
                    yield Instance(declaration, me, label)
