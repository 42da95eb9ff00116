"""Every CUTLASS pipeline class is proved for every schedule and trip count, and every way to break it is found."""

from __future__ import annotations

import pytest

from sm90_verify.engines.check import check
from sm90_verify.result import PROVED, VIOLATED
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.cutlass.classes import (
    WARPGROUP,
    Async,
    OrderedSequence,
    TmaAsync,
    TmaStore,
    TransactionAsync,
)
from sm90_verify.spec.cutlass.pipelines import PipelineTmaAsync
from sm90_verify.spec.language.declarations import role
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.model.kernel import Threads

PIPELINES = kernels("pipeline")

PROPERTIES = {
    "tma-async": "deadlock race stale-read phase-lapped arrival-count tx-count exit-hazard unobserved-phase",
    "transaction-async": "deadlock race stale-read phase-lapped arrival-count tx-count exit-hazard unobserved-phase",
    "async": "deadlock race stale-read phase-lapped arrival-count unobserved-phase",
    "tma-store": "deadlock race stale-read missing-fence named-barrier",
    "ordered-sequence": "deadlock race stale-read phase-lapped arrival-count unobserved-phase",
}
WITH_CONSUMERS = tuple(PROPERTIES)
SIZES = [
    pytest.param(name, stages, consumers, id=f"{name}-{stages}-{consumers}")
    for name in WITH_CONSUMERS
    for consumers in (1, 2)
    for stages in ((1, 2, 3, 4, 8) if consumers == 1 else (1, 2, 4))
]


def verdicts(pipeline: Pipeline, **options):
    result = check(pipeline, command="pipeline", **{"engine": "search", **options})
    return {finding.id: finding.verdict for finding in result.findings}, result


def violated(pipeline: Pipeline, **options) -> set[str]:
    found, _ = verdicts(pipeline, **options)
    return {id for id, verdict in found.items() if verdict == VIOLATED}


@pytest.mark.parametrize(("name", "stages", "consumers"), SIZES)
def test_is_proved_for_all_trip_counts(name, stages, consumers):
    found, result = verdicts(PIPELINES[name](stages=stages, consumers=consumers))
    assert result.scope == {"trips": "all"}
    assert result.verdict == PROVED
    asked = set(PROPERTIES[name].split())
    if name == "ordered-sequence" and consumers == 1:
        asked -= {"race"}
    assert set(found) == asked
    assert result.notes == ()


# The number of distinct states is part of a model's meaning: a change that was not meant shows here first.
STATES = {
    ("tma-async", 1): 540,
    ("tma-async", 2): 1500,
    ("transaction-async", 1): 2700,
    ("transaction-async", 2): 5700,
    ("async", 1): 300,
    ("async", 2): 900,
    ("tma-store", 1): 99,
    ("tma-store", 2): 99,
    ("ordered-sequence", 1): 60,
    ("ordered-sequence", 2): 300,
}
UNREDUCED = {
    ("tma-async", 1): 10180,
    ("async", 1): 2300,
    ("async", 2): 34700,
    ("tma-store", 1): 1160,
    ("ordered-sequence", 2): 2360,
}


@pytest.mark.parametrize(("name", "consumers"), STATES)
def test_states_at_four_stages(name, consumers):
    _, result = verdicts(PIPELINES[name](stages=4, consumers=consumers))
    assert result.states == STATES[name, consumers]


@pytest.mark.parametrize(("name", "consumers"), UNREDUCED)
def test_states_at_four_stages_without_reduction(name, consumers):
    _, result = verdicts(PIPELINES[name](stages=4, consumers=consumers), reduced=False)
    assert result.verdict == PROVED
    assert result.states == UNREDUCED[name, consumers]


@pytest.mark.parametrize("trips", [0, 1, 2, 3, 5])
@pytest.mark.parametrize("name", WITH_CONSUMERS)
def test_is_proved_for_one_trip_count(name, trips):
    _, result = verdicts(PIPELINES[name](stages=2, consumers=1, trips=trips))
    assert result.verdict == PROVED
    assert result.scope == {"trips": trips}


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_try_functions_change_nothing(stages):
    assert verdicts(TmaAsync(stages=stages, peek=True))[1].verdict == PROVED


