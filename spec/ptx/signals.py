"""What a signal, an operation on a mbarrier by itself, does to it: the Step of each record."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from sm90_verify.spec.ptx import mbarrier
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.mbarrier import Mbarrier
from sm90_verify.spec.ptx.step import Illegal, Step


def step_of(b: Mbarrier, operation: op.Signal, *, observe: bool = True) -> Step:
    """What an init, inval, transaction or arrival does to a barrier, in its .shared::cluster form where it is remote.

    observe: demand of arrivals what the ISA does (9.7.13.15.4), with the way to ask for less.
    """
    match operation:
        case op.Init():
            name, step = "init", mbarrier.init(b, operation.count)
        case op.Inval():
            name, step = "inval", mbarrier.inval(b)
        case op.Transaction(bytes=bytes) if bytes >= 0:
            name, step = "expect_tx", mbarrier.expect_tx(b, bytes)
        case op.Transaction(bytes=bytes):
            name, step = "complete_tx", mbarrier.complete_tx(b, -bytes)
        case op.Arrive():
            name, step = _arrival(b, operation, observe)
        case _:
            assert_never(operation)
    step = replace(step, illegal=tuple(_optional(part) for part in step.illegal))
    far = operation.remote if isinstance(operation, op.Init | op.Inval) else operation.cta >= 0
    return mbarrier.remote(name, step) if far else step


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


def _optional(part: Illegal) -> Illegal:
    """The rule on unobserved phases names the option of a pipeline that leaves it out."""
    if part.property != "unobserved-phase":
        return part
    less = "observation=False looks only at waits that can really be lapped"
    return replace(part, because=f"{part.because}; {less}")
