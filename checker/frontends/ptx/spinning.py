"""Whether a try_wait is a wait: with the answer no, its lanes come back to it and have done nothing that others notice.

Otherwise it is a peek, whose answer only decides whether they wait later. Loops that give up after a time are taken
for waits, which is an assumption.
"""

from __future__ import annotations

from typing import NamedTuple

from sm90_verify.frontends.ptx.accumulators import TouchStep
from sm90_verify.frontends.ptx.code import Block, Code, Specials
from sm90_verify.frontends.ptx.fragment import Fragment
from sm90_verify.frontends.ptx.instruction import Register
from sm90_verify.frontends.ptx.values import Unknown, Value

ROUNDS = 64
"""Times that a loop which counts is followed before it is taken for one that only gives up in an emergency."""
MOST_BLOCKS = 64
"""Blocks between two tries."""


class ComesBack(NamedTuple):
    """assumes: what is taken for granted, in a few words. touches: of registers of wgmma, on the way."""

    spins: bool
    assumes: str = ""
    touches: tuple[TouchStep, ...] = ()


def comes_back(code: Code, fragment: Fragment, number: int, specials: Specials) -> ComesBack:
    """Whether lanes that get the answer no at an instruction come to it again before anything else."""
    registers = fragment.registers.copy()
    block = fragment.block
    assumes = ""
    touches: dict[TouchStep, None] = {}
    for _ in range(ROUNDS):
        before = registers.copy()
        _answer_no(code, registers, number)
        found = _next(code, registers, specials, block, number, touches)
        if found is None:
            return ComesBack(False)
        block, gave_up = found
        assumes = assumes or gave_up
        _answer_no(code, before, number)
        after = registers.copy()
        _answer_no(code, after, number)
        if all(one is other or one == other for one, other in zip(before, after, strict=True)):
            return ComesBack(True, assumes, tuple(touches))
    return ComesBack(True, assumes or "the loop around it counts its tries and does not give up", tuple(touches))


def _answer_no(code: Code, registers: list[Value], number: int) -> None:
    into = code.function.code[number].operands[0]
    if isinstance(into, Register) and into.number in code.slots:
        registers[code.slots[into.number]] = 0


def _next(
    code: Code,
    registers: list[Value],
    specials: Specials,
    block: int,
    number: int,
    touches: dict[TouchStep, None],
) -> tuple[int, str] | None:
    """Follows the lanes to the same instruction, giving its block; None if they come to something else before. What
    they touch on the way goes into `touches`.
    """
    here = code.blocks[block]
    step = here.steps.index(number) + 1
    assumes = ""
    for _ in range(MOST_BLOCKS):
        for one in here.steps[step:]:
            if isinstance(one, int):
                if one == number:
                    return block, assumes
                if not _is_idle(code, one):
                    return None
            elif isinstance(one, TouchStep):
                touches[one] = None
            else:
                one(registers, specials)
        found = _after(code, registers, here)
        if found is None:
            return None
        block, gave_up = found
        assumes = assumes or gave_up
        here, step = code.blocks[block], 0
    return None


def _is_idle(code: Code, number: int) -> bool:
    """Nobody notices that it is executed."""
    one = code.function.code[number]
    return one.opcode in ("nanosleep", "activemask")


def _after(code: Code, registers: list[Value], block: Block) -> tuple[int, str] | None:
    """The block after this one; where that depends on the clock, the one that does not end in a trap or an exit."""
    if block.last < 0:
        return block.next, ""
    one = code.function.code[block.last]
    if one.opcode != "bra":
        return None
    target = code.block_at.get(one.target, -1)
    if one.guard is None:
        return target, ""
    value = registers[code.slots[one.guard.register]]
    if isinstance(value, int):
        return (target if bool(value) != one.guard.negated else block.next), ""
    if isinstance(value, Unknown):
        for this, other in ((target, block.next), (block.next, target)):
            if other < 0 or _ends(code, other):
                return this, f"the loop around it does not give up ({value.why})"
    return None


def _ends(code: Code, block: int) -> bool:
    """Whoever comes to the block traps or exits, and nothing else."""
    for _ in range(MOST_BLOCKS):
        if block < 0:
            return True
        here = code.blocks[block]
        if here.last >= 0:
            one = code.function.code[here.last]
            if one.opcode != "bra":
                return True
            if one.guard is not None:
                return False
            block = code.block_at.get(one.target, -1)
        else:
            block = here.next
    return False


def comes_to_line(code: Code, fragment: Fragment, block: int, line: int, specials: Specials) -> bool:
    """Whether lanes that go on at a block come to the instruction of a line before anything that others notice."""
    registers = fragment.registers.copy()
    for _ in range(MOST_BLOCKS):
        if block < 0:
            return False
        here = code.blocks[block]
        for one in here.steps:
            if isinstance(one, int):
                if code.function.code[one].line == line:
                    return True
                if not _is_idle(code, one):
                    return False
            else:
                one(registers, specials)
        found = _after(code, registers, here)
        if found is None:
            return False
        block = found[0]
    return False
