"""Hardware state that is known in numbers: what an operation does to it, evaluated from the Steps of spec.ptx.

Nothing here knows what an operation means: `apply` builds its Step on constants, which folds to constants, and reads
them off. Equal questions are answered from a bounded cache.

Units and widths of an mbarrier: alive, phase and observed are 0 or 1; expected and pending are arrivals, of 20 bits;
tx is the tx-count in bytes, signed: bytes expected less bytes delivered, -(2^21) to 2^21-1. PTX allows +-(2^20-1), and
every step beyond that is a breach.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.expr import Expr, Field, Lit, evaluate
from sm90_verify.spec.ptx.mbarrier import COUNT_WIDTH, TX_WIDTH, Mbarrier
from sm90_verify.spec.ptx.registers import register_way
from sm90_verify.spec.ptx.signals import OnBarrier, step_of
from sm90_verify.spec.ptx.step import Illegal, Way
from sm90_verify.spec.ptx.thread_barriers import (
    CLUSTER_WIDTH,
    MAY_LEAVE,
    THREADS_WIDTH,
    ThreadBarrier,
    cluster_arrive_ways,
    cluster_wait_ways,
    cta_ways,
    named_ways,
)

WIDTHS = {"alive": 1, "phase": 1, "expected": COUNT_WIDTH, "pending": COUNT_WIDTH, "tx": TX_WIDTH, "observed": 1}
"""The parts of an mbarrier as words, and their bits."""


class Breach(NamedTuple):
    """What an operation must not have met: the property that it violates, and the sentence that says why."""

    property: str
    because: str


class KnownBarrier(NamedTuple):
    """One mbarrier: its parts in the units that the module says. A tuple, as the cache hashes and compares it often."""

    alive: int
    phase: int
    expected: int
    pending: int
    tx: int
    observed: int

    @staticmethod
    def initialised(count: int) -> KnownBarrier:
        """Just after mbarrier.init with this count."""
        return KnownBarrier(1, 0, count, count, 0, 1)

    @staticmethod
    def of_words(words: dict[str, int]) -> KnownBarrier:
        """From words of WIDTHS, tx in two's complement; other names are left out."""
        parts = {name: words[name] for name in WIDTHS}
        return KnownBarrier(**{**parts, "tx": signed_tx(parts["tx"])})

    @property
    def fresh(self) -> bool:
        """Nothing has happened in the current phase that is not undone: all its arrivals are pending, and no bytes."""
        return self.pending == self.expected and not self.tx

    def words(self) -> dict[str, int]:
        """By name, as words of WIDTHS; raises SpecError for a tx-count that its word does not hold."""
        half = 1 << TX_WIDTH - 1
        if not -half <= self.tx < half:
            raise SpecError(f"a tx-count of {self.tx} bytes: use {-half} to {half - 1}")
        return {**self._asdict(), "tx": self.tx % (2 * half)}

    def constants(self) -> Mbarrier:
        """The same barrier in the language of the Steps; raises SpecError for parts that do not fit."""
        return Mbarrier(**{name: Lit(word, WIDTHS[name]) for name, word in self.words().items()})


DEAD = KnownBarrier(0, 0, 0, 0, 0, 1)
"""Bytes that no mbarrier.init has made a barrier."""


class Applied(NamedTuple):
    """What an operation does. runs: it can, else its thread is blocked; barrier: afterwards, unchanged where it is
    blocked; completes: it ends the phase; violates: everything that it must not have met, in the order of its Step.
    """

    runs: bool
    barrier: KnownBarrier
    completes: bool
    violates: tuple[Breach, ...]


@lru_cache(maxsize=1 << 16)
def apply(
    barrier: KnownBarrier, operation: OnBarrier, observe: bool = True, unseen: int = 0, distance: int = 1, age: int = 0
) -> Applied:
    """What an operation does to a barrier. The arguments after it are those of step_of, in phases.

    An operation that breaks a rule is taken all the same, as its Step has it. The names in a record do not matter:
    whoever leaves them out shares the answers. Raises SpecError for an operand that the barrier's fields do not hold.
    """
    width = max(unseen, distance, age).bit_length() + 1
    b = barrier.constants()
    step = step_of(b, operation, observe=observe, unseen=Lit(unseen, width), distance=distance, age=Lit(age, width))
    runs = bool(_value(step.when))
    words = {name: _value(step.then.get(name, getattr(b, name))) for name in WIDTHS}
    after = KnownBarrier.of_words(words) if runs else barrier
    return Applied(runs, after, runs and bool(_value(step.completes)), _breaches(step.illegal))


