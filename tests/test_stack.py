"""What is on no variable of a role where it has yielded is part of what its loops close over."""

from __future__ import annotations

from itertools import cycle, islice, repeat

import pytest
from test_closing import Poll

from sm90_verify import check
from sm90_verify.result import VIOLATED
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.stack import stack_of
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.language.walk import trace


def size(pipeline, number=0):
    return len(trace(pipeline).programs[number].nodes)


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
    monkeypatch.setattr("sm90_verify.spec.language.course.MAX_STEPS", 20_000)
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
    monkeypatch.setattr("sm90_verify.spec.language.course.MAX_STEPS", 2_000)
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
    monkeypatch.setattr("sm90_verify.spec.language.course.MAX_STEPS", 2_000)
    with pytest.raises(SpecError, match=r"branches on and on.*self\.forever.*cannot be read by this version of Python"):
        check(Poll())
