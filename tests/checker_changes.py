"""Single changes of a module's conditions, read off its syntax tree: what tests/mutate_checkers.py makes."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace

from equivalent_changes import EQUIVALENT

SKIP = (ast.JoinedStr, ast.Assert, ast.Raise, ast.arguments)
"""Texts, and what is not a condition of a verdict."""
FLIPPED = {
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.BitAnd: (ast.BitOr,),
    ast.BitOr: (ast.BitAnd,),
    ast.And: (ast.Or,),
    ast.Or: (ast.And,),
}
OTHER = {"all": "any", "any": "all", "min": "max", "max": "min", "all_of": "any_of", "any_of": "all_of"}


@dataclass(frozen=True, order=True)
class Change:
    """One expression or statement of a module in other words. where: its function. nth: which of those there that read
    the same.
    """

    path: str
    line: int
    start: int
    stop: int
    before: str
    after: str
    where: str
    nth: int = 0

    def __str__(self) -> str:
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        return f"{self.path}:{self.line} {self.where}: {before}  =>  {after}"

    @property
    def keys(self) -> tuple[tuple[str, str, str], tuple[str, str, str, int]]:
        """What it is in the table of equivalent changes, with all that read the same or alone."""
        before, after = (" ".join(text.split()) for text in (self.before, self.after))
        return (self.where, before, after), (self.where, before, after, self.nth)

    @property
    def equivalent(self) -> str:
        """Why no verdict can differ, or nothing."""
        return next((EQUIVALENT[key] for key in self.keys if key in EQUIVALENT), "")


def changes_of(path: str, source: str) -> list[Change]:
    """All changes of a module, in the order of its lines."""
    lines = [0]
    for line in source.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    found = set()
    for where, node, after in _walk(ast.parse(source), ""):
        start = lines[node.lineno - 1] + node.col_offset
        stop = lines[node.end_lineno - 1] + node.end_col_offset
        before = source.encode()[start:stop].decode()
        found.add(Change(path, node.lineno, start, stop, before, after, where))
    seen = Counter[tuple[str, str, str]]()
    numbered = []
    for change in sorted(found):
        key, _ = change.keys
        numbered.append(replace(change, nth=seen[key]))
        seen[key] += 1
    return numbered


def _walk(node: ast.AST, where: str) -> Iterator[tuple[str, ast.AST, str]]:
    """(function, node, what to write for it)."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        where = f"{where}.{node.name}".lstrip(".")
    if isinstance(node, SKIP):
        return
    for after in _others(node):
        yield where, node, after if isinstance(node, ast.stmt) else f"({after})"
    for test in _tests(node):
        for value in ("True", "False"):
            if not isinstance(node, ast.While) or value == "False":
                yield where, test, value
    for child in ast.iter_child_nodes(node):
        if child not in (getattr(node, "returns", None), getattr(node, "annotation", None)):
            yield from _walk(child, where)


def _tests(node: ast.AST) -> list[ast.expr]:
    match node:
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return []
        case ast.If(test=test) | ast.IfExp(test=test) | ast.While(test=test):
            return [test]
        case ast.comprehension(ifs=ifs):
            return ifs
        case ast.Return(value=ast.Compare() | ast.BoolOp() as test) | ast.Assign(value=ast.Compare() as test):
            return [test]
    return []


def _others(node: ast.AST) -> Iterator[str]:
    """What may stand in place of a node."""
    match node:
        case ast.Compare(left=left, ops=ops, comparators=right):
            for index, one in enumerate(ops):
                for flipped in FLIPPED[type(one)]:
                    yield ast.unparse(ast.Compare(left, [*ops[:index], flipped(), *ops[index + 1 :]], right))
            if len(ops) > 1:
                yield ast.unparse(ast.Compare(left, ops[:-1], right[:-1]))
                yield ast.unparse(ast.Compare(right[0], ops[1:], right[1:]))
        case ast.BoolOp(op=one, values=values):
            yield ast.unparse(ast.BoolOp(FLIPPED[type(one)][0](), values))
            for index in range(len(values)):
                rest = values[:index] + values[index + 1 :]
                yield ast.unparse(ast.BoolOp(one, rest) if len(rest) > 1 else rest[0])
        case ast.BinOp(left=ast.BinOp(op=ast.RShift() | ast.LShift())):
            return
        case ast.BinOp(left=left, op=ast.BitAnd() | ast.BitOr() as one, right=right):
            yield ast.unparse(ast.BinOp(left, FLIPPED[type(one)][0](), right))
            yield ast.unparse(left)
            yield ast.unparse(right)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub(), right=ast.Constant(value=int())):
            yield ast.unparse(left)
        case ast.UnaryOp(op=ast.Not() | ast.Invert(), operand=operand):
            yield ast.unparse(operand)
        case ast.Call(func=ast.Name(id=name), args=[first, *_]) if name in OTHER:
            yield ast.unparse(ast.Call(ast.Name(OTHER[name]), node.args, node.keywords))
            if len(node.args) > 1:
                yield ast.unparse(first)
        case ast.Assign(targets=[ast.Name()], value=ast.Tuple(elts=parts)):
            for index in range(len(parts)):
                less = ast.Tuple([*parts[:index], ast.Constant(None), *parts[index + 1 :]], ast.Load())
                yield ast.unparse(ast.Assign(node.targets, less, lineno=0))
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Continue() | ast.Break():
            yield "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()], value=value) if not isinstance(
            value, ast.ListComp
        ):
            yield "pass"
