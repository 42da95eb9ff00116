"""Correct patterns that have been taken for faults, each with the fault that it is taken for. F01, F02,
F04, F11, F14.
"""

from __future__ import annotations

from sm90_verify import Pipeline, PipelineState, barrier, role, tile


class Ring(Pipeline):
    """triton-lang/triton #11296, #11303 (F01): the first wait of a producer, with parity 1, passes on a
    fresh barrier.
    """

    stages = 2
    producer_starts_inverted = True
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self):
        at = PipelineState.start(self.stages, producer=self.producer_starts_inverted)
        for _ in self.loop():
            yield self.empty[at].wait(at.phase)
            yield self.full[at].arrive_expect_tx(self.a.bytes)
            yield self.a[at].load(signals=self.full[at])
            at += 1

    @role(warpgroups=1)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.a[at].read()
        yield self.empty[at].arrive()


class PrologueWithoutAcquire(Pipeline):
    """NVIDIA/cutlass #2173, wgmma_sm90 tutorial (F02): the first loads take no acquire, later ones wait for ph(k - S).

    extra: loads of the prologue beyond the ring.
    """

    stages = 2
    extra = 0
    trips = 4
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self):
        at, released = PipelineState.start(self.stages), PipelineState.start(self.stages)
        for k in range(self.trips):
            if k >= self.stages + self.extra:
                yield self.empty[released].wait(released.phase)
                released += 1
            yield self.full[at].arrive_expect_tx(self.a.bytes)
            yield self.a[at].load(signals=self.full[at])
            at += 1

    @role(warpgroups=1)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.a[at].read()
        yield self.empty[at].arrive()


class ProducerTail(Ring):
    """producer_tail of CUTLASS and DeepGEMM (F04): S more acquires, harmless for no trip and for fewer than S.

    advances: the tail starts from the state after the last load, as it must.
    """

    advances = True

    @role(warps=1)
    def producer(self):
        at = PipelineState.start(self.stages, producer=True)
        for _ in self.loop():
            yield self.empty[at].wait(at.phase)
            yield self.full[at].arrive_expect_tx(self.a.bytes)
            yield self.a[at].load(signals=self.full[at])
            at += 1
        if not self.advances:
            at += 1
        for _ in range(self.stages):
            yield self.empty[at].wait(at.phase)
            at += 1


class OneRoleFinishesEarly(Pipeline):
    """triton-lang/triton #10192 (F11): a role that has finished is not blocked, and the others go on.

    helper_needed: then they need it again.
    """

    helper_needed = 1
    go = barrier(arrivals=1)
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=1024)

    @role(warps=1)
    def helper(self):
        yield self.go.arrive()

    @role(warps=1)
    def producer(self):
        begun = PipelineState.start(1)
        for _ in range(self.helper_needed):
            yield self.go.wait(begun.phase)
            begun += 1
        at = PipelineState.start(self.stages, producer=True)
        for _ in self.loop("forever"):
            yield self.empty[at].wait(at.phase)
            yield self.full[at].arrive_expect_tx(self.a.bytes)
            yield self.a[at].load(signals=self.full[at])
            at += 1

    @role(warpgroups=1)
    def consumer(self):
        at = PipelineState.start(self.stages)
        for _ in self.loop("forever"):
            yield self.full[at].wait(at.phase)
            yield self.a[at].read()
            yield self.empty[at].arrive()
            at += 1


class PeeksThenWaits(Pipeline):
    """CUTLASS consumer_try_wait and consumer_wait(token) (F14): a peek, then a blocking wait only if the peek failed.

    trusts: the peek is taken for a wait.
    """

    stages = 2
    trusts = False
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self, at):
        if not (yield self.empty[at].test_wait(at.phase ^ 1)):
            yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(self.a.bytes)
        yield self.a[at].load(signals=self.full[at])

    @role(warpgroups=1)
    def consumer(self, at):
        done = yield self.full[at].try_wait(at.phase)
        if not (done or self.trusts):
            yield self.full[at].wait(at.phase)
        yield self.a[at].read()
        yield self.empty[at].arrive()


CASES = (
    (
        "F01",
        Ring(stages=1, producer_starts_inverted=False),
        {"deadlock": "producer"},
        (Ring(), Ring(stages=1), Ring(stages=3)),
    ),
    (
        "F02",
        PrologueWithoutAcquire(stages=1, extra=1, trips=2),
        {
            "race": "a",
            "arrival-count": "full",
            "phase-lapped": "full",
            "unobserved-phase": "full",
            "deadlock": "consumer",
            "stale-read": "a",
        },
        (PrologueWithoutAcquire(), PrologueWithoutAcquire(stages=1), PrologueWithoutAcquire(trips=1)),
    ),
    (
        "F04",
        ProducerTail(stages=1, advances=False, trips=1),
        {"deadlock": "producer", "phase-lapped": "empty", "unobserved-phase": "empty"},
        (ProducerTail(), ProducerTail(trips=0), ProducerTail(trips=1)),
    ),
    ("F11", OneRoleFinishesEarly(helper_needed=2), {"deadlock": "producer"}, (OneRoleFinishesEarly(),)),
    (
        "F14",
        PeeksThenWaits(trusts=True, trips=1),
        {"race": "a", "stale-read": "a", "phase-lapped": "empty", "deadlock": "producer", "exit-hazard": "a"},
        (PeeksThenWaits(),),
    ),
)
