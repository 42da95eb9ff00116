"""Every reading of an expression gives the number that spec.ptx.expr.evaluate gives."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from needs import needs_gcc

from sm90_verify.engines.search import read_python
from sm90_verify.engines.search.read_c import c_source
from sm90_verify.engines.search.read_python import python_source
from sm90_verify.engines.smt import read_z3
from sm90_verify.engines.smt.read_z3 import Places, number_in, symbol, value, z3_module, z3_term
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.expr import Apply, Expr, Field, Lit, evaluate, where

WIDTHS = (1, 2, 3, 7, 22, 64)
FIELDS = {f"{letter}{width}": width for width in WIDTHS for letter in "xy"}
PLACES = 6
"""Locations of the counter that the Z3 reading also takes apart into what the number exceeds."""


@st.composite
def expressions(draw: Any, width: int, depth: int = 3) -> Expr:
    """A random expression of a width, over FIELDS and the counter."""
    kinds = ["literal", "field"] if depth == 0 else ["literal", "field", "two", "two", "not", "where", "compare"]
    kind = draw(st.sampled_from(kinds))
    if kind == "compare" and width == 1:
        inner = draw(st.sampled_from(WIDTHS))
        left, right = draw(expressions(inner, depth - 1)), draw(expressions(inner, depth - 1))
        return draw(st.sampled_from((left == right, left != right, left < right, left <= right, left > right)))
    if kind in ("two", "compare"):
        left, right = draw(expressions(width, depth - 1)), draw(expressions(width, depth - 1))
        return draw(st.sampled_from((left + right, left - right, left & right, left | right, left ^ right)))
    if kind == "not":
        return ~draw(expressions(width, depth - 1))
    if kind == "where":
        return where(
            draw(expressions(1, depth - 1)), draw(expressions(width, depth - 1)), draw(expressions(width, depth - 1))
        )
    if kind == "field":
        names = [name for name, size in FIELDS.items() if size == width] + (["counter"] if width == 3 else [])
        return Field(draw(st.sampled_from(names)), width)
    return Lit(draw(st.integers(0, (1 << width) - 1)), width)


@st.composite
def states(draw: Any) -> dict[str, int]:
    edges = {name: st.sampled_from((0, 1, (1 << width) - 1, (1 << width) // 2)) for name, width in FIELDS.items()}
    state = {name: draw(st.one_of(edges[name], st.integers(0, (1 << width) - 1))) for name, width in FIELDS.items()}
    return {**state, "counter": draw(st.integers(0, PLACES - 1))}


any_expression = st.sampled_from(WIDTHS).flatmap(expressions)


def by_python(expr: Expr, state: dict[str, int]) -> int:
    return int(eval(python_source(expr, lambda name: f"s[{name!r}]"), {"s": state}))


def by_z3(expr: Expr, state: dict[str, int]) -> int:
    """The value in the only model of the state; the counter is read once as a vector and once by places."""
    z3 = z3_module()
    counter = Places.named("counter", PLACES)
    numbers = []
    for reading in (symbol("counter", 3), counter):
        terms = {name: symbol(name, width) for name, width in FIELDS.items()} | {"counter": reading}
        solver = z3.Solver()
        solver.add(*(terms[name] == value(state[name], width) for name, width in FIELDS.items()))
        solver.add(counter.equals(state["counter"]), *counter.well_formed())
        solver.add(symbol("counter", 3) == state["counter"])
        result = symbol("result", expr.width)
        solver.add(result == z3_term(expr, terms.__getitem__))
        assert solver.check() == z3.sat
        assert number_in(solver.model(), counter) == state["counter"]
        numbers.append(number_in(solver.model(), result))
    assert numbers[0] == numbers[1]
    return numbers[0]


@settings(max_examples=300, deadline=None)
@given(any_expression, states())
def test_python_agrees(expr: Expr, state: dict[str, int]) -> None:
    assert by_python(expr, state) == evaluate(expr, state)


X, Y, WIDE = Field("x3", 3), Field("y3", 3), Field("x22", 22)


@pytest.mark.parametrize("sets", [False, True])
@pytest.mark.parametrize(
    ("expr", "one_of"),
    [
        ((X == 1) | (X == 6), True),
        (((X == 1) | (X == 6)) | ((X == 0) | (X == 7)), True),
        (X - 6 < 3, True),
        ((X - 6 < 3) | (X == 4), True),
        (WIDE - ((1 << 22) - 2) < 64, True),
        (WIDE - 5 < 65, False),
        (X == 1, False),
        (X == Y, False),
        (Lit(1, 3) == Lit(1, 3), False),
        (X < 3, False),
        (X + 6 < 3, False),
        (X - Y < 3, False),
        (Lit(5, 3) - 3 < 3, False),
        (X - 6 < Y, False),
        ((X == 1) | (Y == 6), False),
        ((X == 1) | (X < 3), True),
        ((X < 3) | (X == 1), True),
        ((X == 1) & (X == 6), False),
        ((X == 1) & (X != 6), False),
        ((X ^ Y) - 3 < 3, False),
        ((X == 1) | Field("x1", 1), False),
        ((X != 1) | (X != 6), False),
        (where(X == 1, X | 6, Y) == 7, False),
    ],
)
def test_one_of_some_numbers_is_read_as_a_set(expr: Expr, one_of: bool, sets: bool) -> None:
    """Written out, or under a name that stands for it."""
    named: dict[str, tuple[int, ...]] = {}

    def set_of(numbers: tuple[int, ...]) -> str:
        name = f"S{len(named)}"
        named[name] = numbers
        return name

    text = python_source(expr, lambda name: name, {}, set_of if sets else None)
    assert (" in " in text, bool(named)) == (one_of, one_of and sets)
    for x, y in [(x, y) for x in range(8) for y in range(8)]:
        for wide in (x, y, 5 + 64, 5 + 63, (1 << 22) - 1 - x, 60 + x):
            state = {"x1": y & 1, "x3": x, "y3": y, "x22": wide}
            assert int(eval(text, named, state)) == evaluate(expr, state)


@settings(max_examples=80, deadline=None)
@given(any_expression, states())
def test_z3_agrees(expr: Expr, state: dict[str, int]) -> None:
    assert by_z3(expr, state) == evaluate(expr, state)


@needs_gcc
def test_c_agrees(tmp_path: Path) -> None:
    compiled = 0

    @settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(any_expression, min_size=40, max_size=80), st.lists(states(), min_size=10, max_size=10))
    def agrees(exprs: list[Expr], samples: list[dict[str, int]]) -> None:
        nonlocal compiled
        compiled += 1
        compare_c(exprs, samples, tmp_path / f"f{compiled}")

    agrees()


def compare_c(exprs: list[Expr], samples: list[dict[str, int]], place: Path) -> None:
    """Compiles all expressions at once and evaluates each in all states."""
    order = {name: number for number, name in enumerate((*FIELDS, "counter"))}
    lines = ["#include <stdint.h>"]
    for number, expr in enumerate(exprs):
        text = c_source(expr, lambda name: f"s[{order[name]}]")
        lines.append(f"uint64_t f{number}(const uint64_t *s) {{ return {text}; }}")
    place.with_suffix(".c").write_text("\n".join(lines))
    subprocess.run(
        ["gcc", "-O0", "-shared", "-fPIC", "-o", place.with_suffix(".so"), place.with_suffix(".c")], check=True
    )
    library = ctypes.CDLL(str(place.with_suffix(".so")))
    for number, expr in enumerate(exprs):
        function = getattr(library, f"f{number}")
        function.restype = ctypes.c_uint64
        for state in samples:
            numbers = (ctypes.c_uint64 * len(order))(*(state[name] for name in order))
            assert function(numbers) == evaluate(expr, state)


class TestTheComparisonItself:
    """A reading that is wrong is noticed."""

    state = dict.fromkeys(FIELDS, 1) | {"counter": 2}
    equal = Field("x7", 7) < Field("y7", 7)

    def test_a_wrong_python_operator(self, monkeypatch: pytest.MonkeyPatch) -> None:
        right = read_python._operation

        def wrong(node: Apply, parts: list[str]) -> str:
            return f"({parts[0]} <= {parts[1]})" if node.operator == "lt" else right(node, parts)

        assert by_python(self.equal, self.state) == evaluate(self.equal, self.state)
        monkeypatch.setattr(read_python, "_operation", wrong)
        assert by_python(self.equal, self.state) != evaluate(self.equal, self.state)

    def test_a_wrong_z3_operator(self, monkeypatch: pytest.MonkeyPatch) -> None:
        right = read_z3._operation

        def wrong(node: Apply, parts: list[Any]) -> Any:
            return z3_module().ULE(*parts) if node.operator == "lt" else right(node, parts)

        assert by_z3(self.equal, self.state) == evaluate(self.equal, self.state)
        monkeypatch.setattr(read_z3, "_operation", wrong)
        assert by_z3(self.equal, self.state) != evaluate(self.equal, self.state)

    def test_signed_comparison_would_differ(self) -> None:
        state = self.state | {"x7": 127, "y7": 1}
        assert by_z3(self.equal, state) == evaluate(self.equal, state) == 0


def test_a_literal_that_does_not_fit_raises() -> None:
    """A wrapped literal once made the solver answer that nothing is wrong with a broken model."""
    with pytest.raises(SpecError, match="does not fit"):
        Lit(4, 2)
    with pytest.raises(SpecError, match="does not fit"):
        Field("x2", 2) == 4  # noqa: B015
    with pytest.raises(SpecError, match="does not fit"):
        Field("x2", 2) + -1
