"""How many bytes a phase expects and how many have come, where a copy delivers more than are expected."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from sm90_verify.spec.model.machine import Action, BarrierInfo, Machine
from sm90_verify.spec.ptx.expr import evaluate

State = dict[str, int]


def bytes_counted(machine: Machine, path: Sequence[State], action: Action, before: State) -> str:
    """In words, for the barrier of which the action makes the tx-count negative; "" if there is none. path: the states
    up to that before the action.
    """
    updates = dict(action.updates)
    for info in machine.structure.barriers:
        if info.tx in updates:
            left = _signed(machine, info, evaluate(updates[info.tx], before))
            now = _signed(machine, info, before[info.tx])
            if left < min(now, 0):
                expected, came = _of_phase(machine, info, [*path, before])
                return f"{expected} bytes are expected in this phase, and {came + now - left} have come"
    return ""


def _of_phase(machine: Machine, info: BarrierInfo, states: Sequence[State]) -> tuple[int, int]:
    """The bytes that are expected and those that have come in the phase of the last state."""
    expected = came = 0
    for one, other in pairwise(states):
        if one[info.phase] != other[info.phase]:
            expected = came = 0
            continue
        more = _signed(machine, info, other[info.tx]) - _signed(machine, info, one[info.tx])
        expected, came = (expected + more, came) if more > 0 else (expected, came - more)
    return expected, came


def _signed(machine: Machine, info: BarrierInfo, value: int) -> int:
    width = machine.variables[machine.order[info.tx]].width
    return value - (1 << width) if value >> width - 1 else value
