"""The C reading of an expression: C99 or CUDA source over uint64_t that evaluates to the same number."""

from __future__ import annotations

from collections.abc import Callable

from sm90_verify.spec.ptx.expr import Apply, Expr, fold


def c_source(expr: Expr, name_of: Callable[[str], str]) -> str:
    """A C expression of type uint64_t; `name_of` says how a state variable (a uint64_t within its width) is written."""
    return fold(expr, lambda lit: f"UINT64_C({lit.value})", lambda field: name_of(field.name), _operation)


def _operation(node: Apply, parts: list[str]) -> str:
    mask = f"UINT64_C({(1 << node.arguments[-1].width) - 1})"
    match node.operator:
        case "where":
            return f"({parts[0]} ? {parts[1]} : {parts[2]})"
        case "not":
            return f"(~{parts[0]} & {mask})"
        case "add" | "sub":
            return f"(({parts[0]} {'+' if node.operator == 'add' else '-'} {parts[1]}) & {mask})"
        case "eq" | "ne" | "lt":
            symbol = {"eq": "==", "ne": "!=", "lt": "<"}[node.operator]
            return f"((uint64_t)({parts[0]} {symbol} {parts[1]}))"
    symbol = {"and": "&", "or": "|", "xor": "^"}[node.operator]
    return f"({parts[0]} {symbol} {parts[1]})"
