"""Clusters: barriers and buffers of every CTA, what reaches from one into another, and when a CTA begins and ends."""

from __future__ import annotations

import pytest

from checker.check import check_pipeline
from checker.order import order
from checker.reduction import find_reduction
from checker.search import explore
from checker.trace import initial_state, is_enabled, take
from spec.compile import compile_pipeline
from spec.ctas import Cluster
from spec.cutlass import PipelineTmaAsync
from spec.errors import SpecError
from spec.library import TmaAsync
from spec.pipeline import Pipeline, barrier, role, tile


def violated(pipeline, **options):
    """The properties that the pipeline violates; nothing must be undetermined but for what a violation leaves open."""
    result = check_pipeline(pipeline, command="spec", **options)
    found = [finding.id for finding in result.findings if finding.verdict == "violated"]
    assert found or result.verdict == "proved", [finding.note for finding in result.findings]
    return found


# ---------------------------------------------------------------- the shape


def test_rank_counts_along_x_first():
    assert [Cluster(2, 3).position(rank) for rank in range(6)] == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize("x", range(1, 17))
def test_all_that_can_write_a_stage_are_in_its_row_or_column(x):
    for y in range(1, 16 // x + 1):
        shape = Cluster(x, y)
        for rank in range(shape.size):
            writers = [o for o in range(shape.size) if rank in (*shape.sharing_a(o), *shape.sharing_b(o))]
            assert tuple(writers) == shape.sharing(rank)
            assert len(writers) == x + y - 1


@pytest.mark.parametrize("text", ["0x1", "4x5", "2", "2x", "-1x2", "x"])
def test_a_wrong_shape_is_one_line(text):
    with pytest.raises(SpecError, match="XxY with 1 to 16 CTAs"):
        TmaAsync(cluster=text)


# ---------------------------------------------------------------- PipelineTmaAsync in a cluster


@pytest.mark.parametrize(("cluster", "states"), [("2x1", 16350), ("1x2", 16350)])
def test_two_ctas_are_proved_for_every_trip_count(cluster, states):
    pipeline = TmaAsync(stages=2, cluster=cluster)
    result = check_pipeline(pipeline, command="pipeline")
    assert result.verdict == "proved"
    assert result.states == states
    names = [region.object for region in pipeline.layout.regions]
    assert "cta1.pipeline.empty[1]" in names and "cta0.parts_of_a[0]" in names
    assert set(pipeline.layout.arrivals.values()) == {1, 2}


@pytest.mark.parametrize("cluster", ["1x1", "2x1", "1x2"])
@pytest.mark.parametrize("trips", [0, 1, 2])
def test_reduced_and_unreduced_search_agree(cluster, trips):
    machine = compile_pipeline(TmaAsync(stages=1, cluster=cluster, trips=trips))
    whole, reduced = explore(machine), explore(machine, reduced=True)
    assert whole.complete and reduced.complete
    assert not whole.violations and not reduced.violations
    assert whole.states > reduced.states or trips == 0
    assert whole.unreached == ()


class Wrong(TmaAsync):
    """The cluster's pipeline with the mistakes of its subclasses."""

    stages = 1
    cluster = "2x1"
    trips = 3


class OwnReleaseOnly(Wrong):
    """The consumer releases its own CTA's stage and not those of the CTAs that write it."""

    class Ring(PipelineTmaAsync):
        def consumer_release(self, state, me):
            yield self.empty[state].arrive()

    pipeline = Ring(consumers=128, bytes="bytes")


class OwnCount(OwnReleaseOnly):
    """Nor does the empty barrier count the others: the other CTA overwrites what is being read."""

    class Ring(OwnReleaseOnly.Ring):
        def arrays(self, owner):
            return {"full": barrier(1), "empty": barrier(1)}

    pipeline = Ring(consumers=128, bytes="bytes")


class CountOfOne(Wrong):
    """Both CTAs' consumers arrive and the barrier counts one of them."""

    class Ring(PipelineTmaAsync):
        def arrays(self, owner):
            return {"full": barrier(1), "empty": barrier(1)}

    pipeline = Ring(consumers=128, bytes="bytes")


class NoTail(Wrong):
    """A CTA can end while its peer still has to arrive on it."""

    class Ring(PipelineTmaAsync):
        def producer_tail(self, state):
            return
            yield

    pipeline = Ring(consumers=128, bytes="bytes")


class NotArmed(Wrong):
    """CTA 1 does not expect what CTA 0 sends it."""

    class Ring(PipelineTmaAsync):
        def producer_acquire(self, state, token=False, *, leader=True):
            yield self.empty[state].wait(state.phase)
            if self.owner._cta == 0:
                yield self.full[state].arrive_expect_tx(self.owner.bytes)

    pipeline = Ring(consumers=128, bytes="bytes")


class UnequalTrips(Wrong):
    """CTA 1 goes round once more than CTA 0."""

    @role(threads=1)
    def producer(self, me):
        state = self.pipeline.producer_start()
        for _ in range(2 + me.cta):
            yield from self.pipeline.producer_acquire(state)
            yield from self.fill(state, me)
            state = state + 1
        yield from self.pipeline.producer_tail(state)

    @role(warpgroups=1)
    def consumer(self, me):
        state = self.pipeline.consumer_start()
        for _ in range(2 + me.cta):
            yield from self.pipeline.consumer_wait(state)
            yield self.mma(*self.operands(state))
            yield self.mma_wait(0)
            yield from self.pipeline.consumer_release(state, me)
            state = state + 1


@pytest.mark.parametrize("cluster", ["2x1", "1x2"])
@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (OwnReleaseOnly, "deadlock"),
        (OwnCount, "race"),
        (CountOfOne, "arrival-count"),
        (NoTail, "exit-hazard"),
        (NotArmed, "deadlock"),
        (UnequalTrips, "deadlock"),
    ],
)
def test_wrong_variants_are_found(kernel, expected, cluster):
    assert expected in violated(kernel(cluster=cluster))
    assert expected in violated(kernel(cluster=cluster), reduced=False)


