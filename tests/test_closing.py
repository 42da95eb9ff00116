"""Loops that no head of the language's own closes: they are closed where the role has yielded, by all that its stack
shows, and by nothing less.
"""

from __future__ import annotations

import pytest

from sm90_verify import check
from sm90_verify.result import PROVED, VIOLATED
from sm90_verify.spec.language.declarations import barrier, role
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.ptx import operations as op


def size(pipeline, number=0):
    return len(trace(pipeline).programs[number].nodes)


# ---------------------------------------------------------------- polling


class Poll(Pipeline):
    """A consumer that waits in a way of its own for what a producer arrives at, if it does."""

    how = "while not"
    arrives = True
    full = barrier(arrivals=1)

    @role(warps=1)
    def consumer(self):
        yield from getattr(self, "by_" + self.how.replace(" ", "_"))()

    @role(warps=1)
    def producer(self):
        if self.arrives:
            yield self.full.arrive()

    def by_while_not(self):
        while not (yield self.full.try_wait(0)):
            pass

    def by_while_true(self):
        while True:
            if (yield self.full.test_wait(0)):
                break

    def by_a_variable(self):
        done = False
        while not done:
            done = yield self.full.try_wait(0)

    def by_a_call(self):
        while not (yield from self.asked()):
            pass

    def asked(self):
        return (yield self.full.try_wait(0))

    def by_recursion(self):
        if not (yield self.full.test_wait(0)):
            yield from self.by_while_not()


WAYS = ("while not", "while true", "a variable", "a call", "recursion")


@pytest.mark.parametrize("how", WAYS)
@pytest.mark.parametrize("reduced", [True, False])
def test_a_polling_loop_is_a_wait(how, reduced):
    assert check(Poll(how=how), reduced=reduced).verdict == PROVED
    result = check(Poll(how=how, arrives=False), reduced=reduced)
    assert result.trace is not None and result.trace.property == "deadlock"
    assert size(Poll(how=how)) <= 6


class Ring(Pipeline):
    """A ring whose waits are polls, between a producer and a consumer that go on for ever."""

    stages = 2
    releases = True
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)

    @role(warps=1)
    def producer(self):
        at = PipelineState.start(self.stages, producer=True)
        while True:
            while not (yield self.empty[at].try_wait(at.phase)):
                pass
            yield self.full[at].arrive()
            at += 1

    @role(warps=1)
    def consumer(self):
        at = PipelineState.start(self.stages)
        while True:
            while not (yield self.full[at].try_wait(at.phase)):
                pass
            if self.releases or at.index:
                yield self.empty[at].arrive()
            at += 1


@pytest.mark.parametrize("stages", [1, 2, 3])
def test_a_ring_of_polls_is_as_long_as_two_laps_of_it_and_a_first_one(stages):
    assert size(Ring(stages=stages), 1) <= 3 * 2 * 3 * stages
    assert check(Ring(stages=stages)).verdict == PROVED
    assert check(Ring(stages=stages, releases=False)).verdict == VIOLATED


# ---------------------------------------------------------------- the numbers of states


class Numbered(Pipeline):
    """The consumer stops to release in the 40th iteration, which it sees in the number of its state."""

    asks = "number"
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)

    @role(warps=1)
    def producer(self):
        at = PipelineState.start(self.stages, producer=True)
        for _ in self.forever():
            yield self.empty[at].wait(at.phase)
            yield self.full[at].arrive()
            at += 1

    @role(warps=1)
    def consumer(self):
        at = PipelineState.start(self.stages)
        end = at + 40
        for _ in self.forever():
            yield self.full[at].wait(at.phase)
            if self.is_over(at, end):
                break
            yield self.empty[at].arrive()
            at += 1

    def is_over(self, at, end):
        match self.asks:
            case "number":
                return at.number == 40
            case "lap":
                return at.lap == 40
            case "lap of the phase":
                return at.phase.lap == 40
            case "other":
                return at == end
            case "hash":
                return hash(at) == hash(end)


@pytest.mark.parametrize("asks", ["number", "lap", "lap of the phase", "other", "hash"])
def test_the_number_of_a_state_is_not_forgotten_where_a_role_asks_for_it(asks):
    assert check(Numbered(asks=asks)).verdict == VIOLATED


# ---------------------------------------------------------------- rings at different paces


class Rings(Pipeline):
    """Two rings, of which the second goes some steps for each of the first."""

    stages = 2
    most = 2
    releases = True
    q_full = barrier(arrivals=1, slots=1)
    q_empty = barrier(arrivals=1, slots=1)
    k_full = barrier(arrivals=1)
    k_empty = barrier(arrivals=1)

    @role(warps=1)
    def producer(self):
        q, k = PipelineState.start(1, producer=True), PipelineState.start(self.stages, producer=True)
        for _ in self.loop():
            yield self.q_empty[q].wait(q.phase)
            yield self.q_full[q].arrive()
            q += 1
            for _ in range((yield self.choose("blocks", *range(1, self.most + 1)))):
                yield self.k_empty[k].wait(k.phase)
                yield self.k_full[k].arrive()
                k += 1

    @role(warps=1)
    def consumer(self):
        q, k = PipelineState.start(1), PipelineState.start(self.stages)
        for _ in self.loop():
            yield self.q_full[q].wait(q.phase)
            blocks = yield self.choose("blocks", *range(1, self.most + 1))
            for number in range(blocks):
                yield self.k_full[k].wait(k.phase)
                if self.releases or number < 2:
                    yield self.k_empty[k].arrive()
                k += 1
            yield self.q_empty[q].arrive()
            q += 1


@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("most", [2, 3])
def test_independent_rings_give_the_product_of_their_periods(stages, most):
    """Two parities of the first ring, two laps of the second, and an iteration for each number of steps; and as much
    again for the laps before everything recurs.
    """
    iteration = 4 + 2 * sum(range(1, most + 1))
    assert size(Rings(stages=stages, most=most)) <= 2 * (2 * stages * 2 * iteration)
    assert check(Rings(stages=stages, most=most)).verdict == PROVED


@pytest.mark.parametrize("reduced", [True, False])
def test_a_release_that_is_forgotten_in_the_third_step_is_found(reduced):
    assert check(Rings(most=2, releases=False), reduced=reduced).verdict == PROVED
    result = check(Rings(most=3, releases=False), reduced=reduced)
    assert result.trace is not None and result.trace.property == "deadlock"


class Sign(Pipeline):
    """A role that does something in every other iteration, by what is equal and not the same."""

    b = barrier(arrivals=1, slots=1)

    @role(warps=1)
    def one(self):
        value = 0.0
        for _ in self.loop():
            yield self.b.arrive() if str(value) == "0.0" else self.warp_sync()
            value = -value


def test_the_two_zeros_are_told_apart():
    (program,) = trace(Sign()).programs
    assert [type(node.operation) for node in program.nodes].count(op.WarpSync) == 1


def test_a_test_whose_answer_nobody_uses_makes_no_long_program():
    """A state that is waited for now and then, as no wait is sure, is followed for few phases."""
    steps = 0

    def tick(*_: object) -> None:
        nonlocal steps
        steps += 1

    class Ignores(Pipeline):
        stages = 2
        full = barrier(arrivals=1)

        @role(warps=1)
        def consumer(self, at):
            yield self.full[at].try_wait(at.phase)

    trace(Ignores(), tick)
    assert steps < 2_000
