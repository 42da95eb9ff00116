"""Small pipelines whose answers are easy to get wrong: who waits for whom.

A comment "the line" stands where a report of the wrong ones points.
"""

from __future__ import annotations

from sm90_verify import Pipeline, PipelineState, barrier, role, tile


class Poll(Pipeline):
    """Right: a loop of try_wait is a wait."""

    full = barrier(arrivals=1)

    @role(warps=1)
    def producer(self):
        yield self.full.arrive()

    @role(warps=1)
    def consumer(self):
        while not (yield self.full.try_wait(0)):
            pass


class PollsForEver(Pipeline):
    """Wrong: what it polls for never comes."""

    stages = 1
    full = barrier(arrivals=2)

    @role(warps=1)
    def producer(self):
        yield self.full.arrive()

    @role(warps=4)
    def consumer(self):
        for _ in self.forever():
            if (yield self.full.try_wait(0)):  # the line
                break


class SometimesWaits(Pipeline):
    """Wrong: one that skips waits is lapped, or hangs."""

    full = barrier(arrivals=1)

    @role(warps=1)
    def producer(self, at):
        yield self.full[at].arrive()

    @role(warps=1)
    def consumer(self, at):
        if (yield self.choose("looks", True, False)):
            yield self.full[at].wait(at.phase)  # the line


class Watcher(Pipeline):
    """Right: the watcher looks at some iterations only, and meets the consumer in each before the release."""

    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(self.a.bytes)
        yield self.a[at].load(signals=self.full[at])

    @role(warps=1)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.a[at].read()
        yield self.named_sync(1, threads=64)
        yield self.empty[at].arrive()

    @role(warps=1)
    def watcher(self, at):
        if (yield self.choose("looks", True, False)):
            yield self.full[at].wait(at.phase)
            yield self.a[at].read()
        yield self.named_sync(1, threads=64)


class WatcherBehind(Watcher):
    """Wrong: it meets the consumer after the release, and the barrier goes on."""

    @role(warps=1)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.a[at].read()
        yield self.empty[at].arrive()
        yield self.named_sync(1, threads=64)

    @role(warps=1)
    def watcher(self, at):
        if (yield self.choose("looks", True, False)):
            yield self.full[at].wait(at.phase)  # the line
        yield self.named_sync(1, threads=64)


class Stuck(Pipeline):
    """Wrong: the line to blame is the wait for what never comes, not the last step that was taken."""

    trips = 1
    go = barrier(arrivals=1)
    never = barrier(arrivals=1)

    @role(warps=1)
    def first(self, at):
        yield self.go.arrive()

    @role(warps=1)
    def second(self, at):
        yield self.go.wait(0)
        yield self.never.wait(0)  # the line


class BothSkip(Pipeline):
    """Right: two roles skip tiles by one decision, and nothing makes one wait for the other meanwhile."""

    @role(warps=1, copies=2)
    def one(self):
        for _ in self.loop():
            yield self.choose("skip", True, False)


class OneBarrierOfTwo(Pipeline):
    """Wrong: the producer arrives on stage 0 alone, and the consumer waits on both in turn."""

    q_full = barrier(arrivals=1, slots=1)
    k_full = barrier(arrivals=1, slots=2)

    @role(warps=1)
    def producer(self):
        for _ in self.loop():
            yield self.q_full.arrive()
            for _ in range((yield self.choose("blocks", 1, 2))):
                yield self.k_full[0].arrive()

    @role(warps=1)
    def consumer(self):
        q, k = PipelineState.start(1), PipelineState.start(2)
        for _ in self.loop():
            yield self.q_full[q].wait(q.phase)
            q += 1
            for _ in range((yield self.choose("blocks", 1, 2))):
                yield self.k_full[k].wait(k.phase)  # the line
                k += 1


class TwoRings(Pipeline):
    """Right: a ring that goes 1 or 2 steps for each step of another one."""

    q_full = barrier(arrivals=1, slots=1)
    q_empty = barrier(arrivals=1, slots=1)
    k_full = barrier(arrivals=1, slots=2)
    k_empty = barrier(arrivals=1, slots=2)

    @role(warps=1)
    def producer(self):
        q, k = PipelineState.start(1, producer=True), PipelineState.start(2, producer=True)
        for _ in self.loop():
            yield self.q_empty[q].wait(q.phase)
            yield self.q_full[q].arrive()
            q += 1
            for _ in range((yield self.choose("blocks", 1, 2))):
                yield self.k_empty[k].wait(k.phase)
                yield self.k_full[k].arrive()
                k += 1

    @role(warps=1)
    def consumer(self):
        q, k = PipelineState.start(1), PipelineState.start(2)
        for _ in self.loop():
            yield self.q_full[q].wait(q.phase)
            yield self.q_empty[q].arrive()
            q += 1
            for _ in range((yield self.choose("blocks", 1, 2))):
                yield self.k_full[k].wait(k.phase)
                yield self.k_empty[k].arrive()
                k += 1


class NobodyArrives(Pipeline):
    """Wrong: waits alone, of one ring that goes a step further now and then."""

    k_full = barrier(arrivals=1, slots=2)

    @role(warps=1)
    def consumer(self):
        k = PipelineState.start(2)
        for _ in self.loop():
            if (yield self.choose("two", True, False)):
                yield self.k_full[k].wait(k.phase)  # the line
                k += 1
            yield self.k_full[k].wait(k.phase)  # the line
            k += 1


class TooManyBytesForAMoment(Pipeline):
    """Wrong: if r1 comes between, the tx-count reaches 2^20."""

    full = barrier(arrivals=2)

    @role(warps=1)
    def r0(self):
        yield self.full.expect_tx((1 << 20) - 16)  # the line
        yield self.full.complete_tx(16)

    @role(warps=1)
    def r1(self):
        yield self.full.expect_tx(16)  # the line
        yield self.full.arrive()


class ChosenByValue(Pipeline):
    """Wrong: whenever the tile is "b" c waits for an arrival that p makes only for "a"."""

    full = barrier(arrivals=1)

    @role(warps=1)
    def p(self):
        if (yield self.choose("tile", "a", "b")) == "a":
            yield self.full.arrive()

    @role(warps=1)
    def c(self):
        if (yield self.choose("tile", "b", "a")) == "b":
            yield self.full.wait(0)  # the line


class BytesThatNeverCome(Pipeline):
    """Wrong: 64 bytes are expected, nothing delivers them, and nobody waits. copies: somewhere else there is a copy."""

    copies = False
    full = barrier(arrivals=1)
    other = barrier(arrivals=1)
    a = tile(bytes=64)

    @role(warps=1)
    def r(self):
        yield self.full.arrive_expect_tx(64)  # the line
        if self.copies:
            yield self.other.arrive_expect_tx(64)
            yield self.a.load(signals=self.other)
            yield self.other.wait(0)
