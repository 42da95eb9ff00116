"""The modules of the project and which of them imports which, read from their sources."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {"sm90_verify.spec": ROOT / "spec", "sm90_verify": ROOT / "checker"}


@cache
def modules() -> dict[str, Path]:
    """By their full names; a package stands for its __init__."""
    found = {}
    for root, folder in FOLDERS.items():
        for path in sorted(folder.rglob("*.py")):
            parts = path.relative_to(folder).with_suffix("").parts
            found[".".join((root, *parts[: -1 if parts[-1] == "__init__" else None]))] = path
    return found


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(path: Path) -> Iterator[tuple[str, bool]]:
    """The full names that a file imports, wherever in it and for whatever purpose, and whether at its top."""
    top = set(map(id, tree(path).body))
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.Import):
            yield from ((alias.name, id(node) in top) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            for alias in node.names:
                inside = f"{node.module}.{alias.name}"
                yield inside if inside in modules() else str(node.module), id(node) in top


@cache
def edges() -> dict[str, frozenset[str]]:
    """By module, those of the project that it imports; a package's own __init__ is no edge."""
    return {
        name: frozenset(
            other
            for other, _ in imported(path)
            if other in modules() and modules()[other].name != "__init__.py" and other != name
        )
        for name, path in modules().items()
    }


def circles() -> list[list[str]]:
    """Groups of modules that import each other, by whatever way (Tarjan's strongly connected components)."""
    number: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        number[name] = low[name] = len(number)
        stack.append(name)
        for other in sorted(edges()[name]):
            if other not in number:
                visit(other)
            if other in stack:
                low[name] = min(low[name], low[other])
        if low[name] == number[name]:
            group = stack[stack.index(name) :]
            del stack[stack.index(name) :]
            if len(group) > 1:
                found.append(sorted(group))

    for name in edges():
        if name not in number:
            visit(name)
    return found
