"""Small pipelines in the language, and the same as graphs that are written by hand."""

from __future__ import annotations

from graphs import graph

from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.model.kernel import Program

# ---------------------------------------------------------------- one slot, filled and read with plain parities


class Slot(Pipeline):
    """`first`: the parity with which the consumer begins; 1 passes at once."""

    first = 0
    full = barrier(arrivals=1, slots=1)
    empty = barrier(arrivals=1, slots=1)
    a = tile(bytes=1024, slots=1)

    @role(warps=1)
    def producer(self):
        for _ in self.forever():
            for parity in (1, 0):
                yield self.empty.wait(parity)
                yield self.full.arrive_expect_tx(self.a.bytes)
                yield self.a.load(signals=self.full)

    @role(warps=1)
    def consumer(self):
        for _ in self.forever():
            for parity in (self.first, 1 - self.first):
                yield self.full.wait(parity)
                yield self.a.read()
                yield self.empty.arrive()


def slot_by_hand(first: int = 0) -> list[Program]:
    p = Slot()
    fill = [(p.full.arrive_expect_tx(1024), {}), (p.a.load(signals=p.full), {})]
    again = [fill[0], (p.a.load(signals=p.full), {None: 0})]
    producer = graph("producer", 32, (p.empty.wait(1), {}), *fill, (p.empty.wait(0), {}), *again)
    drain = [(p.a.read(), {}), (p.empty.arrive(), {})]
    waits = p.full.wait(first), p.full.wait(1 - first)
    consumer = graph("consumer", 32, (waits[0], {}), *drain, (waits[1], {}), drain[0], (drain[1][0], {None: 0}))
    return [producer, consumer]


# ---------------------------------------------------------------- wgmma groups that differ by branch


class Diamond(Pipeline):
    """`early`: the buffers are given away before the group is waited for."""

    early = False
    empty = barrier(arrivals=1, slots=1)
    a = tile(bytes=1024, slots=1)
    b = tile(bytes=1024, slots=1)

    @role(warpgroups=1)
    def math(self):
        which = yield self.choose("which", "a", "b")
        yield self.a.mma() if which == "a" else self.b.mma()
        if not self.early:
            yield self.mma_wait(0)
        yield self.empty.arrive()
        yield self.mma_wait(0)

    @role(warps=1)
    def writer(self):
        yield self.empty.wait(0)
        yield self.b.write()


def diamond_by_hand(early: bool = False) -> list[Program]:
    p = Diamond()
    # Without a wait before it, the arrival is reached with either group in flight.
    first, then = (p.empty.arrive(), p.mma_wait(0)) if early else (p.mma_wait(0), p.empty.arrive())
    branches = [(p.choose("which", "a", "b"), {0: 1, 1: 2}), (p.a.mma(), {None: 3}), (p.b.mma(), {})]
    math = graph("math", 128, *branches, (first, {}), (then, {}), (None, {}))
    return [math, graph("writer", 32, (p.empty.wait(0), {}), (p.b.write(), {}), (None, {}))]


# ---------------------------------------------------------------- a bulk store that one path drains


class Stores(Pipeline):
    always = False
    a = tile(bytes=1024, slots=1)

    @role(threads=1)
    def one(self):
        yield self.a.write()
        yield self.fence_proxy_async()
        yield self.a.store()
        yield self.bulk_commit()
        drain = yield self.choose("drain", False, True)
        if drain or self.always:
            yield self.bulk_wait_read(0)
        yield self.a.write()


def stores_by_hand(always: bool = False) -> list[Program]:
    p = Stores()
    rows = [(one, {}) for one in (p.a.write(), p.fence_proxy_async(), p.a.store(), p.bulk_commit())]
    drain = (p.choose("drain", False, True), {0: 5 if always else 6, 1: 5})
    return [graph("one", 1, *rows, drain, (p.bulk_wait_read(0), {}), (p.a.write(), {}), (None, {}))]


# ---------------------------------------------------------------- polls and trip counts


class Polls(Pipeline):
    """`arrivals`: how many the other role makes, of one that the barrier needs for each of two phases."""

    arrivals = 2
    full = barrier(arrivals=1, slots=1)
    back = barrier(arrivals=1, slots=1)

    @role(threads=1)
    def polls(self):
        for parity in (0, 1):
            for _ in self.forever():
                done = yield self.full.try_wait(parity)
                if done:
                    break
            yield self.back.arrive()

    @role(threads=1)
    def arrives(self):
        for number in range(self.arrivals):
            yield self.full.arrive()
            yield self.back.wait(number & 1)


def polls_by_hand(arrivals: int = 2) -> list[Program]:
    p = Polls()
    polls = graph(
        "polls",
        1,
        (p.full.try_wait(0), {True: 1, False: 0}),
        (p.back.arrive(), {}),
        (p.full.try_wait(1), {True: 3, False: 2}),
        (p.back.arrive(), {}),
        (None, {}),
    )
    each = [(one, {}) for number in range(arrivals) for one in (p.full.arrive(), p.back.wait(number & 1))]
    return [polls, graph("arrives", 1, *each, (None, {}))]


class Trips(Pipeline):
    """A loop over the trip count, of two rounds at a time: `short` leaves out the second arrival."""

    short = False
    full = barrier(arrivals=1, slots=1)
    empty = barrier(arrivals=1, slots=1)

    @role(threads=1)
    def producer(self):
        for _ in self.loop():
            yield self.full.arrive()
            yield self.empty.wait(0)
            if not self.short:
                yield self.full.arrive()
            yield self.empty.wait(1)

    @role(threads=1)
    def consumer(self):
        for _ in self.loop():
            for parity in (0, 1):
                yield self.full.wait(parity)
                yield self.empty.arrive()


def trips_by_hand(short: bool = False) -> list[Program]:
    p = Trips()
    again = [] if short else [(p.full.arrive(), {})]
    one = [(p.full.arrive(), {}), (p.empty.wait(0), {}), *again, (p.empty.wait(1), {None: 0})]
    other = [(p.full.wait(0), {}), (p.empty.arrive(), {}), (p.full.wait(1), {}), (p.empty.arrive(), {None: 0})]
    return [
        graph(name, 1, ("trips", {True: 1, False: len(rows) + 1}), *rows, (None, {}))
        for name, rows in (("producer", one), ("consumer", other))
    ]


# ---------------------------------------------------------------- what the others leave out


class Turns(Pipeline):
    """What the others leave out: states, tokens, relaxed arrivals at the cluster's barrier, several bytes at once."""

    stages = 2
    full = barrier(arrivals=2)
    own = barrier(arrivals=1, slots=1)
    a = tile(bytes=1024)

    @role(warps=1)
    def one(self):
        state = PipelineState.start(self.stages) + 3
        for _ in self.loop():
            yield self.full[state].wait(state.phase)
            yield self.full[state].arrive_expect_tx(1024, 2)
            yield self.a[state].load(signals=self.full[state])
            yield self.full[state].expect_tx(16)
            state = state + 1
            yield self.choose("next", "a", "b")
        yield self.a[0].read()
        yield self.cluster_arrive_relaxed()
        yield self.cluster_wait()

    @role(warps=1)
    def other(self):
        for _ in self.forever():
            token = yield self.own.arrive()
            yield self.own.wait(token)
            yield self.own.wait(0)
            yield self.own.try_wait(token)
            yield self.own.wait(1)
