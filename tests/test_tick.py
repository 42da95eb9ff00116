"""Whoever asks for a kernel or a Machine is told again and again how far the work is, and can end it."""

from __future__ import annotations

from collections import Counter

import pytest
from rings import Filled

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import role
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.annotate import annotate
from sm90_verify.spec.model.compile import compile_kernel


class Enough(Exception):
    pass


class Guarded(Filled):
    """Its consumer catches whatever is raised in it."""

    @role(warps=4)
    def consumer(self, at):
        try:
            yield self.full[at].wait(at.phase)
            yield self.a[at].read()
            yield self.empty[at].arrive()
        except BaseException:
            yield self.empty[at].arrive()


class Heard:
    """Keeps what it is told, and has enough after so many times."""

    def __init__(self, most=10**9):
        self.most, self.told = most, []

    def __call__(self, *told):
        self.told.append(told)
        if len(self.told) == self.most:
            raise Enough


def test_every_operation_of_a_role_is_told_with_its_line():
    heard = Heard()
    kernel = trace(Guarded(), heard)
    for program in kernel.programs:
        traced = [one for one in heard.told if one[:2] == ("tracing", program.name)]
        assert [done for _, _, done, _ in traced] == list(range(1, len(traced) + 1))
        operations = [node for node in program.nodes if node.operation is not None]
        assert len(traced) >= len(operations)
        assert {node.source for node in operations} <= {where for *_, where in traced}
        followed = [one for one in heard.told if one[:2] == ("following", program.name)]
        assert [done for _, _, done, _ in followed] == list(range(1, len(program.nodes) + 1))


def test_every_location_is_told_when_it_is_compiled():
    kernel, heard = trace(Guarded()), Heard()
    machine = compile_kernel(kernel, heard)
    assert [one.name for one in machine.actions] == [one.name for one in compile_kernel(kernel).actions]
    told = Counter(role for _, role, _, _ in heard.told)
    assert told == {program.name: len(program.nodes) for program in kernel.programs}
    assert {what for what, *_ in heard.told} == {"compiling"}


@pytest.mark.parametrize("most", [1, 2, 5, 12, 30])
def test_what_a_tick_raises_ends_the_work_whatever_a_role_catches(most):
    pipeline, heard = Guarded(), Heard(most)
    with pytest.raises(Enough):
        trace(pipeline, heard)
    assert len(heard.told) == most
    kernel = trace(pipeline)  # the pipeline is as it was
    assert kernel == trace(Guarded())
    with pytest.raises(Enough):
        compile_kernel(kernel, Heard(most))
    with pytest.raises(Enough):
        annotate(kernel.programs[0], tick=Heard(1))


def test_a_mistake_is_no_end_of_the_work():
    class Mistaken(Filled):
        @role(warps=4)
        def consumer(self, at):
            yield self.full[at].wait(2)

    with pytest.raises(SpecError):
        trace(Mistaken(), Heard())
