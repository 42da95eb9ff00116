"""The search with reduction against the one without, on the library, on broken protocols, and on what it may miss."""

from __future__ import annotations

import pytest
from test_pipelines import BROKEN
from test_search import PIPELINES, WITH_CONSUMERS
from traced import traced

from sm90_verify.counterexample.trace import execute
from sm90_verify.engines.search.explore import explore
from sm90_verify.spec.language import walk
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.model.compile import compile_kernel


@pytest.mark.parametrize("name", WITH_CONSUMERS)
@pytest.mark.parametrize(("stages", "consumers"), [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1)])
def test_reduction_agrees_on_the_library(name, stages, consumers):
    whole = compile_kernel(walk.trace(PIPELINES[name](stages=stages, consumers=consumers)))
    full, reduced = explore(whole), explore(whole, reduced=True)
    assert full.complete and reduced.complete
    assert not full.violations and not reduced.violations
    assert reduced.states <= full.states and not reduced.unreached and not full.unreached


@pytest.mark.parametrize(("kernel", "expected"), BROKEN)
@pytest.mark.parametrize("stages", [1, 2])
def test_reduction_agrees_on_broken_protocols(kernel, expected, stages):
    whole = compile_kernel(walk.trace(kernel(stages=stages)))
    full, reduced = explore(whole, enough=2_000), explore(whole, reduced=True, enough=2_000)
    assert bool(full.violations) == bool(reduced.violations)
    for violation in reduced.violations.values():
        run = execute(whole, violation.actions)
        if violation.property != "deadlock":
            assert violation.property in {check.property for check in run.violated}


def test_reduction_sees_a_wait_that_is_lapped_while_its_role_rests():
    """The waiter passes at once and signals something else at once; the other role could have arrived twice before."""

    class ArrivesTwice(Pipeline):
        stages = 1
        unseen = True
        b = barrier(arrivals=1)
        c = barrier(arrivals=1)

        @role(warps=1)
        def arrives(self):
            yield self.b.arrive()
            yield self.b.arrive()

        @role(warps=1)
        def waits(self):
            yield self.b.wait(0)
            yield self.c.arrive()
            yield self.b.wait(1)

    for unseen in (True, False):
        whole = compile_kernel(traced(ArrivesTwice(unseen=unseen)))
        assert "phase-lapped" in explore(whole).violations
        assert "phase-lapped" in explore(whole, reduced=True).violations


def test_reduction_lets_a_copy_land_that_laps_a_resting_role():
    class LoadsTwice(Pipeline):
        stages = 2
        unseen = True
        b = barrier(arrivals=1, slots=1)
        c = barrier(arrivals=1, slots=1)
        a = tile(bytes=16)

        @role(warps=1)
        def loads(self):
            for k in range(2):
                yield self.b.arrive_expect_tx(16)
                yield self.a[k].load(signals=self.b[0])
                if k == 0:
                    yield self.b.wait(0)

        @role(warps=1)
        def waits(self):
            yield self.b.wait(0)
            yield self.c.arrive()
            yield self.b.wait(1)

    whole = compile_kernel(traced(LoadsTwice()))
    assert "phase-lapped" in explore(whole).violations
    assert "phase-lapped" in explore(whole, reduced=True).violations


def test_reduction_never_reorders_what_can_be_noticed():
    """Two writers without any barrier: the race is there with and without reduction."""

    class Unordered(Pipeline):
        stages = 1
        x = tile(bytes=64)

        @role(warps=1, copies=2)
        def writer(self):
            yield self.fence_proxy_async()
            yield self.x.write(tag=1)
            yield self.fence_proxy_async()

    whole = compile_kernel(walk.trace(Unordered()))
    assert "race" in explore(whole).violations
    assert "race" in explore(whole, reduced=True).violations


@pytest.mark.parametrize("meets", [False, True])
def test_reduction_tells_what_never_happens_from_who_was_last(meets):
    """A test_wait that always passes: its other answer is never taken, and neither is what would follow it."""

    class Passes(Pipeline):
        b = barrier(arrivals=1)

        @role(warps=1, copies=2)
        def warp(self):
            done = yield self.b[0].test_wait(1)
            if not done:
                yield self.named_sync(1, 64)
            if meets:
                yield self.named_sync(2, 64)

    machine = compile_kernel(walk.trace(Passes()))
    whole, reduced = explore(machine), explore(machine, reduced=True)
    never = [machine.actions[index].op for index in reduced.unreached]
    assert whole.unreached == reduced.unreached
    assert "test_wait parity 1: False" in never and any("bar.sync" in text for text in never)
