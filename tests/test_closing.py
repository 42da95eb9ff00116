"""Loops that no head of the language's own closes: they are closed where the role has yielded, by all that its stack
shows, and by nothing less.
"""

from __future__ import annotations

from itertools import cycle, islice, repeat

import pytest

from sm90_verify import check
from sm90_verify.result import PROVED, VIOLATED
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.stack import stack_of
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.language.walk import trace


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


# ---------------------------------------------------------------- what is on no variable


class Hidden(Pipeline):
    """The consumer gives up to release in the `late`-th iteration, which only what it goes through tells."""

    late = 40
    what = "cycle"
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
        for more in WHATS[self.what](self.late):
            while not (yield self.full[at].try_wait(at.phase)):
                pass
            if more:
                yield self.empty[at].arrive()
            at += 1


def counting(late):
    """A generator of its own, whose variable only it sees."""
    n = 0
    while n < late:
        n += 1
        yield n < late


WHATS = {
    "cycle": lambda late: cycle([1] * late + [0]),
    "islice": lambda late: islice(repeat(1), late),
    "map": lambda late: map(late.__gt__, range(10**9)),
    "range": lambda late: range(1, late),
    "reversed": lambda late: reversed(range(late)),
    "list": lambda late: [1] * late + [0],
    "reversed list": lambda late: reversed([0] + [1] * late),
    "text": lambda late: "x" * late,
    "tuple": lambda late: (1,) * late + (0,),
    "enumerate": lambda late: (k for k, _ in enumerate([1] * late, -late)),
    "zip": lambda late: (k for k, _ in zip(reversed(range(late)), range(late), strict=True)),
    "a generator": counting,
    "dict": lambda late: dict.fromkeys(range(late, -1, -1)),
}


@pytest.mark.parametrize("what", WHATS)
def test_what_a_for_goes_through_is_not_forgotten(what, monkeypatch):
    """Refused, or right: it stops to release after 40 iterations, or ends, and the producer waits for ever."""
    monkeypatch.setattr("sm90_verify.spec.language.role_walk.MAX_LOCATIONS", 400)
    monkeypatch.setattr("sm90_verify.spec.language.role_walk.MAX_STEPS", 20_000)
    try:
        result = check(Hidden(what=what), limit=100_000)
    except SpecError as error:
        assert "still running" in error.what or "branches on and on" in error.what or "cannot be closed" in error.what
        assert "goes through a" in error.what
    else:
        assert result.verdict == VIOLATED


@pytest.mark.parametrize("what", ["range", "list", "reversed list", "tuple", "text", "enumerate", "zip", "a generator"])
def test_what_a_for_goes_through_is_read(what):
    assert check(Hidden(what=what)).verdict == VIOLATED


class Operand(Pipeline):
    """What was chosen first is an operand of the sum that the poll is a part of."""

    full = barrier(arrivals=1, slots=2)

    @role(warps=1)
    def producer(self):
        yield self.full[0].arrive()

    @role(warps=1)
    def consumer(self):
        at = (yield self.choose("slot", 0, 1)) + (yield from self.polled())
        yield self.full[at].wait(0)

    def polled(self):
        while not (yield self.full[0].try_wait(0)):
            pass
        return 0


def test_an_operand_of_an_expression_is_not_forgotten():
    assert check(Operand()).verdict == VIOLATED


class Caught(Pipeline):
    """Which exception is being handled is in no variable either."""

    full = barrier(arrivals=1)

    @role(warps=1)
    def consumer(self):
        try:
            raise KeyError if (yield self.choose("wrong", True, False)) else IndexError
        except LookupError:
            yield from self.polled()
            try:
                raise
            except KeyError:
                yield self.full.wait(1)
            except IndexError:
                pass
        yield self.full.wait(0)

    @role(warps=1)
    def producer(self):
        yield self.full.arrive()

    def polled(self):
        while not (yield self.full.try_wait(0)):
            pass


def test_an_exception_that_is_handled_is_not_forgotten(monkeypatch):
    monkeypatch.setattr("sm90_verify.spec.language.role_walk.MAX_STEPS", 2_000)
    try:
        assert check(Caught()).verdict == VIOLATED
    except SpecError as error:
        assert "branches on and on" in error.what


def cells():
    shared = 0

    def more():
        nonlocal shared
        shared += 1
        return shared

    def seen():
        return shared

    return more, seen


class Cells(Pipeline):
    """Two functions of one closure are not two functions of two that are equal."""

    full = barrier(arrivals=1, slots=2)

    @role(warps=1)
    def producer(self):
        yield self.full[0].arrive()

    @role(warps=1)
    def consumer(self):
        more, seen = cells()
        if (yield self.choose("of its own", True, False)):
            _, seen = cells()
        while not (yield self.full[0].try_wait(0)):
            pass
        more()
        yield self.full[seen()].wait(0)


def test_one_closure_of_two_functions_is_not_two():
    assert check(Cells()).verdict == VIOLATED


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


# ---------------------------------------------------------------- what the stack shows


def running(items):
    for _ in items:
        print((yield), end="")


def test_the_stack_shows_what_a_for_goes_through_and_operands():
    generator = running([1, 2])
    next(generator)
    shown = stack_of(generator)
    assert [type(one).__name__ for one in shown][-2:] == ["list_iterator", "builtin_function_or_method"]
    assert shown[0] == [1, 2]


def test_a_generator_that_runs_or_is_over_shows_nothing():
    def asks():
        yield stack_of(own)

    own = asks()
    assert next(own) is None
    own.close()
    assert stack_of(own) is None


def test_another_python_goes_on_as_before(monkeypatch):
    monkeypatch.setattr("sm90_verify.spec.language.stack.READABLE", ())
    monkeypatch.setattr("sm90_verify.spec.language.role_walk.MAX_STEPS", 2_000)
    with pytest.raises(SpecError, match=r"branches on and on.*self\.forever.*cannot be read by this version of Python"):
        check(Poll())
