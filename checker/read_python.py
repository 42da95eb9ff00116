"""The Python reading of an expression: source text over ordinary ints that evaluates to the same number."""

from __future__ import annotations

from collections.abc import Callable

from spec.expr import Apply, Expr, fold


def python_source(expr: Expr, name_of: Callable[[str], str], memo: dict[int, str] | None = None) -> str:
    """An expression of Python that gives the value; `name_of` says how a state variable is written."""
    return fold(expr, lambda lit: str(lit.value), lambda field: name_of(field.name), _operation, memo)


def _operation(node: Apply, parts: list[str]) -> str:
    mask = (1 << node.arguments[-1].width) - 1
    match node.operator:
        case "add":
            return f"({parts[0]} + {parts[1]} & {mask})"
        case "sub":
            return f"({parts[0]} - {parts[1]} & {mask})"
        case "and":
            return f"({parts[0]} & {parts[1]})"
        case "or":
            return f"({parts[0]} | {parts[1]})"
        case "xor":
            return f"({parts[0]} ^ {parts[1]})"
        case "not":
            return f"({parts[0]} ^ {mask})"
        case "eq":
            return f"({parts[0]} == {parts[1]})"
        case "ne":
            return f"({parts[0]} != {parts[1]})"
        case "lt":
            return f"({parts[0]} < {parts[1]})"
    return f"({parts[1]} if {parts[0]} else {parts[2]})"
