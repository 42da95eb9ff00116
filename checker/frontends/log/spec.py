"""The barrier operations of spec/ptx/mbarrier.py on plain numbers: the state of one barrier in, the next state out.

Nothing here knows what an operation means. Each call builds the spec's Step on constants, which folds to constants, and
reads them off; equal calls are answered from a memo that lives as long as the Evaluator.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sm90_verify.spec.ptx import mbarrier
from sm90_verify.spec.ptx.expr import Expr, Lit, evaluate
from sm90_verify.spec.ptx.limits import COUNT_LIMIT
from sm90_verify.spec.ptx.mbarrier import COUNT_WIDTH, TX_WIDTH, Mbarrier
from sm90_verify.spec.ptx.step import Step
from sm90_verify.spec.ptx.thread_barriers import NamedBarrier, named_arrive

State = tuple[int, int, int, int, int, int]
"""(alive, phase, expected, pending, tx, observed) of an mbarrier, tx in two's complement."""
DEAD: State = (0, 0, 0, 0, 0, 1)
PARTS = ("alive", "phase", "expected", "pending", "tx", "observed")
WIDTHS = (1, 1, COUNT_WIDTH, COUNT_WIDTH, TX_WIDTH, 1)
GHOST_WIDTH = 8
NAMED_WIDTH = 12


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one operation does: whether it can run, the next state, whether it completes the phase, what it violates."""

    runs: bool
    state: State
    completes: bool
    violates: tuple[tuple[str, str], ...]


@dataclass
class Evaluator:
    """Evaluates operations of spec.ptx.mbarrier by name; the memo makes a log of thousands of them cheap."""

    memo: dict[tuple[object, ...], Outcome] = field(default_factory=dict)
    met: dict[tuple[int, int, int, bool], tuple[int, int, Outcome]] = field(default_factory=dict)

    def init(self, state: State, count: int) -> Outcome:
        """mbarrier.init with any 32-bit count."""
        return self._run("init", state, (min(count, COUNT_LIMIT + 1),))

    def inval(self, state: State) -> Outcome:
        """mbarrier.inval."""
        return self._run("inval", state, ())

    def arrive(self, state: State, threads: int) -> Outcome:
        """`threads` threads arrive once each."""
        return self._run("arrive", state, (min(threads, COUNT_LIMIT),))

    def cp_async_arrive(self, state: State, threads: int) -> Outcome:
        """`threads` threads make the phase wait for their copies."""
        outcome = self._run("cp_async_arrive", state, ())
        for _ in range(threads - 1):
            if outcome.violates:
                break
            outcome = self._run("cp_async_arrive", outcome.state, ())
        return outcome

    def arrive_expect_tx(self, state: State, count: int) -> Outcome:
        """One thread expects `count` bytes and arrives."""
        return self._sized("arrive_expect_tx", state, count)

    def expect_tx(self, state: State, count: int) -> Outcome:
        """One thread expects `count` bytes."""
        return self._sized("expect_tx", state, count)

    def complete_tx(self, state: State, count: int) -> Outcome:
        """`count` bytes land."""
        return self._sized("complete_tx", state, count)

    def wait_parity(self, state: State, parity: int, unseen: int, distance: int) -> Outcome:
        """A wait for the phase `distance` after the one its thread last saw, `unseen` of which have completed."""
        top = (1 << GHOST_WIDTH) - 2
        if max(unseen, distance) > top:
            unseen, distance = unseen - distance + top // 2, top // 2
        key = ("wait_parity", state, parity, unseen, distance)
        done = self.memo.get(key)
        if done is None:
            step = mbarrier.wait_parity(_barrier(state), parity, Lit(max(0, min(unseen, top)), GHOST_WIDTH), distance)
            done = self.memo[key] = _outcome(step, state)
        return done

    def named_arrive(self, arrived: int, opened: int, count: int, again: bool) -> tuple[int, int, Outcome]:
        """One warp arrives at a named barrier: the arrived threads and the count afterwards, and the outcome."""
        key = (arrived, opened, count, again)
        if key not in self.met:
            barrier = NamedBarrier(Lit(arrived, NAMED_WIDTH), Lit(opened, NAMED_WIDTH))
            step = named_arrive(barrier, 32, count, Lit(int(again), 1))
            self.met[key] = (_value(step.then["arrived"]), _value(step.then["count"]), _outcome(step, DEAD))
        return self.met[key]

    def _sized(self, name: str, state: State, count: int) -> Outcome:
        """An operation with a byte count, which is a 32-bit operand; beyond the tx range every value is as bad."""
        return self._run(name, state, (min(count, COUNT_LIMIT + 1),))

    def _run(self, name: str, state: State, arguments: tuple[int, ...]) -> Outcome:
        key = (name, state, arguments)
        done = self.memo.get(key)
        if done is None:
            done = self.memo[key] = _outcome(getattr(mbarrier, name)(_barrier(state), *arguments), state)
        return done


def signed(tx: int) -> int:
    """A tx-count as a signed number of bytes."""
    return tx - (1 << TX_WIDTH) if tx >> TX_WIDTH - 1 else tx


def _barrier(state: State) -> Mbarrier:
    return Mbarrier(*(Lit(value, width) for value, width in zip(state, WIDTHS, strict=True)))


def _outcome(step: Step, state: State) -> Outcome:
    after = dict(zip(PARTS, state, strict=True))
    after.update({name: _value(expr) for name, expr in step.then.items() if name in after})
    return Outcome(
        runs=bool(_value(step.when)),
        state=(after["alive"], after["phase"], after["expected"], after["pending"], after["tx"], after["observed"]),
        completes=bool(_value(step.completes)),
        violates=tuple((part.property, part.because) for part in step.illegal if _value(part.when)),
    )


def _value(expr: Expr) -> int:
    return expr.value if isinstance(expr, Lit) else evaluate(expr, {})
