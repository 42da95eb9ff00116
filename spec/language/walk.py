"""From a pipeline to its kernel: every role is followed (role_walk.py), and what it did is a program."""

from __future__ import annotations

from collections.abc import Iterator

from sm90_verify.spec.errors import SpecError, place_of, place_of_class, placed
from sm90_verify.spec.language.declarations import RoleDeclaration, check_role, is_own
from sm90_verify.spec.language.pipeline import Pipeline, roles_of
from sm90_verify.spec.language.places import Watcher
from sm90_verify.spec.language.role_walk import RoleWalk
from sm90_verify.spec.model.annotate import annotate
from sm90_verify.spec.model.kernel import Kernel, Node, Program, Rules, Threads
from sm90_verify.spec.model.tick import Tick, unheard
from sm90_verify.spec.model.validate import validate


def trace(pipeline: Pipeline, tick: Tick = unheard) -> Kernel:
    """The kernel that a pipeline describes, the programs of its roles in declaration order; raises SpecError for what
    is wrong in every schedule, see spec.model.validate. tick: called at each operation of each run of a role.
    """
    if not isinstance(pipeline, Pipeline):
        raise SpecError(f"a {type(pipeline).__name__} is no pipeline: give trace an instance, such as Ring(stages=2)")
    watch: Watcher | None = None
    if is_own(type(pipeline)):
        from sm90_verify.spec.language.watch import Watch

        watch = Watch(pipeline)
    programs = tuple(
        annotate(bare, checked=True, tick=tick)
        for cta in range(pipeline._shape.size)
        for declaration in roles_of(type(pipeline)).items()
        for bare in _programs(pipeline, cta, *declaration, watch, tick)
    )
    if not programs:
        what = f"{pipeline.name} has no role: mark a generator method with @role(warps=1)"
        raise SpecError(what, place_of_class(type(pipeline)))
    kernel = Kernel(
        pipeline.name,
        pipeline.parameters(),
        pipeline.layout,
        programs,
        pipeline.shape,
        Rules(pipeline.strict, met=pipeline.met),
        pipeline.registers,
        max([pipeline.stages, *pipeline.layout.slots.values()]),
    )
    try:
        validate(kernel, annotated=True)
    except SpecError as error:
        raise error.at(place_of_class(type(pipeline))) from None
    return kernel


def _programs(
    pipeline: Pipeline, cta: int, name: str, declaration: RoleDeclaration, watch: Watcher | None, tick: Tick
) -> Iterator[Program]:
    """The instances of a role in a CTA. A role that does not take `me` does the same in all of them."""
    where, home = place_of(declaration.body), pipeline._shape.home(cta)
    with placed(where):
        copies, threads = pipeline.value(declaration.copies), pipeline.value(declaration.threads)
        split = declaration.split or (threads,)
        check_role(name, threads, split, copies, declaration.ctas, pipeline._shape)
    if declaration.ctas is not None and cta not in declaration.ctas:
        return
    nodes: tuple[Node, ...] = ()
    for copy in range(copies):
        label = home + (f"{name}{copy}" if copies > 1 else name)
        for index, part in enumerate(split):
            full = f"{label}.{index}" if len(split) > 1 else label
            walk = RoleWalk(pipeline, declaration, Threads(full, part, index, copy, cta, sum(split[:index])), watch)
            nodes = walk.trace(tick) if "me" in walk.takes or not nodes else nodes
            yield Program(full, walk.me, nodes, label, home, where)
