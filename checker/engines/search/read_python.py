"""The Python reading of an expression: source text over ordinary ints that evaluates to the same number."""

from __future__ import annotations

from collections.abc import Callable

from sm90_verify.spec.ptx.expr import Apply, Expr, Field, Lit, fold

SHORT = 64
"""Ranges of up to so many numbers are written out."""


def python_source(
    expr: Expr,
    name_of: Callable[[str], str],
    memo: dict[int, str] | None = None,
    set_of: Callable[[tuple[int, ...]], str] | None = None,
) -> str:
    """An expression of Python that gives the value; `name_of` says how a state variable is written, and `set_of` how a
    set of numbers, if it is not to be written out.
    """

    def operation(node: Apply, parts: list[str]) -> str:
        field, values = _one_of(node)
        if len(values) > 1:
            numbers = tuple(sorted(values))
            written = set_of(numbers) if set_of else f"{{{', '.join(map(str, numbers))}}}"
            return f"({name_of(field)} in {written})"
        return _operation(node, parts)

    return fold(expr, lambda lit: str(lit.value), lambda field: name_of(field.name), operation, memo)


def _one_of(expr: Expr) -> tuple[str, set[int]]:
    """The field and the numbers, if the expression says no more than that the field is one of them."""
    if isinstance(expr, Apply) and expr.operator == "eq":
        left, right = expr.arguments
        if isinstance(left, Field) and isinstance(right, Lit):
            return left.name, {right.value}
    elif isinstance(expr, Apply) and expr.operator == "lt":
        left, right = expr.arguments
        if isinstance(left, Apply) and left.operator == "sub" and isinstance(right, Lit) and right.value <= SHORT:
            left, low = left.arguments
            if isinstance(left, Field) and isinstance(low, Lit):
                return left.name, {low.value + more & (1 << left.width) - 1 for more in range(right.value)}
    elif isinstance(expr, Apply) and expr.operator == "or" and expr.width == 1:
        (one, these), (other, those) = (_one_of(part) for part in expr.arguments)
        if one == other and these and those:
            return one, these | those
    return "", set()


def _operation(node: Apply, parts: list[str]) -> str:
    """One bit is false or true, whichever of 0, False and 1, True stands for it."""
    mask = (1 << node.arguments[-1].width) - 1
    bit = node.width == 1
    match node.operator:
        case "add":
            return f"({parts[0]} + {parts[1]} & {mask})"
        case "sub":
            return f"({parts[0]} - {parts[1]} & {mask})"
        case "and":
            return f"({parts[0]} {'and' if bit else '&'} {parts[1]})"
        case "or":
            return f"({parts[0]} {'or' if bit else '|'} {parts[1]})"
        case "xor":
            return f"({parts[0]} ^ {parts[1]})"
        case "not":
            return f"(not {parts[0]})" if bit else f"({parts[0]} ^ {mask})"
        case "eq":
            return f"({parts[0]} == {parts[1]})"
        case "ne":
            return f"({parts[0]} != {parts[1]})"
        case "lt":
            return f"({parts[0]} < {parts[1]})"
    return f"({parts[1]} if {parts[0]} else {parts[2]})"
