"""The Z3 reading of an expression, and the only place that knows z3: everything else builds terms through this
module.

An expression of one bit is a Bool, a wider one a BitVec of its width; `+` and `-` wrap, `<` is unsigned, as in every
other reading. z3 itself is imported when the first term is built, never when this module is.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sm90_verify.spec.ptx.expr import Apply, Expr, Field, Lit, compute, fold

Term = Any
"""A z3 term; z3 has no type annotations."""


def z3_module() -> Any:
    """The z3 package."""
    return importlib.import_module("z3")


@dataclass(frozen=True)
class Places:
    """A number from 0 to len(bits) by what it exceeds: bits[i] says that it is larger than i.

    A solver that knows one bit knows all bits on one side of it, which suits numbers that are only compared with
    constants: the location of a role.
    """

    bits: tuple[Term, ...]
    known: dict[int, Term] = field(default_factory=dict, compare=False, kw_only=True)
    """Terms of `equals` that have been asked for."""

    @staticmethod
    def named(name: str, size: int) -> Places:
        z3 = z3_module()
        return Places(tuple(z3.Bool(f"{name}>{i}") for i in range(size - 1)))

    def at_least(self, number: int) -> Term:
        if number <= 0 or number > len(self.bits):
            return z3_module().BoolVal(number <= 0)
        return self.bits[number - 1]

    def equals(self, number: int) -> Term:
        if number not in self.known:
            self.known[number] = conjunction([self.at_least(number), z3_module().Not(self.at_least(number + 1))])
        return self.known[number]

    def table(self, values: tuple[int, ...], width: int) -> Term:
        """The value that a table has at the number: a balanced choice between the runs of equal values."""
        starts = [i for i, number in enumerate(values) if not i or number != values[i - 1]]

        def choose(low: int, high: int) -> Term:
            if high - low == 1:
                return value(values[starts[low]], width)
            middle = (low + high) // 2
            above, below = choose(middle, high), choose(low, middle)
            return z3_module().If(self.at_least(starts[middle]), above, below)

        return choose(0, len(starts))

    def well_formed(self) -> list[Term]:
        z3 = z3_module()
        return [z3.Implies(more, less) for less, more in zip(self.bits, self.bits[1:], strict=False)]


@dataclass(frozen=True)
class Values:
    """What an expression over one such number is, value by value."""

    places: Places
    values: tuple[int, ...]


@dataclass(frozen=True)
class MovedPlaces(Places):
    """The same number one step later: `start` before the step, `edges` the ways to move, each with its condition.

    What a table says of it is what it said before, except where an edge is taken that changes it: most edges do not.
    """

    start: Places
    edges: tuple[tuple[int, int, Term], ...]

    def table(self, values: tuple[int, ...], width: int) -> Term:
        changes: dict[int, list[Term]] = {}
        for source, target, taken in self.edges:
            if values[source] != values[target]:
                changes.setdefault(values[target], []).append(taken)
        result = self.start.table(values, width)
        for number, taken in changes.items():
            result = z3_module().If(disjunction(taken), value(number, width), result)
        return result


def conjunction(terms: Iterable[Term]) -> Term:
    """All of the terms."""
    parts = list(terms)
    z3 = z3_module()
    return parts[0] if len(parts) == 1 else _joined(z3.Z3_mk_and, parts) if parts else z3.BoolVal(True)


def disjunction(terms: Iterable[Term]) -> Term:
    """Any of the terms."""
    parts = list(terms)
    z3 = z3_module()
    return parts[0] if len(parts) == 1 else _joined(z3.Z3_mk_or, parts) if parts else z3.BoolVal(False)


def _joined(make: Callable[..., Any], parts: list[Term]) -> Term:
    """As z3.And and z3.Or do, which look for what is no Bool yet first: that takes longer than all the rest."""
    z3 = z3_module()
    context = z3.main_ctx()
    return z3.BoolRef(make(context.ref(), len(parts), _asts(parts)), context)


def _asts(terms: Sequence[Term]) -> Any:
    return (z3_module().Ast * len(terms))(*(term.as_ast() for term in terms))


def substituted(term: Term, pairs: Sequence[tuple[Term, Term]]) -> Term:
    """A Bool in which the second of each pair stands where the first one, of the same sort, did."""
    z3 = z3_module()
    old, new = (_asts([pair[place] for pair in pairs]) for place in (0, 1))
    return z3.BoolRef(z3.Z3_substitute(term.ctx.ref(), term.as_ast(), len(pairs), old, new), term.ctx)


def symbol(name: str, width: int) -> Term:
    """A fresh-by-name constant that stands for a value of `width` bits."""
    z3 = z3_module()
    return z3.Bool(name) if width == 1 else z3.BitVec(name, width)


def value(number: int, width: int) -> Term:
    """The number as a term of `width` bits."""
    z3 = z3_module()
    return z3.BoolVal(bool(number)) if width == 1 else z3.BitVecVal(number, width)


def z3_term(expr: Expr, term_of: Callable[[str], Term | Places], memo: dict[int, Term] | None = None) -> Term:
    """The term with the same value; `term_of` gives the term of a state variable, Bool if it has one bit, or its
    Places.

    `memo` is keyed by the identity of expressions: share it only between expressions that stay alive.
    """

    def field(node: Field) -> Term:
        term = term_of(node.name)
        return Values(term, tuple(range(len(term.bits) + 1))) if isinstance(term, Places) else term

    result = fold(expr, lambda lit: lit, field, _operation, memo)
    return _as_term(result, expr.width)


def _as_term(part: Term, width: int) -> Term:
    if isinstance(part, Values):
        return part.places.table(part.values, width)
    return value(part.value, width) if isinstance(part, Lit) else part


def _column(part: Lit | Values, rows: int) -> tuple[int, ...]:
    return part.values if isinstance(part, Values) else (part.value,) * rows


def _row_by_row(node: Apply, columns: list[tuple[int, ...]]) -> tuple[int, ...]:
    """The operator on every row: the commonest ones spelled out, because there are very many rows."""
    match node.operator:
        case "eq":
            return tuple(map(int, map(operator.eq, *columns)))
        case "lt":
            return tuple(map(int, map(operator.lt, *columns)))
        case "and":
            return tuple(map(operator.and_, *columns))
        case "or":
            return tuple(map(operator.or_, *columns))
        case "where":
            return tuple(then if condition else other for condition, then, other in zip(*columns, strict=True))
    width = node.arguments[-1].width
    if node.operator == "sub":
        mask = (1 << width) - 1
        return tuple(number & mask for number in map(operator.sub, *columns))
    return tuple(compute(node.operator, list(row), width) for row in zip(*columns, strict=True))


def _operation(node: Apply, parts: list[Term]) -> Term:
    tables = [part for part in parts if isinstance(part, Values)]
    if tables and all(
        isinstance(part, Lit) or (isinstance(part, Values) and part.places is tables[0].places) for part in parts
    ):
        return Values(tables[0].places, _row_by_row(node, [_column(part, len(tables[0].values)) for part in parts]))
    parts = [_as_term(part, argument.width) for part, argument in zip(parts, node.arguments, strict=True)]
    z3 = z3_module()
    if node.operator == "where":
        return z3.If(*parts)
    if node.arguments[-1].width == 1:
        return _on_bits(z3, node.operator, parts)
    match node.operator, parts:
        case "add", [a, b]:
            return a + b
        case "sub", [a, b]:
            return a - b
        case "and", [a, b]:
            return a & b
        case "or", [a, b]:
            return a | b
        case "xor", [a, b]:
            return a ^ b
        case "not", [a]:
            return ~a
        case "eq", [a, b]:
            return a == b
        case "ne", [a, b]:
            return a != b
    return z3.ULT(*parts)


def _on_bits(z3: Any, operator: str, parts: list[Term]) -> Term:
    match operator, parts:
        case (("add" | "sub" | "xor" | "ne"), [a, b]):
            return z3.Xor(a, b)
        case "and", [a, b]:
            return z3.And(a, b)
        case "or", [a, b]:
            return z3.Or(a, b)
        case "not", [a]:
            return z3.Not(a)
        case "eq", [a, b]:
            return a == b
    return z3.And(z3.Not(parts[0]), parts[1])


def number_in(model: Any, term: Term) -> int:
    """The value of a term in a model, 0 for what the model leaves open."""
    z3 = z3_module()
    if isinstance(term, Places):
        return sum(z3.is_true(model.eval(bit)) for bit in term.bits)
    found = model.eval(term, model_completion=True)
    return int(z3.is_true(found)) if z3.is_bool(found) else int(found.as_long())


def is_true(expr: Expr) -> bool:
    return isinstance(expr, Lit) and expr.value == 1


def is_false(expr: Expr) -> bool:
    return isinstance(expr, Lit) and expr.value == 0
