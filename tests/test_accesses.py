"""Which accesses an access conflicts with where each role stands, and what wants a fence."""

from __future__ import annotations

import pytest

from sm90_verify.spec.model.accesses import (
    Bystander,
    Flight,
    Spot,
    fence_checks,
    in_locations,
    needing_fence,
    own_checks,
    race_checks,
    stale_check,
)
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.expr import FALSE, TRUE, Field, Lit, evaluate
from sm90_verify.spec.ptx.groups import IDLE
from sm90_verify.spec.ptx.memory import Access, describe

AT = Field("at", 3)
BUSY = Field("busy", 1)
NOWHERE = Spot(IDLE, ())


def access(start=0, stop=16, *, write=False, proxy="generic", space="shared", cta=0):
    return Access("a", space, start, stop, write, proxy, cta)


def touched(*accesses, kind="read", fenced=False):
    held = IDLE.after(op.Touch(kind, accesses, (None,) * len(accesses)))
    return held.after(op.Fence("proxy_async")) if fenced else held


def places(expr):
    """The values of `at` for which a condition holds."""
    return [at for at in range(8) if evaluate(expr, {"at": at})]


@pytest.mark.parametrize(
    "where", [[], [3], [0, 1], [2, 3, 4], [0, 2, 4], [5, 6, 7, 0], [7], [6, 1, 2, 1], list(range(8))]
)
def test_where_a_role_is(where):
    assert places(in_locations(AT, where)) == sorted(set(where))


def conflicts(mine, *spots):
    """Where somebody else stands who conflicts with an access, and what is said of it there."""
    other = Bystander("other", AT, tuple(spots))
    checks = race_checks("me", mine, [other], [])
    assert other.conflict(mine) is other.conflict(mine)
    return [(places(check.when), check.because, [places(where) for where, _ in check.cases]) for check in checks]


def test_a_race_is_with_what_has_started_or_could_start():
    read, write = access(), access(write=True)
    spots = (Spot(touched(read, kind="mma"), ()), Spot(IDLE, (read,)), Spot(touched(read), ()), NOWHERE)
    ((where, because, cases),) = conflicts(write, *spots)
    assert where == [0, 1] and cases == [[0], [1]]
    assert because == f"nothing orders {describe(write)} by me after {describe(read)} by other"
    assert conflicts(read, *spots) == []
    apart = f"nothing orders {describe(write)} by me and {describe(read)} by other, which can start as well"
    assert conflicts(write, spots[1]) == [([0], apart, [])]
    assert conflicts(access(16, 32, write=True), *spots) == []
    assert conflicts(access(cta=1, write=True), *spots) == []
    assert conflicts(access(space="global", write=True), *spots) == []
    assert len(conflicts(access(15, 32, write=True), *spots)) == 1


def test_different_conflicts_are_told_apart_and_what_has_started_comes_first():
    mine, read, write = access(write=True), access(), access(write=True)
    ((where, because, cases),) = conflicts(mine, Spot(IDLE, (write,)), Spot(touched(read, kind="mma"), ()))
    assert where == [0, 1] and cases == [[1], [0]] and describe(read) in because


def test_what_a_relaxed_arrival_has_left_unordered_conflicts():
    held = IDLE._replace(unordered=(access(),))
    assert conflicts(access(write=True), Spot(held, ()))[0][0] == [0]


def test_a_race_with_ones_own_asynchronous_access():
    held = touched(access(), kind="mma")
    (check,) = own_checks("me", access(write=True), held)
    assert check.when is TRUE and check.property == "race" and "of its own" in check.because
    assert own_checks("me", access(), held) == []
    assert own_checks("me", access(write=True), touched(access())) == []


def test_a_race_with_a_copy_in_flight():
    copy = access(write=True, proxy="async")
    flight = Flight(copy, BUSY, "a", "kind")
    (check,) = race_checks("me", access(), [], [flight])
    assert check.when is BUSY and not check.halts and "still writing a" in check.because
    assert race_checks("me", access(16, 32), [], [flight]) == []
    assert [one.halts for one in race_checks("me", copy, [], [flight], "kind")] == [True]
    assert [one.halts for one in race_checks("me", copy, [], [flight], "other kind")] == [False]
    anonymous = Flight(copy, BUSY, "a")
    assert [one.halts for one in race_checks("me", copy, [], [anonymous])] == [False]


def test_a_copy_that_is_never_in_flight_is_no_race():
    for never in (FALSE, Lit(0, 1)):
        assert race_checks("me", access(), [], [Flight(access(write=True), never, "a")]) == []


def fences(mine, held=IDLE, spots=(NOWHERE,), strict=False):
    checks = fence_checks("me", mine, held, [Bystander("other", AT, tuple(spots))], {}, strict=strict)
    return [places(check.when) for check in checks]


def test_an_async_access_wants_a_fence_after_generic_writes():
    mine = access(proxy="async")
    everywhere = list(range(8))
    written, read = touched(access(write=True), kind="write"), touched(access())
    assert fences(mine, written) == [everywhere]
    assert fences(mine, spots=[NOWHERE, Spot(written, ())]) == [[1]]
    assert fences(mine, written, [Spot(written, ())]) == [everywhere, [0]]
    assert fences(mine, touched(access(write=True), kind="write", fenced=True)) == []
    assert fences(mine, read, [Spot(read, ())], strict=True) == []
    assert fences(access(), written) == []
    for space, found in (("global", [everywhere]), ("registers", [])):
        elsewhere = access(write=True, space=space)
        assert fences(access(proxy="async", space=space), touched(elsewhere, kind="write")) == found
    assert fences(access(16, 32, proxy="async"), written, [Spot(written, ())]) == []


def test_a_generic_read_wants_a_fence_before_an_async_write_only_if_asked_for():
    mine = access(write=True, proxy="async")
    read = touched(access())
    assert fences(mine, read, [Spot(read, ())]) == []
    assert fences(mine, read, [Spot(read, ())], strict=True) == [list(range(8)), [0]]


def test_both_strictnesses_are_remembered_apart():
    mine = access(write=True, proxy="async")
    other = Bystander("other", AT, (Spot(touched(access()), ()),))
    assert other.unfenced(mine, False)[1] == ()
    assert len(other.unfenced(mine, True)[1]) == 1


def test_what_is_named_is_what_wants_the_fence():
    held = touched(access(32, 48, write=True), access(write=True), kind="write")
    assert needing_fence(held, access(proxy="async"), False) == [access(write=True)]


def test_data_that_is_not_what_the_reader_expects():
    content = Field("content", 2)
    (check,) = stale_check("me", access(), content == 2, "tag")
    assert [value for value in range(4) if evaluate(check.when, {"content": value})] == [0, 1, 3]
    (check,) = stale_check("me", access(), FALSE, "tag")
    assert evaluate(check.when, {"content": 2})
