"""Two situations of a run are the same only if nothing that comes later can tell them apart."""

from __future__ import annotations

import pytest

from sm90_verify.engines.order.clocks import NEVER
from sm90_verify.engines.order.planner import make_plan
from sm90_verify.engines.order.recur import situation
from sm90_verify.engines.order.run import Run
from sm90_verify.engines.order.state import Contribution, InFlight, Spans
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace


class Two(Pipeline):
    """Two roles that have an mbarrier, a barrier of threads and a buffer in common, and come to no end."""

    p = barrier(arrivals=2)
    a = tile(bytes=64, holds="x")

    @role(warps=1, copies=2)
    def both(self):
        yield self.a.read(tag="x")
        yield self.p.arrive()
        yield self.p.wait(0)
        yield self.named_sync(1, 64)
        yield self.p.wait(1)
        yield self.a.read(tag="x")
        yield self.named_sync(1, 64)


class Copying(Pipeline):
    """What one role copies the other one may read, and multiply."""

    p = barrier(arrivals=32)
    a = tile(bytes=64)

    @role(warps=1)
    def copies(self):
        yield self.a.cp_async()
        yield self.p.cp_async_arrive(32, noinc=True)
        yield self.p.wait(1)

    @role(warpgroups=1)
    def reads(self):
        yield self.p.wait(0)
        yield self.p.wait(1)
        yield self.fence_proxy_async()
        yield self.a.mma()
        yield self.mma_wait(0)


class Chooses(Pipeline):
    """One of two roles falls behind by two choices; what it does then depends on both. The third one never asks."""

    trips = "all"
    p = barrier(arrivals=1)

    @role(warps=1)
    def leads(self):
        for _ in self.loop():
            yield self.choose("kind", "x", "y")
            yield self.choose("kind", "x", "y")
            yield self.p.wait(0)

    @role(warps=1)
    def follows(self):
        yield self.p.wait(0)
        for _ in self.loop():
            if (yield self.choose("kind", "x", "y")) != (yield self.choose("kind", "x", "y")):
                yield self.fence_proxy_async()

    @role(warps=1)
    def never(self):
        yield self.fence_proxy_async()


def at_rest(pipeline):
    run = Run(make_plan(trace(pipeline)))
    run.start()
    while run.round():
        pass
    return run


def same(change, one, other, pipeline=None):
    """Whether a run is in the same situation after either of two changes."""
    situations = []
    for values in (one, other):
        run = at_rest(pipeline or Two())
        change(run, *values)
        situations.append(situation(run))
    return situations[0] == situations[1]


def clock(run, role, component, value):
    known = run.state.clock[role].copy()
    known[component] = value
    run.state.clock[role] = known


def wrote(run, value):
    """Role 0 knows so many events of role 1, which has written with event 3."""
    run.state.regions[0] = {1: Spans(write=3)}
    clock(run, 0, 1, value)


def fenced(run, value):
    """The same of what is before a proxy fence."""
    run.state.regions[0] = {1: Spans(raw_write=3)}
    clock(run, 0, run.plan.fenced + 1, value)
    clock(run, 1, run.plan.fenced + 1, 4)


def completed(run, component, value):
    clock(run, 0, component, value)
    run.state.regions[0] = {}


def required(run, who, event):
    stage = run.state.barriers[0].stage
    run.state.barriers[0].required = {who: (stage, event, event)}


def witness(run, who, event):
    run.state.barriers[0].witness = {who: (run.state.barriers[0].stage, event)}


def contributed(run, role, moved, event):
    run.state.barriers[0].contributions = [Contribution(moved, [0] * run.plan.width, role, event)]


def knows(run, value, counted, expected):
    """Role 1's contribution knows so many events of role 0, which has contributed with one and expects bytes with the
    other; all know these by now.
    """
    published = [value, *[0] * (run.plan.width - 1)]
    barrier = run.state.barriers[0]
    barrier.contributions = [Contribution(16, [0] * run.plan.width, 0, counted), Contribution(0, published, 1, 0)]
    barrier.open_expects = [(16, 0, expected)]


def filled(run, value):
    """Role 0 knows so many events of role 1, of which event 4 has arrived in this phase."""
    shared = [0] * run.plan.width
    shared[1] = 5
    run.state.barriers[0].shared = shared
    clock(run, 0, 1, value)