@pytest.mark.parametrize(("stages", "pieces"), [(1, 2), (2, 2), (3, 2), (2, 4)])
def test_bytes_may_arrive_in_pieces(stages, pieces):
    assert verdicts(TmaAsync(stages=stages, pieces=pieces))[1].verdict == PROVED
    assert verdicts(TransactionAsync(stages=stages, pieces=pieces))[1].verdict == PROVED


@pytest.mark.parametrize("kernel", [TmaAsync, Async])
def test_two_producers(kernel):
    assert verdicts(kernel(stages=2, producers=2, consumers=1))[1].verdict == PROVED


# ---------------------------------------------------------------- each protocol, broken


class StartsInPhaseZero(TmaAsync):
    """The producer starts where the consumer starts."""

    @role(threads=1)
    def producer(self, me: Threads):
        state = self.pipeline.consumer_start()
        for _ in self.loop():
            yield from self.pipeline.producer_acquire(state)
            yield self.a[state].load(signals=self.pipeline.full[state])
            state = state + 1


class ReleasesBeforeTheWait(TmaAsync):
    """The stage is given away before its WGMMA is over."""

    @role(warpgroups=1, copies="consumers")
    def consumer(self, me: Threads):
        state = self.pipeline.consumer_start()
        for _ in self.loop():
            yield from self.pipeline.consumer_wait(state)
            yield self.a[state].mma()
            yield from self.pipeline.consumer_release(state, me)
            yield self.mma_wait(0)
            state = state + 1


class NeverReleases(TmaAsync):
    """The empty barrier is never arrived on."""

    @role(warpgroups=1, copies="consumers")
    def consumer(self, me: Threads):
        state = self.pipeline.consumer_start()
        for _ in self.loop():
            yield from self.pipeline.consumer_wait(state)
            yield self.a[state].mma()
            yield self.mma_wait(0)
            state = state + 1


class CountsOneWarpgroup(TmaAsync):
    """The empty barrier counts one of the two consumer warpgroups."""

    consumers = 2
    pipeline = PipelineTmaAsync(consumers=WARPGROUP, bytes="bytes")


class CountsThreeWarpgroups(TmaAsync):
    """The empty barrier counts a warpgroup that does not exist."""

    pipeline = PipelineTmaAsync(consumers=lambda self: WARPGROUP * (self.consumers + 1), bytes="bytes")


