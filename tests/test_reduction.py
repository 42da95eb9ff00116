"""The reduced search misses nothing: on random programs it finds something wrong exactly if the full search does."""

from __future__ import annotations

import networkx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sm90_verify.counterexample.trace import execute, make_trace
from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.search.reduction import find_reduction
from sm90_verify.spec.cutlass.classes import TmaAsync
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.model.kernel import Threads
from sm90_verify.spec.ptx.expr import FALSE, TRUE

OPERATIONS = st.sampled_from(
    [
        *(("wait", name, parity) for name in "pq" for parity in (0, 1)),
        *(("try", name, parity) for name in "pq" for parity in (0, 1)),
        *(("arrive", name, 0) for name in "pqpq"),
        ("arm", "p", 0),
        ("load", "p", 0),
        ("expect", "q", 0),
        ("load", "q", 1),
        *((verb, "", which) for verb in ("read", "write", "mma", "store") for which in (0, 1)),
        ("mma_wait", "", 0),
        ("bulk_wait", "", 0),
        ("fence", "", 0),
        ("sync", "", 0),
    ]
)


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


class Soup(Pipeline):
    """Roles that do what `programs` says, once, `trips` times, or for every trip count; in a cluster, shared out among
    its CTAs.
    """

    p_arrivals = 1
    q_arrivals = 1
    programs: tuple[tuple[tuple[str, str, int], ...], ...] = ()

    p = barrier(arrivals="p_arrivals", slots=1)
    q = barrier(arrivals="q_arrivals", slots=1)
    a = tile(bytes=16, slots=2)

    @role(warpgroups=1, copies=lambda self: len(self.programs) // (2 if self.cluster == "2x1" else 1))
    def cook(self, me: Threads):
        at = {name: PipelineState.start(1) for name in "pq"}
        other = 1 - me.cta
        for _ in self.loop():
            for verb, name, which in self.programs[me.copy * 2 + me.cta if self.cluster == "2x1" else me.copy]:
                b = getattr(self, name) if name else None
                match verb:
                    case "wait":
                        yield b.wait(which)
                    case "late":
                        yield b.wait(at[name].phase)
                        at[name] += which + 1
                    case "far":
                        yield b[0].on(other).arrive()
                    case "peek":
                        yield self.a[which].on(other).read()
                    case "meet":
                        yield self.cluster_arrive()
                        yield self.cluster_wait()
                    case "try":
                        yield b.try_wait(which)
                    case "arrive":
                        yield b.arrive()
                    case "arm":
                        yield b.arrive_expect_tx(16)
                    case "expect":
                        yield b.expect_tx(16)
                    case "load":
                        yield self.a[which].load(signals=b[0], tag=1)
                    case "read":
                        yield self.a[which].read(tag=1)
                    case "write":
                        yield self.a[which].write(tag=1)
                    case "mma":
                        yield self.a[which].mma()
                    case "store":
                        yield self.a[which].store()
                        yield self.bulk_commit()
                    case "mma_wait":
                        yield self.mma_wait(0)
                    case "bulk_wait":
                        yield self.bulk_wait_read(0)
                    case "fence":
                        yield self.fence_proxy_async()
                    case "sync":
                        yield self.named_sync(1, 256)


def soup(programs, **parameters):
    pipeline = Soup(**parameters)
    object.__setattr__(pipeline, "programs", programs)
    return pipeline


def agree(programs, **parameters):
    """Both searches find something wrong, or neither does."""
    try:
        machine = compile_kernel(trace(soup(programs, **parameters)))
    except SpecError:
        return
    full = explore(machine, limit=4_000, stop_at_first=True)
    if not full.complete and not full.violations:
        return
    reduced = explore(machine, reduced=True, limit=8_000, stop_at_first=True)
    assert bool(full.violations) == bool(reduced.violations), (full.violations, reduced.violations)
    assert full.violations or reduced.states <= full.states
    for property, violation in reduced.violations.items():
        make_trace(machine, property, violation.because, violation.actions, violation.stuck)
        shown = {check.because for check in execute(machine, violation.actions).violated}
        assert violation.because in shown or violation.stuck


ALONE = {"p_arrivals": st.integers(1, 2), "q_arrivals": st.integers(1, 2), "trips": st.sampled_from([1, 1, 2])}


def programs_of(operations, roles, longest=5):
    """That many roles, each with some of the operations."""
    bodies = st.lists(operations, min_size=1, max_size=longest).map(tuple)
    return roles.flatmap(lambda n: st.lists(bodies, min_size=n, max_size=n).map(tuple))


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs_of(OPERATIONS, st.integers(2, 3)), st.fixed_dictionaries(ALONE))
def test_reduction_finds_something_wrong_exactly_if_there_is(programs, parameters):
    agree(programs, **parameters)


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    programs_of(FAR_OPERATIONS, st.sampled_from([2, 2, 4])),
    st.fixed_dictionaries({**ALONE, "q_arrivals": st.integers(1, 3), "observation": st.booleans()}),
)
def test_reduction_in_a_cluster(programs, parameters):
    """Arrivals and reads that reach into a CTA which may exit."""
    agree(programs, cluster="2x1", **parameters)


