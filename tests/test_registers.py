"""setmaxnreg: what a request takes from the pool or gives to it, which requests are wrong, and who is never granted."""

from __future__ import annotations

import pytest

from sm90_verify import Pipeline, check, role
from sm90_verify.spec.ptx.expr import FALSE, TRUE, Field, evaluate
from sm90_verify.spec.ptx.operations import Setmaxnreg
from sm90_verify.spec.ptx.registers import never_granted, register_way

FREE = Field("free", 17)


def left(before, registers, kind, free):
    """What is left in the pool, and whether the request is granted and right."""
    way = register_way(FREE, before, 128, Setmaxnreg(registers, kind))
    ((name, after),) = way.updates
    assert name == "free"
    return evaluate(after, {"free": free}), bool(evaluate(way.guard, {"free": free})), not way.illegal


@pytest.mark.parametrize(
    ("before", "registers", "kind", "free", "expected"),
    [
        (168, 40, "dec", 0, (128 * 128, True, True)),
        (40, 40, "dec", 0, (0, True, True)),
        (40, 40, "inc", 0, (0, True, True)),
        (168, 232, "inc", 64 * 128, (0, True, True)),
        (168, 232, "inc", 64 * 128 + 1, (1, True, True)),
        (168, 24, "dec", 0, (144 * 128, True, True)),
        (248, 256, "inc", 8 * 128, (0, True, True)),
        (168, 16, "dec", 0, (152 * 128, True, False)),
        (168, 41, "dec", 0, (127 * 128, True, False)),
        (168, 264, "inc", 96 * 128, (0, True, False)),
        (168, 176, "dec", 8 * 128, (0, True, False)),
        (168, 160, "inc", 0, (8 * 128, True, False)),
    ],
)
def test_what_a_request_does(before, registers, kind, free, expected):
    assert left(before, registers, kind, free) == expected


def test_a_request_waits_until_the_pool_has_enough():
    assert not left(168, 232, "inc", 64 * 128 - 1)[1]


def test_who_is_never_granted():
    assert never_granted("math", FREE, 0, TRUE) == []
    (illegal,) = never_granted("math", FREE, 8, TRUE)
    assert [evaluate(illegal.when, {"free": free}) for free in (0, 7, 8, 9)] == [1, 1, 0, 0]
    (later,) = never_granted("math", FREE, 8, FALSE)
    assert evaluate(later.when, {"free": 0}) == 0


class OddRequest(Pipeline):
    """A role asks for a number that is no multiple of 8, which it can have once the other one has given some back."""

    @role(threads=128)
    def asks(self):
        yield self.setmaxnreg_inc(233)

    @role(threads=128)
    def gives(self):
        yield self.setmaxnreg_dec(40)


@pytest.mark.parametrize("engine", ["order", "search"])
def test_a_wrong_number_is_shown_where_it_can_be_granted(engine):
    result = check(OddRequest(), engine=engine)
    assert result.trace is not None and result.trace.property == "register-pool"
    assert [step.role for step in result.trace.steps] == ["gives", "asks"]
