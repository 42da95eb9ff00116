"""What instructions compute, as Python expressions over their operands: one for each register that is written.

Integers are followed bit by bit, and so are comparisons of floating-point numbers; other floating-point results are
Unknown. A form that is not known here is refused where its result matters.
"""

from __future__ import annotations

from sm90_verify.frontends.ptx.comparisons import COMPARISONS
from sm90_verify.frontends.ptx.expressions import WIDTHS, Expression, NotKnown, Operands, Writers, ones
from sm90_verify.frontends.ptx.instruction import Operand, Pair, Register, Vector
from sm90_verify.frontends.ptx.integers import INTEGERS
from sm90_verify.frontends.ptx.logic import LOGIC
from sm90_verify.frontends.ptx.moves import MOVES
from sm90_verify.frontends.ptx.opcodes import CARRY, is_opaque, parts_of

WRITERS: Writers = {**INTEGERS, **COMPARISONS, **LOGIC, **MOVES}


def expressions_of(operands: Operands) -> tuple[Expression, ...]:
    """What an instruction writes. Raises NotKnown if that is not known here."""
    one = operands.one
    if not one.operands:
        raise NotKnown
    first, given = one.operands[0], one.operands[1:]
    if is_opaque(one):
        return tuple(Expression(number, None, ()) for number in _targets(first) if number != -1)
    writer = WRITERS.get(one.opcode)
    if writer is None:
        raise NotKnown
    targets = _targets(first)
    try:
        found = writer(operands, one.modifiers, given)
        values = (found,) if isinstance(found, str) else found
        if isinstance(first, Vector) and len(values) == 1:
            values = _unpacked(values[0], one.type, len(targets))
    except (KeyError, IndexError, ValueError) as error:
        raise NotKnown from error
    if "cc" in one.modifiers:
        targets = (*targets, CARRY)
    reads = tuple(operands.reads)
    return tuple(Expression(number, text, reads) for number, text in zip(targets, values, strict=False) if number != -1)


def _targets(operand: Operand) -> tuple[int, ...]:
    """The registers that a destination names, -1 for a sink."""
    if isinstance(operand, Pair):
        return *_targets(operand.first), *_targets(operand.second)
    return tuple(part.number if isinstance(part, Register) else -1 for part in parts_of(operand))


def _unpacked(text: str, kind: str, count: int) -> tuple[str, ...]:
    """`mov.b64 {a, b}, c`: the low part first."""
    if not count or WIDTHS[kind] % count:
        raise NotKnown
    bits = WIDTHS[kind] // count
    return tuple(f"(({text}) >> {bits * number}) & {ones(bits)}" for number in range(count))
