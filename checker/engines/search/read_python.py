"""The Python reading of an expression: source text over ordinary ints that evaluates to the same number."""

from __future__ import annotations

from collections.abc import Callable

from sm90_verify.engines.search.one_of import OneOf, one_of
from sm90_verify.spec.ptx.expr import Apply, Expr, Field, fold

SHORT = 64
"""Sets of up to so many numbers are written as such."""


def python_source(
    expr: Expr,
    name_of: Callable[[str], str],
    memo: dict[int, str] | None = None,
    set_of: Callable[[tuple[int, ...]], str] | None = None,
) -> str:
    """An expression of Python that gives the value; `name_of` says how a state variable is written, and `set_of` how a
    set of numbers, if it is not to be written out.
    """

    sets: dict[int, OneOf] = {}

    def operation(node: Apply, parts: list[str]) -> str:
        field, values = one_of(node, sets)
        if 1 < len(values) <= SHORT and not isinstance(node.arguments[0], Field):  # x < 3 is as short as it can be
            numbers = tuple(sorted(values))
            written = set_of(numbers) if set_of else f"{{{', '.join(map(str, numbers))}}}"
            return f"({name_of(field)} in {written})"
        return _operation(node, parts)

    return fold(expr, lambda lit: str(lit.value), lambda field: name_of(field.name), operation, memo)


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
