"""A buffer over a barrier by its address: a finding by itself where no role decides when the barrier lives."""

from __future__ import annotations

import pytest
from findings import violated

from sm90_verify.engines.order import order
from sm90_verify.result import PROVED
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace


class Apart(Pipeline):
    """A buffer over a barrier, and nobody said that it is meant; nobody touches it."""

    bar = barrier(address=0, slots=1)
    x = tile(bytes=64, address=0, slots=1)

    what: str = ""

    @role(warps=1)
    def one(self):
        if self.what == "read":
            yield self.x.read()
        if self.what == "inval":
            yield self.bar.inval()
        yield self.cta_sync()


class Dead(Apart):
    bar = barrier(address=0, slots=1, initialised=False)


class TwoBarriers(Apart):
    """Two barriers in the same bytes: which of them lives is not for the layout to guess."""

    bar = barrier(address=0, slots=1, initialised=False)
    other = barrier(address=0, slots=1, initialised=False)
    x = tile(bytes=64, address=64, slots=1)


class TwoBuffers(Apart):
    """A buffer over another one is no matter of barriers, though a barrier lies there as well."""

    bar = barrier(address=0, slots=1, initialised=False)
    y = tile(bytes=64, address=0, slots=1)


class AtTheEnd(Apart):
    """The barrier lies at the end of the buffer."""

    bar = barrier(address=56, slots=1, initialised=False)


class Declared(Apart):
    x = tile(bytes=64, shares="bar", slots=1)


@pytest.mark.parametrize("engine", ["search", "order"])
@pytest.mark.parametrize(
    ("pipeline", "found"),
    [
        (Apart(), ["smem-overlap"]),
        (Apart(what="read"), ["smem-overlap", "barrier-init"]),
        (Apart(what="inval"), []),
        (Dead(), []),
        (Dead(what="read"), []),
        (AtTheEnd(what="read"), []),
        (Declared(), []),
        (Declared(what="read"), ["barrier-init"]),
        (TwoBarriers(), ["smem-overlap"]),
        (TwoBuffers(), ["smem-overlap"]),
    ],
    ids=lambda one: f"{one.name} {one.what}" if isinstance(one, Pipeline) else "",
)
def test_an_overlap_is_a_finding_by_itself_where_no_role_decides_when_the_barrier_lives(pipeline, found, engine):
    assert sorted(violated(pipeline, engine=engine)) == sorted(found)


class Beside(Pipeline):
    """The copy is shorter than its buffer and does not reach the barrier at the end."""

    bytes: int = 48
    full = barrier(address=1024, slots=1)
    bar = barrier(address=56, slots=1)
    x = tile(bytes=64, address=0, slots=1)

    @role(warps=1)
    def one(self):
        yield self.full.arrive_expect_tx(self.bytes)
        yield self.x.load(signals=self.full, bytes=self.bytes)
        yield self.full.wait(0)


def test_only_the_bytes_of_an_access_count():
    assert violated(Beside()) == ["smem-overlap"]
    assert sorted(violated(Beside(bytes=64))) == ["barrier-init", "smem-overlap"]


def test_order_answers_for_barriers_that_nobody_initialises():
    assert order(trace(Dead(what="read"))).verdicts["barrier-init"] == PROVED
    assert order(trace(Apart(what="inval"))).failures == ()
