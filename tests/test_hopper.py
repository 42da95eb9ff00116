"""The mbarrier of spec.ptx.mbarrier: against a model written independently, and against what an H100 was seen to do."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sm90_verify.spec.ptx import mbarrier
from sm90_verify.spec.ptx.expr import Expr, Field, Lit, evaluate
from sm90_verify.spec.ptx.limits import COUNT_LIMIT
from sm90_verify.spec.ptx.mbarrier import Mbarrier
from sm90_verify.spec.ptx.step import Step, saturating_increment, violated
from sm90_verify.spec.ptx.thread_barriers import NamedBarrier, named_arrive

LIMIT = (1 << 20) - 1


class Independent:
    """An mbarrier as the PTX ISA's prose has it, on plain integers; None stands for undefined behaviour."""

    def __init__(self, count: int) -> None:
        self.expected, self.pending, self.tx, self.phase = count, count, 0, 0

    def do(self, name: str, n: int, m: int = 0) -> bool:
        """Whether the operation is defined; n: its count or bytes, m: bytes of each thread in arrive_drop.expect_tx."""
        arrivals = {"arrive": n, "arrive_expect_tx": 1, "no_complete": n, "drop": n}.get(name, 0)
        self.tx += {"expect_tx": n, "complete_tx": -n, "arrive_expect_tx": n, "drop": n * m}.get(name, 0)
        if abs(self.tx) > LIMIT or arrivals > self.pending:
            return False
        if name == "drop":
            self.expected -= n
            if self.expected <= 0:
                return False
        self.pending -= arrivals
        if name == "expect_tx":
            return not (self.pending == 0 and self.tx == 0)
        if name == "complete_tx" and self.pending == 0 and self.tx < 0:
            return False
        if self.pending == 0 and self.tx == 0 and (arrivals or name == "complete_tx"):
            if name == "no_complete":
                return False
            self.phase, self.pending = self.phase + 1, self.expected
        return True


class Machine:
    """The spec's operations applied to numbers."""

    def __init__(self, count: int) -> None:
        self.state = {
            name: evaluate(getattr(Mbarrier.initialised(count), name), {})
            for name in ("alive", "phase", "expected", "pending", "tx", "observed")
        }
        self.completions = 0

    def barrier(self) -> Mbarrier:
        widths = {name: getattr(Mbarrier.initialised(1), name).width for name in self.state}
        return Mbarrier(**{name: Field(name, widths[name]) for name in self.state})

    def apply(self, step: Step) -> bool:
        """Takes a step; whether it was legal, apart from the observation rule."""
        value = lambda expr: evaluate(expr, self.state)
        legal = not any(value(part.when) for part in step.illegal if part.property != "unobserved-phase")
        self.completions += value(step.completes)
        after = {name: value(expr) for name, expr in step.then.items() if name in self.state}
        self.state.update(after)
        return legal

    def do(self, name: str, n: int, m: int = 0) -> bool:
        b = self.barrier()
        match name:
            case "arrive":
                return self.apply(mbarrier.arrive(b, n))
            case "arrive_expect_tx":
                return self.apply(mbarrier.arrive_expect_tx(b, n))
            case "no_complete":
                return self.apply(mbarrier.arrive_no_complete(b, n))
            case "drop":
                return self.apply(mbarrier.arrive_drop(b, n, m))
            case "expect_tx":
                return self.apply(mbarrier.expect_tx(b, n))
        return self.apply(mbarrier.complete_tx(b, n))

    @property
    def tx(self) -> int:
        return self.state["tx"] - (1 << mbarrier.TX_WIDTH) * (self.state["tx"] >> mbarrier.TX_WIDTH - 1)

    def passes(self, parity: int) -> bool:
        step = mbarrier.wait_parity(self.barrier(), parity, Lit(0, 2), 1)
        return bool(evaluate(step.when, self.state))


counts = st.one_of(st.integers(1, 4), st.just(LIMIT))
sizes = st.one_of(st.sampled_from([0, 16, 1024, 2048, LIMIT]), st.integers(0, LIMIT))
operations = st.one_of(
    st.tuples(st.sampled_from(["arrive", "no_complete"]), st.integers(0, 3), st.just(0)),
    st.tuples(st.sampled_from(["expect_tx", "complete_tx", "arrive_expect_tx"]), sizes, st.just(0)),
    st.tuples(st.just("drop"), st.integers(1, 2), st.sampled_from([0, 16])),
)


@settings(max_examples=400, deadline=None)
@given(counts, st.lists(operations, max_size=25))
def test_random_operations_agree_with_an_independent_model(count, sequence):
    independent, machine = Independent(count), Machine(count)
    for name, n, m in sequence:
        legal = independent.do(name, n, m)
        assert machine.do(name, n, m) == legal, (name, n, m)
        if not legal:
            return
        assert machine.state["expected"] == independent.expected
        assert machine.state["pending"] == independent.pending
        assert machine.tx == independent.tx
        assert machine.completions == independent.phase
        assert machine.state["phase"] == independent.phase & 1
        for parity in (0, 1):
            assert machine.passes(parity) == ((independent.phase & 1) != parity)


