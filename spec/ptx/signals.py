"""What an operation does to an mbarrier: the Step of each record, of those that roles yield and of what copies do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias, assert_never

from sm90_verify.spec.ptx import mbarrier
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.expr import Expr, Lit
from sm90_verify.spec.ptx.mbarrier import Mbarrier
from sm90_verify.spec.ptx.step import Step

NONE_SINCE = Lit(0, 1)
"""No phase has completed since."""


@dataclass(frozen=True)
class CompleteTx:
    """Bytes of a copy land, or complete_tx of any number of bytes, 0 too; cta as for an Arrive."""

    bytes: int
    cta: int = -1


@dataclass(frozen=True)
class CpAsyncArrive:
    """cp.async.mbarrier.arrive without .noinc (9.7.13.15.15): the phase waits for one more arrival, which the copies
    make when they are done.
    """


OnBarrier: TypeAlias = op.Signal | op.Wait | CompleteTx | CpAsyncArrive
"""All that happens to an mbarrier."""


def step_of(
    b: Mbarrier,
    operation: OnBarrier,
    *,
    observe: bool = True,
    unseen: Expr = NONE_SINCE,
    distance: int = 1,
    age: Expr = NONE_SINCE,
) -> Step:
    """What an operation does to a barrier, in its .shared::cluster form where it is remote.

    observe: demand of arrivals what the ISA does (9.7.13.15.4). unseen, distance: of a wait for a parity, the phases
    completed since the last that its thread has seen, and how many after that one it is meant for. age: of a wait with
    a token, the phases completed since the token's arrival.
    """
    match operation:
        case op.Init():
            name, far, step = "init", operation.remote, mbarrier.init(b, operation.count)
        case op.Inval():
            name, far, step = "inval", operation.remote, mbarrier.inval(b)
        case op.Transaction(bytes=bytes) if bytes >= 0:
            name, far, step = "expect_tx", operation.cta >= 0, mbarrier.expect_tx(b, bytes)
        case op.Transaction(bytes=bytes):
            name, far, step = "complete_tx", operation.cta >= 0, mbarrier.complete_tx(b, -bytes)
        case CompleteTx():
            name, far, step = "complete_tx", operation.cta >= 0, mbarrier.complete_tx(b, operation.bytes)
        case op.Arrive():
            far = operation.cta >= 0
            name, step = _arrival(b, operation, observe)
        case CpAsyncArrive():
            return mbarrier.cp_async_arrive(b)
        case op.Wait():
            name, far, step = operation.kind, operation.remote, _wait(b, operation, unseen, distance, age)
        case _:
            assert_never(operation)
    return mbarrier.remote(name, step) if far else step


def _wait(b: Mbarrier, wait: op.Wait, unseen: Expr, distance: int, age: Expr) -> Step:
    if isinstance(wait.phase, op.Token):
        return mbarrier.wait_token(b, age)
    return mbarrier.wait_parity(b, int(wait.phase), unseen, distance)


def _arrival(b: Mbarrier, arrive: op.Arrive, observe: bool) -> tuple[str, Step]:
    """An arrival's instruction and its step."""
    count, expect = arrive.count, arrive.expect
    match arrive.kind:
        case "no_complete":
            return "arrive_no_complete", mbarrier.arrive_no_complete(b, count, observe=observe)
        case "drop":
            return "arrive_drop", mbarrier.arrive_drop(b, count, expect or 0, observe=observe)
        case "arrive" if expect is None:
            return "arrive", mbarrier.arrive(b, count, observe=observe)
        case "arrive":
            return "arrive_expect_tx", mbarrier.arrive_expect_tx(b, expect or 0, count, observe=observe)
        case _:
            assert_never(arrive.kind)