@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    programs_of(SKIPPING_OPERATIONS, st.just(2), 7),
    st.fixed_dictionaries({**ALONE, "observation": st.booleans()}),
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
        {"p_arrivals": 2, "q_arrivals": 2, "observation": False},
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


def test_who_is_last_at_a_cluster_barrier_is_a_matter_of_order():
    """With reduction one role may always be the last: that does not mean that the others never are."""
    programs = ((("wait", "p", 1),), (("meet", "", 0),), (("wait", "p", 1),), (("meet", "", 0),))
    machine = compile_kernel(trace(soup(programs, cluster="2x1", trips=1)))
    alone = {index for index, action in enumerate(machine.actions) if action.op.endswith(": alone")}
    assert set(explore(machine).unreached) == alone and len(alone) == 2
    assert explore(machine, reduced=True).unreached == ()


class Ring(Pipeline):
    """A producer that fills one slot by a copy, and a consumer that drains it."""

    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=64)

    @role(warps=1)
    def producer(self):
        at = PipelineState.start(1, producer=True)
        for _ in self.loop(2):
            yield self.empty.wait(at.phase)
            yield self.full.arrive_expect_tx(64)
            yield self.a.load(signals=self.full)
            at += 1

    @role(warps=1)
    def consumer(self):
        at = PipelineState.start(1)
        for _ in self.loop(2):
            yield self.full.wait(at.phase)
            yield self.a.read()
            yield self.fence_proxy_async()
            yield self.empty.arrive()
            at += 1


def promptness(pipeline):
    """Per role and location, whether its step is prompt: never, always or sometimes."""
    return [
        "".join("-" if one is FALSE else "+" if one is TRUE else "?" for one in role)
        for role in find_reduction(compile_kernel(trace(pipeline))).prompt
    ]


def test_which_steps_are_prompt():
    """What follows a wait never, other waits and arrivals sometimes, the start of a copy and what follows an access
    always.
    """
    assert promptness(Ring()) == ["?-+?-+-", "?-+??-+?-"]
    assert {one[0] for one in promptness(soup((((("sync", "", 0),),) * 2), trips="all"))} == {"?"}


class Announces(Pipeline):
    """expect_tx before its role's arrival, and before something else; accesses from the start and after a wait."""

    p = barrier(arrivals=1)
    q = barrier(arrivals=1)
    a = tile(bytes=16)

    @role(warps=1)
    def one(self):
        yield self.p.expect_tx(16)
        yield self.p.arrive()
        yield self.a.load(signals=self.p)
        yield self.p.wait(0)

    @role(warps=1)
    def two(self):
        yield self.q.expect_tx(16)
        yield self.p.wait(0)
        yield self.q.arrive()
        yield self.q.wait(0)

    @role(warps=1)
    def three(self):
        yield self.a.read()
        yield self.a.read()
        yield self.p.wait(1)
        yield self.a.read()
        yield self.a.read()
        yield self.fence_proxy_async()


def test_bytes_are_expected_at_once_only_right_before_the_arrival():
    assert promptness(Announces()) == ["+?+?-", "-?-?-", "-+?-++-"]


def test_an_arrival_at_another_cta_is_prompt_while_somebody_there_must_see_another_phase():
    consumer = promptness(TmaAsync(stages=1, trips=2, cluster="2x1", bytes=4096))[1]
    machine = compile_kernel(trace(TmaAsync(stages=1, trips=2, cluster="2x1", bytes=4096)))
    kinds = [place.kind for place in machine.roles[1].locations]
    assert {prompt for kind, prompt in zip(kinds, consumer, strict=True) if kind == "arrive"} == {"?"}


class Spins(Pipeline):
    """A role that does nothing but read, or issue copies, so many in a loop, after a wait or from the start."""

    copies = False
    count = 1
    waits = False
    p = barrier(arrivals=1)
    a = tile(bytes=16)

    @role(warps=1)
    def spins(self):
        if self.waits:
            yield self.p.wait(1)
        for _ in self.forever():
            for _one in range(self.count):
                yield self.a.load(signals=self.p) if self.copies else self.a.read()


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("copies", [False, True])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_no_cycle_consists_of_prompt_steps(count, copies, waits):
    """Else the search would take them for ever."""
    machine = compile_kernel(trace(Spins(count=count, copies=copies, waits=waits)))
    (prompt,) = find_reduction(machine).prompt
    steps = networkx.DiGraph((one.location, one.target) for one in machine.actions if one.location is not None)
    assert not networkx.is_directed_acyclic_graph(steps)
    steps.remove_nodes_from([place for place, one in enumerate(prompt) if one is FALSE])
    assert networkx.is_directed_acyclic_graph(steps)


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
