"""PipelineTmaAsync in clusters: their shapes, what is proved, what is found in wrong ones, and the reduction."""

from __future__ import annotations

import pytest
from findings import violated

from sm90_verify.engines.check import check
from sm90_verify.engines.order import order
from sm90_verify.engines.search.explore import explore
from sm90_verify.engines.search.reduction import find_reduction
from sm90_verify.spec.cutlass.classes import TmaAsync
from sm90_verify.spec.cutlass.pipelines import PipelineTmaAsync
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel
from sm90_verify.spec.ptx.cluster import Cluster

# ---------------------------------------------------------------- the shape


def test_rank_counts_along_x_first():
    assert [Cluster(2, 3).position(rank) for rank in range(6)] == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 2), (1, 2)]


@pytest.mark.parametrize("x", range(1, 17))
def test_all_that_can_write_a_stage_are_in_its_row_or_column(x):
    for y in range(1, 16 // x + 1):
        shape = Cluster(x, y)
        for rank in range(shape.size):
            near = [other for other in range(shape.size) if shape.shares_row_or_column(other, rank)]
            assert list(shape.writers(rank)) == near
            assert len(near) == x + y - 1


@pytest.mark.parametrize("text", ["0x1", "4x5", "2", "2x", "-1x2", "x"])
def test_a_wrong_shape_is_one_line(text):
    with pytest.raises(SpecError, match="XxY with 1 to 16 CTAs"):
        TmaAsync(cluster=text)


# ---------------------------------------------------------------- PipelineTmaAsync in a cluster


@pytest.mark.parametrize(("cluster", "states"), [("2x1", 16350), ("1x2", 16350)])
def test_two_ctas_are_proved_for_every_trip_count(cluster, states):
    pipeline = TmaAsync(stages=2, cluster=cluster)
    result = check(pipeline, command="pipeline", engine="search")
    assert result.verdict == "proved"
    assert result.states == states
    names = [region.object for region in pipeline.layout.regions]
    assert "cta1.pipeline.empty[1]" in names and "cta0.parts_of_a[0]" in names
    assert set(pipeline.layout.arrivals.values()) == {1, 2}


@pytest.mark.parametrize("cluster", ["1x1", "2x1", "1x2"])
@pytest.mark.parametrize("trips", [0, 1, 2])
def test_reduced_and_unreduced_search_agree(cluster, trips):
    machine = compile_kernel(trace(TmaAsync(stages=1, cluster=cluster, trips=trips)))
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
    assert order(trace(Wrong(cluster=cluster))).verdict == "proved"
    result = check(kernel(cluster=cluster), command="spec", engine="order")
    assert result.verdict == "violated"
    assert result.trace is not None


@pytest.mark.parametrize("cluster", ["2x1", "1x2"])
@pytest.mark.parametrize("stages", [1, 2])
@pytest.mark.parametrize("trips", [0, 1, 2, 3, "all"])
def test_happens_before_agrees_with_the_search(cluster, stages, trips):
    pipeline = TmaAsync(stages=stages, cluster=cluster, trips=trips)
    assert order(trace(pipeline)).verdict == check(pipeline, command="pipeline", engine="search").verdict == "proved"


@pytest.mark.parametrize("trips", [1, 2])
def test_without_its_tail_the_last_arrival_finds_the_peer_gone(trips):
    assert violated(NoTail(trips=trips)) == ["exit-hazard"]
    assert violated(Wrong(trips=trips)) == []


# ---------------------------------------------------------------- the reduction


def test_a_remote_arrival_is_prompt_only_while_the_other_cta_must_still_wait():
    machine = compile_kernel(trace(Wrong()))
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
        compile_kernel(trace(Twice()))


def test_each_copy_of_a_multicast_lands_when_it_will():
    machine = compile_kernel(trace(TmaAsync(stages=1, cluster="2x1", trips=1)))
    landing = [action.object for action in machine.actions if action.location is None]
    assert sorted(landing) == sorted(
        f"cta{cta}.{part}" for cta in range(2) for part in ("parts_of_a", "parts_of_b[0]", "parts_of_b[1]")
    )


@pytest.mark.parametrize("text", ["²x1", "2x²", "1x1x1", "x", "17x1", "0x2"])
def test_what_is_no_shape_of_a_cluster_is_refused(text):
    with pytest.raises(SpecError, match="use XxY with 1 to 16 CTAs"):
        Cluster.parse(text)