class ExpectsHalf(TmaAsync):
    """Half of the bytes that arrive are expected."""

    pipeline = PipelineTmaAsync(consumers=WARPGROUP, bytes=lambda self: self.bytes // 2)


class ExpectsTwice(TmaAsync):
    """Twice the bytes that arrive are expected."""

    pipeline = PipelineTmaAsync(consumers=WARPGROUP, bytes=lambda self: self.bytes * 2)


class WaitsOnTheWrongStage(TmaAsync):
    """The consumer waits on one stage and reads the next."""

    @role(warpgroups=1, copies="consumers")
    def consumer(self, me: Threads):
        state = self.pipeline.consumer_start()
        for _ in self.loop():
            yield from self.pipeline.consumer_wait(state)
            yield self.a[state + 1].mma(tag=state.tag)
            yield self.mma_wait(0)
            yield from self.pipeline.consumer_release(state, me)
            state = state + 1


class LanesDoNotArrive(TransactionAsync):
    """Only the elected lane commits, but the full barrier counts the warp."""

    @role(threads=32, split=(1, 31))
    def producer(self, me: Threads):
        state = self.pipeline.producer_start()
        for _ in self.loop():
            yield from self.pipeline.producer_acquire(state)
            if me.leader:
                yield self.c[state].load(signals=self.pipeline.full[state])
                yield from self.pipeline.producer_expect_transaction(state)
                yield from self.pipeline.producer_commit(state, me)
            state = state + 1


class ExpectsAfterArriving(TransactionAsync):
    """The elected lane arrives first and announces its bytes afterwards."""

    @role(threads=32, split=(1, 31))
    def producer(self, me: Threads):
        state = self.pipeline.producer_start()
        for _ in self.loop():
            yield from self.pipeline.producer_acquire(state)
            if me.leader:
                yield self.c[state].load(signals=self.pipeline.full[state])
            yield from self.pipeline.producer_commit(state, me)
            if me.leader:
                yield from self.pipeline.producer_expect_transaction(state)
            state = state + 1


class CommitsBeforeWriting(Async):
    """The producer arrives and writes afterwards."""

    @role(warpgroups=1, copies="producers")
    def producer(self, me: Threads):
        state = self.pipeline.producer_start()
        for _ in self.loop():
            yield from self.pipeline.producer_acquire(state)
            yield from self.pipeline.producer_commit(state, me)
            yield self.x[state].write()
            state = state + 1


class DoesNotFence(TmaStore):
    """The other warps do not fence what they wrote."""

    @role(threads=96)
    def other_warps(self):
        state = self.pipeline.producer_start()
        for _ in self.loop():
            yield self.rest[state].write()
            yield self.named_sync(1, WARPGROUP)
            state = state + 1
            yield self.named_sync(1, WARPGROUP)


class WaitsForTooFewStores(TmaStore):
    """As many stores may be pending as there are slots."""

    @role(warps=1)
    def store_warp(self):
        state = self.pipeline.producer_start()
        for _ in self.loop():
            yield self.mine[state].write()
            yield self.fence_proxy_async()
            yield self.named_sync(1, WARPGROUP)
            yield self.store(self.mine[state], self.rest[state])
            yield self.bulk_commit()
            state = state + 1
            yield self.bulk_wait_read(self.stages)
            yield self.named_sync(1, WARPGROUP)


class EverybodyStartsFirst(OrderedSequence):
    """Both groups start in the phase of group 0."""

    @role(warpgroups=1, copies="consumers")
    def group(self, me: Threads):
        state = PipelineState.start(self.stages, producer=True)
        for _ in self.loop():
            yield from self.order.wait(state, me.copy)
            yield self.work[state].write()
            yield from self.order.arrive(state, me.copy, me)
            state = state + 1


BROKEN = [
    (StartsInPhaseZero, {"deadlock"}),
    (ReleasesBeforeTheWait, {"race"}),
    (NeverReleases, {"deadlock", "arrival-count"}),
    (CountsOneWarpgroup, {"race", "arrival-count"}),
    (CountsThreeWarpgroups, {"deadlock"}),
    (ExpectsHalf, {"tx-count"}),
    (ExpectsTwice, {"deadlock"}),
    (WaitsOnTheWrongStage, {"race", "stale-read"}),
    (LanesDoNotArrive, {"deadlock"}),
    (ExpectsAfterArriving, {"tx-count"}),
    (CommitsBeforeWriting, {"race", "stale-read"}),
    (DoesNotFence, {"missing-fence"}),
    (WaitsForTooFewStores, {"race"}),
    (EverybodyStartsFirst, {"race"}),
]


SAME_WITH_ONE_STAGE = (WaitsOnTheWrongStage,)
"""With a single stage the next stage is the same one: nothing is wrong."""


@pytest.mark.parametrize(
    ("kernel", "expected", "stages"),
    [
        (kernel, expected if stages == 2 or kernel not in SAME_WITH_ONE_STAGE else set(), stages)
        for kernel, expected in BROKEN
        for stages in (1, 2)
    ],
)
def test_broken_protocol_is_found(kernel, expected, stages):
    found = violated(kernel(stages=stages))
    assert expected <= found if expected else not found


# ---------------------------------------------------------------- the SM100 launch-control pipeline


@pytest.mark.parametrize(("stages", "epilogue_load"), [(1, 0), (2, 1), (3, 0)])
def test_launch_control_is_proved_for_all_trip_counts(stages, epilogue_load):
    found, _ = verdicts(PIPELINES["launch-control"](stages=stages, epilogue_load=epilogue_load))
    assert set(found.values()) == {PROVED}


@pytest.mark.parametrize("cluster", ["2x1", "1x2", "4x1"])
def test_launch_control_serves_a_cluster(cluster):
    found, _ = verdicts(PIPELINES["launch-control"](stages=2, cluster=cluster), engine="order")
    assert set(found.values()) == {PROVED}


@pytest.mark.parametrize(("wrong", "property"), [(-32, "arrival-count"), (32, "deadlock")])
def test_launch_control_counts_every_thread_of_the_cluster(wrong, property):
    right = PIPELINES["launch-control"](stages=2).all_consumers
    assert property in violated(PIPELINES["launch-control"](stages=2, count=right + wrong))
