"""Hardware state in numbers: `apply` and its like, against the Steps and against PTX, paragraph by paragraph."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx import mbarrier, numbers
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.expr import Expr, Field, evaluate
from sm90_verify.spec.ptx.limits import COUNT_LIMIT
from sm90_verify.spec.ptx.mbarrier import TX_WIDTH, Mbarrier
from sm90_verify.spec.ptx.numbers import DEAD, WIDTHS, KnownBarrier, apply, signed_tx
from sm90_verify.spec.ptx.signals import CompleteTx, CpAsyncArrive, OnBarrier
from sm90_verify.spec.ptx.step import Step

GHOST_WIDTH = 8
ANY = Mbarrier(**{name: Field(name, width) for name, width in WIDTHS.items()})
UNSEEN, AGE = Field("unseen", GHOST_WIDTH), Field("age", GHOST_WIDTH)

bits = st.integers(0, 1)
arrivals = st.one_of(st.integers(0, 5), st.sampled_from([COUNT_LIMIT - 1, COUNT_LIMIT]))
sizes = st.one_of(st.integers(0, 3), st.sampled_from([16, 2048, COUNT_LIMIT - 1, COUNT_LIMIT, COUNT_LIMIT + 1]))
txs = st.builds(lambda size, sign: size * sign, sizes, st.sampled_from([1, -1]))
barriers = st.builds(KnownBarrier, bits, bits, arrivals, arrivals, txs, bits)
"""Also those that no program can bring about."""
phases = st.integers(0, 20)
far = st.sampled_from([-1, -1, 0, 1])
Meant = tuple[OnBarrier, Callable[[Mbarrier, bool, int], Step], bool]
"""A record; its Step, with `observe` and the distance of a wait; and whether it is for another CTA."""


def meant(name: str, amount: int, cta: int, parity: int) -> Meant:
    """A record and what it means, by the name of the function that says so."""
    remote = cta >= 0
    match name:
        case "init":
            return op.Init("b", amount, remote), lambda b, observe, _: mbarrier.init(b, amount), remote
        case "inval":
            return op.Inval("b", remote), lambda b, observe, _: mbarrier.inval(b), remote
        case "expect_tx":
            return op.Transaction("b", amount, cta), lambda b, observe, _: mbarrier.expect_tx(b, amount), remote
        case "complete_tx" if parity and amount:
            return op.Transaction("b", -amount, cta), lambda b, observe, _: mbarrier.complete_tx(b, amount), remote
        case "complete_tx":
            return CompleteTx(amount, cta), lambda b, observe, _: mbarrier.complete_tx(b, amount), remote
        case "arrive":
            count = min(amount, COUNT_LIMIT)
            step = lambda b, observe, _: mbarrier.arrive(b, count, observe=observe)
            return op.Arrive("b", count, cta=cta), step, remote
        case "arrive_expect_tx":
            step = lambda b, observe, _: mbarrier.arrive_expect_tx(b, amount, 2, observe=observe)
            return op.Arrive("b", 2, amount, cta=cta), step, remote
        case "arrive_no_complete":
            count = min(amount, COUNT_LIMIT)
            step = lambda b, observe, _: mbarrier.arrive_no_complete(b, count, observe=observe)
            return op.Arrive("b", count, kind="no_complete", cta=cta), step, remote
        case "arrive_drop":
            step = lambda b, observe, _: mbarrier.arrive_drop(b, 1 + parity, amount, observe=observe)
            return op.Arrive("b", 1 + parity, amount, "drop", cta), step, remote
        case "cp_async_arrive":
            return CpAsyncArrive(), lambda b, observe, _: mbarrier.cp_async_arrive(b), False
        case "test_wait":
            step = lambda b, observe, distance: mbarrier.wait_parity(b, parity, UNSEEN, distance)
            return op.Wait("b", parity, "test_wait", remote), step, remote
    step = lambda b, observe, _: mbarrier.wait_token(b, AGE)
    return op.Wait("b", op.Token("b"), "wait", remote), step, remote


NAMES = (
    *("init", "inval", "expect_tx", "complete_tx", "arrive", "arrive_expect_tx", "arrive_no_complete", "arrive_drop"),
    *("cp_async_arrive", "test_wait", "wait"),
)
operations = st.builds(lambda name, *rest: (name, *meant(name, *rest)), st.sampled_from(NAMES), sizes, far, bits)


@settings(max_examples=1500, deadline=None)
@given(barriers, operations, st.booleans(), phases, phases, phases)
def test_apply_is_the_value_of_the_step(barrier, operation, observe, unseen, distance, age):
    name, record, step_on, remote = operation
    state = {**barrier.words(), "unseen": unseen, "age": age}
    value: Callable[[Expr], int] = lambda expr: evaluate(expr, state)
    step = step_on(ANY, observe, distance)
    if remote:
        step = mbarrier.remote(name, step)
    applied = apply(barrier, record, observe, unseen, distance, age)
    after = {part: value(step.then.get(part, getattr(ANY, part))) for part in WIDTHS}
    assert applied.runs == value(step.when)
    assert applied.barrier.words() == (after if applied.runs else barrier.words())
    assert applied.completes == value(step.completes)
    assert applied.violates == tuple((part.property, part.because) for part in step.illegal if value(part.when))


def test_every_record_has_been_tried():
    tried = {type(meant(name, 16, -1, parity)[0]) for name in NAMES for parity in (0, 1)}
    assert tried == {*get_args(op.Signal), op.Wait, CompleteTx, CpAsyncArrive}


# ---------------------------------------------------------------- words


@given(barriers)
def test_a_barrier_and_its_words_say_the_same(barrier):
    assert KnownBarrier.of_words({**barrier.words(), "other": 7}) == barrier
    assert {name: evaluate(getattr(barrier.constants(), name), {}) for name in WIDTHS} == barrier.words()
    assert all(getattr(barrier.constants(), name).width == width for name, width in WIDTHS.items())


def test_the_tx_count_is_signed_up_to_the_ends_of_its_word():
    half = 1 << TX_WIDTH - 1
    assert [signed_tx(word) for word in (0, half - 1, half, 2 * half - 1)] == [0, half - 1, -half, -1]
    for tx in (half - 1, -half):
        assert KnownBarrier.of_words(KnownBarrier(1, 0, 1, 1, tx, 1).words()).tx == tx
    for tx in (half, -half - 1):
        with pytest.raises(SpecError, match="a tx-count of"):
            apply(KnownBarrier(1, 0, 1, 1, tx, 1), op.Arrive(""))
    with pytest.raises(SpecError, match="does not fit 20 bits"):
        apply(KnownBarrier.initialised(1), op.Arrive("", COUNT_LIMIT + 1))


def properties(barrier: KnownBarrier, operation: OnBarrier, *rest: int) -> list[str]:
    return [one.property for one in apply(barrier, operation, True, *rest).violates]


@pytest.mark.parametrize("expects", [lambda n: op.Transaction("", n), lambda n: op.Arrive("", 1, n)])
def test_the_tx_count_may_reach_its_limit_and_not_pass_it(expects):
    """9.7.13.15.2: +-(2^20-1) bytes."""
    b = KnownBarrier.initialised(2)._replace(tx=COUNT_LIMIT - 16)
    assert apply(b, expects(16)).barrier.tx == COUNT_LIMIT and properties(b, expects(16)) == []
    assert apply(b, expects(17)).barrier.tx == COUNT_LIMIT + 1 and properties(b, expects(17)) == ["tx-count"]


@pytest.mark.parametrize("completes", [CompleteTx, lambda n: op.Transaction("", -n)])
def test_the_tx_count_may_reach_its_lower_limit_and_not_pass_it(completes):
    b = KnownBarrier.initialised(2)._replace(tx=16 - COUNT_LIMIT)
    assert apply(b, completes(16)).barrier.tx == -COUNT_LIMIT and properties(b, completes(16)) == []
    assert apply(b, completes(17)).barrier.tx == -COUNT_LIMIT - 1 and properties(b, completes(17)) == ["tx-count"]


# ---------------------------------------------------------------- the cache


def test_the_cache_is_bounded_and_used():
    sizes = [numbers.apply, numbers.meet, numbers.meet_cta, numbers.meet_cluster, numbers.change_registers]
    assert all(0 < one.cache_info().maxsize <= 1 << 16 for one in sizes)
    apply(KnownBarrier.initialised(3), op.Arrive("cache", 2))
    hits = apply.cache_info().hits
    apply(KnownBarrier.initialised(3), op.Arrive("cache", 2))
    assert apply.cache_info().hits == hits + 1


def test_the_cache_mixes_no_two_barriers_operations_or_ghosts():
    """Whatever was asked before, in either order, each question has its own answer."""
    base = KnownBarrier(1, 0, 3, 2, 16, 1)
    near = [base, *(base._replace(**{name: getattr(base, name) ^ 1}) for name in WIDTHS), base._replace(tx=-16), DEAD]
    assert len(set(near)) == len(near)
    records: list[OnBarrier] = [
        *(op.Arrive("", 1), op.Arrive("", 2), op.Arrive("", 1, 0), op.Arrive("", 1, 16), op.Arrive("", 1, cta=0)),
        *(op.Arrive("", 1, kind="drop"), op.Arrive("", 1, kind="no_complete"), op.Arrive("", 0)),
        *(op.Transaction("", 16), op.Transaction("", -16), op.Transaction("", 0), CompleteTx(16), CompleteTx(0)),
        *(op.Init("", 1), op.Init("", 2), op.Init("", 1, True), op.Inval(""), op.Inval("", True), CpAsyncArrive()),
        *(op.Wait("", 0), op.Wait("", 1), op.Wait("", 0, remote=True), op.Wait("", op.Token(""))),
    ]
    assert len(set(records)) == len(records)
    ghosts = [(True, 0, 1, 0), (False, 0, 1, 0), (True, 1, 1, 0), (True, 0, 2, 0), (True, 0, 1, 1), (True, 2, 1, 2)]
    questions = [(one, record, *rest) for one in near for record in records for rest in ghosts]
    fresh = [apply.__wrapped__(*question) for question in questions]
    for order in (questions, questions[::-1]):
        apply.cache_clear()
        for question in order:
            apply(*question)
        assert [apply(*question) for question in questions] == fresh


# ---------------------------------------------------------------- PTX, paragraph by paragraph


def test_init_and_inval_begin_and_end_a_barrier():
    """9.7.13.15.9 and .10."""
    assert apply(DEAD, op.Init("", 5)).barrier == KnownBarrier(1, 0, 5, 5, 0, 1) == KnownBarrier.initialised(5)
    assert properties(DEAD, op.Init("", 0)) == properties(DEAD, op.Init("", COUNT_LIMIT + 1)) == ["barrier-init"]
    assert properties(KnownBarrier.initialised(1), op.Init("", 1)) == ["barrier-init"]
    assert not apply(KnownBarrier.initialised(5), op.Inval("")).barrier.alive
    assert properties(DEAD, op.Inval("")) == properties(DEAD, op.Arrive("", 0)) == ["barrier-init"]


def test_a_phase_completes_with_its_last_arrival_and_its_last_byte():
    """9.7.13.15.6: pending 0 and tx 0; then pending is the expected count, in one step."""
    b = apply(KnownBarrier.initialised(2), op.Arrive("", 1, 16)).barrier
    assert b == KnownBarrier(1, 0, 2, 1, 16, 1)
    by_bytes = apply(apply(b, op.Arrive("")).barrier, CompleteTx(16))
    by_arrival = apply(apply(b, CompleteTx(16)).barrier, op.Arrive(""))
    assert by_bytes == by_arrival and by_bytes.completes
    assert by_bytes.barrier == KnownBarrier(1, 1, 2, 2, 0, 0)
    assert by_bytes.barrier.fresh and not b.fresh and not by_bytes.barrier._replace(tx=-1).fresh


def test_expect_tx_completes_nothing():
    """9.7.13.15.11, where PTX leaves open whether it does."""
    b = KnownBarrier(1, 0, 1, 0, -16, 1)
    applied = apply(b, op.Transaction("", 16))
    assert not applied.completes and [one.property for one in applied.violates] == ["tx-count"]


def test_complete_tx_of_no_bytes_is_no_expect_tx_of_none():
    """9.7.13.15.12: only complete_tx is held to the bytes that nobody can expect any more."""
    b = KnownBarrier(1, 0, 1, 0, -16, 1)
    assert properties(b, CompleteTx(0)) == ["tx-count"] and properties(b, op.Transaction("", 0)) == []


def test_arrivals_count_once():
    """9.7.13.15.13: count, expect_tx first, and noComplete, which must not complete."""
    b = KnownBarrier.initialised(2)
    assert properties(b, op.Arrive("", 3)) == ["arrival-count"]
    assert apply(b, op.Arrive("", 2)).completes
    assert not apply(b, op.Arrive("", 2, 16)).completes
    assert properties(b, op.Arrive("", 1, kind="no_complete")) == []
    assert properties(b, op.Arrive("", 2, kind="no_complete")) == ["arrival-count"]


def test_a_drop_lowers_what_later_phases_expect():
    """9.7.13.15.14."""
    assert apply(KnownBarrier.initialised(2), op.Arrive("", 1, kind="drop")).barrier == KnownBarrier(1, 0, 1, 1, 0, 1)
    assert properties(KnownBarrier.initialised(1), op.Arrive("", 1, kind="drop")) == ["arrival-count"]


def test_cp_async_arrive_makes_one_more_arrival_pending():
    """9.7.13.15.15."""
    assert apply(KnownBarrier.initialised(1), CpAsyncArrive()).barrier == KnownBarrier(1, 0, 1, 2, 0, 1)
    assert properties(KnownBarrier.initialised(1)._replace(pending=COUNT_LIMIT), CpAsyncArrive()) == ["arrival-count"]


def test_an_arrival_comes_after_somebody_has_seen_the_last_phase_complete():
    """9.7.13.15.4; a kernel may ask for less."""
    b = apply(KnownBarrier.initialised(1), op.Arrive("")).barrier
    assert properties(b, op.Arrive("")) == ["unobserved-phase"]
    assert apply(b, op.Arrive(""), False).violates == ()
    seen = apply(b, op.Wait("", 0), True, 1, 1)
    assert seen.runs and properties(seen.barrier, op.Arrive("")) == []


def test_a_wait_passes_once_its_phase_is_complete():
    """9.7.13.15.16, by parity: a wait that blocks changes nothing."""
    b = KnownBarrier(1, 0, 2, 1, 0, 0)
    blocked, passes = apply(b, op.Wait("", 0)), apply(b, op.Wait("", 1), True, 1, 1)
    assert not blocked.runs and blocked.barrier == b and blocked.violates == ()
    assert passes.runs and passes.barrier == b._replace(observed=1) and not passes.completes
    assert properties(b, op.Wait("", 0), 2, 1) == ["phase-lapped"]
    assert properties(b, op.Wait("", 0), 0, 2) == ["phase-lapped"]
    assert properties(b, op.Wait("", 0), 1000, 1000) == [] and properties(b, op.Wait("", 0), 1001, 1000) != []


def test_a_token_is_good_for_one_phase():
    """9.7.13.15.16, by the state that an arrival returned."""
    b, wait = KnownBarrier.initialised(1), op.Wait("", op.Token(""))
    assert [apply(b, wait, True, 0, 1, age).runs for age in (0, 1)] == [False, True]
    assert [properties(b, wait, 0, 1, age) for age in (0, 1, 2, 3)] == [[], [], ["phase-lapped"], ["phase-lapped"]]


def test_another_cta_may_arrive_and_move_bytes_only():
    """9.7.13.15.8."""
    b = KnownBarrier.initialised(2)
    for allowed in (
        op.Arrive("", cta=1),
        op.Arrive("", 1, 16, "arrive", 1),
        op.Transaction("", 16, 1),
        CompleteTx(1, 1),
    ):
        assert properties(b, allowed) == []
    for missing in (op.Inval("", True), op.Wait("", 0, remote=True), op.Arrive("", 1, None, "no_complete", 1)):
        assert properties(b, missing) == ["barrier-init"]
    assert properties(DEAD, op.Init("", 1, True)) == ["barrier-init"]


# ---------------------------------------------------------------- barriers of threads, and registers


def test_a_named_barrier_completes_when_its_count_has_arrived():
    """9.7.13.1."""
    first = numbers.meet(0, 0, 32, 1, 64)
    assert first == (32, 64, False, ())
    assert numbers.meet(first.arrived, first.opened, 32, 1, 64) == (0, 0, True, ())
    for wrong in (
        numbers.meet(32, 64, 64, 1, 64),
        numbers.meet(32, 64, 32, 1, 96),
        numbers.meet(0, 0, 32, 16, 64),
        numbers.meet(0, 0, 32, 1, 48),
    ):
        assert [one.property for one in wrong.violates] == ["named-barrier"]
    assert numbers.meet(0, 0, 8, None, 16) == (8, 16, False, ())


def test_barriers_of_a_cta_and_of_a_cluster_count_exits_too():
    """9.7.13.1 and .3."""
    assert numbers.meet_cta(32, 32, 0, 96) == (64, 0, False, ())
    assert numbers.meet_cta(32, 32, 32, 96) == (0, 0, True, ())
    assert numbers.meet_cluster(32, 32, 0, 96, False) == (64, 0, False, ())
    assert numbers.meet_cluster(32, 32, 32, 96, False) == (0, 0, True, ())
    assert [one.property for one in numbers.meet_cluster(0, 32, 0, 96, True).violates] == ["named-barrier"]
    assert [one.property for one in numbers.leave_cluster_alone()] == ["named-barrier"]


def test_registers_come_from_a_pool():
    """9.7.19.5."""
    assert numbers.change_registers(0, 168, 128, op.Setmaxnreg(40, "dec")) == (16_384, ())
    assert numbers.change_registers(9_216, 168, 128, op.Setmaxnreg(240, "inc")) == (0, ())
    assert numbers.change_registers(9_215, 168, 128, op.Setmaxnreg(240, "inc")) == (None, ())
    left, violates = numbers.change_registers(9_216, 168, 128, op.Setmaxnreg(241, "inc"))
    assert left is None and [one.property for one in violates] == ["register-pool"]
