"""Mistakes in what a role yields and keeps as it goes on: each gives one line, with its line and how to fix it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from mistakes import Ring, told_in_one_line

from sm90_verify.spec.language.declarations import role
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel


def role_without_yield():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):  # mistake
            self.full[at].wait(at.phase)

    compile_kernel(trace(Wrong()))


def operation_not_yielded():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.full[at].wait(at.phase)
            self.a[at].read()  # mistake
            yield self.empty[at].arrive()

    compile_kernel(trace(Wrong()))


def last_operation_not_yielded():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            yield self.full[0].wait(0)
            self.empty[0].arrive()  # mistake

    compile_kernel(trace(Wrong()))


def yield_instead_of_yield_from():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.helper(at)  # mistake

    compile_kernel(trace(Wrong()))


def yields_a_number():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield at.index  # mistake

    compile_kernel(trace(Wrong()))


def yields_none():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.full[at].wait(at.phase)
            yield print(end="")  # mistake
            yield self.full[at].wait(at.phase ^ 1)

    compile_kernel(trace(Wrong()))


def bare_yield():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield  # mistake
            yield self.full[at].wait(at.phase)

    compile_kernel(trace(Wrong()))


def counts_in_the_pipeline():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            self._count = 0  # mistake
            for _ in self.loop():
                self._count += 1
                yield self.full[0].wait(self._count // 40)

    compile_kernel(trace(Wrong()))


def state_in_an_object_that_is_called():
    class Counter:
        count = 0

        def __call__(self):
            self.count += 1
            return self.count

    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            step = Counter()
            for _ in self.loop():  # mistake
                yield self.full[0].wait(step() // 40)

    compile_kernel(trace(Wrong()))


def state_in_a_closure():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            step = steps()
            for _ in self.loop():  # mistake
                yield self.full[0].wait(min(1, step() // 40))

    compile_kernel(trace(Wrong()))


def state_in_a_method():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            seen = [].append
            for _ in self.loop():  # mistake
                seen(1)
                yield self.full[0].wait(0)

    compile_kernel(trace(Wrong()))


def state_in_a_default():
    def step(seen=[]):  # noqa: B006
        seen.append(1)
        return len(seen)

    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            held = partial(step)  # mistake
            for _ in self.loop():
                yield self.full[0].wait(min(1, held() // 40000))

    compile_kernel(trace(Wrong()))


def steps():
    """A function that counts its calls."""
    number = 0

    def step():
        nonlocal number
        number += 1
        return number

    return step


def helper_never_run():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.full[at].wait(at.phase)
            yield from [self.helper(at)]  # mistake

    compile_kernel(trace(Wrong()))


def role_without_self():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(me):  # mistake
            yield me.full.wait(0)

    compile_kernel(trace(Wrong()))


def unknown_role_parameter():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, state):  # mistake
            yield self.full[state].wait(state.phase)

    compile_kernel(trace(Wrong()))


def exception_in_a_role():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.full[at].wait(at.phase)
            yield self.a[at].read(tag=[1][at.number])  # mistake

    compile_kernel(trace(Wrong()))


def exception_in_a_helper():
    class Wrong(Ring):
        def divide(self, at):
            yield self.full[at].wait(at.phase)
            yield self.full[1 // 0].wait(0)  # mistake

        @role(warps=1)
        def consumer(self, at):
            yield from self.divide(at)

    compile_kernel(trace(Wrong()))


MISTAKES: tuple[tuple[Callable[[], None], str], ...] = (
    (role_without_yield, "write `yield` in front of each operation"),
    (operation_not_yielded, "put `yield` in front of it"),
    (last_operation_not_yielded, "put `yield` in front of it"),
    (yield_instead_of_yield_from, "write `yield from` in front of it"),
    (yields_a_number, "yield an operation"),
    (yields_none, "a role yielded None"),
    (bare_yield, "a role yielded None"),
    (counts_in_the_pipeline, "a role sets self._count"),
    (state_in_an_object_that_is_called, "'step' holds a Counter"),
    (state_in_a_closure, "write `for _ in self.loop():`"),
    (state_in_a_method, "write `for _ in self.loop():`"),
    (state_in_a_default, "keep it in a local variable"),
    (helper_never_run, "write `yield from` in front of it"),
    (role_without_self, "a role takes `self` first"),
    (unknown_role_parameter, "a role takes `at` and `me`, not state"),
    (exception_in_a_role, "IndexError"),
    (exception_in_a_helper, "ZeroDivisionError"),
)


@pytest.mark.parametrize(("mistake", "hint"), MISTAKES, ids=lambda value: getattr(value, "__name__", ""))
def test_mistake_is_told_in_one_line(mistake: Callable[[], None], hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sm90_verify.spec.language.role_walk.MAX_LOCATIONS", 1000)
    told_in_one_line(mistake, hint)
