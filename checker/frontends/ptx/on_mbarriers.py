"""mbarrier instructions (PTX ISA 9.7.13.15), executed: what each does to a barrier says its Step in spec.ptx."""

from __future__ import annotations

from typing import Literal

from sm90_verify.frontends.ptx.events import (
    Arrived,
    BarrierAt,
    Expected,
    Initialised,
    Invalidated,
    LaneEvent,
    Peeked,
    Waited,
)
from sm90_verify.frontends.ptx.fragment import Fragment
from sm90_verify.frontends.ptx.handlers import Binding, Handler
from sm90_verify.frontends.ptx.instruction import AddressOperand, Immediate, Sink
from sm90_verify.frontends.ptx.operands import Indices
from sm90_verify.frontends.ptx.state import ExecutedBarrier, Warp
from sm90_verify.frontends.ptx.values import Unknown
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.mbarrier_operations import AnyScope
from sm90_verify.spec.ptx.memory import WIDER
from sm90_verify.spec.ptx.numbers import KnownBarrier, apply
from sm90_verify.spec.ptx.signals import OnBarrier

PHASE_TOKENS = 1 << 62
"""A state that mbarrier.arrive returns is this and the number of the phase of the arrival."""


def on_mbarrier(bound: Binding) -> Handler:
    """The handler of an mbarrier instruction."""
    match bound.one.modifiers[0]:
        case "init":
            return _init(bound)
        case "inval":
            return _inval(bound)
        case "arrive" | "arrive_drop":
            return _arrive(bound)
        case "expect_tx" | "complete_tx":
            return _transaction(bound)
        case "try_wait" | "test_wait":
            return _wait(bound)
        case "pending_count":
            return _pending_count(bound)
        case _:
            raise bound.unknown_form()


def _pending_count(bound: Binding) -> Handler:
    """mbarrier.pending_count: a state says here which phase its arrival was in, and not how many were pending."""
    unknown = Unknown(0, f"what {bound.one.name} gives, which is not followed")

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        bound.write(fragment, bound.one.operands[0], lanes, unknown)
        return True

    return run


def do(bound: Binding, at: BarrierAt, operation: OnBarrier, times: int = 1) -> None:
    """Applies an operation to a barrier, so many times."""
    state = bound.cluster.barrier(at)
    for _ in range(times):
        applied = apply(state.known, operation)
        state.known = applied.barrier
        state.completed += applied.completes


def _init(bound: Binding) -> Handler:
    address, count = bound.reader.shared(bound.one.operands[0]), bound.reader.get(bound.one.operands[1])

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        found = bound.reader.by_value(lanes, (address(fragment), "the barrier"), (count(fragment), "the count"))
        for (where, number), some in found:
            at = bound.barrier(warp, where)
            bound.cluster.ctas[at.rank].barriers[at.address] = ExecutedBarrier(apply_init(number))
            bound.note(warp, fragment, some, Initialised(at, number))
        return True

    return run


def apply_init(count: int) -> KnownBarrier:
    """A barrier that has just been initialised."""
    return KnownBarrier.initialised(count)


def _inval(bound: Binding) -> Handler:
    address = bound.reader.shared(bound.one.operands[0])

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        for (where,), some in bound.reader.by_value(lanes, (address(fragment), "the barrier")):
            at = bound.barrier(warp, where)
            do(bound, at, op.Inval(""))
            bound.note(warp, fragment, some, Invalidated(at))
        return True

    return run


def scope_of(words: tuple[str, ...]) -> AnyScope:
    """The scope that an instruction names, "" for none."""
    return next((scope for scope in WIDER if scope in words), "")


def _arrive(bound: Binding) -> Handler:
    one, words = bound.one, bound.one.modifiers
    operands = one.operands
    into = operands[0] if not isinstance(operands[0], AddressOperand) else Sink()
    given = operands if isinstance(operands[0], AddressOperand) else operands[1:]
    address = bound.reader.shared(given[0])
    operand = bound.reader.get(given[1] if len(given) > 1 else Immediate(1))
    expects = "expect_tx" in words
    kind: Literal["arrive", "drop", "no_complete"] = "arrive"
    if words[0] == "arrive_drop":
        kind = "drop"
    elif "noComplete" in words:
        kind = "no_complete"
    sem: Literal["release", "relaxed"] = "relaxed" if "relaxed" in words else "release"
    scope = scope_of(words)
    if kind == "drop" and (expects or "noComplete" in words):
        raise bound.unknown_form()

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        found = bound.reader.by_value(lanes, (address(fragment), "the barrier"), (operand(fragment), "the count"))
        for (where, number), some in found:
            at = bound.barrier(warp, where)
            count, expect = (1, number) if expects else (number, None)
            phase = bound.cluster.barrier(at).completed
            do(bound, at, op.Arrive("", count, expect, kind), len(some))
            bound.write(fragment, into, some, PHASE_TOKENS + phase)
            bound.note(warp, fragment, some, Arrived(at, count, expect, kind, sem, scope))
        return True

    return run


def _transaction(bound: Binding) -> Handler:
    address, bytes = bound.reader.shared(bound.one.operands[0]), bound.reader.get(bound.one.operands[1])
    sign = 1 if bound.one.modifiers[0] == "expect_tx" else -1

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        found = bound.reader.by_value(lanes, (address(fragment), "the barrier"), (bytes(fragment), "the bytes"))
        for (where, number), some in found:
            at = bound.barrier(warp, where)
            do(bound, at, op.Transaction("", sign * number), len(some))
            bound.note(warp, fragment, some, Expected(at, sign * number))
        return True

    return run


def _wait(bound: Binding) -> Handler:
    one, words = bound.one, bound.one.modifiers
    into, given = one.operands[0], one.operands[1:]
    address = bound.reader.shared(given[0])
    by_parity = "parity" in words
    operand = bound.reader.get(given[1], 32 if by_parity else 64)
    sem: Literal["acquire", "relaxed"] = "relaxed" if "relaxed" in words else "acquire"
    scope = scope_of(words)

    def run(warp: Warp, fragment: Fragment, lanes: Indices) -> bool:
        found = bound.reader.by_value(lanes, (address(fragment), "the barrier"), (operand(fragment), "the phase"))
        if len(found) > 1:
            part = fragment.split(fragment.mask_at(found[0][1]))
            warp.fragments.append(part)
            return False
        (where, number), some = found[0]
        at = bound.barrier(warp, where)
        parity = number & 1
        if not by_parity:
            parity = (number - PHASE_TOKENS) & 1
        if not bound.spins(warp, fragment, bound.number):
            bound.write(fragment, into, some, 0)
            bound.note(warp, fragment, some, Peeked(at, parity))
            return True
        state = bound.cluster.barrier(at)
        ready = state.completed > number - PHASE_TOKENS if not by_parity else _passes(state, parity)
        if not ready:
            phase = number - PHASE_TOKENS if not by_parity else state.completed
            waits = Waited(at, parity, phase, not by_parity, sem, scope)
            fragment.waits, fragment.stands_at = True, LaneEvent(bound.number, fragment.mask_at(some), waits)
            return False
        seen = state.completed - 1 if by_parity else number - PHASE_TOKENS
        bound.write(fragment, into, some, 1)
        bound.note(warp, fragment, some, Waited(at, parity, seen, not by_parity, sem, scope))
        return True

    return run


def _passes(state: ExecutedBarrier, parity: int) -> bool:
    return apply(state.known, op.Wait("", parity)).runs
