"""Branches that decide nothing: whichever way lanes go, nobody notices until both ways meet again.

So it does not matter that their condition is not known. A kernel that counts its errors in global memory has them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from sm90_verify.frontends.ptx.accumulators import TouchStep
from sm90_verify.frontends.ptx.code import Code
from sm90_verify.frontends.ptx.instruction import PtxInstruction
from sm90_verify.frontends.ptx.opcodes import kind_of, registers_of

MOST = 64
"""Instructions on each of the ways."""


class WaysMeet(NamedTuple):
    """block: at which both ways of a branch meet. touches: of registers of wgmma, on one of them."""

    block: int
    touches: TouchStep


def meeting_of(code: Code, branch: int) -> WaysMeet | None:
    """Where both ways of a conditional branch meet; None if what lies on them matters to anybody."""
    one = code.function.code[branch]
    taken, other = list(_way(code, one.target)), list(_way(code, branch + 1))
    meeting = next((number for number in taken if number in other), None)
    if meeting is None or meeting not in code.block_at:
        return None
    between = {*taken[: taken.index(meeting)], *other[: other.index(meeting)]}
    written = {register for number in between for register in registers_of(code.function.code[number]).written}
    for number, reader in enumerate(code.function.code):
        if number not in between and not written.isdisjoint(code.sliced.read_by(number, reader)):
            return None
    touches = (touch for number in sorted(between) for touch in code.wgmma.touches.get(number, ()))
    return WaysMeet(code.block_at[meeting], TouchStep(tuple(touches)))


def _way(code: Code, number: int) -> Iterator[int]:
    """From an instruction on, as long as nothing is noticed; the instruction that would be is the last."""
    for _ in range(MOST):
        if not 0 <= number < len(code.function.code):
            return
        yield number
        one = code.function.code[number]
        if one.opcode == "bra" and one.guard is None:
            number = one.target
        elif _is_idle(one):
            number += 1
        else:
            return


def _is_idle(one: PtxInstruction) -> bool:
    """It only computes, or accesses global memory, whose contents nobody follows."""
    if one.opcode in ("ld", "st", "atom", "red"):
        return ("global" in one.modifiers and "async" not in one.modifiers) or one.modifiers[:1] == ("param",)
    return kind_of(one) in ("value", "nothing")
