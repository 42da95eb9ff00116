"""Mistakes in what a specification declares: each gives one line, with the line of the declaration."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mistakes import Ring, told_in_one_line

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel


def unknown_parameter():
    Ring(stage=3)  # mistake


def negative_trips():
    class Wrong(Ring):
        @role(warps=1)
        def consumer(self):
            for _ in self.loop(-1):  # mistake
                yield self.full[0].wait(0)

    compile_kernel(trace(Wrong()))


def parts_that_do_not_add_up():
    class Wrong(Ring):
        @role(threads=64, split=(1, 31))
        def consumer(self, at):  # mistake
            yield self.full[at].wait(at.phase)

    compile_kernel(trace(Wrong()))


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

    compile_kernel(trace(Wrong()))


def too_many_arrivals():
    class Wrong(Pipeline):
        full = barrier(arrivals=1 << 20)  # mistake

    Wrong()


def tile_without_bytes():
    class Wrong(Pipeline):
        a = tile(bytes=0)  # mistake

    Wrong()


def more_slots_than_fit():
    class Full(Pipeline):
        a = barrier(slots=30_000)  # mistake

        @role(warps=1)
        def reader(self):
            yield self.a[0].wait(0)

    trace(Full())


def fewer_than_no_slots():
    class Wrong(Pipeline):
        a = tile(slots=-1)  # mistake

    Wrong()


def shares_with_nobody():
    class Wrong(Pipeline):
        d = tile(bytes=16, shares="c")  # mistake

    Wrong()


def role_that_is_called_like_a_copy_of_another():
    class Wrong(Pipeline):
        @role(warps=1, copies=2)
        def math(self):
            yield self.mma_commit()

        @role(warps=1, split=(16, 16))
        def math1(self):  # mistake
            yield self.mma_commit()

    compile_kernel(trace(Wrong()))


def parameter_of_another_kind():
    class Wrong(Pipeline):
        strict = "False"  # mistake

    Wrong()


def number_that_is_a_word():
    class Wrong(Pipeline):
        full = barrier()
        stages: int = "three"  # mistake

    Wrong()


def parameter_of_another_kind_than_in_its_base():
    class Base(Pipeline):
        late = True

    class Wrong(Base):
        late = None  # mistake

    Wrong()


def half_an_arrival():
    class Wrong(Pipeline):
        full = barrier(arrivals=1.5)  # mistake

    Wrong()


def function_that_gives_half_an_arrival():
    class Wrong(Pipeline):
        full = barrier(arrivals=lambda self: self.stages / 2)  # mistake

    Wrong()


def count_that_is_a_word():
    class Wrong(Pipeline):
        full = barrier(arrivals="cluster")  # mistake

    Wrong()


def unknown_space():
    class Wrong(Pipeline):
        a = tile(space="foo")  # mistake

    Wrong()


def address_that_is_a_word():
    class Wrong(Pipeline):
        a = tile(address="16")  # mistake

    Wrong()


def shares_with_a_number():
    class Wrong(Pipeline):
        a = tile(shares=3)  # mistake

    Wrong()


def role_without_parentheses():
    class Wrong(Ring):
        @role  # mistake
        def consumer(self, at):
            yield self.full[at].wait(at.phase)

    Wrong()


def role_of_one():
    class Wrong(Ring):
        @role(1)  # mistake
        def consumer(self, at):
            yield self.full[at].wait(at.phase)

    Wrong()


def role_of_half_a_warp():
    class Wrong(Ring):
        @role(warps=0.5)  # mistake
        def consumer(self, at):
            yield self.full[at].wait(at.phase)

    Wrong()


def role_of_one_cta():
    class Wrong(Ring):
        @role(ctas=0)  # mistake
        def consumer(self, at):
            yield self.full[at].wait(at.phase)

    Wrong()


def half_a_copy():
    class Wrong(Ring):
        @role(copies=0.5)
        def consumer(self, at):  # mistake
            yield self.full[at].wait(at.phase)

    trace(Wrong())


MISTAKES: tuple[tuple[Callable[[], None], str], ...] = (
    (unknown_parameter, "no parameter 'stage': it has stages"),
    (negative_trips, "use 0 or more"),
    (parts_that_do_not_add_up, "must add up"),
    (unknown_name_of_a_parameter, "no barrier, tile or parameter 'consumers'"),
    (exception_in_a_declaration, "ZeroDivisionError"),
    (role_that_is_called_like_a_copy_of_another, "two roles are called math1"),
    (no_role, "mark a generator method with @role"),
    (too_many_arrivals, "use 1 to 1048575"),
    (tile_without_bytes, "use 1 or more"),
    (fewer_than_no_slots, "use 0 or more"),
    (more_slots_than_fit, "a has 30000 slots: a CTA's 232448 bytes have room for fewer"),
    (shares_with_nobody, "not declared before it"),
    (parameter_of_another_kind, "parameter 'strict' is True or False, not 'False'"),
    (number_that_is_a_word, "parameter 'stages' is a number, not 'three'"),
    (parameter_of_another_kind_than_in_its_base, "parameter 'late' is True or False, not None"),
    (half_an_arrival, "a count of 1.5: use a number"),
    (function_that_gives_half_an_arrival, "a count of 0.5: use a number"),
    (count_that_is_a_word, "a count of '1x1': use a number"),
    (unknown_space, "use 'shared', 'global', 'registers'"),
    (address_that_is_a_word, "use a number of bytes"),
    (shares_with_a_number, "name a tile that is declared before it"),
    (role_without_parentheses, "write @role(warps=1)"),
    (role_of_one, "write @role(warps=1)"),
    (role_of_half_a_warp, "@role(warps=0.5): use a number"),
    (role_of_one_cta, "@role(ctas=0): use a tuple of numbers"),
    (half_a_copy, "a count of 0.5: use a number"),
)


@pytest.mark.parametrize(("mistake", "hint"), MISTAKES, ids=lambda value: getattr(value, "__name__", ""))
def test_mistake_is_told_in_one_line(mistake: Callable[[], None], hint: str) -> None:
    told_in_one_line(mistake, hint)


@pytest.mark.parametrize("name", ["cluster", "stages", "loop", "layout", "strict", "name", "parameters"])
@pytest.mark.parametrize("what", [barrier(), tile(bytes=64), role(warps=1)(lambda self: (yield))])
def test_what_every_pipeline_needs_is_no_name_for_something_else(name, what):
    with pytest.raises(SpecError, match=f"'{name}' is what every pipeline needs") as error:
        type("Own", (Pipeline,), {name: what})()
    assert error.value.where is not None and error.value.where.file == __file__


def test_a_role_says_once_how_many_threads_it_has():
    with pytest.raises(SpecError, match=r"@role\(threads=32, warps=4\): say it once"):
        role(threads=32, warps=4)
