"""Trip counts and choices in the order engine: it follows all answers, and says of each what search says."""

from __future__ import annotations

import pytest
from random_rings import chosen
from test_attention import Attention
from test_decisions import BothSkip, Depends, Late, Ring, Three, TwoLoops
from test_order import agreement

from sm90_verify.engines.check import check
from sm90_verify.engines.order import forks, order
from sm90_verify.engines.order.schedule import trace_of
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace


class AfterTheLoop(Pipeline):
    """A role waits until another one has left its loop, if that ever ends."""

    trips = "all"
    p = barrier(arrivals=1)

    @role(warps=1)
    def loops(self):
        for _ in self.loop():
            yield self.fence_proxy_async()
        yield self.p.arrive()

    @role(warps=1)
    def waits(self):
        yield self.p.wait(0)


class Waits(Pipeline):
    """A role waits for what another one does after the answer "now". `lost`: after "never" it does so no more."""

    lost = False
    p = barrier(arrivals=1)

    @role(warps=1)
    def chooses(self):
        while True:
            answer = yield self.choose("when", "now", "later", "never")
            if answer == "now":
                break
            while self.lost and answer == "never":
                yield self.fence_proxy_async()
                yield self.choose("idle", 1, 2)
        yield self.p.arrive()
        for _ in self.forever():
            yield self.fence_proxy_async()

    @role(warps=1)
    def waits(self):
        yield self.p.wait(0)


class Writes(Pipeline):
    """Roles that go on for ever, each with choices of its own. both: they write the same at their second option."""

    both = True
    a = tile(bytes=64, slots=2)

    @role(warps=1)
    def one(self):
        for _ in self.forever():
            if (yield self.choose("one", 0, 1)):
                yield self.a[0].write(tag=1)

    @role(warps=1)
    def other(self):
        for _ in self.forever():
            if (yield self.choose("other", 0, 1)):
                yield self.a[0 if self.both else 1].write(tag=1)

    @role(warps=1)
    def busy(self):
        for _ in self.forever():
            yield self.fence_proxy_async()


class Shared(Pipeline):
    """A role does the same whatever it is answered, and another one hangs at the second option."""

    stuck = True
    p = barrier(arrivals=1)

    @role(warps=1)
    def ignores(self):
        yield self.choose("kind", "x", "y")
        yield self.choose("kind", "x", "y")

    @role(warps=1)
    def heeds(self):
        yield self.choose("kind", "x", "y")
        if (yield self.choose("kind", "x", "y")) == "y" and self.stuck:
            yield self.p.wait(0)


class Behind(Pipeline):
    """The reader is behind by a choice, which the writer has forgotten. right: it heeds it at once."""

    trips = "forever"
    right = True
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=64)

    @role(warps=1)
    def writer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.a[at].write(tag="x")
        yield self.choose("kind", "x", "y")
        yield self.full[at].arrive()

    @role(warps=1)
    def reader(self, at):
        yield self.full[at].wait(at.phase)
        kind = yield self.choose("kind", "x", "y")
        yield self.a[at].read(tag="x" if self.right else kind)
        yield self.empty[at].arrive()


class Fewer(Pipeline):
    """A role knows two of three options."""

    @role(warps=1)
    def one(self):
        yield self.choose("kind", "x", "y", "z")

    @role(warps=1)
    def other(self):
        yield self.choose("kind", "x", "y")


def attention(**given):
    return Attention(**{"most": 2, "stages": 1, **given})


@pytest.mark.parametrize(
    ("pipeline", "verdict"),
    [
        (BothSkip(), PROVED),
        (TwoLoops(), PROVED),
        (Three(), PROVED),
        (Ring(), PROVED),
        (Ring(broken=True), VIOLATED),
        (Late(wrong="x"), PROVED),
        (Late(wrong="y"), VIOLATED),
        (Depends(trips="forever"), PROVED),
        (Depends(trips=3), PROVED),
        (AfterTheLoop(), PROVED),
        (AfterTheLoop(trips="forever"), VIOLATED),
        (Waits(), PROVED),
        (Waits(lost=True), VIOLATED),
        (Writes(both=False), PROVED),
        (Writes(), VIOLATED),
        (Shared(stuck=False), PROVED),
        (Shared(), VIOLATED),
        (Behind(), PROVED),
        (Behind(right=False), VIOLATED),
        (attention(), PROVED),
        (attention(mistake="v early"), VIOLATED),
    ],
    ids=lambda given: given if isinstance(given, str) else given.name,
)
def test_order_says_what_search_says(pipeline, verdict):
    """Or that search has lost some answers."""
    searched, ordered = agreement(pipeline, 40_000)
    assert ordered == verdict and searched in (verdict, UNDETERMINED)


@pytest.mark.parametrize("first", range(0, 8, 4))
def test_random_rings(first):
    said = [agreement(chosen(seed), 3_000) for seed in range(first, first + 4)]
    assert sum(UNDETERMINED not in pair for pair in said) >= 1


def test_who_hangs_after_some_answers_alone_is_shown_with_these():
    found = trace_of(order(trace(Shared())))
    assert found is not None and found.property == "deadlock"
    assert [step.op for step in found.steps].count("choose: finds 'y'") == 1


def test_attention_is_decided_without_search():
    result = check(attention())
    assert (result.verdict, result.engine) == (PROVED, "order")


def test_where_the_answers_are_too_many_search_decides(monkeypatch):
    monkeypatch.setattr(forks, "MOST_SITUATIONS", 3)
    said = order(trace(Ring()))
    assert said.verdict == UNDETERMINED and said.why == "the run does not recur within 3 situations"
    result = check(Ring())
    assert (result.verdict, result.engine) == (PROVED, "search")


def test_a_role_with_fewer_options_is_refused():
    """What is picked depends on who comes first."""
    said = order(trace(Fewer()))
    assert said.plan is None and said.why.startswith("choose('kind') has fewer options than elsewhere (")
    assert check(Fewer()).engine == "search"
