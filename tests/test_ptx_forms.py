"""Values that depend on how many periods of a loop there are: computed rightly for all of them, or not known."""

from __future__ import annotations

import operator
import random

import pytest

from sm90_verify.frontends.ptx.bits import divided, looked_up, remainder
from sm90_verify.frontends.ptx.counted import Counted, Form, NoForm
from sm90_verify.frontends.ptx.launch import InPeriods, OpenValue
from sm90_verify.frontends.ptx.values import OfPeriods, Unknown, lane_by_lane, selected

OPERATORS = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "<<": operator.lshift,
    ">>": operator.rshift,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
    "min": min,
    "max": max,
    "divided": lambda a, b: divided(a, b, 16),
    "remainder": lambda a, b: remainder(a, b, 16),
}
MOST = 5


def values(one) -> list[int]:
    """For every number of periods."""
    if isinstance(one, Form):
        return [one.base + one.rest * m + one.done * j for m in range(MOST + 1) for j in range(MOST + 1 - m)]
    return [one] * ((MOST + 1) * (MOST + 2) // 2)


def some(chance: random.Random, *, form: bool):
    numbers = (0, 1, 2, 3, 4, 6, 7, 8, 12, 15, 16, 24, 31, 32, 64, 96, 255, 256, 0xFFF0, 0xFFFF)
    base = chance.choice(numbers) * chance.choice((1, 1, -1))
    if not form:
        return base
    rest, done = (chance.choice((0, 1, 2, -2, 4, 6, 12, -12, 16, 64)) for _ in range(2))
    return Form(base, rest, done, MOST) if rest or done else base


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_is_right_for_all_numbers_of_periods_or_says_nothing(name):
    chance, known = random.Random(name), 0
    for _ in range(4000):
        first = chance.random() < 0.7
        a, b = some(chance, form=first), some(chance, form=not first or chance.random() < 0.3)
        if not isinstance(a, Form) and not isinstance(b, Form):
            continue
        if name in ("<<", ">>") and (isinstance(b, Form) or not 0 <= b < 20):
            continue
        try:
            found = OPERATORS[name](a, b)
        except (NoForm, TypeError):
            continue
        known += 1
        wanted = [OPERATORS[name](x, y) for x, y in zip(values(a), values(b), strict=True)]
        assert values(found) == wanted, (a, b)
    assert known > 100


@pytest.mark.parametrize(
    "apply", [operator.neg, operator.invert, abs, bool, lambda a: a & 0xFFFF, lambda a: a ^ 0x8000]
)
def test_an_operator_of_one_value_is_right_too(apply):
    chance, known = random.Random(1), 0
    for _ in range(1000):
        a = some(chance, form=True)
        try:
            found = apply(a)
        except NoForm:
            continue
        known += isinstance(a, Form)
        assert values(found) == [apply(one) for one in values(a)], a
    assert known > 50


def test_a_division_by_a_reciprocal_is_known():
    n = Form(128, 12, 12, 1 << 20)
    for text in (lambda r: r * 0xAAAAAAAB >> 34, lambda r: (r * 0xAAAAAAAB >> 32) >> 2):
        found = text(n)
        assert (found.base, found.rest, found.done) == (128 // 6, 2, 2)
    with pytest.raises(NoForm):
        Form(128, 12, 12, 1 << 33) * 0xAAAAAAAB >> 34


def counted(*numbers: int) -> Counted:
    return Counted(Form(*numbers, MOST), 7, "the value of n")


def test_a_register_with_a_form_is_computed_with():
    found = lane_by_lane(lambda a, b: (a + b) & 0xFFFFFFFF, counted(8, 4, 0), 0xFFFFFFFF)
    assert isinstance(found, Counted) and (found.form.base, found.form.rest) == (7, 4)
    assert lane_by_lane(lambda a: a & 3, counted(9, 4, 0)) == 1
    assert lane_by_lane(lambda a: int(a > 8), counted(9, 4, 0)) == 1
    lanes = lane_by_lane(lambda a, b: a + b, counted(8, 4, 0), (1, 2))
    assert isinstance(lanes, tuple) and [one.form.base for one in lanes] == [9, 10]


def test_what_has_no_form_is_not_known():
    for function in (lambda a: int(a > 10), lambda a: a * a, lambda a: a.bit_length(), lambda a: "abc"[a]):
        found = lane_by_lane(function, counted(9, 4, 0))
        assert type(found) is OfPeriods and found.why == "the value of n"
    unknown = Unknown(3, "what global memory holds")
    assert lane_by_lane(lambda a, b: a + b, counted(9, 4, 0), unknown) is unknown
    assert type(lane_by_lane(lambda a, b: a + b, counted(9, 4, 0), OfPeriods(1, "x"))) is OfPeriods
    assert type(selected(counted(0, 1, 0), 1, 2)) is OfPeriods
    assert type(lane_by_lane(lambda a, b: looked_up(a, b, 0, 0xC0), counted(9, 4, 0), 5)) is OfPeriods


def test_bytes_of_a_parameter_around_the_open_value():
    value = OpenValue("n", 8, 4, 64, 10, InPeriods())
    whole = value.within(8, 4, 128)
    wide = value.within(4, 8, (128 << 32) | 5)
    assert isinstance(whole, Counted) and (whole.form.base, whole.form.rest) == (128, 64)
    assert isinstance(wide, Counted) and (wide.form.base, wide.form.rest) == ((128 << 32) | 5, 64 << 32)
    assert type(value.within(8, 2, 128)) is OfPeriods and type(value.within(10, 4, 128)) is OfPeriods
    assert value.overlaps(11, 1) and not value.overlaps(12, 4) and not value.overlaps(4, 4)
