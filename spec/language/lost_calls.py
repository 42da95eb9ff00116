"""Calls of generators that nobody runs: `self.release(at)` as a statement does nothing of what `release` says, where
`yield from self.release(at)` was meant. Python does not tell, so the text of the role is read: what cannot be read off
it is taken to be right.
"""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType, MethodType
from typing import Any

from sm90_verify.spec.errors import Source, SpecError

_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)


def refuse_lost_calls(body: Callable[..., Any], pipeline: object) -> None:
    """Raises SpecError for the first one in a role, or in a helper that it calls."""
    todo, seen = [MethodType(body, pipeline)], set[CodeType]()
    while todo:
        method = todo.pop()
        code = method.__func__.__code__
        text = None if code in seen else _Text.of(method)
        seen.add(code)
        if text is None:
            continue
        for call in text.dropped():
            if _gives_a_generator(text.meaning(call.func), text.bound(call)):
                what = f"`{ast.unparse(call.func)}(...)` is called, and nothing of what it does is done"
                place = Source(code.co_filename, text.first + call.lineno - 1)
                raise SpecError(f"{what}: write `yield from` in front of it", place)
        for call in text.calls():
            bound = text.bound(call)
            if bound is not None and _gives_a_generator(text.meaning(call.func), bound):
                todo.append(bound)


@dataclass(frozen=True)
class _Text:
    """What a function says. first: its first line. method: itself, bound to what its first argument is."""

    body: ast.FunctionDef
    first: int
    method: MethodType

    @staticmethod
    def of(method: MethodType) -> _Text | None:
        """None where there is no text."""
        try:
            lines, first = inspect.getsourcelines(method)
            body = ast.parse(textwrap.dedent("".join(lines))).body[0]
        except (OSError, TypeError, SyntaxError):
            return None
        return _Text(body, first, method) if isinstance(body, ast.FunctionDef) else None

    def own(self) -> Iterator[ast.AST]:
        """All of it but what functions in it say."""
        todo: list[ast.AST] = list(reversed(self.body.body))
        while todo:
            node = todo.pop()
            yield node
            if not isinstance(node, _NESTED):
                todo += reversed([*ast.iter_child_nodes(node)])

    def calls(self) -> Iterator[ast.Call]:
        return (node for node in self.own() if isinstance(node, ast.Call))

    def dropped(self) -> Iterator[ast.Call]:
        """The calls whose value goes nowhere: those of statements, and what is given to a name that nobody reads."""
        read = {node.id for node in ast.walk(self.body) if isinstance(node, ast.Name) and type(node.ctx) is ast.Load}
        unread = {name for name in self.method.__func__.__code__.co_varnames if name not in read}
        for node in self.own():
            if isinstance(node, ast.Expr) or (isinstance(node, ast.Assign) and _names(node.targets) <= unread):
                yield from _calls_in(node.value)

    def meaning(self, node: ast.expr) -> object:
        """What an expression of names and attributes is; None if that cannot be told without running anything."""
        function = self.method.__func__
        if isinstance(node, ast.Name):
            code = function.__code__
            if code.co_varnames[:1] == (node.id,) and code.co_argcount:
                return self.method.__self__
            if node.id in (*code.co_varnames, *code.co_cellvars):
                return self._local(node.id)
            return None if node.id in code.co_freevars else function.__globals__.get(node.id)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "super" and not node.args:
            closure = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
            return super(closure["__class__"].cell_contents, self.method.__self__) if "__class__" in closure else None
        if not isinstance(node, ast.Attribute):
            return None
        of = self.meaning(node.value)
        if of is None:
            return None
        if type(of) is super:
            return getattr(of, node.attr, None)
        found = inspect.getattr_static(of, node.attr, None)
        computed = hasattr(type(found), "__get__") and not isinstance(found, FunctionType | staticmethod | classmethod)
        return None if found is None or computed else getattr(of, node.attr)

    def _local(self, name: str) -> object:
        """What a variable is that is assigned once, or a function in it."""
        given: list[object] = []
        for node in self.own():
            if isinstance(node, ast.FunctionDef) and node.name == name:
                given.append(node)
            elif isinstance(node, ast.Name) and node.id == name and type(node.ctx) is not ast.Load:
                given.append(None)
        if given == [None]:
            values = [one.value for one in self.own() if isinstance(one, ast.Assign) and _names(one.targets) == {name}]
            reads_itself = any(isinstance(one, ast.Name) and one.id == name for one in map(_root, values))
            return self.meaning(values[0]) if values and not reads_itself else None
        arguments = self.method.__func__.__code__.co_varnames[: self.method.__func__.__code__.co_argcount]
        return given[0] if len(given) == 1 and name not in arguments else None

    def bound(self, call: ast.Call) -> MethodType | None:
        """What is called, bound to what its first argument is."""
        called = self.meaning(call.func)
        if isinstance(called, FunctionType):
            first = self.meaning(call.args[0]) if call.args else None
            called = MethodType(called, object() if first is None else first)
        if isinstance(called, MethodType):
            inner = inspect.unwrap(called.__func__)
            return MethodType(inner, called.__self__) if isinstance(inner, FunctionType) else None
        return None


def _calls_in(value: ast.expr) -> Iterator[ast.Call]:
    """The calls whose value an expression has, whichever way it is taken."""
    match value:
        case ast.Call():
            yield value
        case ast.IfExp():
            yield from (*_calls_in(value.body), *_calls_in(value.orelse))
        case ast.BoolOp():
            yield from _calls_in(value.values[-1])
        case ast.Tuple() | ast.List():
            yield from (call for one in value.elts for call in _calls_in(one))
        case ast.ListComp() | ast.SetComp():
            yield from _calls_in(value.elt)


def _gives_a_generator(called: object, bound: MethodType | None) -> bool:
    """It is a generator function, or gives nothing but what such functions give."""
    if isinstance(called, ast.FunctionDef):
        within = _Text(called, 0, MethodType(_gives_a_generator, called))
        return any(isinstance(node, ast.Yield | ast.YieldFrom) for node in within.own())
    if callable(called) and inspect.isgeneratorfunction(inspect.unwrap(called)):
        return True
    text = None if bound is None else _Text.of(bound)
    given = [] if text is None else [node.value for node in text.own() if isinstance(node, ast.Return)]
    return bool(given) and all(
        text is not None and isinstance(one, ast.Call) and inspect.isgeneratorfunction(text.meaning(one.func))
        for one in given
    )


def _names(targets: list[ast.expr]) -> set[str]:
    """The variables that are assigned; of anything else, what stands there."""
    return {ast.unparse(one) for one in targets}


def _root(node: ast.expr) -> ast.expr:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node
