"""The body of a function: scopes, declarations, labels, lines of the source and instructions, as one list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from sm90_verify.frontends.ptx.cursor import Cursor
from sm90_verify.frontends.ptx.declarations import REGISTER_TYPES, variables
from sm90_verify.frontends.ptx.instruction import (
    Parameter,
    Place,
    PtxInstruction,
    PtxVariable,
)
from sm90_verify.frontends.ptx.read_instruction import read_instruction
from sm90_verify.frontends.ptx.scopes import MOST_REGISTERS, Labels, Scopes, with_targets

DEEPEST = 100
"""Braces within braces."""
_SPACES = (".shared", ".local", ".param", ".global", ".const")


class Body(NamedTuple):
    """What a function holds; parameters and results with the registers that they are."""

    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...]
    types: tuple[str, ...]
    code: tuple[PtxInstruction, ...]
    variables: tuple[PtxVariable, ...]


def read_body(at: Cursor, files: dict[int, str], parameters: Sequence[Parameter], results: Sequence[Parameter]) -> Body:
    """From the opening brace to the closing one. files: by number, those that .loc names."""
    reader = _BodyReader(at, files)
    reader.scopes.enter()
    given = tuple(reader.named(one) for one in parameters)
    left = tuple(reader.named(one) for one in results)
    reader.block(1)
    for index, name, scopes in reader.jumps:
        reader.code[index] = with_targets(reader.code[index], name, scopes, at.path)
    return Body(given, left, tuple(reader.scopes.types), tuple(reader.code), tuple(reader.scopes.variables))


class _BodyReader:
    def __init__(self, at: Cursor, files: dict[int, str]) -> None:
        self.at, self.files, self.scopes = at, files, Scopes(at.path)
        self.code: list[PtxInstruction] = []
        self.jumps: list[tuple[int, str, tuple[Labels, ...]]] = []
        self.place: Place | None = None
        self.places: dict[tuple[int, ...], Place] = {}

    def named(self, one: Parameter) -> Parameter:
        """A parameter, with its register if it is one."""
        if one.type:
            return one._replace(register=self.scopes.register(one.name, one.type, self.at.line).number)
        return one

    def block(self, depth: int) -> None:
        at = self.at
        if depth > DEEPEST:
            raise at.wrong(f"braces within more than {DEEPEST} others")
        at.expect("{")
        self.scopes.enter()
        while (word := at.peek()) != "}":
            if word == "{":
                self.block(depth + 1)
            elif word == ".reg":
                self._registers()
            elif word == ".loc":
                self._loc(at.rest_of_line())
            elif word == ".file":
                at.rest_of_line()
            elif word in _SPACES:
                for one in variables(at, self.scopes.variables):
                    self.scopes.variable(one)
            elif word in (".pragma", ".callprototype", ".calltargets"):
                at.skip_past(";")
            elif at.peek(1) == ":":
                self._labelled()
            elif word == ";":
                at.next()
            else:
                self._instruction()
        at.next()
        self.scopes.leave()

    def _registers(self) -> None:
        """`.reg .b32 a, %r<8>;` or `.reg .v2 .b32 a;`"""
        at = self.at
        at.next()
        kind, size = at.name()[1:], 0
        if kind in ("v2", "v4"):
            kind, size = at.name()[1:], int(kind[1:])
        if kind not in REGISTER_TYPES:
            raise at.wrong(f".reg .{kind} is not known")
        while True:
            line, name = at.line, at.name()
            if at.peek() == "<":
                at.next()
                count = at.number()
                at.expect(">")
                if not 0 <= count <= MOST_REGISTERS:
                    raise self.scopes.wrong(f"{count} registers {name}", line)
                names = [f"{name}{number}" for number in range(count)]
            else:
                names = [name]
            for each in names:
                if size:
                    self.scopes.vector(each, kind, size, line)
                else:
                    self.scopes.register(each, kind, line)
            if at.peek() != ",":
                break
            at.next()
        at.expect(";")

    def _labelled(self) -> None:
        """A label, or a table of labels that an indirect branch takes."""
        at = self.at
        line, name = at.line, at.name()
        at.expect(":")
        if at.peek() == ".branchtargets":
            at.next()
            names = [at.name()]
            while at.peek() == ",":
                at.next()
                names.append(at.name())
            at.expect(";")
            self.scopes.label(name, tuple(names), line)
        elif at.peek() in (".callprototype", ".calltargets"):
            at.skip_past(";")
        else:
            self.scopes.label(name, len(self.code), line)

    def _loc(self, words: list[str]) -> None:
        """`.loc file line column{, function_name label, inlined_at file line column}`"""
        key = _numbers(words[1:4])
        if key is None:
            return
        caller = None
        if "inlined_at" in words:
            where = words.index("inlined_at") + 1
            outer = _numbers(words[where : where + 3])
            if outer is not None:
                caller = self.places.get(outer) or Place(self.files.get(outer[0], ""), outer[1])
        self.place = Place(self.files.get(key[0], ""), key[1], caller)
        self.places[key] = self.place

    def _instruction(self) -> None:
        one, label = read_instruction(self.at, self.scopes, self.place)
        if label:
            self.jumps.append((len(self.code), label, tuple(self.scopes.labels)))
        self.code.append(one)


def _numbers(words: Sequence[str]) -> tuple[int, ...] | None:
    """Three of them."""
    if len(words) < 3 or not all(word.isascii() and word.isdecimal() and len(word) < 10 for word in words):
        return None
    return tuple(map(int, words))
