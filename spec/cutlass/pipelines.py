"""CUTLASS's SM90 pipeline classes, verb by verb, for one CTA or a cluster.

Each class is a part of a Pipeline: declare it as a class attribute, and a role calls its verbs with `yield from`. Line
numbers are those of cutlass/pipeline/sm90_pipeline.hpp in CUTLASS 4.2. Counts and bytes may be numbers, names of the
owner's parameters, or functions of the owner.

A try function gives a token; the finalising function blocks only if the token says that the barrier was not done yet.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeAlias

from sm90_verify.spec.cutlass.cluster import empty_count, signals
from sm90_verify.spec.language.declarations import BarrierDeclaration, Body, Parameter
from sm90_verify.spec.language.handles import Array, Owner
from sm90_verify.spec.language.layout import Component
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.model.kernel import Threads
from sm90_verify.spec.ptx.operations import Operation

Waited: TypeAlias = Generator[Operation, Any, bool]
"""A verb whose value is the token: True for WaitDone, False for WaitAgain."""

EPILOGUE_BARRIER = 1
"""ReservedNamedBarriers::EpilogueBarrier, the named barrier that the threads of an epilogue meet at."""
WAIT_AGAIN = False
WAIT_DONE = True


class _Ring(Component):
    """A full and an empty barrier per stage; the waits are the same in every class that has them."""

    full: Array
    empty: Array
    owner: Pipeline

    def __init__(self, stages: Parameter = "stages", *, full: Parameter, empty: Parameter) -> None:
        self.stages, self.full_arrivals, self.empty_arrivals = stages, full, empty

    def arrays(self, owner: Owner) -> dict[str, BarrierDeclaration]:
        return {
            "full": BarrierDeclaration(arrivals=self.full_arrivals, slots=self.stages),
            "empty": BarrierDeclaration(arrivals=self.empty_arrivals, slots=self.stages),
        }

    def producer_start(self) -> PipelineState:
        """make_producer_start_state (:252): the first acquire of every stage passes on the fresh barrier."""
        return PipelineState.start(self.owner.value(self.stages), producer=True)

    def consumer_start(self) -> PipelineState:
        """PipelineState() (:176)."""
        return PipelineState.start(self.owner.value(self.stages))

    def producer_try_acquire(self, state: PipelineState) -> Waited:
        """:502, and alike in every class: one try_wait for the stage to be empty."""
        done: bool = yield self.empty[state].try_wait(state.phase)
        return done

    def consumer_try_wait(self, state: PipelineState) -> Waited:
        """:590: one try_wait for the stage to be full."""
        done: bool = yield self.full[state].try_wait(state.phase)
        return done

    def consumer_test_wait(self, state: PipelineState) -> Waited:
        """:600: one test_wait for the stage to be full."""
        done: bool = yield self.full[state].test_wait(state.phase)
        return done

    def consumer_wait(self, state: PipelineState, token: bool = WAIT_AGAIN) -> Body:
        """:611-625: waits until the stage is full, unless the token says that it is."""
        if token == WAIT_AGAIN:
            yield self.full[state].wait(state.phase)

    def producer_tail(self, state: PipelineState) -> Body:
        """:448-454, and alike in every class: wait until every stage that was issued has been released."""
        for _ in range(state.stages):
            yield from self._wait_empty(state, WAIT_AGAIN)
            state = state + 1

    def _wait_empty(self, state: PipelineState, token: bool) -> Body:
        if token == WAIT_AGAIN:
            yield self.empty[state].wait(state.phase)

    def _release(self, state: PipelineState, threads: int) -> Body:
        yield self.empty[state].arrive(threads)


class PipelineTmaAsync(_Ring):
    """PipelineTmaAsync<Stages> (:271-642): TMA fills a stage, its bytes complete the phase; consumers release it.

    producers: leaders that arrive on the full barrier (1 in every kernel). consumers: consumer threads, all of which
    release in a cluster of one CTA; in a larger one each warpgroup sends one arrival to every CTA in its row or column
    (:305-324). bytes: what one leader expects per stage, whoever sends it (transaction_bytes).
    """

    def __init__(
        self, stages: Parameter = "stages", *, producers: Parameter = 1, consumers: Parameter, bytes: Parameter
    ) -> None:
        self.consumers, self.bytes = consumers, bytes
        super().__init__(stages, full=producers, empty=lambda owner: empty_count(owner._shape, owner.value(consumers)))

    def producer_acquire(self, state: PipelineState, token: bool = WAIT_AGAIN, *, leader: bool = True) -> Body:
        """:512-536: wait until the stage is empty; the leader arms the full barrier."""
        yield from self._wait_empty(state, token)
        if leader:
            yield self.full[state].arrive_expect_tx(self.owner.value(self.bytes))

    def producer_commit(self, state: PipelineState) -> Body:
        """:565-587: nothing, the copies complete the phase."""
        return
        yield

    def consumer_release(self, state: PipelineState, me: Threads) -> Body:
        """:628-630: every consumer thread arrives; in a cluster one thread per warpgroup and CTA to signal (:92-118,
        :350-377), wherever in the warpgroup it is.
        """
        if self.owner._shape.size == 1:
            yield from self._release(state, me.threads)
            return
        consumers = self.owner.value(self.consumers)
        threads = range(me.first, me.first + me.threads)
        targets = [signals(self.owner._shape, consumers, me.cta, thread) for thread in threads]
        for cta in range(self.owner._shape.size):
            if cta in targets:
                yield self.empty[state].on(cta).arrive(targets.count(cta))


class _ByThread(_Ring):
    """The verbs where every producer thread arrives on the stage that it has filled, and every consumer thread on the
    one that it has drained.
    """

    def producer_acquire(self, state: PipelineState, token: bool = WAIT_AGAIN) -> Body:
        """:934, :1185: waits until the stage is empty, unless the token says that it is; arms nothing."""
        yield from self._wait_empty(state, token)

    def producer_commit(self, state: PipelineState, me: Threads) -> Body:
        """:949, :1193: every thread of the caller arrives on the full barrier."""
        yield self.full[state].arrive(me.threads)

    def consumer_release(self, state: PipelineState, me: Threads) -> Body:
        """:988, :1236: every thread of the caller arrives on the empty barrier."""
        yield from self._release(state, me.threads)


class PipelineTransactionAsync(_ByThread):
    """PipelineTransactionAsync<Stages> (:766-993): TMA fills a stage, all producer threads arrive on it, one of them
    expects its bytes; consumers release it.

    producers, consumers: arrival counts of the full and the empty barriers. bytes: transaction_bytes.
    """

    def __init__(
        self, stages: Parameter = "stages", *, producers: Parameter, consumers: Parameter, bytes: Parameter
    ) -> None:
        super().__init__(stages, full=producers, empty=consumers)
        self.bytes = bytes

    def producer_expect_transaction(self, state: PipelineState) -> Body:
        """One thread only; it may come after the copies, since the thread has not arrived yet."""
        yield self.full[state].expect_tx(self.owner.value(self.bytes))


class PipelineAsync(_ByThread):
    """PipelineAsync<Stages> (:1015-1242): producers write through the generic proxy and arrive, thread by thread."""

    def __init__(self, stages: Parameter = "stages", *, producers: Parameter, consumers: Parameter) -> None:
        super().__init__(stages, full=producers, empty=consumers)


class PipelineTmaStore(Component):
    """PipelineTmaStore<Stages, Unacquired> (:655-760): no mbarrier, only the bulk groups of the thread that calls
    it.
    """

    owner: Pipeline

    def __init__(
        self, stages: Parameter = "stages", *, unacquired: int | None = None, always_wait: bool = True
    ) -> None:
        self.stages, self.unacquired, self.always_wait = stages, unacquired, always_wait

    def arrays(self, owner: Owner) -> dict[str, BarrierDeclaration]:
        return {}

    def producer_start(self) -> PipelineState:
        """make_producer_start_state (:252)."""
        return PipelineState.start(self.owner.value(self.stages), producer=True)

    def producer_commit(self, state: PipelineState) -> Body:
        """:705: the stores of the stage are a bulk group."""
        yield self.owner.bulk_commit()

    def producer_acquire(self, state: PipelineState) -> Body:
        """:697-701: at most Unacquired (Stages - 1 unless given) committed stores may still be reading their source."""
        unacquired = self.owner.value(self.stages) - 1 if self.unacquired is None else self.unacquired
        if self.always_wait or state.count > unacquired:
            yield self.owner.bulk_wait_read(unacquired)

    def producer_tail(self, state: PipelineState) -> Body:
        """:687: all stores have read their source."""
        yield self.owner.bulk_wait_read(0)


class OrderedSequenceBarrier(Component):
    """OrderedSequenceBarrier<Depth, Length> (:1263-1360): `length` groups pass each of `depth` stages in order, for
    ever.

    group: threads of a group, all of which arrive.
    """

    barrier: Array
    owner: Pipeline

    def __init__(self, depth: Parameter, length: Parameter, *, group: Parameter) -> None:
        self.depth, self.length, self.group = depth, length, group

    def arrays(self, owner: Owner) -> dict[str, BarrierDeclaration]:
        return {
            "barrier": BarrierDeclaration(arrivals=self.group, slots=owner.value(self.depth) * owner.value(self.length))
        }

    def start(self, group: int) -> PipelineState:
        """:1298: group 0 starts in the opposite phase, so it passes first."""
        return PipelineState.start(self.owner.value(self.depth), producer=group == 0)

    def wait(self, state: PipelineState, group: int) -> Body:
        """:1333: waits for the turn of the group in this stage."""
        length = self.owner.value(self.length)
        yield self.barrier[state.index * length + group].wait(state.phase)

    def arrive(self, state: PipelineState, group: int, me: Threads) -> Body:
        """:1340: lets the next group into this stage; the caller goes on with `state + 1` (`++stage_`)."""
        length = self.owner.value(self.length)
        yield self.barrier[state.index * length + (group + 1) % length].arrive(me.threads)