@pytest.mark.parametrize("cluster", ["2x1", "1x2", "2x2", "4x1"])
@pytest.mark.parametrize("kernel", [OwnReleaseOnly, OwnCount, CountOfOne, NoTail, NotArmed, UnequalTrips])
def test_wrong_variants_are_found_by_happens_before_in_every_shape(kernel, cluster):
    assert order(Wrong(cluster=cluster)).verdict == "proved"
    result = check_pipeline(kernel(cluster=cluster), command="spec", engine="order")
    assert result.verdict == "violated"
    assert result.trace is not None


@pytest.mark.parametrize("cluster", ["2x1", "1x2"])
@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("trips", [0, 1, 2, 3, "all"])
def test_happens_before_agrees_with_the_search(cluster, stages, trips):
    pipeline = TmaAsync(stages=stages, cluster=cluster, trips=trips)
    assert order(pipeline).verdict == check_pipeline(pipeline, command="pipeline").verdict == "proved"


@pytest.mark.parametrize("trips", [1, 2])
def test_without_its_tail_the_last_arrival_finds_the_peer_gone(trips):
    assert violated(NoTail(trips=trips)) == ["exit-hazard"]
    assert violated(Wrong(trips=trips)) == []


# ---------------------------------------------------------------- what reaches another CTA, and how


class Ping(Pipeline):
    """CTA 0 writes into CTA 1's buffer and tells it so."""

    cluster = "2x1"
    met = False
    early = False
    relaxed = False
    ready = barrier(arrivals=32, slots=1)
    x = tile(bytes=128, slots=1)

    @role(warps=1)
    def warp(self, me):
        if not self.early:
            yield self.cluster_arrive()
            yield self.cluster_wait()
        if me.cta == 0:
            yield self.x[0].on(1).write(tag=1)
            if self.relaxed:
                yield self.cluster_arrive_relaxed()
                yield self.cluster_wait()
            else:
                yield self.ready[0].on(1).arrive(32)
        else:
            if self.relaxed:
                yield self.cluster_arrive()
                yield self.cluster_wait()
            else:
                yield self.ready[0].wait(0)
            yield self.x.read(tag=1)


