"""Bytes that a phase can complete without: the reduced search finds what is wrong with them too."""

from __future__ import annotations

import pytest
from traced import traced

from sm90_verify.engines.search.explore import explore
from sm90_verify.spec.cutlass.classes import TmaAsync
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
        yield self.b.wait(0)  # the line

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
        yield self.b.wait(0)  # the line
        yield self.b.complete_tx(32)
        yield self.b.wait(1)

    @role(warps=1)
    def r1(self):
        yield self.b.arrive_expect_tx(16)
        yield self.b.wait(0)  # the line
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
            yield self.b.wait(at.phase ^ 1)  # the line
            yield self.b.complete_tx(32)
            yield self.b.expect_tx(16)
            at = at + 1

    @role(warps=1)
    def r1(self):
        at = PipelineState.start(1)
        for _ in self.loop():
            yield self.b.wait(at.phase ^ 1)  # the line
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


class Alone(Pipeline):
    """One role, which does what `body` yields, on a barrier that others wait on too or not."""

    p = barrier(arrivals=1)
    q = barrier(arrivals=1)
    a = tile(bytes=16)

    @role(warps=1)
    def one(self):
        yield from self.body()


def info_of(body, **parameters):
    kernel = type("Alone", (Alone,), {"body": body, **parameters})
    return compile_kernel(traced(kernel())).structure.barriers[0]


WORDS = {
    "arrive": lambda self: self.p.arrive(),
    "arm": lambda self: self.p.arrive_expect_tx(16),
    "drop": lambda self: self.p.arrive_drop(),
    "no_complete": lambda self: self.p.arrive_no_complete(),
    "expect": lambda self: self.p.expect_tx(16),
    "complete": lambda self: self.p.complete_tx(16),
    "load": lambda self: self.a.load(signals=self.p),
    "before": lambda self: self.p.wait(1),
    "wait": lambda self: self.p.wait(0),
    "try": lambda self: self.p.try_wait(0),
    "test": lambda self: self.p.test_wait(0),
    "other_arrive": lambda self: self.q.arrive(),
    "other_drop": lambda self: self.q.arrive_drop(),
    "other_expect": lambda self: self.q.expect_tx(16),
    "other_wait": lambda self: self.q.wait(1),
}


@pytest.mark.parametrize(
    ("words", "known"),
    [
        ("arrive wait", "plain balanced"),
        ("arrive try", "plain balanced"),
        ("arrive test", "balanced"),
        ("arrive", "balanced"),
        ("drop wait", "balanced"),
        ("no_complete wait", "balanced"),
        ("expect arrive load wait", "plain announces balanced"),
        ("expect arrive other_wait load wait", "announces"),
        ("expect load arrive wait", "announces"),
        ("expect other_arrive before", "announces"),
        ("complete arm wait", "announces"),
        ("arm load wait", "plain balanced"),
        ("arm other_wait load wait", ""),
        ("arm wait load", ""),
        ("other_expect other_drop before", "plain balanced"),
    ],
)
def test_what_is_known_of_a_barrier(words, known):
    def body(self):
        for word in words.split():
            yield WORDS[word](self)

    info = info_of(body)
    assert " ".join(name for name in ("plain", "announces", "balanced") if getattr(info, name)) == known


def test_a_barrier_is_plain_only_if_phases_must_be_observed_and_nobody_waits_with_tokens():
    def token(self):
        yield self.p.wait((yield self.p.arrive()))

    def parity(self):
        yield self.p.arrive()
        yield self.p.wait(0)

    assert not info_of(token).plain
    assert info_of(parity).plain and not info_of(parity, unseen=True).plain
    assert [role for role, _ in info_of(parity).unseen] == ["one"] and info_of(token).unseen == ()


class FromOneCta(Pipeline):
    """One CTA copies into both, and each announces the bytes that it gets."""

    cluster = "2x1"
    announces = True
    full = barrier(arrivals=1)
    a = tile(bytes=16)

    @role(warps=1)
    def warp(self, me):
        if self.announces or me.cta == 0:
            yield self.full.arrive_expect_tx(16)
        else:
            yield self.full.expect_tx(16)
            yield self.full.arrive()
        if me.cta == 0:
            yield self.a.load(signals=self.full, multicast=[0, 1])
        yield self.full.wait(0)


def test_copies_from_another_cta_balance_what_every_arrival_announces():
    machine = compile_kernel(trace(TmaAsync(stages=1, trips=2, cluster="2x1", bytes=4096)))
    assert [info.balanced for info in machine.structure.barriers] == [True] * 4
    assert balance_of(FromOneCta) == {"cta0.full": True, "cta1.full": True}
    apart = compile_kernel(trace(FromOneCta(announces=False))).structure.barriers
    assert {info.name: info.balanced for info in apart} == {"cta0.full": True, "cta1.full": False}
