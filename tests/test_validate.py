"""What no schedule is needed for is refused with one line, by every front end and engine; its neighbour is not."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from refusals import refusal

from sm90_verify.cli.main import main
from sm90_verify.engines.check import check
from sm90_verify.result import PROVED
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.annotate import annotate
from sm90_verify.spec.model.kernel import Kernel
from sm90_verify.spec.ptx import operations as op

PIPELINES = kernels("pipeline")


# ---------------------------------------------------------------- every way in


class NoThreads(Pipeline):
    full = barrier(arrivals=1)

    @role(threads=0)
    def p(self):
        yield self.full.arrive()


class CopyNotAligned(Pipeline):
    full = barrier(arrivals=1)
    a = tile(bytes=64, address=8)

    @role(warps=1)
    def p(self):
        yield self.full.arrive_expect_tx(64)
        yield self.a.load(signals=self.full)
        yield self.full.wait(0)


class BarrierNotAligned(Pipeline):
    full = barrier(arrivals=1, address=3)

    @role(warps=1)
    def p(self):
        yield self.full.arrive()


class MoreMemoryThanAnSmHas(Pipeline):
    full = barrier(arrivals=1)
    a = tile(bytes=1 << 20)

    @role(warps=1)
    def p(self):
        yield self.full.arrive()


class BelowZero(Pipeline):
    a = tile(bytes=64, address=-64)

    @role(warps=1)
    def p(self):
        yield self.a.write(tag=1)


class WgmmaByOneWarp(Pipeline):
    a = tile(bytes=64)

    @role(warps=1)
    def p(self):
        yield self.a.mma()
        yield self.mma_wait(0)


class BulkStoreOfEightBytes(Pipeline):
    a = tile(bytes=8)

    @role(warps=1)
    def p(self):
        yield self.a.write(tag=1)
        yield self.fence_proxy_async()
        yield self.a.store(tag=1)
        yield self.bulk_commit()
        yield self.bulk_wait(0)


class SyncthreadsIsBarrierZero(Pipeline):
    """p and q meet at bar.sync 0, 64 while r is already in __syncthreads(), which is barrier 0 too, with 96."""

    @role(warps=1)
    def p(self):
        yield self.named_sync(0, 64)
        yield self.cta_sync()

    @role(warps=1)
    def q(self):
        yield self.named_sync(0, 64)
        yield self.cta_sync()

    @role(warps=1)
    def r(self):
        yield self.cta_sync()


class TooManyThreads(Pipeline):
    full = barrier(arrivals=1)

    @role(threads=2048)
    def p(self):
        yield self.full.arrive()


ILLEGAL = (
    TooManyThreads,
    NoThreads,
    CopyNotAligned,
    BarrierNotAligned,
    MoreMemoryThanAnSmHas,
    BelowZero,
    WgmmaByOneWarp,
    BulkStoreOfEightBytes,
    SyncthreadsIsBarrierZero,
)


@pytest.mark.parametrize("kernel", ILLEGAL)
def test_no_engine_sees_a_kernel_that_is_illegal_by_itself(kernel):
    what, _ = refusal(kernel())
    for engine in ("search", "order", "smt", "search+order", "search+smt"):
        with pytest.raises(SpecError) as caught:
            check(kernel(), command="spec", engine=engine)
        assert caught.value.what == what
    for reader in (trace, check):
        with pytest.raises(SpecError) as caught:
            reader(kernel())
        assert caught.value.what == what


@pytest.mark.parametrize("kernel", ILLEGAL)
@pytest.mark.parametrize("engine", ["search", "order", "smt", "search+order"])
def test_the_command_line_refuses_it_with_one_line(kernel, engine, capsys):
    assert main(["spec", f"{__file__}:{kernel.__name__}", "--engine", engine]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert re.match(rf"verify: error: {re.escape(__file__)}:\d+: ", err)


# ---------------------------------------------------------------- clusters


@pytest.mark.parametrize("name", PIPELINES)
def test_classes_without_clusters_refuse_one(name, capsys):
    kernel = PIPELINES[name]
    assert kernel(cluster="1x1").shape.size == 1
    if name in ("tma-async", "launch-control"):
        assert kernel(cluster="2x1").shape.size == 2
        return
    with pytest.raises(SpecError, match=rf"cluster 2x1: {name} stays in its CTA") as caught:
        kernel(cluster="2x1")
    assert caught.value.where is not None and caught.value.where.file == __file__
    assert main(["pipeline", name, "--cluster", "1x2"]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err == f"verify: error: cluster 1x2: {name} stays in its CTA: use 1x1, or tma-async\n"


# ---------------------------------------------------------------- what operations and programs name


class Loads(Pipeline):
    full = barrier(arrivals=1)
    a = tile(bytes=64)

    @role(warps=1)
    def one(self):
        yield self.full.arrive_expect_tx(64)
        yield self.a.load(signals=self.full)
        yield self.full.wait(0)


def edited(change) -> Kernel:
    """The kernel of Loads with other operations, said anew of each location."""
    kernel = trace(Loads())
    (program,) = kernel.programs
    nodes = tuple(
        node if node.operation is None else replace(node, operation=change(node.operation)) for node in program.nodes
    )
    return replace(kernel, programs=(annotate(replace(program, nodes=nodes)),))


def elsewhere(operation: op.Operation, **place: object) -> op.Operation:
    """A copy to bytes that have another object or memory space; other operations as they are."""
    return replace(operation, write=operation.write._replace(**place)) if isinstance(operation, op.Load) else operation


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (lambda: edited(lambda one: replace(one, barrier="b")), "no barrier is called 'b': the layout has full"),
        (lambda: edited(lambda one: replace(one, barrier="a")), "no barrier is called 'a'"),
        (lambda: edited(lambda one: elsewhere(one, object="b")), "no buffer 'b' lies in shared memory of CTA 0"),
        (lambda: edited(lambda one: elsewhere(one, space="global")), "goes to a in global memory: use shared"),
    ],
)
def test_what_an_operation_names_has_a_place(kernel, why):
    assert check(edited(lambda one: one)).verdict == PROVED
    with pytest.raises(SpecError, match=re.escape(why)):
        check(kernel())


def test_programs_have_names_and_homes_of_their_own():
    kernel = trace(Loads())
    (one,) = kernel.programs
    away = replace(one, me=replace(one.me, cta=1))
    for programs, why in (
        ((one, one), "two programs are called one"),
        ((away,), "role one is that of CTA 1: use 0 to 0"),
        ((replace(one, home="cta0."),), "role one of CTA 0 has the home 'cta0.': use ''"),
    ):
        with pytest.raises(SpecError, match=re.escape(why)):
            check(replace(kernel, programs=programs))


def test_objects_have_a_place_of_at_least_one_byte():
    kernel = trace(Loads())
    layout = kernel.layout
    for regions, why in (
        ((*layout.regions, layout.regions[0]), "two regions of the layout have the same name"),
        (tuple(one._replace(stop=one.start) for one in layout.regions), "full has 0 bytes: use 1 or more"),
    ):
        with pytest.raises(SpecError, match=why):
            check(replace(kernel, layout=layout._replace(regions=regions)))
