"""Mistakes with what a role holds in its hands: each gives one line, with its line and how to fix it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mistakes import Ring, told_in_one_line

from sm90_verify.spec.language.declarations import role
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel


def if_on_a_barrier():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            if self.full[at]:  # mistake
                yield self.a[at].read()

    compile_kernel(trace(Wrong()))


def if_on_a_tile():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.full[at].wait(at.phase)
            if self.a[at]:  # mistake
                yield self.a[at].read()

    compile_kernel(trace(Wrong()))


def if_on_an_array():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            if self.full:  # mistake
                yield self.a[at].read()

    compile_kernel(trace(Wrong()))


def if_on_an_operation():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            if self.full[at].try_wait(at.phase):  # mistake
                yield self.a[at].read()

    compile_kernel(trace(Wrong()))


def if_on_a_pipeline_state():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            if at:  # mistake
                yield self.a[at].read()

    compile_kernel(trace(Wrong()))


def unknown_barrier():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.fulll[at].wait(at.phase)  # mistake

    compile_kernel(trace(Wrong()))


def unknown_verb():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.full[at].wait_for(at.phase)  # mistake

    compile_kernel(trace(Wrong()))


def index_out_of_range():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.full[at].wait(at.phase)
            yield self.a[2].read()  # mistake

    compile_kernel(trace(Wrong()))


def no_index():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.full.wait(at.phase)  # mistake

    compile_kernel(trace(Wrong()))


def phase_that_is_no_parity():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            for k in range(4):
                yield self.full[0].wait(k)  # mistake

    compile_kernel(trace(Wrong()))


def too_many_pending_groups():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.a[at].mma()
            yield self.mma_wait(8)  # mistake

    compile_kernel(trace(Wrong()))


def a_choice_of_one():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.choose("work", True)  # mistake

    compile_kernel(trace(Wrong()))


def bytes_not_a_multiple_of_16():
    class Wrong(Ring):
        @role(warps=1)
        def producer(self, at):
            yield self.full[at].arrive_expect_tx(1000)
            yield self.a[at].load(signals=self.full[at], bytes=1000)  # mistake

    compile_kernel(trace(Wrong()))


def negative_arrival():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.empty[at].arrive(-1)  # mistake

    compile_kernel(trace(Wrong()))


def more_bytes_than_a_barrier_counts():
    class Wrong(Ring):
        @role(warps=1)
        def producer(self, at):
            yield self.full[at].arrive_expect_tx(1 << 20)  # mistake

    compile_kernel(trace(Wrong()))


def more_bytes_than_a_barrier_counts_by_all_threads():
    class Wrong(Ring):
        @role(warps=1)
        def producer(self, at):
            yield self.full[at].arrive_expect_tx(1 << 19, count=32)  # mistake

    compile_kernel(trace(Wrong()))


def more_threads_than_a_cta_has():
    class Wrong(Ring):
        @role(warps=1)
        def producer(self, at):
            yield self.named_sync(1, threads=2048)  # mistake

    compile_kernel(trace(Wrong()))


def wait_with_a_state():
    class Wrong(Ring):
        @role(warps=1)
        def producer(self, at):
            yield self.full[at].wait(at)  # mistake

    compile_kernel(trace(Wrong()))


def signals_all_barriers():
    class Wrong(Ring):
        @role(warps=1)
        def producer(self, at):
            yield self.full[at].arrive_expect_tx(1024)
            yield self.a[at].load(signals=self.full)  # mistake

    compile_kernel(trace(Wrong()))


def mma_of_all_buffers():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.mma(self.a)  # mistake

    compile_kernel(trace(Wrong()))


def token_of_another_barrier():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            token = yield self.empty[at].arrive()
            yield self.full[at].wait(token)  # mistake

    compile_kernel(trace(Wrong()))


def index_that_is_no_number():
    class Wrong(Ring):
        @role(warps=1)
        def producer(self, at):
            yield self.a["x"].read()  # mistake

    compile_kernel(trace(Wrong()))


def unhashable_tag():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.full[at].wait(at.phase)
            yield self.a[at].write(tag=[1])  # mistake

    compile_kernel(trace(Wrong()))


def yields_a_tile():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.a[at]  # mistake

    trace(Wrong())


def yields_all_barriers():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.full  # mistake

    trace(Wrong())


def yields_a_verb():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.full[at].arrive  # mistake

    trace(Wrong())


def yields_a_list():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield [self.full[at].wait(at.phase)]  # mistake

    trace(Wrong())


def yields_from_an_operation():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield from self.full[at].wait(at.phase)  # mistake

    trace(Wrong())


def pending_groups_as_a_word():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.mma_wait("0")  # mistake

    trace(Wrong())


MISTAKES: tuple[tuple[Callable[[], None], str], ...] = (
    (if_on_a_barrier, "yield full[0].test_wait(phase) gives one"),
    (if_on_a_tile, "a[0] has no truth value"),
    (if_on_an_array, "full has no truth value"),
    (if_on_an_operation, "write `yield` in front of it"),
    (if_on_a_pipeline_state, "use its count, index or phase"),
    (unknown_barrier, "it has stages, full, empty, a"),
    (unknown_verb, "wait_for"),
    (index_out_of_range, "its slots are 0 to 1"),
    (no_index, "full[at].wait"),
    (phase_that_is_no_parity, "write phase & 1"),
    (too_many_pending_groups, "use 0 to 7"),
    (yields_a_tile, "a role yielded a[0], which is no operation: say what is done, for example a[0].read()"),
    (yields_all_barriers, "for example full[at].arrive()"),
    (yields_a_verb, "write arrive(...)"),
    (yields_a_list, "yield each by itself"),
    (yields_from_an_operation, "not `yield from`"),
    (pending_groups_as_a_word, "use 0 to 7"),
    (a_choice_of_one, "needs at least two options"),
    (bytes_not_a_multiple_of_16, "multiple of 16"),
    (negative_arrival, "use a number from 0 to 1048575"),
    (more_bytes_than_a_barrier_counts, "use a number from 0 to 1048575"),
    (more_bytes_than_a_barrier_counts_by_all_threads, "by all threads together"),
    (more_threads_than_a_cta_has, "use a number from 0 to 1024"),
    (wait_with_a_state, "use the phase of a state"),
    (signals_all_barriers, "a bulk copy that signals full: name one barrier"),
    (mma_of_all_buffers, "a is not one buffer: name one"),
    (token_of_another_barrier, "the token of an arrive on empty[0] says nothing about full[0]"),
    (index_that_is_no_number, "index it with a pipeline state or a number"),
    (unhashable_tag, "a tag is"),
)


@pytest.mark.parametrize(("mistake", "hint"), MISTAKES, ids=lambda value: getattr(value, "__name__", ""))
def test_mistake_is_told_in_one_line(mistake: Callable[[], None], hint: str) -> None:
    told_in_one_line(mistake, hint)
