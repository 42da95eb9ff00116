"""The logged operations on mbarriers as the records of spec.ptx; equal ones are one object, which is found again fast.

A log's operands have 32 bits. One that no field of an mbarrier holds is as wrong as the least that is too large.
"""

from __future__ import annotations

from functools import lru_cache

from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.limits import COUNT_LIMIT
from sm90_verify.spec.ptx.numbers import Applied, KnownBarrier, apply
from sm90_verify.spec.ptx.signals import CompleteTx, CpAsyncArrive

INVAL = op.Inval("")
CP_ASYNC_ARRIVE = CpAsyncArrive()


@lru_cache(maxsize=1 << 12)
def init(count: int) -> op.Init:
    """mbarrier.init."""
    return op.Init("", min(count, COUNT_LIMIT + 1))


@lru_cache(maxsize=1 << 12)
def arrive(threads: int) -> op.Arrive:
    """`threads` threads arrive once each."""
    return op.Arrive("", min(threads, COUNT_LIMIT))


@lru_cache(maxsize=1 << 12)
def arrive_expect_tx(bytes: int) -> op.Arrive:
    """One thread expects bytes and arrives."""
    return op.Arrive("", 1, min(bytes, COUNT_LIMIT + 1))


@lru_cache(maxsize=1 << 12)
def expect_tx(bytes: int) -> op.Transaction:
    """One thread expects bytes."""
    return op.Transaction("", min(bytes, COUNT_LIMIT + 1))


@lru_cache(maxsize=1 << 12)
def complete_tx(bytes: int) -> CompleteTx:
    """Bytes land."""
    return CompleteTx(min(bytes, COUNT_LIMIT + 1))


@lru_cache(maxsize=1 << 4)
def wait(parity: int) -> op.Wait:
    """A wait for a parity."""
    return op.Wait("", parity)


def cp_async_arrive(barrier: KnownBarrier, threads: int) -> Applied:
    """`threads` threads make the phase wait for their copies, up to the first that must not."""
    applied = apply(barrier, CP_ASYNC_ARRIVE)
    for _ in range(threads - 1):
        if applied.violates:
            break
        applied = apply(applied.barrier, CP_ASYNC_ARRIVE)
    return applied
