"""What operations do to the value of a word (PTX ISA 9.7.13.5 to .7), as expressions."""

from __future__ import annotations

from typing import NamedTuple, assert_never

from sm90_verify.spec.ptx.expr import FALSE, TRUE, Expr, Lit, where
from sm90_verify.spec.ptx.word_operations import Atom, Comparison


class Changed(NamedTuple):
    """The value afterwards, and where it would be one that the model does not have."""

    value: Expr
    beyond: Expr


def compares(value: Expr, comparison: Comparison, other: int) -> Expr:
    """value `comparison` other, which need not fit into the width of the value."""
    if other >= 1 << value.width:
        return TRUE if comparison in ("!=", "<", "<=") else FALSE
    match comparison:
        case "==":
            return value == other
        case "!=":
            return value != other
        case "<":
            return value < other
        case "<=":
            return value <= other
        case ">":
            return value > other
        case ">=":
            return value >= other
        case _:
            assert_never(comparison)


def atom(value: Expr, atom: Atom, values: int, *, wraps: bool) -> Changed:
    """An atomic operation on a word that has 0 to values - 1. wraps: the word counts modulo `values`."""
    width, operand = value.width, atom.operand
    match atom.kind:
        case "add":
            return _added(value, operand, values, wraps)
        case "inc":
            return _within(where(compares(value, ">=", operand), 0, value + 1), values, width)
        case "dec":
            low = (value == 0) | compares(value, ">", operand)
            return _within(where(low, _lit(operand, width), value - 1), values, width)
        case "exch":
            return _within(_lit(operand, width), values, width)
        case "cas":
            return _within(where(compares(value, "==", atom.compare), _lit(operand, width), value), values, width)
        case "min":
            return Changed(where(compares(value, ">", operand), _lit(operand, width), value), FALSE)
        case "max":
            return _within(where(compares(value, "<", operand), _lit(operand, width), value), values, width)
        case "and":
            return Changed(value & _lit(operand, width), FALSE)
        case "or":
            return _within(value | _lit(operand, width), values, width)
        case "xor":
            return _within(value ^ _lit(operand, width), values, width)
        case _:
            assert_never(atom.kind)


def _added(value: Expr, operand: int, values: int, wraps: bool) -> Changed:
    """Plus a number that may be negative: where that leaves the values, either round or beyond."""
    width, plus = value.width, operand % values
    if not plus and wraps:
        return Changed(value, FALSE)
    if wraps:
        over = value >= values - plus
        return Changed(where(over, value - (values - plus), value + plus), FALSE)
    if operand >= 0:
        beyond = TRUE if operand >= values else value >= values - operand if operand else FALSE
        return Changed(value + _lit(operand, width), beyond)
    beyond = TRUE if -operand >= values else value < -operand
    return Changed(value - _lit(-operand, width), beyond)


def _lit(number: int, width: int) -> Lit:
    """The number, or its low bits."""
    return Lit(number % (1 << width), width)


def _within(value: Expr, values: int, width: int) -> Changed:
    return Changed(value, FALSE if values == 1 << width else value >= values)
