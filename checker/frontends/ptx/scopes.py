"""Names in a function, by the braces in which they are declared: registers, variables, labels, tables of labels."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

from sm90_verify.frontends.ptx.instruction import PtxInstruction, PtxVariable, Register, Symbol, Vector
from sm90_verify.spec.errors import Source, SpecError

MOST_REGISTERS = 1 << 17
"""Of a function."""

PARTS = {"x": "r", "y": "g", "z": "b", "w": "a"}
"""The elements of a register that is a vector, by both of their names (PTX ISA 6.4.2)."""

Named: TypeAlias = "Register | Symbol | Vector"
"""What a name stands for."""
Labels: TypeAlias = dict[str, int | tuple[str, ...]]
"""By name, the number of the instruction that follows, or the labels of a .branchtargets."""


class Scopes:
    """types: of each register, whatever its scope; variables: under names that no two of them share. The first scope is
    that of the parameters, the second the body.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.types: list[str] = []
        self.variables: list[PtxVariable] = []
        self.names: list[dict[str, Named]] = []
        self.labels: list[Labels] = []

    def enter(self) -> None:
        self.names.append({})
        self.labels.append({})

    def leave(self) -> None:
        self.names.pop()
        self.labels.pop()

    def find(self, name: str) -> Named | None:
        """What the innermost scope that has the name has under it."""
        for scope in reversed(self.names):
            if name in scope:
                return scope[name]
        return None

    def register(self, name: str, kind: str, line: int) -> Register:
        """Declares one."""
        if name in self.names[-1]:
            raise self.wrong(f"two declarations of {name} in one scope", line)
        if len(self.types) >= MOST_REGISTERS:
            raise self.wrong(f"more than {MOST_REGISTERS} registers", line)
        found = self.names[-1][name] = Register(len(self.types))
        self.types.append(kind)
        return found

    def vector(self, name: str, kind: str, size: int, line: int) -> None:
        """Declares one of so many elements, each a register of its own."""
        found = []
        for part in list(PARTS)[:size]:
            found.append(self.register(f"{name}.{part}", kind, line))
            self.names[-1][f"{name}.{PARTS[part]}"] = found[-1]
        if name in self.names[-1]:
            raise self.wrong(f"two declarations of {name} in one scope", line)
        self.names[-1][name] = Vector(tuple(found))

    def variable(self, one: PtxVariable) -> None:
        """Declares one; in inner braces it is called by its place in the function too."""
        if one.name in self.names[-1]:
            raise self.wrong(f"two declarations of {one.name} in one scope", one.line)
        name = f"{one.name}@{len(self.variables)}" if len(self.names) > 2 else one.name
        self.names[-1][one.name] = Symbol(name)
        self.variables.append(one._replace(name=name))

    def label(self, name: str, leads_to: int | tuple[str, ...], line: int) -> None:
        """Declares one, or a table."""
        if name in self.labels[-1]:
            raise self.wrong(f"two labels {name} in one scope", line)
        self.labels[-1][name] = leads_to

    def wrong(self, what: str, line: int) -> SpecError:
        return SpecError(what, Source(self.path, line))


def with_targets(one: PtxInstruction, name: str, scopes: tuple[Labels, ...], path: str) -> PtxInstruction:
    """A jump to a label, or to one of a table, known at the end of the function. scopes: around the jump."""
    found = _find(name, scopes, one.line, path)
    if one.opcode == "bra" and isinstance(found, int):
        return replace(one, target=found)
    if one.opcode == "brx" and isinstance(found, tuple):
        targets = [_find(each, scopes, one.line, path) for each in found]
        return replace(one, targets=tuple(each for each in targets if isinstance(each, int)))
    what = "a table" if one.opcode == "bra" else "no table: use .branchtargets"
    raise SpecError(f"{one.name}: {name} is {what}", Source(path, one.line))


def _find(name: str, scopes: tuple[Labels, ...], line: int, path: str) -> int | tuple[str, ...]:
    for scope in reversed(scopes):
        if name in scope:
            return scope[name]
    raise SpecError(f"no label {name} in this scope", Source(path, line))
