"""Loops that cannot be followed: each gives one line, with its line and how to fix it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import count

import pytest
from mistakes import Ring, told_in_one_line

from sm90_verify.python_file import load_classes
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import role
from sm90_verify.spec.language.state import PipelineState
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel


def iteration_as_a_number():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            for k in self.loop():
                yield self.full[k].wait(0)  # mistake

    compile_kernel(trace(Wrong()))


def iteration_modulo_what_does_not_divide_its_period():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            for k in self.loop():
                yield self.full[k % 3 % 2].wait(0)  # mistake

    compile_kernel(trace(Wrong()))


def second_loop_over_one_trip_count():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            for _ in self.loop():
                yield self.full[0].wait(0)
            for _ in self.loop():  # mistake
                yield self.full[1].wait(0)

    compile_kernel(trace(Wrong()))


def trip_count_inside_a_loop_without_end():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            for _ in self.forever():
                for _ in self.loop():  # mistake
                    yield self.full[0].wait(0)

    compile_kernel(trace(Wrong()))


def dictionary_that_cannot_be_closed_over():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            seen = {object(): 1}
            for _ in self.loop():  # mistake
                yield self.full[len(seen)].wait(0)

    compile_kernel(trace(Wrong()))


def loops_without_yielding():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            sum(0 for _ in count())  # mistake
            yield self.full[0].wait(0)

    compile_kernel(trace(Wrong()))


def empty_iteration():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            yield self.full[0].wait(0)
            for k in self.forever():  # mistake
                if k % 2 == 2:
                    yield self.empty[0].arrive()

    compile_kernel(trace(Wrong()))


def endless_loop_without_loop():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            at = PipelineState.start(self.stages)
            while True:
                yield self.full[at].wait(at.phase)  # mistake
                at += 1

    compile_kernel(trace(Wrong()))


def variable_that_cannot_be_closed_over():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            numbers = iter(range(1000))
            for _ in self.loop():  # mistake
                yield self.full[next(numbers) % 2].wait(0)

    compile_kernel(trace(Wrong()))


def counter_that_never_recurs():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            at, n = PipelineState.start(self.stages), 0
            for _ in self.loop():  # mistake
                yield self.full[at].wait(at.phase)
                if n != 40:
                    yield self.empty[at].arrive()
                at, n = at + 1, n + 1

    compile_kernel(trace(Wrong()))


def counter_in_a_closure():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            def counter():
                nonlocal n
                n += 1
                return n

            n, step = 0, counter
            for _ in self.forever():  # mistake
                yield self.full[0].wait(0) if step() % 2 else self.empty[0].arrive()

    compile_kernel(trace(Wrong()))


MISTAKES: tuple[tuple[Callable[[], None], str], ...] = (
    (iteration_as_a_number, "reduce it first, for example k % stages"),
    (iteration_modulo_what_does_not_divide_its_period, "self.loop(period=...)"),
    (second_loop_over_one_trip_count, "self.loop(name=...)"),
    (trip_count_inside_a_loop_without_end, "self.loop(name=...)"),
    (dictionary_that_cannot_be_closed_over, "'seen'"),
    (loops_without_yielding, "yield an operation in the loop"),
    (empty_iteration, "yield one in each iteration"),
    (endless_loop_without_loop, "write `for _ in self.loop():`"),
    (variable_that_cannot_be_closed_over, "'numbers'"),
    (counter_that_never_recurs, "the value of 'n' never recurs; use the number that self.loop() gives"),
    (counter_in_a_closure, "count modulo what matters"),
)


@pytest.mark.parametrize(("mistake", "hint"), MISTAKES, ids=lambda value: getattr(value, "__name__", ""))
def test_mistake_is_told_in_one_line(mistake: Callable[[], None], hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sm90_verify.spec.language.role_walk.MAX_LOCATIONS", 1000)
    monkeypatch.setattr("sm90_verify.spec.language.turns.MAX_TURNS", 200)
    told_in_one_line(mistake, hint)


ENDLESS = """
from itertools import count
from sm90_verify import Pipeline, barrier, role
class Wrong(Pipeline):
    full = barrier()
    @role(warps=1)
    def consumer(self):
        yield self.full[0].wait(0)
        {}
    def spin(self):
        while True: ...
"""


@pytest.mark.parametrize(
    ("endless", "line"),
    [
        ("while True: pass", 9),
        ("while True: continue", 9),
        ("for _ in count(): pass", 9),
        ("[n for n in count() if n < 0]", 9),
        ("any(n < 0 for n in count())", 9),
        ("self.spin()", 11),
    ],
)
def test_a_loop_on_one_line_is_told(endless, line, tmp_path):
    path = tmp_path / "wrong.py"
    path.write_text(ENDLESS.format(endless))
    with pytest.raises(SpecError, match=rf"wrong\.py:{line}: the role runs on and on without yielding"):
        trace(load_classes(str(path))[0]())


def test_functions_that_hold_nothing_that_changes_close_a_loop():
    class Right(Ring):
        @role(warps=1)
        def consumer(self):
            def even(k):
                return k == 0 or not odd(k - 1)

            def odd(k):
                return k != 0 and not even(k - 1)

            def release(at):
                return self.empty[at].arrive()

            at, bit, least, early = PipelineState.start(self.stages), partial(pow, 1), min, lambda: later
            for _ in self.loop():
                yield self.full[at].wait(at.phase)
                if even(least(bit(1), 1) - 1):
                    yield release(at)
                at += 1
            later = early

    assert len(trace(Right()).programs[-1].nodes) < 100


def test_a_loop_whose_number_has_a_long_period_comes_back_late(monkeypatch: pytest.MonkeyPatch) -> None:
    class Right(Ring):
        @role(warps=1)
        def consumer(self):
            for k in self.loop(period=16):
                yield self.full[0].wait(0)
                if k % 16 == 15:
                    yield self.empty[0].arrive()

    monkeypatch.setattr("sm90_verify.spec.language.turns.MAX_TURNS", 8)
    assert any(node.operation == Right().empty[0].arrive() for node in trace(Right()).programs[-1].nodes)