def test_distributed_shared_memory_is_ordered_by_a_remote_arrival():
    assert violated(Ping()) == []
    assert violated(Ping(), reduced=False) == []


def test_a_cta_that_may_not_have_started_cannot_be_reached():
    assert violated(Ping(early=True)) == ["exit-hazard"]


def test_a_relaxed_arrive_orders_no_access():
    """9.7.13.4: .relaxed gives no ordering (quack issue 63, cutlass issue 3324)."""
    assert violated(Ping(relaxed=True)) == ["race"]


class Remote(Pipeline):
    """One remote operation, by name."""

    cluster = "1x2"
    operation = "arrive"
    b = barrier(arrivals=1, slots=1)

    @role(threads=1)
    def thread(self, me):
        if me.cta == 0:
            there = self.b[0].on(1)
            yield {
                "arrive": there.arrive,
                "arrive_expect_tx": lambda: there.arrive_expect_tx(0),
                "complete_tx": lambda: there.complete_tx(0),
                "expect_tx": lambda: there.expect_tx(0),
                "no_complete": there.arrive_no_complete,
                "init": lambda: there.init(1),
                "inval": there.inval,
                "wait": lambda: there.wait(1),
            }[self.operation]()
        else:
            yield self.b.wait(0)


@pytest.mark.parametrize("operation", ["arrive", "arrive_expect_tx", "complete_tx", "expect_tx"])
def test_operations_with_a_shared_cluster_form(operation):
    assert "barrier-init" not in violated(Remote(operation=operation))


@pytest.mark.parametrize("operation", ["no_complete", "init", "inval", "wait"])
def test_operations_without_a_shared_cluster_form(operation):
    assert "barrier-init" in violated(Remote(operation=operation))


def test_a_cta_outside_the_cluster_is_one_line():
    class Outside(Ping):
        @role(threads=1)
        def other(self):
            yield self.ready[0].on(2).arrive()

    with pytest.raises(SpecError, match="CTA 2 of a cluster of 2"):
        compile_pipeline(Outside())


# ---------------------------------------------------------------- initialisation


class Initialised(Pipeline):
    """Barriers are initialised by a thread of each CTA, then made visible, then used from the other CTA."""

    cluster = "2x1"
    met = False
    fence = True
    relaxed = True
    wait = True
    b = barrier(arrivals=1, slots=1, initialised=False)
    c = barrier(arrivals=1, slots=1)

    @role(threads=1)
    def thread(self, me):
        yield self.b[0].init(1)
        if self.fence:
            yield self.fence_mbarrier_init()
        yield self.cluster_arrive_relaxed() if self.relaxed else self.cluster_arrive()
        if self.wait:
            yield self.cluster_wait()
        yield self.b[0].on(1 - me.cta).arrive()
        yield self.b[0].wait(0)
        yield self.cluster_wait() if not self.wait else self.c[0].arrive()


def test_initialisation_is_visible_after_fence_and_cluster_barrier():
    """The example of the ISA: init; fence.mbarrier_init; barrier.cluster.arrive.relaxed; barrier.cluster.wait."""
    assert violated(Initialised()) == []


def test_relaxed_cluster_barrier_alone_makes_no_initialisation_visible():
    assert violated(Initialised(fence=False)) == ["barrier-init"]
    assert violated(Initialised(fence=False, relaxed=False)) == []


def test_use_before_the_peer_has_initialised():
    assert "barrier-init" in violated(Initialised(wait=False))


# ---------------------------------------------------------------- barrier.cluster


