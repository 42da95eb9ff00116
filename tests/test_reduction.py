"""The reduced search misses nothing: on random programs it finds something wrong exactly if the full search does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_programs import ALONE, OPERATIONS, agree, programs_of, soup

from sm90_verify.engines.search.explore import explore
from sm90_verify.spec.language.declarations import barrier, role
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.kernel import SKIPPED, Threads
from sm90_verify.spec.ptx import operations as op

FAR_OPERATIONS = st.sampled_from(
    [
        *(("late", name, further) for name in "pq" for further in (0, 1)),
        *(("wait", name, parity) for name in "pq" for parity in (0, 1)),
        *(("arrive", name, 0) for name in "pqpq"),
        *(("far", name, 0) for name in "pqpq"),
        *(("peek", "", which) for which in (0, 1)),
        ("write", "", 0),
        ("meet", "", 0),
    ]
)

SKIPPING_OPERATIONS = st.sampled_from(
    [
        *(("late", name, further) for name in "pq" for further in (0, 1)),
        *(("arrive", name, 0) for name in "pqpq"),
        *(("sync", "", 0),) * 3,
        ("arm", "p", 0),
    ]
)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs_of(OPERATIONS, st.integers(2, 3)), st.fixed_dictionaries(ALONE))
def test_reduction_finds_something_wrong_exactly_if_there_is(programs, parameters):
    agree(programs, **parameters)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    programs_of(FAR_OPERATIONS, st.sampled_from([2, 2, 4])),
    st.fixed_dictionaries({**ALONE, "q_arrivals": st.integers(1, 3), "unseen": st.booleans()}),
)
def test_reduction_in_a_cluster(programs, parameters):
    """Arrivals and reads that reach into a CTA which may exit."""
    agree(programs, cluster="2x1", **parameters)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    programs_of(SKIPPING_OPERATIONS, st.just(2), 7),
    st.fixed_dictionaries({**ALONE, "unseen": st.booleans()}),
)
def test_reduction_with_waits_that_skip_phases(programs, parameters):
    agree(programs, **parameters)


PINNED = {
    "three warps at a barrier of two": (
        (
            (("sync", "", 0),) * 3,
            (("wait", "q", 1), ("arrive", "p", 0), ("sync", "", 0), ("sync", "", 0)),
            (("sync", "", 0),),
        ),
        {"trips": 2},
    ),
    "expect_tx without an arrival of the same thread": (
        ((("expect", "q", 0), ("wait", "q", 1)), (("write", "", 0), ("arrive", "q", 0))),
        {},
    ),
    "one arrival more than the phase needs, and no rule against it": (
        (
            (("wait", "q", 1), ("arrive", "p", 0), ("arrive", "q", 0), ("arm", "p", 0)),
            (("arrive", "p", 0), ("wait", "p", 0)),
        ),
        {"p_arrivals": 2, "q_arrivals": 2, "unseen": True},
    ),
    "one arrival more than the phase needs, and nobody who waits": (
        ((("wait", "q", 1), ("arrive", "p", 0), ("arrive", "q", 0), ("arm", "p", 0)), (("arrive", "p", 0),)),
        {"p_arrivals": 2, "q_arrivals": 2},
    ),
    "a wait for the phase after the next comes too early": (
        (
            (("arrive", "p", 0), ("sync", "", 0), ("arrive", "p", 0), ("arrive", "p", 0)),
            (("late", "p", 1), ("sync", "", 0), ("late", "p", 0)),
        ),
        {},
    ),
    "the other CTA waits for what it has seen, and exits": (
        ((("far", "q", 0),), (("wait", "p", 1), ("wait", "q", 1), ("write", "", 0))),
        {"q_arrivals": 3, "cluster": "2x1"},
    ),
    "the other CTA exits": (
        ((("write", "", 0), ("meet", "", 0)), (("wait", "p", 1),), (("far", "p", 0),), (("far", "p", 0),)),
        {"p_arrivals": 2, "cluster": "2x1"},
    ),
}


@pytest.mark.parametrize("name", PINNED)
def test_what_would_be_missed_if_more_were_prompt(name):
    programs, parameters = PINNED[name]
    machine = compile_kernel(trace(soup(programs, **{"trips": 1, **parameters})))
    assert explore(machine, stop_at_first=True).violations
    assert explore(machine, stop_at_first=True, reduced=True).violations


class EveryOther(Pipeline):
    """One role waits for every phase, another for every other one; `gates` of them come between."""

    gates: int = 2

    p = barrier(arrivals=1, slots=1)

    @role(warps=1)
    def maker(self, me: Threads):
        yield self.p.arrive()
        yield self.named_sync(1, 96)
        yield self.p.arrive()
        yield self.named_sync(2, 32 + 32 * self.gates)
        yield self.p.arrive()

    @role(warps=1)
    def every_phase(self, me: Threads):
        at = PipelineState.start(1)
        yield self.p.wait(at.phase)
        yield self.named_sync(1, 96)
        yield self.p.wait((at + 1).phase)
        yield self.named_sync(2, 32 + 32 * self.gates)
        yield self.p.wait((at + 2).phase)

    @role(warps=1)
    def every_other(self, me: Threads):
        at = PipelineState.start(1)
        yield self.p.wait(at.phase)
        yield self.named_sync(1, 96)
        if self.gates == 2:
            yield self.named_sync(2, 96)
        yield self.p.wait((at + 2).phase)


@pytest.mark.parametrize(("gates", "expected"), [(1, ["phase-lapped"]), (2, [])])
@pytest.mark.parametrize("reduced", [False, True])
def test_arrivals_for_a_wait_that_skips_a_phase(gates, expected, reduced):
    """Without the second gate the wait may come before the phase that it skips has completed, and passes too early;
    an arrival that is taken at once, just because no wait has seen less, hides that.
    """
    assert list(explore(compile_kernel(trace(EveryOther(gates=gates))), reduced=reduced).violations) == expected


@pytest.mark.parametrize(("gates", "expected"), [(1, ["phase-lapped"]), (2, [])])
@pytest.mark.parametrize("reduced", [False, True])
def test_arrivals_for_a_wait_of_which_only_the_machine_knows_the_phase(gates, expected, reduced):
    """The same, told as of a role that skips phases without end."""
    kernel = trace(EveryOther(gates=gates))
    *others, last = kernel.programs
    waits = [number for number, node in enumerate(last.nodes) if isinstance(node.operation, op.Wait)]
    nodes = [
        replace(node, skips=True, distance=SKIPPED + 1 + 2 * waits.index(number)) if number in waits else node
        for number, node in enumerate(last.nodes)
    ]
    kernel = replace(kernel, programs=(*others, replace(last, nodes=tuple(nodes))))
    assert list(explore(compile_kernel(kernel), reduced=reduced).violations) == expected


def test_who_is_last_at_a_cluster_barrier_is_a_matter_of_order():
    """With reduction one role may always be the last: that does not mean that the others never are."""
    programs = ((("wait", "p", 1),), (("meet", "", 0),), (("wait", "p", 1),), (("meet", "", 0),))
    machine = compile_kernel(trace(soup(programs, cluster="2x1", trips=1)))
    alone = {index for index, action in enumerate(machine.actions) if action.op.endswith(": alone")}
    assert set(explore(machine).unreached) == alone and len(alone) == 2
    assert explore(machine, reduced=True).unreached == ()


def test_a_phase_that_a_wait_has_only_just_seen_may_be_unobserved():
    """The wait is prompt: in the search without reduction the reader could still be standing there."""

    class Hasty(Pipeline):
        p = barrier(arrivals=1)

        @role(warps=1)
        def writer(self):
            yield self.p.arrive()
            yield self.p.arrive()

        @role(warps=1)
        def reader(self):
            yield self.p.wait(0)

    for reduced in (False, True):
        assert "unobserved-phase" in explore(compile_kernel(trace(Hasty())), reduced=reduced).violations