def signed_tx(word: int) -> int:
    """A tx-count in bytes, from its word in two's complement."""
    return word - (1 << TX_WIDTH) if word >> TX_WIDTH - 1 else word


def _value(part: Expr) -> int:
    assert isinstance(part, Lit), "an operation on known parts leaves known parts"
    return part.value


def _breaches(illegal: tuple[Illegal, ...]) -> tuple[Breach, ...]:
    return tuple(Breach(part.property, part.because) for part in illegal if _value(part.when))


# ---------------------------------------------------------------- barriers of threads


class Met(NamedTuple):
    """What an arrival at a barrier of threads leaves: threads arrived, the count that the generation was opened with
    (0 where none is named), whether it is complete, and what the arrival must not have met.
    """

    arrived: int
    opened: int
    completes: bool
    violates: tuple[Breach, ...]


_ROLE = "role"
_THREADS = ThreadBarrier(Field("arrived", THREADS_WIDTH), Field("count", THREADS_WIDTH), {_ROLE: Field("again", 1)})
_CLUSTER = ThreadBarrier(Field("arrived", CLUSTER_WIDTH), Lit(0, CLUSTER_WIDTH), {_ROLE: Field("again", 2)})


@lru_cache(maxsize=1 << 14)
def meet(arrived: int, opened: int, threads: int, id: int | None, total: int) -> Met:
    """`threads` threads arrive at a named barrier that counts `total`; id None: a barrier of the role's own threads.

    arrived, opened: as the last arrival left them, 0 in a new generation.
    """
    last = named_ways(_THREADS, _ROLE, threads, id, total, blocks=True)[0]
    state = {"arrived": arrived, "count": opened, "again": 0}
    after, violates = _taken(last, state)
    return Met(after["arrived"], after["count"], bool(evaluate(last.guard, state)), violates)


@lru_cache(maxsize=1 << 14)
def meet_cta(arrived: int, threads: int, exited: int, total: int) -> Met:
    """`threads` threads that have not arrived yet execute __syncthreads(), `exited` of all `total` have exited."""
    way = cta_ways(_THREADS, _ROLE, threads, Lit(exited, THREADS_WIDTH), total)[0]
    after, violates = _taken(way, {"arrived": arrived, "count": 0, "again": 0})
    return Met(after["arrived"], 0, not after["again"], violates)


@lru_cache(maxsize=1 << 14)
def meet_cluster(arrived: int, threads: int, exited: int, total: int, again: bool) -> Met:
    """`threads` threads execute barrier.cluster.arrive; again: they have not waited since their last one."""
    way = cluster_arrive_ways(_CLUSTER, _ROLE, threads, Lit(exited, CLUSTER_WIDTH), total)[0]
    after, violates = _taken(way, {"arrived": arrived, "again": int(again)})
    return Met(after["arrived"], 0, after["again"] == MAY_LEAVE, violates)


@lru_cache(maxsize=1)
def leave_cluster_alone() -> tuple[Breach, ...]:
    """What is wrong with barrier.cluster.wait without an arrive before it."""
    way = cluster_wait_ways(_CLUSTER, _ROLE, Lit(0, CLUSTER_WIDTH), 0)[-1]
    return _taken(way, {"arrived": 0, "again": 0})[1]


def _taken(way: Way, state: dict[str, int]) -> tuple[dict[str, int], tuple[Breach, ...]]:
    """What a way that is taken in a state writes, and what it must not have met there."""
    violates = tuple(Breach(part.property, part.because) for part in way.illegal if evaluate(part.when, state))
    return {name: evaluate(value, state) for name, value in way.updates}, violates


# ---------------------------------------------------------------- registers

_FREE = Field("free", 32)


@lru_cache(maxsize=1 << 10)
def change_registers(
    free: int, before: int, threads: int, change: op.Setmaxnreg
) -> tuple[int | None, tuple[Breach, ...]]:
    """What setmaxnreg by so many threads, which have `before` each, leaves of `free` registers in the pool, None if it
    has to wait; and what is wrong with the request.
    """
    way = register_way(_FREE, before, threads, change)
    after, violates = _taken(way, {"free": free})
    return after["free"] if evaluate(way.guard, {"free": free}) else None, violates
