"""Two situations of a run without end are the same only if nothing that comes later can tell them apart."""

from __future__ import annotations

import pytest

from sm90_verify.engines.order.planner import make_plan
from sm90_verify.engines.order.recur import situation
from sm90_verify.engines.order.run import Run
from sm90_verify.engines.order.state import NEVER, Contribution, Spans
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace


class Two(Pipeline):
    """Two roles that have an mbarrier, a barrier of threads and a buffer in common."""

    p = barrier(arrivals=2)
    a = tile(bytes=64)

    @role(warps=1, copies=2)
    def both(self):
        yield self.a.read()
        yield self.p.arrive()
        yield self.p.wait(0)
        yield self.named_sync(1, 64)


def at_rest():
    pipeline = Two()
    run = Run(make_plan(trace(pipeline)))
    run.start()
    run.finish()
    return run


def same(change, one, other):
    """Whether a run is in the same situation after either of two changes."""
    situations = []
    for values in (one, other):
        run = at_rest()
        run.state.regions[0] = {0: Spans(write=3), 1: Spans(write=3)}
        change(run, *values)
        situations.append(situation(run))
    return situations[0] == situations[1]


def clock(run, role, component, value):
    known = run.state.clock[role].copy()
    known[component] = value
    run.state.clock[role] = known


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


def content(run, tag):
    run.state.content = {"a": tag}


@pytest.mark.parametrize(
    ("change", "one", "other", "alike"),
    [
        (clock, (0, 1, 3), (0, 1, 4), False),
        (clock, (0, 1, 4), (0, 1, 9), True),
        (completed, (1, 1), (1, 2), False),
        (required, (0, 2), (0, 5), False),
        (required, (1, 2), (1, 5), False),
        (required, (~0, 2), (~0, 5), False),
        (required, (0, 2), (~0, 2), False),
        (required, (0, 5), (0, 7), True),
        (required, (0, 3), (0, 4), False),
        (required, (1, 3), (1, 4), False),
        (required, (0, NEVER), (0, 5), False),
        (witness, (1, 2), (1, 5), False),
        (contributed, (0, 16, 2), (0, 16, 5), False),
        (contributed, (0, 16, 5), (0, 16, 7), True),
        (contributed, (0, 0, 2), (0, 0, 5), True),
        (contributed, (~0, -16, 2), (~0, -16, 5), True),
        (contributed, (0, 16, 2), (0, 32, 2), False),
        (content, (1,), (2,), False),
    ],
)
def test_what_makes_a_situation_another(change, one, other, alike):
    assert same(change, one, other) == alike
