"""Bytes that a phase can complete without: the reduced search finds what is wrong with them too."""

from __future__ import annotations

import pytest

from sm90_verify.engines.search.explore import explore
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel


class CompletesThenExpects(Pipeline):
    b = barrier(arrivals=1)

    @role(warps=1)
    def r0(self):
        yield self.b.wait(1)
        yield self.b.complete_tx(16)
        yield self.b.expect_tx(16)
        yield self.b.wait(0)

    @role(warps=1)
    def r1(self):
        yield self.b.arrive_expect_tx(16)


class BytesMatchInTheEnd(Pipeline):
    b = barrier(arrivals=1)
    z = barrier(arrivals=1)
    x = tile(bytes=16)

    @role(warps=1)
    def r0(self):
        yield self.b.expect_tx(16)
        yield self.b.wait(1)
        yield self.b.complete_tx(32)
        yield self.b.expect_tx(16)
        yield self.b.wait(0)
        yield self.b.complete_tx(32)
        yield self.b.wait(1)

    @role(warps=1)
    def r1(self):
        yield self.b.arrive_expect_tx(16)
        yield self.b.wait(0)
        yield self.b.arrive_expect_tx(16)

    @role(warps=1)
    def r2(self):
        yield self.z.arrive_expect_tx(16)
        yield self.x.load(signals=self.z)
        yield self.z.wait(0)


class ForEver(Pipeline):
    b = barrier(arrivals=1)
    trips = "forever"

    @role(warps=1)
    def r0(self):
        at = PipelineState.start(1)
        yield self.b.expect_tx(16)
        for _ in self.loop():
            yield self.b.wait(at.phase ^ 1)
            yield self.b.complete_tx(32)
            yield self.b.expect_tx(16)
            at = at + 1

    @role(warps=1)
    def r1(self):
        at = PipelineState.start(1)
        for _ in self.loop():
            yield self.b.wait(at.phase ^ 1)
            yield self.b.arrive_expect_tx(16)
            at = at + 1


class ExpectsWhatAnArrivalLetsItExpect(Pipeline):
    """r2 before r1: b completes its phase before the expect_tx, which counts in the next one."""

    b = barrier(arrivals=2)
    z = barrier(arrivals=1)

    @role(warps=1)
    def r0(self):
        yield self.z.wait(0)
        yield self.b.expect_tx(16)
        yield self.b.wait(0)

    @role(warps=1)
    def r1(self):
        yield self.b.arrive()
        yield self.z.arrive()

    @role(warps=1)
    def r2(self):
        yield self.b.arrive()


class LandsAPhaseTooEarly(Pipeline):
    """The copy lands before the arrival, whose phase does not expect it."""

    b = barrier(arrivals=1)
    x = tile(bytes=16)

    @role(warps=1)
    def p(self):
        yield self.x.load(signals=self.b)
        yield self.b.arrive()
        yield self.b.wait(0)
        yield self.b.arrive_expect_tx(16)
        yield self.b.wait(1)


@pytest.mark.parametrize(
    "kernel",
    [CompletesThenExpects, BytesMatchInTheEnd, ForEver, ExpectsWhatAnArrivalLetsItExpect, LandsAPhaseTooEarly],
)
def test_reduction_finds_the_deadlock(kernel):
    machine = compile_kernel(trace(kernel()))
    assert "deadlock" in explore(machine).violations
    assert explore(machine, reduced=True).violations


def balance_of(kernel: type[Pipeline]) -> dict[str, bool]:
    return {info.name: info.balanced for info in compile_kernel(trace(kernel())).structure.barriers}


def test_what_is_balanced():
    assert balance_of(BytesMatchInTheEnd) == {"b": False, "z": True}
    assert balance_of(LandsAPhaseTooEarly) == {"b": False}
