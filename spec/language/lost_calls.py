"""Calls of generators that nobody runs: `self.release(at)` as a statement does nothing of what `release` says, where
`yield from self.release(at)` was meant. Python does not tell, so the text of the role is read.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from types import MethodType
from typing import Any

from sm90_verify.spec.errors import Source, SpecError


def refuse_lost_calls(body: Callable[..., Any], pipeline: object) -> None:
    """Raises SpecError for the first one in a role, or in a generator that it runs by `yield from`."""
    todo, seen = [MethodType(body, pipeline)], set[object]()
    while todo:
        method = todo.pop()
        code = method.__func__.__code__
        if code in seen:
            continue
        seen.add(code)
        for statement, of, called in _calls(method):
            if not _is_generator(called):
                continue
            if statement:
                what = f"`{of}(...)` is called, and nothing of what it does is done"
                raise SpecError(f"{what}: write `yield from` in front of it", Source(code.co_filename, statement))
            if isinstance(called, MethodType):
                todo.append(called)


def _calls(method: MethodType) -> Iterator[tuple[int, str, object]]:
    """The calls in a function that are statements, with their lines, and those behind `yield from`, with 0; by what
    name something is called, and what that is.
    """
    try:
        lines, first = inspect.getsourcelines(method)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr | ast.YieldFrom) and isinstance(node.value, ast.Call):
            line = first + node.lineno - 1 if isinstance(node, ast.Expr) else 0
            yield line, ast.unparse(node.value.func), _meaning(node.value.func, method)


def _meaning(node: ast.expr, method: MethodType) -> object:
    """What an expression of names and attributes is; None if that cannot be told without running anything."""
    if isinstance(node, ast.Name):
        names = method.__func__.__code__.co_varnames
        return method.__self__ if names[:1] == (node.id,) else method.__func__.__globals__.get(node.id)
    if not isinstance(node, ast.Attribute):
        return None
    of = _meaning(node.value, method)
    if of is None or isinstance(inspect.getattr_static(of, node.attr, None), property):
        return None
    return getattr(of, node.attr, None)


def _is_generator(called: object) -> bool:
    return callable(called) and inspect.isgeneratorfunction(inspect.unwrap(called))
