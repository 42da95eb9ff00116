"""A word in a role's hands, a flag or a counter whose value matters: each method gives an operation to yield."""

from __future__ import annotations

from typing import Any, get_args

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.values import Owner, number, one_of
from sm90_verify.spec.ptx import operations as op
from sm90_verify.spec.ptx.limits import WORD_VALUES
from sm90_verify.spec.ptx.memory import WIDER, Access, Scope, Strong, as_read, as_write

COMPARISONS: dict[str, op.Comparison] = {"equals": "==", "differs": "!=", "below": "<", "above": ">", "at_least": ">="}
"""How `spin` names them."""


class Word:
    """One word of 32 bits, as a role sees it. sem: "weak" (an ordinary access), "relaxed", "acquire", "release",
    "acq_rel" or "volatile"; scope: "cta", "cluster", "gpu" or "sys".
    """

    __slots__ = ("_owner", "access", "values")

    def __init__(self, owner: Owner, access: Access, values: int) -> None:
        self._owner, self.access, self.values = owner, access, values

    def ld(self, sem: str = "relaxed", scope: Scope = "gpu") -> op.Operation:
        """ld.sem.scope: the yield gives the value."""
        order = _ordering(sem, scope)
        return self._owner.created(op.WordLoad(self._reads(order), order, self.values))

    def st(self, value: int, sem: str = "relaxed", scope: Scope = "gpu") -> op.Operation:
        """st.sem.scope of a value."""
        order = _ordering(sem, scope)
        return self._owner.created(op.WordStore(self._writes(order), order, number(value, "a value", WORD_VALUES - 1)))

    def atom(
        self, kind: op.AtomKind, operand: int = 1, compare: int = 0, *, sem: str = "relaxed", scope: Scope = "gpu"
    ) -> op.Operation:
        """atom.sem.scope.kind (add, inc, dec, exch, cas, min, max, and, or, xor): the yield gives the value before.

        compare: of cas, the value that is replaced by the operand.
        """
        return self._owner.created(self._atom(kind, operand, compare, sem, scope, True))

    def red(
        self, kind: op.AtomKind = "add", operand: int = 1, *, sem: str = "relaxed", scope: Scope = "gpu"
    ) -> op.Operation:
        """red.sem.scope.kind: the same without an answer."""
        if kind in ("exch", "cas"):
            raise SpecError(f"red has no {kind}: use atom")
        return self._owner.created(self._atom(kind, operand, 0, sem, scope, False))

    def spin(self, *, sem: str = "acquire", scope: Scope = "gpu", **until: int) -> op.Operation:
        """A loop of ld.sem.scope until the value equals, differs from, or is at_least, above or below a number: one of
        `equals`, `differs`, `at_least`, `above`, `below`.
        """
        if len(until) != 1 or not set(until) <= set(COMPARISONS):
            raise SpecError(f"spin({', '.join(until)}): give one of {', '.join(COMPARISONS)}, such as equals=1")
        ((how, value),) = until.items()
        order = _ordering(sem, scope)
        compared = number(value, how, WORD_VALUES - 1)
        return self._owner.created(op.Spin(self._reads(order), order, COMPARISONS[how], compared))

    def _atom(
        self, kind: op.AtomKind, operand: int, compare: int, sem: str, scope: Scope, answers: bool
    ) -> op.Operation:
        kind = one_of(kind, get_args(op.AtomKind), "atom")
        order = _ordering(sem, scope)
        least = -WORD_VALUES if kind == "add" else 0
        operand = number(operand, "an operand", WORD_VALUES - 1, least)
        compare = number(compare, "a value to compare with", WORD_VALUES - 1)
        return op.Atom(self._writes(order), order, kind, operand, self.values, compare, answers)

    def _reads(self, order: op.Ordering) -> Access:
        return as_read(self.access, "generic")._replace(strong=self._strong(order))

    def _writes(self, order: op.Ordering) -> Access:
        return as_write(self.access, "generic")._replace(strong=self._strong(order))

    def _strong(self, order: op.Ordering) -> Strong | None:
        return None if order.sem == "weak" else Strong(order.scope, *self._owner._launch.place(self._owner._cta))

    def __bool__(self) -> bool:
        raise SpecError(f"{self.access.object} has no truth value: yield {self.access.object}.ld() gives its value")


def _ordering(sem: str, scope: Any) -> op.Ordering:
    """What .sem and .scope say; .volatile is relaxed for the system (8.4)."""
    if sem == "volatile":
        return op.Ordering("relaxed", "sys")
    sems: tuple[op.Sem, ...] = get_args(op.Sem)
    return op.Ordering(one_of(sem, sems, "sem"), one_of(scope, WIDER, "a scope"))  # type: ignore[arg-type]
