"""What one operation does to a barrier whose parts are all known: spec.ptx.mbarrier, read on constants and
remembered.
"""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

from sm90_verify.spec.ptx import mbarrier
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.expr import FALSE, TRUE, Expr, Field, Lit, evaluate
from sm90_verify.spec.ptx.mbarrier import COUNT_WIDTH, TX_WIDTH, Mbarrier, wait_parity, wait_token
from sm90_verify.spec.ptx.registers import register_way
from sm90_verify.spec.ptx.signals import step_of
from sm90_verify.spec.ptx.step import Illegal, Step
from sm90_verify.spec.ptx.thread_barriers import (
    CLUSTER_WIDTH,
    MAY_LEAVE,
    THREADS_WIDTH,
    Meeting,
    cluster_arrive_ways,
    cluster_wait_ways,
    cta_ways,
    named_ways,
)

FAR = 17
"""Unseen phases are counted up to here: more than the language lets a wait be away from the last one."""
_UNSEEN_WIDTH = 5

Findings = tuple[tuple[str, str], ...]
"""(property, because) of everything that an operation must not have met."""


class Parts(NamedTuple):
    """A mbarrier as numbers; tx in two's complement of TX_WIDTH bits."""

    alive: int
    phase: int
    expected: int
    pending: int
    tx: int

    @property
    def negative(self) -> bool:
        """More bytes have landed than were expected."""
        return bool(self.tx >> TX_WIDTH - 1)

    @property
    def balance(self) -> int:
        """The tx-count: bytes expected less bytes landed."""
        return self.tx - (self.negative << TX_WIDTH)


class Effect(NamedTuple):
    """What an operation leaves, whether it completes the phase, and what it must not have met."""

    parts: Parts
    completes: bool
    illegal: Findings


class Met(NamedTuple):
    """What an arrival at a named barrier leaves: threads arrived, the count it was opened with, and whether it is
    full.
    """

    arrived: int
    threads: int
    completes: bool
    illegal: Findings


@lru_cache(maxsize=1 << 17)
def signal(parts: Parts, operation: op.Signal, observe: bool, observed: bool) -> Effect:
    """Init, inval, arrivals and transactions. observe: demand that the last phase was `observed` complete."""
    b = Mbarrier(
        Lit(parts.alive, 1),
        Lit(parts.phase, 1),
        Lit(parts.expected, COUNT_WIDTH),
        Lit(parts.pending, COUNT_WIDTH),
        Lit(parts.tx, TX_WIDTH),
        TRUE if observed else FALSE,
    )
    step = step_of(b, operation, observe=observe)
    after = [_value(step.then.get(name, getattr(b, name))) for name in Parts._fields]
    return Effect(Parts(*after), bool(_value(step.completes)), _met(step.illegal))


@lru_cache(maxsize=1 << 4)
def remote_wait(kind: str) -> Findings:
    """What is wrong with waiting at the barrier of another CTA."""
    return _met(mbarrier.remote(kind, Step()).illegal)


@lru_cache(maxsize=1 << 14)
def wait(parts: Parts, parity: int, unseen: int, distance: int) -> tuple[bool, Findings]:
    """Whether a wait for the phase `distance` after the last one seen passes, and what it must not have met."""
    b = Mbarrier(Lit(parts.alive, 1), Lit(parts.phase, 1), TRUE, TRUE, TRUE, TRUE)
    step = wait_parity(b, parity, Lit(min(unseen, FAR), _UNSEEN_WIDTH), distance)
    return bool(_value(step.when)), _met(step.illegal)


@lru_cache(maxsize=1 << 10)
def wait_with_token(parts: Parts, age: int) -> tuple[bool, Findings]:
    """The same with the token of an arrival since which `age` phases have completed."""
    b = Mbarrier(Lit(parts.alive, 1), Lit(parts.phase, 1), TRUE, TRUE, TRUE, TRUE)
    step = wait_token(b, Lit(min(age, 3), 2))
    return bool(_value(step.when)), _met(step.illegal)


_ROLE = "role"
_MEETING = Meeting(Field("arrived", THREADS_WIDTH), Field("count", THREADS_WIDTH), {_ROLE: Field("again", 1)})


@lru_cache(maxsize=1 << 14)
def meet(arrived: int, count: int, again: bool, threads: int, id: int | None, total: int) -> Met:
    """`threads` threads arrive at a barrier that counts `total`; id None: a barrier of the role's own threads."""
    state = {"arrived": arrived, "count": count, "again": int(again)}
    way = named_ways(_MEETING, _ROLE, threads, id, total, blocks=False)[0]
    illegal = tuple((part.property, part.because) for part in way.illegal if evaluate(part.when, state))
    after = {name: evaluate(value, state) for name, value in way.updates}
    return Met(after["arrived"], after["count"], not after["again"], illegal)


@lru_cache(maxsize=1 << 14)
def meet_cta(arrived: int, threads: int, exited: int, total: int) -> bool:
    """Whether __syncthreads() completes when `threads` more arrive."""
    ways = cta_ways(_MEETING, _ROLE, threads, Lit(exited, THREADS_WIDTH), total)
    return bool(evaluate(ways[0].guard, {"arrived": arrived, "count": 0, "again": 0}))


_CLUSTER = Meeting(Field("arrived", CLUSTER_WIDTH), Lit(0, CLUSTER_WIDTH), {_ROLE: Field("again", 2)})


@lru_cache(maxsize=1 << 14)
def meet_cluster(arrived: int, again: bool, threads: int, exited: int, total: int) -> Met:
    """`threads` threads execute barrier.cluster.arrive."""
    state = {"arrived": arrived, "again": int(again)}
    way = cluster_arrive_ways(_CLUSTER, _ROLE, threads, Lit(exited, CLUSTER_WIDTH), total)[0]
    illegal = tuple((part.property, part.because) for part in way.illegal if evaluate(part.when, state))
    after = {name: evaluate(value, state) for name, value in way.updates}
    return Met(after["arrived"], 0, after["again"] == MAY_LEAVE, illegal)


@lru_cache(maxsize=1 << 4)
def leave_cluster_alone() -> Findings:
    """What is wrong with barrier.cluster.wait without an arrive before it."""
    way = cluster_wait_ways(_CLUSTER, _ROLE, Lit(0, CLUSTER_WIDTH), 0)[-1]
    return tuple((part.property, part.because) for part in way.illegal if evaluate(part.when, {"again": 0}))


_FREE = Field("free", 32)


@lru_cache(maxsize=1 << 10)
def change_registers(free: int, before: int, threads: int, change: op.Setmaxnreg) -> tuple[int | None, Findings]:
    """What setmaxnreg leaves in the pool, None if it has to wait, and what is wrong with the request."""
    way = register_way(_FREE, before, threads, change)
    illegal = tuple((part.property, part.because) for part in way.illegal)
    if not evaluate(way.guard, {"free": free}):
        return None, illegal
    return evaluate(way.updates[0][1], {"free": free}), illegal


def _value(part: Expr) -> int:
    assert isinstance(part, Lit), "an operation on known parts leaves known parts"
    return part.value


def _met(illegal: tuple[Illegal, ...]) -> Findings:
    return tuple((part.property, part.because) for part in illegal if _value(part.when))
