"""What one operation does to the state of the hardware, as data: the four parts that every operation has."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal, NamedTuple

from sm90_verify.spec.ptx.expr import FALSE, TRUE, Expr, any_of, where


class Illegal(NamedTuple):
    """`property` is violated when the operation meets `when`; `because` is the sentence that says why."""

    property: str
    when: Expr
    because: str


class Step(NamedTuple):
    """The meaning of one operation by one thread, or by several threads of which each does it once.

    when: it can be taken, else its thread is blocked. then: by part of a barrier, its value afterwards. completes: it
    ends the phase. illegal: what it must not meet, in the state before it.
    """

    when: Expr = TRUE
    then: Mapping[str, Expr] = MappingProxyType({})
    completes: Expr = FALSE
    illegal: tuple[Illegal, ...] = ()


def saturating_increment(count: Expr, condition: Expr) -> Expr:
    """count + 1 where the condition holds, held at the largest value of its width: exact for every smaller value."""
    top = (1 << count.width) - 1
    return where(condition & (count != top), count + 1, count)


def violated(illegal: tuple[Illegal, ...]) -> Expr:
    """Whether any of the parts holds."""
    return any_of(part.when for part in illegal)


Updates = tuple[tuple[str, Expr], ...]
"""(variable, its value afterwards), all of them at once; what is not named stays as it is."""

WayKind = Literal["step", "enters", "completes", "leaves", "stays"]


class Way(NamedTuple):
    """One way to take an operation where `guard` holds, to the successor for `answer`. `label` says which way it is, to
    people.

    kind: at a barrier of threads, "enters" it, to wait inside for the others; "completes" it; or "leaves" one that is
    complete. "stays": the role is where it was. completes: where it completes a phase, or a generation in which it does
    not wait; completed: the same by barrier, where it acts on several.
    """

    guard: Expr
    updates: Updates
    illegal: tuple[Illegal, ...] = ()
    answer: object = None
    label: str = ""
    kind: WayKind = "step"
    completes: Expr = FALSE
    completed: tuple[tuple[str, Expr], ...] = ()
