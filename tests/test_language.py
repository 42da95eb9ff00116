"""Mistakes in a user's specification: each gives one line, 'file:line: what and how to fix it', with the right line."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from itertools import count

import pytest

from spec.compile import compile_pipeline
from spec.errors import SpecError
from spec.pipeline import Pipeline, barrier, role, tile
from spec.state import PipelineState


class Ring(Pipeline):
    """What most of the mistakes are made in."""

    stages = 2
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=1024)

    def helper(self, at):
        yield self.full[at].wait(at.phase)
        yield self.empty[at].arrive()


def if_on_a_barrier():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            if self.full[at]:  # mistake
                yield self.a[at].read()

    compile_pipeline(Wrong())


def if_on_a_tile():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.full[at].wait(at.phase)
            if self.a[at]:  # mistake
                yield self.a[at].read()

    compile_pipeline(Wrong())


def if_on_an_array():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            if self.full:  # mistake
                yield self.a[at].read()

    compile_pipeline(Wrong())


def if_on_an_operation():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            if self.full[at].try_wait(at.phase):  # mistake
                yield self.a[at].read()

    compile_pipeline(Wrong())


def if_on_a_pipeline_state():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            if at:  # mistake
                yield self.a[at].read()

    compile_pipeline(Wrong())


def unknown_barrier():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.fulll[at].wait(at.phase)  # mistake

    compile_pipeline(Wrong())


def unknown_verb():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.full[at].wait_for(at.phase)  # mistake

    compile_pipeline(Wrong())


def index_out_of_range():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.full[at].wait(at.phase)
            yield self.a[2].read()  # mistake

    compile_pipeline(Wrong())


def no_index():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.full.wait(at.phase)  # mistake

    compile_pipeline(Wrong())


def phase_that_is_no_parity():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            for k in range(4):
                yield self.full[0].wait(k)  # mistake

    compile_pipeline(Wrong())


def iteration_as_a_number():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            for k in self.loop():
                yield self.full[k].wait(0)  # mistake

    compile_pipeline(Wrong())


def iteration_modulo_what_does_not_divide_its_period():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            for k in self.loop():
                yield self.full[k % 3 % 2].wait(0)  # mistake

    compile_pipeline(Wrong())


def too_many_pending_groups():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.a[at].mma()
            yield self.mma_wait(8)  # mistake

    compile_pipeline(Wrong())


def a_choice_of_one():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.choose("work", True)  # mistake

    compile_pipeline(Wrong())


def bytes_not_a_multiple_of_16():
    class Wrong(Ring):
        @role(warps=1)
        def producer(self, at):
            yield self.full[at].arrive_expect_tx(1000)
            yield self.a[at].load(signals=self.full[at], bytes=1000)  # mistake

    compile_pipeline(Wrong())


def negative_arrival():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.empty[at].arrive(-1)  # mistake

    compile_pipeline(Wrong())


def more_bytes_than_a_barrier_counts():
    class Wrong(Ring):
        @role(warps=1)
        def producer(self, at):
            yield self.full[at].arrive_expect_tx(1 << 20)  # mistake

    compile_pipeline(Wrong())


def more_bytes_than_a_barrier_counts_by_all_threads():
    class Wrong(Ring):
        @role(warps=1)
        def producer(self, at):
            yield self.full[at].arrive_expect_tx(1 << 19, count=32)  # mistake

    compile_pipeline(Wrong())


def more_threads_than_a_cta_has():
    class Wrong(Ring):
        @role(warps=1)
        def producer(self, at):
            yield self.named_sync(1, threads=2048)  # mistake

    compile_pipeline(Wrong())


def wait_with_a_state():
    class Wrong(Ring):
        @role(warps=1)
        def producer(self, at):
            yield self.full[at].wait(at)  # mistake

    compile_pipeline(Wrong())


def signals_all_barriers():
    class Wrong(Ring):
        @role(warps=1)
        def producer(self, at):
            yield self.full[at].arrive_expect_tx(1024)
            yield self.a[at].load(signals=self.full)  # mistake

    compile_pipeline(Wrong())


def mma_of_all_buffers():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.mma(self.a)  # mistake

    compile_pipeline(Wrong())


def second_loop_over_one_trip_count():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            for _ in self.loop():
                yield self.full[0].wait(0)
            for _ in self.loop():  # mistake
                yield self.full[1].wait(0)

    compile_pipeline(Wrong())


def trip_count_inside_a_loop_without_end():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            for _ in self.forever():
                for _ in self.loop():  # mistake
                    yield self.full[0].wait(0)

    compile_pipeline(Wrong())


def token_of_another_barrier():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            token = yield self.empty[at].arrive()
            yield self.full[at].wait(token)  # mistake

    compile_pipeline(Wrong())


def dictionary_that_cannot_be_closed_over():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            seen = {object(): 1}
            for _ in self.loop():  # mistake
                yield self.full[len(seen)].wait(0)

    compile_pipeline(Wrong())


def index_that_is_no_number():
    class Wrong(Ring):
        @role(warps=1)
        def producer(self, at):
            yield self.a["x"].read()  # mistake

    compile_pipeline(Wrong())


def role_without_yield():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):  # mistake
            self.full[at].wait(at.phase)

    compile_pipeline(Wrong())


def loops_without_yielding():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            sum(0 for _ in count())  # mistake
            yield self.full[0].wait(0)

    compile_pipeline(Wrong())


def empty_iteration():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            yield self.full[0].wait(0)
            for k in self.forever():  # mistake
                if k % 2 == 2:
                    yield self.empty[0].arrive()

    compile_pipeline(Wrong())


def endless_loop_without_loop():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            at = PipelineState.start(self.stages)
            while True:
                yield self.full[at].wait(at.phase)  # mistake
                at += 1

    compile_pipeline(Wrong())


def operation_not_yielded():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.full[at].wait(at.phase)
            self.a[at].read()  # mistake
            yield self.empty[at].arrive()

    compile_pipeline(Wrong())


def last_operation_not_yielded():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            yield self.full[0].wait(0)
            self.empty[0].arrive()  # mistake

    compile_pipeline(Wrong())


def yield_instead_of_yield_from():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.helper(at)  # mistake

    compile_pipeline(Wrong())


def yields_a_number():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield at.index  # mistake

    compile_pipeline(Wrong())


def helper_never_run():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.full[at].wait(at.phase)
            yield from [self.helper(at)]  # mistake

    compile_pipeline(Wrong())


def unknown_role_parameter():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, state):  # mistake
            yield self.full[state].wait(state.phase)

    compile_pipeline(Wrong())


def variable_that_cannot_be_closed_over():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            numbers = iter(range(1000))
            for _ in self.loop():  # mistake
                yield self.full[next(numbers) % 2].wait(0)

    compile_pipeline(Wrong())


def exception_in_a_role():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.full[at].wait(at.phase)
            yield self.a[at].read(tag=[1][at.number])  # mistake

    compile_pipeline(Wrong())


def exception_in_a_helper():
    class Wrong(Ring):
        def divide(self, at):
            yield self.full[at].wait(at.phase)
            yield self.full[1 // 0].wait(0)  # mistake

        @role(warps=1)
        def consumer(self, at):
            yield from self.divide(at)

    compile_pipeline(Wrong())


def unhashable_tag():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self, at):
            yield self.full[at].wait(at.phase)
            yield self.a[at].write(tag=[1])  # mistake

    compile_pipeline(Wrong())


def unknown_parameter():
    Ring(stage=3)  # mistake


def negative_trips():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            for _ in self.loop(-1):  # mistake
                yield self.full[0].wait(0)

    compile_pipeline(Wrong())


def parts_that_do_not_add_up():
    class Wrong(Ring):
        @role(threads=64, split=(1, 31))
        def consumer(self, at):  # mistake
            yield self.full[at].wait(at.phase)

    compile_pipeline(Wrong())


def unknown_name_of_a_parameter():
    class Wrong(Pipeline):
        full = barrier(arrivals="consumers")  # mistake

    Wrong()


def exception_in_a_declaration():
    class Wrong(Pipeline):
        full = barrier(slots=lambda self: self.stages // 0)  # mistake

    Wrong()


def no_role():
    class Wrong(Pipeline):  # mistake
        full = barrier(arrivals=1)

    compile_pipeline(Wrong())


def too_many_arrivals():
    class Wrong(Pipeline):
        full = barrier(arrivals=1 << 20)  # mistake

    Wrong()


def tile_without_bytes():
    class Wrong(Pipeline):
        a = tile(bytes=0)  # mistake

    Wrong()


def fewer_than_no_slots():
    class Wrong(Pipeline):
        a = tile(slots=-1)  # mistake

    Wrong()


def shares_with_nobody():
    class Wrong(Pipeline):
        d = tile(bytes=16, shares="c")  # mistake

    Wrong()


MISTAKES: tuple[tuple[Callable[[], None], str], ...] = (
    (if_on_a_barrier, "yield full[0].test_wait(phase) gives one"),
    (if_on_a_tile, "a[0] has no truth value"),
    (if_on_an_array, "full has no truth value"),
    (if_on_an_operation, "write `yield` in front of it"),
    (if_on_a_pipeline_state, "use its count, index or phase"),
    (unknown_barrier, "it has stages, full, empty, a"),
    (unknown_verb, "wait_for"),
    (index_out_of_range, "it has 2 slots, 0 to 1"),
    (no_index, "full[at].wait"),
    (phase_that_is_no_parity, "write phase & 1"),
    (iteration_as_a_number, "reduce it first, for example k % stages"),
    (iteration_modulo_what_does_not_divide_its_period, "self.loop(period=...)"),
    (too_many_pending_groups, "use 0 to 7"),
    (a_choice_of_one, "needs at least two options"),
    (bytes_not_a_multiple_of_16, "multiple of 16"),
    (negative_arrival, "use a number from 0 to 1048575"),
    (more_bytes_than_a_barrier_counts, "use a number from 0 to 1048575"),
    (more_bytes_than_a_barrier_counts_by_all_threads, "by all threads together"),
    (more_threads_than_a_cta_has, "use a number from 0 to 1024"),
    (wait_with_a_state, "use the phase of a state"),
    (signals_all_barriers, "a bulk copy that signals full: name one barrier"),
    (mma_of_all_buffers, "a is not one buffer: name one"),
    (second_loop_over_one_trip_count, "self.loop(name=...)"),
    (trip_count_inside_a_loop_without_end, "self.loop(name=...)"),
    (token_of_another_barrier, "the token of an arrive on empty[0] says nothing about full[0]"),
    (dictionary_that_cannot_be_closed_over, "'seen'"),
    (index_that_is_no_number, "index it with a pipeline state or a number"),
    (role_without_yield, "write `yield` in front of each operation"),
    (loops_without_yielding, "yield an operation in the loop"),
    (empty_iteration, "yield one in each iteration"),
    (endless_loop_without_loop, "write `for _ in self.loop():`"),
    (operation_not_yielded, "put `yield` in front of it"),
    (last_operation_not_yielded, "put `yield` in front of it"),
    (yield_instead_of_yield_from, "write `yield from` in front of it"),
    (yields_a_number, "yield an operation"),
    (helper_never_run, "write `yield from` in front of it"),
    (unknown_role_parameter, "a role takes `at` and `me`, not state"),
    (variable_that_cannot_be_closed_over, "'numbers'"),
    (exception_in_a_role, "IndexError"),
    (exception_in_a_helper, "ZeroDivisionError"),
    (unhashable_tag, "a tag is"),
    (unknown_parameter, "no parameter 'stage': it has stages"),
    (negative_trips, "use 0 or more"),
    (parts_that_do_not_add_up, "must add up"),
    (unknown_name_of_a_parameter, "no barrier, tile or parameter 'consumers'"),
    (exception_in_a_declaration, "ZeroDivisionError"),
    (no_role, "mark a generator method with @role"),
    (too_many_arrivals, "use 1 to 1048575"),
    (tile_without_bytes, "use 1 or more"),
    (fewer_than_no_slots, "use 0 or more"),
    (shares_with_nobody, "not declared before it"),
)


@pytest.mark.parametrize(("mistake", "hint"), MISTAKES, ids=lambda value: getattr(value, "__name__", ""))
def test_mistake_is_told_in_one_line(mistake: Callable[[], None], hint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spec.program.MAX_LOCATIONS", 1000)
    lines, first = inspect.getsourcelines(mistake)
    line = first + next(number for number, text in enumerate(lines) if text.rstrip().endswith("# mistake"))
    with pytest.raises(SpecError) as raised:
        mistake()
    message = str(raised.value)
    assert message.startswith(f"{__file__}:{line}: ")
    assert hint in message
    assert "\n" not in message