class Meeting(Pipeline):
    """Two CTAs of two warps; what each thread does at barrier.cluster."""

    cluster = "2x1"
    twice = False
    alone = False
    leaves = False
    skips = False
    x = tile(bytes=128, slots=1, space="global")

    @role(warps=1, copies=2)
    def warp(self, me):
        if me.cta == 0 and me.copy == 0:
            if self.leaves:
                return
            if self.alone:
                yield self.cluster_wait()
            yield self.x.write(tag=1)
            yield self.cluster_arrive()
            if self.twice:
                yield self.cluster_arrive()
            yield self.cluster_wait()
        elif self.skips and me.copy == 0:
            while True:
                yield self.fence_proxy_async()
        else:
            yield self.cluster_arrive()
            yield self.cluster_wait()
            if not self.leaves:
                yield self.x.read(tag=1)


def test_barrier_cluster_orders_and_waits_for_all():
    assert violated(Meeting()) == []


def test_threads_that_have_exited_are_not_waited_for():
    assert violated(Meeting(leaves=True)) == []


def test_a_thread_that_arrives_and_exits_is_counted_once():
    class Leaves(Pipeline):
        cluster = "2x1"

        @role(warps=1, copies=2)
        def warp(self, me):
            yield self.cluster_arrive()
            if me.cta == 1:
                yield self.cluster_wait()

    machine = compile_pipeline(Leaves())
    exploration = explore(machine)
    assert exploration.complete and not exploration.violations
    passes = [action.guard for action in machine.actions if "wait" in action.op and "alone" not in action.op]
    assert passes
    for state in _states(machine):
        arrived = sum(32 for role in machine.roles if state[f"cluster.{role.name}"] or state[role.counter] > 0)
        if any(state[f"cluster.{role.name}"] == 2 for role in machine.roles):
            assert arrived == 128


def _states(machine):
    """Every reachable state, by the reference meaning of expressions."""
    first = initial_state(machine)
    found, todo = {tuple(first.values()): first}, [first]
    while todo:
        state = todo.pop()
        for action in machine.actions:
            if is_enabled(machine, action, state):
                after = take(machine, action, state)
                if tuple(after.values()) not in found:
                    found[tuple(after.values())] = after
                    todo.append(after)
    return list(found.values())


def test_two_arrivals_without_a_wait():
    assert "named-barrier" in violated(Meeting(twice=True))


def test_a_wait_without_an_arrival():
    assert "named-barrier" in violated(Meeting(alone=True))


# ---------------------------------------------------------------- the reduction


def test_a_remote_arrival_is_prompt_only_while_the_other_cta_must_still_wait():
    machine = compile_pipeline(Wrong())
    reduction = find_reduction(machine)
    consumer = next(number for number, role in enumerate(machine.roles) if role.name == "cta1.consumer")
    places = machine.roles[consumer].locations
    remote = [i for i, place in enumerate(places) if place.kind == "arrive" and place.object.startswith("cta0.")]
    local = [i for i, place in enumerate(places) if place.kind == "arrive" and place.object.startswith("cta1.")]
    text = {i: str(reduction.prompt[consumer][i]) for i in (*remote, *local)}
    assert all("at.cta0.producer" in text[i] for i in remote)
    assert not any("at.cta0.producer" in text[i] for i in local)


def test_multicast_names_each_cta_once():
    class Twice(TmaAsync):
        cluster = "2x1"

        def fill(self, state, me):
            full = self.pipeline.full[state]
            yield self.parts_of_a[state.index].load(signals=full, multicast=(0, 0))

    with pytest.raises(SpecError, match="each once"):
        compile_pipeline(Twice())


def test_each_copy_of_a_multicast_lands_when_it_will():
    machine = compile_pipeline(TmaAsync(stages=1, cluster="2x1", trips=1))
    landing = [action.object for action in machine.actions if action.location is None]
    assert sorted(landing) == sorted(
        f"cta{cta}.{part}" for cta in range(2) for part in ("parts_of_a", "parts_of_b[0]", "parts_of_b[1]")
    )
