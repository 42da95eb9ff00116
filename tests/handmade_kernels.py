"""Kernels that together have every kind of operation, edits of one field of a kernel, and what no field can hold."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from rings import Filled

from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.model.annotate import annotate
from sm90_verify.spec.model.kernel import Kernel
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.memory import Access


class Ring(Filled):
    stages = 1
    trips = 2
    empty = barrier(arrivals=128)

    @role(warpgroups=1)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.a[at].mma()
        yield self.mma_wait(0)
        yield self.empty[at].arrive(128)


class Loop(Ring):
    trips = "all"


class Mixed(Pipeline):
    """A barrier that ends and gives its bytes to a buffer, tokens, choices, stores and named barriers."""

    registers = 100
    b = barrier(arrivals=1, initialised=False, address=0)
    done = barrier(arrivals=96)
    x = tile(bytes=64, address=0)
    y = tile(bytes=64)
    out = tile(bytes=64, space="global")
    held = tile(bytes=64, holds="old", slots=1)

    @role(threads=32)
    def one(self):
        yield self.b.init(1)
        yield self.fence_mbarrier_init()
        yield self.cta_sync()
        yield self.b.expect_tx(64)
        token = yield self.b.arrive()
        yield self.y.load(signals=self.b)
        yield self.b.wait(token)
        yield self.cta_sync()
        yield self.b.inval()
        yield self.x.write(tag="new")
        yield self.fence_proxy_async()
        yield self.x.store(to=self.out, tag="new")
        yield self.bulk_commit()
        yield self.bulk_wait_read(0)
        yield self.bulk_wait(0)
        yield self.held.read(tag="old")
        yield self.done.arrive(32)

    @role(threads=64)
    def two(self):
        yield self.cta_sync()
        yield self.cta_sync()
        yield self.done.test_wait(0)
        if (yield self.choose("which", "a", "b")) == "a":
            yield self.named_sync(1, 96)
        else:
            yield self.named_arrive(2, 96)
        yield self.done.arrive_drop(64)
        yield self.setmaxnreg_dec(40)

    @role(threads=32)
    def three(self):
        yield self.cta_sync()
        yield self.cta_sync()
        yield self.named_sync(1 if (yield self.choose("which", "a", "b")) == "a" else 2, 96)
        yield self.warp_sync()


class Pair(Pipeline):
    """Two CTAs that meet, a multicast, and arrivals in the other CTA."""

    cluster = "2x1"
    full = barrier(arrivals=1)
    back = barrier(arrivals=64, slots=1)
    a = tile(bytes=64)

    @role(warps=1)
    def one(self, me):
        yield self.cluster_arrive_relaxed()
        yield self.cluster_wait()
        yield self.full.arrive_expect_tx(64)
        if me.cta == 0:
            yield self.a.load(signals=self.full, multicast=(0, 1))
        yield self.full.wait(0)
        yield self.a.read()
        yield self.back[0].on(0).arrive(32)
        if me.cta == 0:
            yield self.back[0].wait(0)
        yield self.cluster_arrive()
        yield self.cluster_wait()


KERNELS = (Ring, Loop, Mixed, Pair)


def with_operations(kernel: Kernel, record: type[Any], change: Callable[[Any], op.Operation]) -> Kernel:
    """The kernel with other operations in place of all of a record."""
    programs = []
    for program in kernel.programs:
        nodes = tuple(
            replace(node, operation=change(node.operation)) if isinstance(node.operation, record) else node
            for node in program.nodes
        )
        programs.append(annotate(replace(program, nodes=nodes)))
    return replace(kernel, programs=tuple(programs))


def others(record: type[Any], **changes: object) -> Callable[[Kernel], Kernel]:
    """With other fields of a record; a function is applied to what is there."""

    def changed(one: Any) -> op.Operation:
        values = {name: new(getattr(one, name)) if callable(new) else new for name, new in changes.items()}
        return replace(one, **values)

    return lambda kernel: with_operations(kernel, record, changed)


def accesses(**changes: object) -> Callable[[Any], Any]:
    """Other fields of an access, or of all of several."""
    return lambda found: (
        found._replace(**changes) if isinstance(found, Access) else tuple(one._replace(**changes) for one in found)
    )


def threads(**changes: object) -> Callable[[Kernel], Kernel]:
    """Other fields of who executes the first role."""

    def changed(kernel: Kernel) -> Kernel:
        first, *rest = kernel.programs
        return replace(kernel, programs=(replace(first, me=replace(first.me, **changes)), *rest))

    return changed


def layout(**changes: object) -> Callable[[Kernel], Kernel]:
    return lambda kernel: replace(kernel, layout=kernel.layout._replace(**changes))


def regions(change: Callable[[Any], Any]) -> Callable[[Kernel], Kernel]:
    return lambda kernel: layout(regions=tuple(map(change, kernel.layout.regions)))(kernel)


def first_node(**changes: object) -> Callable[[Kernel], Kernel]:
    """Other fields of the first location of the first role."""

    def changed(kernel: Kernel) -> Kernel:
        first, *rest = kernel.programs
        node, *nodes = first.nodes
        return replace(kernel, programs=(replace(first, nodes=(replace(node, **changes), *nodes)), *rest))

    return changed


JUNK = (
    None,
    True,
    -3,
    0,
    1,
    7,
    33,
    1 << 20,
    1 << 40,
    1.5,
    "",
    "x",
    "generic",
    "mma",
    "write",
    b"x",
    (),
    [],
    {},
    ("a",),
)
"""What somebody could write by mistake, and what nobody would."""
