"""setmaxnreg: registers move between the warps of a CTA through a pool (PTX ISA 9.7.19.5).

PTX wants all warps of a warpgroup to execute the same one. Which roles are warps of one warpgroup is not known here, so
that is not asked.
"""

from __future__ import annotations

from typing import assert_never

from sm90_verify.spec.ptx.expr import TRUE, Expr, Field, Lit
from sm90_verify.spec.ptx.needs import GRANTED
from sm90_verify.spec.ptx.operations import Setmaxnreg
from sm90_verify.spec.ptx.step import Illegal, Way


def register_way(free: Field, before: int, threads: int, change: Setmaxnreg) -> Way:
    """The change by threads that have `before` registers each: one for more waits until the pool has enough."""
    delta = (change.registers - before) * threads
    wrong = not 24 <= change.registers <= 256 or change.registers % 8 != 0
    match change.kind:
        case "dec":
            wrong |= delta > 0
        case "inc":
            wrong |= delta < 0
        case _:
            assert_never(change.kind)
    illegal: tuple[Illegal, ...] = ()
    if wrong:
        request = f"setmaxnreg.{change.kind} {change.registers} from {before}"
        because = f"{request}: a multiple of 8 from 24 to 256 that goes the right way"
        illegal = (Illegal("register-pool", TRUE, because),)
    if delta <= 0:
        return Way(TRUE, ((free.name, free + _of_pool(-delta, free)),), illegal)
    need = _of_pool(delta, free)
    return Way(free >= need, ((free.name, free - need),), illegal)


def _of_pool(registers: int, free: Field) -> Lit:
    """So many registers, or more than a pool has."""
    return Lit(min(registers, (1 << free.width) - 1), free.width)


def never_granted(role: str, free: Field, need: int, over: Expr) -> list[Illegal]:
    """The pool has too few registers, and nobody will execute setmaxnreg.dec any more (`over`)."""
    if need <= 0:
        return []
    return [GRANTED.unmet((free < _of_pool(need, free)) & over, role=role, registers=need)]
