"""From a pipeline to its kernel: every role is followed (role_walk.py), and what it did is a program."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from sm90_verify.spec.errors import SpecError, place_of, place_of_class
from sm90_verify.spec.language.choices import agreed
from sm90_verify.spec.language.closing import Closing
from sm90_verify.spec.language.declarations import is_own
from sm90_verify.spec.language.instances import instances
from sm90_verify.spec.language.lost_calls import refuse_lost_calls
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.places import Watcher
from sm90_verify.spec.language.role_walk import RoleWalk
from sm90_verify.spec.model.annotate import annotate
from sm90_verify.spec.model.kernel import Kernel, Node, Program, Rules, Threads
from sm90_verify.spec.model.tick import Tick, unheard
from sm90_verify.spec.model.validate import validate
from sm90_verify.spec.ptx import operations as op


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
    followed = agreed(_programs(pipeline, watch, tick))
    programs = tuple(annotate(bare, checked=True, tick=tick) for bare in followed)
    if not programs:
        what = f"{pipeline.name} has no role: mark a generator method with @role(warps=1)"
        raise SpecError(what, place_of_class(type(pipeline)))
    kernel = Kernel(
        pipeline.name,
        pipeline.parameters(),
        pipeline.layout,
        programs,
        pipeline.shape,
        Rules(pipeline.strict, met=pipeline.met, resident=pipeline.resident),
        pipeline.registers,
        max([pipeline.stages, *pipeline.layout.slots.values()]),
        pipeline._launch.clusters,
        pipeline._launch.grids,
    )
    try:
        validate(kernel, annotated=True)
    except SpecError as error:
        raise error.at(place_of_class(type(pipeline))) from None
    return kernel


def _programs(pipeline: Pipeline, watch: Watcher | None, tick: Tick) -> Iterator[Program]:
    """The instances of all roles. A role that does not take `me` does the same in all of a CTA, unless the kernel has
    tiles in registers: these are each program's own. All instances of a role close their loops as late as the one that
    looks most closely at its numbers, so that their places tell the same of how far they are.
    """
    apart = any(region.space == "registers" for region in pipeline.layout.regions)
    walks: dict[tuple[int, int, str], RoleWalk] = {}
    nodes: dict[tuple[int, int, str], tuple[Node, ...]] = {}
    looked: dict[int, Closing] = {}
    found = []
    for declaration, me, label in instances(pipeline):
        if watch is not None and id(declaration) not in looked:
            refuse_lost_calls(declaration.body, pipeline)
        walk = RoleWalk(pipeline, declaration, me, watch)
        key = id(declaration), me.number, me.name if apart or "me" in walk.takes else ""
        if key not in walks:
            walks[key], nodes[key] = walk, walk.trace(tick)
            looked.setdefault(id(declaration), Closing(watch)).look_as_closely_as(walk.closing)
        found.append((declaration, me, label, key))
    for key, walk in walks.items():
        if walk.closing.look_as_closely_as(looked[key[0]]):
            nodes[key] = walk.trace(tick)
    for declaration, me, label, key in found:
        home = pipeline._launch.home(me.number)
        yield Program(me.name, me, _in_turn(nodes[key], me, pipeline), label, home, place_of(declaration.body))


def _in_turn(nodes: tuple[Node, ...], me: Threads, pipeline: Pipeline) -> tuple[Node, ...]:
    """The program of a role, with the start of its CTA before it if others may keep that waiting."""
    launch = pipeline._launch
    if not launch.earlier(launch.block(me.number), resident=pipeline.resident):
        return nodes
    start = Node(op.CtaStart(), nodes[0].source, successors={None: 1})
    moved = [replace(node, successors={answer: to + 1 for answer, to in node.successors.items()}) for node in nodes]
    return start, *moved
