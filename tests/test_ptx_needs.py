"""What must hold when an operation is executed: properties are read off its needs, and no sentence stands twice."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from effect_meanings import INTO, X
from test_effects import kernel_of

from sm90_verify.engines.order.outcome import applicable
from sm90_verify.spec.ptx import needs
from sm90_verify.spec.ptx import operations as op

ROOT = Path(__file__).resolve().parent.parent

ALL = {name: need for name, need in vars(needs).items() if isinstance(need, needs.Need)}


def test_properties_are_read_off_needs():
    said = {
        "a read": (op.Touch("read", (X,), ("t",)), {"race", "stale-read"}),
        "any data": (op.Touch("read", (X,), (None,)), {"race"}),
        "a copy": (op.Load(INTO, "full", 64, "t"), {"race", "tx-count", "exit-hazard"}),
        "an arrival": (op.Arrive("full"), {"arrival-count"}),
        "an init": (op.Init("full", 1), {"barrier-init"}),
        "bytes": (op.Transaction("full", 64), {"tx-count"}),
        "a wait": (op.Wait("full", 0), {"phase-lapped"}),
        "bar.sync": (op.NamedSync(1, 32), {"named-barrier"}),
        "registers": (op.Setmaxnreg(40, "dec"), {"register-pool"}),
        "a fence": (op.Fence("proxy_async"), set()),
    }
    for operation, properties in said.values():
        assert set(needs.properties_of(operation)) == properties
        assert set(applicable(kernel_of(operation))) == {"deadlock", *properties}


def test_every_need_is_read():
    text = "\n".join(path.read_text() for package in ("spec", "checker") for path in (ROOT / package).rglob("*.py"))
    for name in ALL:
        assert re.search(rf"\b{name}\.(said|unmet)\(|\bneed = .*\b{name}\b", text), name


SINKS = {"Illegal", "Check", "Need", "Violation", "Failure", "fail", "diverge", "suspect", "said", "unmet", "format"}


def sentences(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Every literal that becomes a `because`: given to what makes violations, or to a name `because` or `said`."""
    for node in ast.walk(tree):
        found: list[ast.expr] = []
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            found = [*node.args, *(word.value for word in node.keywords)] if name in SINKS else []
            found += [word.value for word in node.keywords if word.arg == "because"]
        elif isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") in ("because", "said", "why"):
            found = [node.value]
        for value in found:
            yield from literals(value)


def literals(value: ast.expr) -> Iterator[tuple[int, str]]:
    """Strings and f-strings in an expression, each as a whole."""
    text = literal(value)
    if text:
        yield value.lineno, text
    else:
        for part in ast.iter_child_nodes(value):
            if isinstance(part, ast.expr):
                yield from literals(part)


def literal(node: ast.AST) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in node.values)
    return ""


def skeleton(text: str) -> str:
    """The words without what they are about."""
    return " ".join(re.sub(r"\W+", " ", re.sub(r"\{[^}]*\}", " ", text)).split())


def twice(sources: dict[str, str]) -> list[list[str]]:
    """Sentences of at least four words that several places say."""
    said: dict[str, dict[str, None]] = defaultdict(dict)
    for path, text in sources.items():
        for line, sentence in sentences(ast.parse(text)):
            if len(skeleton(sentence).split()) >= 4:
                said[skeleton(sentence)][f"{path}:{line}"] = None
    return [list(places) for places in said.values() if len(places) > 1]


def test_no_sentence_stands_twice():
    sources = {
        str(path.relative_to(ROOT)): path.read_text()
        for package in ("spec", "checker")
        for path in sorted((ROOT / package).rglob("*.py"))
    }
    assert twice(sources) == []


def test_a_sentence_that_stands_twice_is_found():
    one = 'Illegal("race", when, f"nothing orders {mine} by {role} after that")'
    other = 'because = f"{x}: nothing orders {y} by {z} after that"'
    assert twice({"a.py": one, "b.py": other}) == [["a.py:1", "b.py:1"]]
    assert twice({"a.py": one, "b.py": "because = NEED.said(role=role)"}) == []
