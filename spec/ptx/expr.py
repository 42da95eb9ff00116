"""Expressions over hardware state: unsigned bit-vectors of a checked width.

The operators are total and mean the same in every reading (Python, C, Z3): `+` and `-` wrap modulo 2^width, `<` is
unsigned, comparisons have width 1. A literal that does not fit its width is an error when it is written, never a wrap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias, TypeVar

from sm90_verify.spec.errors import SpecError

MAX_WIDTH = 64
OPERATORS = ("add", "sub", "and", "or", "xor", "not", "eq", "ne", "lt", "where")


def _check_width(width: int) -> None:
    if not 1 <= width <= MAX_WIDTH:
        raise SpecError(f"a width of {width} bits: use 1 to {MAX_WIDTH}")


class Expr:
    """A bit-vector of `width` bits. It has no truth value: it stands for every state at once."""

    __slots__ = ("width",)
    width: int

    def __add__(self, other: Expr | int) -> Expr:
        return _binary("add", self, other, self.width)

    def __sub__(self, other: Expr | int) -> Expr:
        return _binary("sub", self, other, self.width)

    def __and__(self, other: Expr | int) -> Expr:
        return _binary("and", self, other, self.width)

    def __or__(self, other: Expr | int) -> Expr:
        return _binary("or", self, other, self.width)

    def __xor__(self, other: Expr | int) -> Expr:
        return _binary("xor", self, other, self.width)

    def __invert__(self) -> Expr:
        return apply("not", (self,), self.width)

    def __eq__(self, other: Expr | int) -> Expr:  # type: ignore[override]
        return _binary("eq", self, other, 1)

    def __ne__(self, other: Expr | int) -> Expr:  # type: ignore[override]
        return _binary("ne", self, other, 1)

    def __lt__(self, other: Expr | int) -> Expr:
        return _binary("lt", self, other, 1)

    def __gt__(self, other: Expr | int) -> Expr:
        return _operand(other, self.width) < self

    def __le__(self, other: Expr | int) -> Expr:
        return ~(self > other)

    def __ge__(self, other: Expr | int) -> Expr:
        return ~(self < other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise SpecError(
            "hardware state has no truth value here: write where(condition, a, b) instead of `if`, "
            "and & | ~ instead of `and` `or` `not`"
        )


@dataclass(frozen=True, eq=False, slots=True)
class Lit(Expr):
    """A constant: 0 <= value < 2^width."""

    value: int
    width: int

    def __post_init__(self) -> None:
        _check_width(self.width)
        if not 0 <= self.value < 1 << self.width:
            raise SpecError(f"{self.value} does not fit {self.width} bit{'s' * (self.width > 1)}: use a wider field")


@dataclass(frozen=True, eq=False, slots=True)
class Field(Expr):
    """The current value of a state variable."""

    name: str
    width: int

    def __post_init__(self) -> None:
        _check_width(self.width)


@dataclass(frozen=True, eq=False, slots=True)
class Apply(Expr):
    """An operator of OPERATORS applied to arguments."""

    operator: str
    arguments: tuple[Expr, ...]
    width: int


TRUE = Lit(1, 1)
FALSE = Lit(0, 1)


def where(condition: Expr, then: Expr | int, otherwise: Expr | int) -> Expr:
    """`then` if the one-bit `condition` is 1, else `otherwise`; at least one of the two must be an expression."""
    if condition.width != 1:
        raise SpecError(f"where() needs a condition of 1 bit, not {condition.width}: compare it with ==, != or <")
    if isinstance(then, Expr):
        return apply("where", (condition, then, _operand(otherwise, then.width)), then.width)
    if isinstance(otherwise, Expr):
        return apply("where", (condition, _operand(then, otherwise.width), otherwise), otherwise.width)
    raise SpecError("where() with two plain numbers has no width: write Lit(value, width)")


def any_of(conditions: Iterable[Expr]) -> Expr:
    """One-bit disjunction, as a balanced tree; FALSE if there are none."""
    return _tree(list(conditions), "or", FALSE)


def all_of(conditions: Iterable[Expr]) -> Expr:
    """One-bit conjunction, as a balanced tree; TRUE if there are none."""
    return _tree(list(conditions), "and", TRUE)


def apply(operator: str, arguments: tuple[Expr, ...], width: int) -> Expr:
    """The operator applied to the arguments, with constants folded and the units of & | where removed."""
    values = []
    for argument in arguments:
        if not isinstance(argument, Lit):
            break
        values.append(argument.value)
    else:
        return Lit(compute(operator, values, arguments[-1].width), width)
    if operator == "where":
        condition, then, otherwise = arguments
        if isinstance(condition, Lit):
            return then if condition.value else otherwise
        if isinstance(then, Lit) and isinstance(otherwise, Lit) and then.value == otherwise.value:
            return then
    elif operator in ("and", "or"):
        everything = (1 << width) - 1
        for one, other in (arguments, arguments[::-1]):
            if isinstance(one, Lit):
                if one.value == (everything if operator == "and" else 0):
                    return other
                if one.value == (0 if operator == "and" else everything):
                    return one
    elif operator in ("add", "sub", "xor") and isinstance(arguments[1], Lit) and arguments[1].value == 0:
        return arguments[0]
    return Apply(operator, arguments, width)


def compute(operator: str, values: list[int], width: int) -> int:
    """The meaning of an operator on numbers; `width` is that of its operands. Every reading must agree with this."""
    mask = (1 << width) - 1
    match operator, values:
        case "add", [a, b]:
            return (a + b) & mask
        case "sub", [a, b]:
            return (a - b) & mask
        case "and", [a, b]:
            return a & b
        case "or", [a, b]:
            return a | b
        case "xor", [a, b]:
            return a ^ b
        case "not", [a]:
            return ~a & mask
        case "eq", [a, b]:
            return int(a == b)
        case "ne", [a, b]:
            return int(a != b)
        case "lt", [a, b]:
            return int(a < b)
        case "where", [condition, a, b]:
            return a if condition else b
    raise SpecError(f"unknown operator {operator!r}: use one of {', '.join(OPERATORS)}")


Reading = TypeVar("Reading")


def fold(
    expr: Expr,
    literal: Callable[[Lit], Reading],
    field: Callable[[Field], Reading],
    operation: Callable[[Apply, list[Reading]], Reading],
    memo: dict[int, Reading] | None = None,
) -> Reading:
    """One reading of an expression: what its literals, fields and operations become. `memo` shares common parts."""
    known: dict[int, Reading] = {} if memo is None else memo

    def read(node: Expr) -> Reading:
        done = known.get(id(node))
        if done is None:
            if isinstance(node, Apply):
                done = operation(node, [read(argument) for argument in node.arguments])
            elif isinstance(node, Field):
                done = field(node)
            elif isinstance(node, Lit):
                done = literal(node)
            else:
                raise SpecError(f"not an expression: {node!r}")
            known[id(node)] = done
        return done

    return read(expr)


Known: TypeAlias = dict[int, int]
"""The values of expressions in one state, by their identities: what several expressions share is found once."""


def evaluate(expr: Expr, state: Mapping[str, int], known: Known | None = None) -> int:
    """The value of an expression in a state, straight from `compute`: the reference that other readings are held to.
    What makes no difference any more is not looked at: behind a 0 of `and`, behind all ones of `or`, and the way of
    `where` that is not taken.
    """
    return _value(expr, state, {} if known is None else known)


def _value(node: Expr, state: Mapping[str, int], known: Known) -> int:
    if isinstance(node, Lit):
        return node.value
    if isinstance(node, Field):
        return state[node.name]
    if not isinstance(node, Apply):
        raise SpecError(f"not an expression: {node!r}")
    done = known.get(id(node))
    if done is None:
        operator, arguments = node.operator, node.arguments
        first = _value(arguments[0], state, known)
        if operator == "where":
            done = _value(arguments[1 if first else 2], state, known)
        elif (operator == "and" and not first) or (operator == "or" and first == (1 << node.width) - 1):
            done = first
        else:
            values = [first, *(_value(argument, state, known) for argument in arguments[1:])]
            done = compute(operator, values, arguments[-1].width)
        known[id(node)] = done
    return done


def support_of(expr: Expr, state: Mapping[str, int], known: Known | None = None) -> frozenset[str]:
    """State variables that alone make the value of an expression what it is in a state: it is the same in every state
    in which they have the same values.
    """
    return _support(expr, state, {} if known is None else known, {})


def _support(node: Expr, state: Mapping[str, int], known: Known, found: dict[int, frozenset[str]]) -> frozenset[str]:
    if isinstance(node, Lit):
        return frozenset()
    if isinstance(node, Field):
        return frozenset((node.name,))
    if not isinstance(node, Apply):
        raise SpecError(f"not an expression: {node!r}")
    done = found.get(id(node))
    if done is None:
        decisive: tuple[Expr, ...] = node.arguments
        if node.operator == "where":
            condition, then, otherwise = node.arguments
            decisive = (condition, then if _value(condition, state, known) else otherwise)
        elif node.operator in ("and", "or"):
            end = 0 if node.operator == "and" else (1 << node.width) - 1
            alone = next((one for one in node.arguments if _value(one, state, known) == end), None)
            decisive = node.arguments if alone is None else (alone,)
        done = found[id(node)] = frozenset().union(*(_support(one, state, known, found) for one in decisive))
    return done


def fields_of(expr: Expr, memo: dict[int, frozenset[str]] | None = None) -> frozenset[str]:
    """The names of the state variables that the expression reads. `memo`: as for fold."""
    return fold(
        expr,
        lambda lit: frozenset[str](),
        lambda field: frozenset((field.name,)),
        lambda node, parts: frozenset[str]().union(*parts),
        memo,
    )


def substituted(expr: Expr, values: Mapping[str, Expr]) -> Expr:
    """The expression with these in place of the state variables of their names."""
    return fold(
        expr,
        lambda lit: lit,
        lambda field: values.get(field.name, field),
        lambda node, parts: apply(node.operator, tuple(parts), node.width),
    )


def _binary(operator: str, left: Expr, right: Expr | int, width: int) -> Expr:
    return apply(operator, (left, _operand(right, left.width)), width)


def _operand(value: Expr | int, width: int) -> Expr:
    if isinstance(value, Expr):
        if value.width != width:
            raise SpecError(f"operands of {width} and {value.width} bits: give both the same width")
        return value
    if isinstance(value, int):
        return _literal(value, width)
    raise SpecError(f"cannot use {value!r} with hardware state: use a number or an expression")


@lru_cache(4096)
def _literal(value: int, width: int) -> Lit:
    """One that stands for all operands of the same value and width."""
    return Lit(value, width)


def _tree(terms: list[Expr], operator: str, unit: Expr) -> Expr:
    if not terms:
        return unit
    while len(terms) > 1:
        pairs = [apply(operator, (terms[i], terms[i + 1]), 1) for i in range(0, len(terms) - 1, 2)]
        terms = pairs + terms[len(pairs) * 2 :]
    return terms[0]


def is_false(condition: Expr) -> bool:
    """The condition is the constant 0."""
    return isinstance(condition, Lit) and condition.value == 0