@pytest.mark.parametrize("count", [1, 2, LIMIT])
def test_init_accepts_its_range(count):
    step = mbarrier.init(Mbarrier.initialised(1)._replace(alive=Lit(0, 1)), count)
    assert not evaluate(violated(step.illegal), {})


@pytest.mark.parametrize("count", [0, -1, LIMIT + 1])
def test_init_outside_its_range_faults(count):
    step = mbarrier.init(Mbarrier.initialised(1)._replace(alive=Lit(0, 1)), count)
    assert evaluate(violated(step.illegal), {})


def test_init_of_a_live_barrier_and_use_of_a_dead_one():
    live = Mbarrier.initialised(3)
    dead = live._replace(alive=Lit(0, 1))
    assert evaluate(violated(mbarrier.init(live, 1).illegal), {})
    for step in (
        mbarrier.arrive(dead),
        mbarrier.expect_tx(dead, 16),
        mbarrier.complete_tx(dead, 16),
        mbarrier.inval(dead),
    ):
        assert evaluate(violated(step.illegal), {})


# What an H100 was seen to execute: operations, then whether parity 0 passes (True: the first phase completed).
MEASURED = [
    (3, [("arrive", 1), ("arrive", 1), ("arrive", 1)], True),
    (3, [], False),
    (4, [("arrive", 4)], True),
    (3, [("arrive", 0)], False),
    (1, [("arrive_expect_tx", 4096), ("complete_tx", 2048)], False),
    (1, [("arrive_expect_tx", 4096), ("complete_tx", 2048), ("complete_tx", 2048)], True),
    (1, [("complete_tx", 16)], False),
    (1, [("complete_tx", 16), ("arrive_expect_tx", 16)], True),
    (2, [("complete_tx", 16), ("arrive", 1), ("expect_tx", 16)], False),
    (2, [("complete_tx", 16), ("arrive", 1), ("expect_tx", 16), ("arrive", 1)], True),
    (1, [("arrive_expect_tx", 0)], True),
    (3, [("drop", 1), ("arrive", 1)], False),
    (3, [("drop", 1), ("arrive", 1), ("arrive", 1)], True),
]


@pytest.mark.parametrize(("count", "sequence", "completed"), MEASURED)
def test_what_an_h100_did(count, sequence, completed):
    machine = Machine(count)
    for name, n in sequence:
        assert machine.do(name, n)
    assert machine.passes(0) is completed
    assert machine.passes(1) is not completed


FAULTS = [
    (2, [("arrive", 3)]),
    (1, [("drop", 1)]),
    (1, [("expect_tx", LIMIT), ("expect_tx", 1)]),
    (1, [("complete_tx", LIMIT), ("complete_tx", 1)]),
]


@pytest.mark.parametrize(("count", "sequence"), FAULTS)
def test_what_made_an_h100_fault(count, sequence):
    machine = Machine(count)
    *before, last = sequence
    assert all(machine.do(name, n) for name, n in before)
    assert not machine.do(*last)


def test_the_next_phase_after_a_drop_expects_one_fewer():
    machine = Machine(3)
    for name in ("drop", "arrive", "arrive", "arrive", "arrive"):
        assert machine.do(name, 1)
    assert machine.completions == 2


@pytest.mark.parametrize(
    "step",
    [mbarrier.arrive_drop(Mbarrier.initialised(9), 3, 16), mbarrier.arrive_expect_tx(Mbarrier.initialised(9), 16, 3)],
)
def test_each_of_several_threads_expects_its_own_bytes(step):
    """With bytes, neither arrive nor arrive_drop has a count: three threads do it, and expect three times as many."""
    assert evaluate(step.then["tx"], {}) == 48


def test_arrive_no_complete_must_not_complete():
    assert Machine(3).do("no_complete", 2)
    assert not Machine(3).do("no_complete", 3)


@pytest.mark.parametrize(
    ("unseen", "distance", "verdict"),
    [
        (0, 1, "blocks"),
        (1, 1, "passes"),
        (2, 1, "late"),
        (0, 0, "passes"),
        (1, 0, "late"),
        (0, 2, "early"),
        (1, 2, "blocks"),
    ],
)
def test_a_wait_is_legal_for_the_current_phase_and_the_one_before(unseen, distance, verdict):
    """The wait is meant for phase n = distance - 1 after the last one seen; the barrier is in phase `unseen`."""
    b = Mbarrier.initialised(1)._replace(phase=Lit(unseen & 1, 1))
    step = mbarrier.wait_parity(b, (distance - 1) & 1, Lit(unseen, 2), distance)
    illegal = bool(evaluate(violated(step.illegal), {}))
    assert illegal == (verdict in ("late", "early"))
    if not illegal:
        assert bool(evaluate(step.when, {})) == (verdict == "passes")


