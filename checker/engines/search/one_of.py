"""Conditions that say no more than that a variable is one of some numbers, such as where a role is."""

from __future__ import annotations

from sm90_verify.spec.ptx.expr import Apply, Expr, Field, Lit

OneOf = tuple[str, frozenset[int]]
"""The variable and the numbers; "" and none where a condition says anything else."""
_MORE: OneOf = "", frozenset()


def one_of(expr: Expr, known: dict[int, OneOf]) -> OneOf:
    """What a condition says of a variable. known: what has been found out, by the identity of the expression."""
    if id(expr) not in known:
        known[id(expr)] = _one_of(expr, known)
    return known[id(expr)]


def _one_of(expr: Expr, known: dict[int, OneOf]) -> OneOf:
    match expr:
        case Apply("eq", (Field(name), Lit(value))):
            return name, frozenset((value,))
        case Apply("lt", (Apply("sub", (Field(name, width), Lit(low))), Lit(size))):
            return name, frozenset(low + more & (1 << width) - 1 for more in range(size))
        case Apply("lt", (Field(name), Lit(size))):
            return name, frozenset(range(size))
        case Apply("or", (one, other), 1):
            (name, these), (same, those) = one_of(one, known), one_of(other, known)
            return (name, these | those) if name == same else _MORE
    return _MORE