def landed(run, stage):
    """A copy whose bytes are counted in that phase, of which role 0 knows the first alone."""
    run.state.flights[0] = {0: InFlight(stage, 1, 0)}


def content(run, tag):
    run.state.content = dict.fromkeys(run.plan.wanted, tag)


@pytest.mark.parametrize(
    ("change", "one", "other", "alike"),
    [
        (wrote, (2,), (3,), True),
        (wrote, (3,), (4,), False),
        (wrote, (4,), (9,), True),
        (fenced, (3,), (4,), False),
        (fenced, (4,), (5,), True),
        (completed, (2, 1), (2, 0), False),
        (required, (0, 2), (0, 3), True),
        (required, (0, 2), (0, 5), False),
        (required, (1, 2), (1, 5), False),
        (required, (~0, 2), (~0, 5), False),
        (required, (0, 5), (~0, 5), False),
        (required, (0, 5), (0, 7), True),
        (required, (0, NEVER), (0, 5), False),
        (witness, (1, 2), (1, 5), False),
        (contributed, (0, 16, 2), (0, 16, 5), False),
        (contributed, (0, 16, 5), (0, 16, 7), True),
        (contributed, (0, 0, 2), (0, 0, 5), True),
        (contributed, (~0, -16, 2), (~0, -16, 5), True),
        (contributed, (0, 16, 2), (0, 32, 2), False),
        (knows, (0, 0, 1), (1, 0, 1), False),
        (knows, (1, 0, 1), (2, 0, 1), False),
        (knows, (1, 1, 0), (2, 1, 0), False),
        (knows, (2, 0, 1), (3, 0, 1), True),
        (knows, (1, 0, 1), (1, 1, 0), False),
        (filled, (4,), (5,), False),
        (filled, (3,), (4,), True),
        (landed, (0,), (1,), False),
        (landed, (1,), (2,), True),
        (content, (1,), (2,), False),
    ],
)
def test_what_makes_a_situation_another(change, one, other, alike):
    assert same(change, one, other) == alike


def copied(run, stage, event, known, fenced):
    """A cp.async that is counted in that stage, and that its role has waited for with an event. Role 1 knows so many
    events of it, and so many phases that a fence is behind.
    """
    number = next(number for number, near in enumerate(run.plan.near) if near)
    run.state.flights[number] = {0: InFlight(stage, 0, 1, True, event)}
    clock(run, 1, 0, known)
    clock(run, 1, run.plan.fenced_stage(0), fenced)


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ((1, 5, 5, 0), (1, 5, 6, 0), False),  # it has been waited for, and that is known
        ((1, 5, 6, 0), (1, 5, 7, 0), True),
        ((1, 5, 5, 0), (1, NEVER, 5, 0), False),
        ((0, NEVER, 5, 0), (0, NEVER, 5, 1), False),  # a fence is behind the phase
        ((0, NEVER, 5, 1), (0, NEVER, 6, 2), True),
        ((0, NEVER, 5, 0), (1, NEVER, 5, 0), False),
    ],
)
def test_what_is_known_of_a_cp_async(one, other, alike):
    assert same(copied, one, other, Copying()) == alike


def decided(*kinds, trips=(1,)):
    """The run after these choices, which one role has made and another one has not read."""
    run = at_rest(Chooses())
    numbers = {use.name: number for number, use in enumerate(run.plan.decisions)}
    run = run.fork([(numbers["trips"], answer) for answer in trips] + [(numbers["kind"], kind) for kind in kinds])
    while run.round():
        pass
    return run


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        (decided(0, 1), decided(0, 1), True),
        (decided(0, 1), decided(0, 0), False),
        (decided(0, 1), decided(1, 1), False),
        (decided(0), decided(1), False),
        (decided(trips=(0,)), decided(trips=(1,)), False),
    ],
)
def test_answers_that_somebody_has_yet_to_read_are_a_part_of_it(one, other, alike):
    assert (situation(one) == situation(other)) == alike


def test_answers_that_nobody_can_read_any_more_are_none():
    situations = set()
    for kinds in ((0, 1), (1, 0)):
        run = decided(*kinds)
        run.state.at[1] = next(at for at, asks in enumerate(run.plan.asks[1]) if not asks)
        situations.add(situation(run))
    assert len(situations) == 1