def test_tokens_pass_after_one_phase_and_are_undefined_after_two():
    b = Mbarrier.initialised(1)
    steps = [mbarrier.wait_token(b, Lit(age, 2)) for age in (0, 1, 2)]
    assert [evaluate(step.when, {}) for step in steps] == [0, 1, 0]
    assert [evaluate(violated(step.illegal), {}) for step in steps] == [0, 0, 1]


def test_an_arrival_in_a_phase_whose_predecessor_nobody_saw():
    b: Mbarrier = Mbarrier.initialised(2)._replace(observed=Lit(0, 1))
    illegal: list[Expr] = [part.when for part in mbarrier.arrive(b).illegal if part.property == "unobserved-phase"]
    assert [evaluate(when, {}) for when in illegal] == [1]


def test_cp_async_arrive_takes_one_more_arrival():
    machine = Machine(1)
    assert machine.apply(mbarrier.cp_async_arrive(machine.barrier()))
    assert machine.state["pending"] == 2
    assert machine.do("arrive", 1) and not machine.completions
    assert machine.do("arrive", 1) and machine.completions == 1


@pytest.mark.parametrize(
    ("pending", "tx", "legal"),
    [
        *((1, sign * tx, tx < LIMIT) for sign in (-1, 1) for tx in (1, LIMIT - 1, LIMIT)),
        *((0, sign * tx, tx == 2) for sign in (-1, 1) for tx in (1, 2)),
        (1, 0, True),
        (LIMIT - 1, 0, True),
        (LIMIT, 0, False),
    ],
)
def test_where_cp_async_arrive_has_no_room(pending, tx, legal):
    """A byte more or less leaves the range of the tx-count, or makes the bytes match while no arrival is pending."""
    b = Mbarrier.initialised(1)
    b = b._replace(pending=Lit(pending, b.pending.width), tx=Lit(tx % (1 << b.tx.width), b.tx.width))
    assert evaluate(violated(mbarrier.cp_async_arrive(b).illegal), {}) == (not legal)


def test_a_saturating_count_is_exact_below_its_top():
    assert [evaluate(saturating_increment(Lit(n, 2), Lit(1, 1)), {}) for n in range(4)] == [1, 2, 3, 3]
    assert evaluate(saturating_increment(Lit(1, 2), Lit(0, 1)), {}) == 1


def test_named_barrier_counts_threads():
    b = NamedBarrier(Lit(32, 12), Lit(0, 12))
    assert evaluate(named_arrive(b, 32, 64).completes, {}) == 1
    assert evaluate(named_arrive(b, 32, 96).completes, {}) == 0
    assert evaluate(violated(named_arrive(b, 32, 64).illegal), {}) == 0
    over = named_arrive(b, 64, 64)
    assert evaluate(violated(over.illegal), {}) == 1
    mixed = named_arrive(replace(b, count=Lit(96, 12)), 32, 64)
    assert evaluate(violated(mixed.illegal), {}) == 1


@pytest.mark.parametrize(
    ("operation", "token", "exists"),
    [
        ("arrive", False, True),
        ("arrive", True, False),
        ("arrive_expect_tx", False, True),
        ("arrive_drop", False, True),
        ("expect_tx", False, True),
        ("complete_tx", False, True),
        ("no_complete", False, False),
        ("init", False, False),
        ("inval", False, False),
        ("test_wait", False, False),
        ("try_wait", False, False),
    ],
)
def test_remote_forms(operation, token, exists):
    local = mbarrier.arrive(Mbarrier.initialised(2))
    step = mbarrier.remote(operation, local, token=token)
    assert step.then == local.then and step.completes is local.completes
    assert evaluate(violated(step.illegal), {}) == (not exists)


@pytest.mark.parametrize("count", [2 * COUNT_LIMIT + 1, 3 << 20, (1 << 22) - 1])
@pytest.mark.parametrize("operation", [mbarrier.expect_tx, mbarrier.complete_tx, mbarrier.arrive_expect_tx])
def test_more_bytes_than_the_tx_count_can_move(operation, count):
    """9.7.13.15.2: the count would wrap around its 22 bits and look legal again."""
    fresh = mbarrier.Mbarrier.initialised(2)
    wrong = [part.property for part in operation(fresh, count).illegal if evaluate(part.when, {})]
    assert "tx-count" in wrong
    right = operation(fresh, COUNT_LIMIT).illegal
    assert not any(evaluate(part.when, {}) for part in right)
