"""The body of a function: scopes, registers, labels and instructions, as one list."""

from __future__ import annotations

from dataclasses import replace

from sm90_verify.frontends.ptx.cursor import Cursor
from sm90_verify.frontends.ptx.declarations import variable
from sm90_verify.frontends.ptx.instruction import (
    AddressOperand,
    Guard,
    Immediate,
    Negated,
    Operand,
    Pair,
    Place,
    PtxInstruction,
    PtxVariable,
    Register,
    Sink,
    Special,
    Sum,
    Symbol,
    Vector,
)
from sm90_verify.frontends.ptx.tokens import integer
from sm90_verify.spec.errors import Source, SpecError

MOST_REGISTERS = 1 << 20
"""Of a function."""

Scope = dict[str, int | str]
"""Registers by name, and variables by the name that they have in the whole function."""


class Body:
    """Reads one body; what it has found is in code, types and variables."""

    def __init__(self, at: Cursor, files: dict[int, str]) -> None:
        self.at, self.files = at, files
        self.code: list[PtxInstruction] = []
        self.types: list[str] = []
        self.variables: list[PtxVariable] = []
        self.scopes: list[Scope] = []
        self.labels: list[dict[str, int]] = []
        self.tables: list[dict[str, tuple[str, ...]]] = []
        self.jumps: list[tuple[int, tuple[str, ...], tuple[dict[str, int], ...]]] = []
        self.place: Place | None = None
        self.places: dict[tuple[int, int, int], Place] = {}

    def read(self) -> None:
        """The body from its opening brace to its closing one."""
        self._block()
        for index, names, scopes in self.jumps:
            targets = tuple(self._label(name, scopes, self.code[index].line) for name in names)
            one = self.code[index]
            single = one.opcode == "bra"
            self.code[index] = replace(one, target=targets[0] if single else -1, targets=() if single else targets)

    def _label(self, name: str, scopes: tuple[dict[str, int], ...], line: int) -> int:
        for scope in reversed(scopes):
            if name in scope:
                return scope[name]
        raise SpecError(f"no label {name} in this scope", Source(self.at.path, line))

    def _block(self) -> None:
        at = self.at
        at.expect("{")
        self.scopes.append({})
        self.labels.append({})
        self.tables.append({})
        while at.peek() != "}":
            word = at.peek()
            if word == "{":
                self._block()
            elif word == ".reg":
                self._registers()
            elif word in (".loc", ".file"):
                self._loc(at.rest_of_line())
            elif word in (".shared", ".local", ".param", ".global", ".const"):
                self._variable()
            elif word in (".pragma", ".branchtargets", ".callprototype", ".calltargets"):
                at.skip_past(";")
            elif at.peek(1) == ":":
                self._labelled()
            elif word == ";":
                at.next()
            elif word.startswith("."):
                raise at.wrong(f"{word} in a function is not known")
            else:
                self._instruction()
        at.next()
        self.scopes.pop()
        self.labels.pop()
        self.tables.pop()

    # -- declarations

    def _registers(self) -> None:
        at = self.at
        at.next()
        kind = at.next()[1:]
        if kind in ("v2", "v4"):
            raise at.wrong("registers that are vectors are not followed: use scalar ones")
        while True:
            name = at.name()
            if at.peek() == "<":
                at.next()
                count = at.number()
                at.expect(">")
                if not 0 <= count <= MOST_REGISTERS - len(self.types):
                    raise at.wrong(f"{count} registers {name}")
                first = len(self.types)
                self.scopes[-1].update((f"{name}{number}", first + number) for number in range(count))
                self.types += [kind] * count
            else:
                self.scopes[-1][name] = len(self.types)
                self.types.append(kind)
            if at.peek() != ",":
                break
            at.next()
        at.expect(";")

    def _variable(self) -> None:
        found = variable(self.at, self.variables)
        inner = f"{found.name}@{found.line}" if len(self.scopes) > 1 else found.name
        self.scopes[-1][found.name] = inner
        self.variables.append(found._replace(name=inner))

    def _labelled(self) -> None:
        """A label, or a table of labels that an indirect branch takes."""
        at = self.at
        name = at.name()
        at.expect(":")
        if at.peek() == ".branchtargets":
            at.next()
            names = [at.name()]
            while at.peek() == ",":
                at.next()
                names.append(at.name())
            at.expect(";")
            self.tables[-1][name] = tuple(names)
        elif at.peek() in (".callprototype", ".calltargets"):
            at.skip_past(";")
        else:
            if name in self.labels[-1]:
                raise at.wrong(f"two labels {name} in one scope")
            self.labels[-1][name] = len(self.code)

    def _loc(self, words: list[str]) -> None:
        """.loc file line column{, function_name label, inlined_at file line column}"""
        if words[0] != ".loc" or len(words) < 4:
            return
        key = int(words[1]), int(words[2]), int(words[3])
        caller = None
        if "inlined_at" in words:
            where = words.index("inlined_at")
            file, line, column = (int(one) for one in words[where + 1 : where + 4])
            caller = self.places.get((file, line, column)) or Place(self.files.get(file, ""), line)
        self.place = Place(self.files.get(key[0], ""), key[1], caller)
        self.places[key] = self.place

    # -- instructions

    def _instruction(self) -> None:
        at = self.at
        guard = None
        if at.peek() == "@":
            at.next()
            negated = at.peek() == "!"
            if negated:
                at.next()
            operand = self._named(at.name())
            if not isinstance(operand, Register) or self.types[operand.number] != "pred":
                raise at.wrong("a guard that is no predicate register")
            guard = Guard(operand.number, negated)
        line = at.line
        words = at.name().split(".")
        if words[0] == "call":
            operands = self._call()
        else:
            operands = []
            while at.peek() != ";":
                if operands:
                    at.expect(",")
                operands.append(self._operand())
        at.expect(";")
        if words[0] in ("bra", "brx"):
            self._jump(words, operands, line)
        self.code.append(PtxInstruction(words[0], tuple(words[1:]), tuple(operands), line, guard, self.place))

    def _jump(self, words: list[str], operands: list[Operand], line: int) -> None:
        last = operands[-1] if operands else None
        if not isinstance(last, Symbol):
            raise SpecError(f"{'.'.join(words)} to no label", Source(self.at.path, line))
        names: tuple[str, ...] = (last.name,)
        if words[0] == "brx":
            table = next((scope[last.name] for scope in reversed(self.tables) if last.name in scope), None)
            if table is None:
                raise SpecError(f"no .branchtargets {last.name}", Source(self.at.path, line))
            names = table
        self.jumps.append((len(self.code), names, tuple(self.labels)))

    def _call(self) -> list[Operand]:
        """`call (results), function, (arguments), prototype;`"""
        at = self.at
        found: list[Operand] = []
        while at.peek() != ";":
            if at.peek() == ",":
                at.next()
            elif at.peek() == "(":
                at.next()
                parts = []
                while at.peek() != ")":
                    if at.peek() == ",":
                        at.next()
                    else:
                        parts.append(self._operand())
                at.next()
                found.append(Vector(tuple(parts)))
            else:
                found.append(self._operand())
        return found

    def _operand(self) -> Operand:
        at = self.at
        word = at.peek()
        match word:
            case "[":
                return self._memory()
            case "{":
                return Vector(self._list("{", "}"))
            case "!":
                at.next()
                return Negated(self._operand())
            case "-":
                at.next()
                operand = self._operand()
                return Immediate(-operand.value) if isinstance(operand, Immediate) else Negated(operand)
            case "_":
                at.next()
                operand = Sink()
            case "(":
                return Vector(self._list("(", ")"))
            case _:
                operand = self._simple()
        if at.peek() == "|":
            at.next()
            return Pair(operand, self._operand())
        if at.peek() in ("+", "-"):
            sign = 1 if at.next() == "+" else -1
            return Sum(operand, sign * at.number())
        return operand

    def _simple(self) -> Operand:
        at = self.at
        if at.over:
            at.next()
        token = at.tokens[at.index]
        if token.kind == "number":
            at.next()
            try:
                return Immediate(integer(token.text))
            except ValueError:
                raise at.wrong(f"{token.text} is no integer, nor the bits of a number") from None
        if token.kind != "word":
            raise at.wrong(f"{token.text!r} where an operand should stand")
        return self._named(at.next())

    def _named(self, name: str) -> Operand:
        for scope in reversed(self.scopes):
            if name in scope:
                found = scope[name]
                return Register(found) if isinstance(found, int) else Symbol(found)
        if name == "_":
            return Sink()
        if name == "WARP_SZ":
            return Immediate(32)
        if name.startswith("%"):
            return Special(name)
        stem, dot, part = name.rpartition(".")
        if dot and part in "xyzw" and any(stem in scope for scope in self.scopes):
            raise self.at.wrong(f"{name}: registers that are vectors are not followed")
        return Symbol(name)

    def _memory(self) -> AddressOperand:
        at = self.at
        at.expect("[")
        address = self._operand()
        coordinates: tuple[Operand, ...] = ()
        if at.peek() == ",":
            at.next()
            coordinates = self._list("{", "}")
        at.expect("]")
        return AddressOperand(address, coordinates)

    def _list(self, opening: str, closing: str) -> tuple[Operand, ...]:
        at = self.at
        at.expect(opening)
        parts: list[Operand] = []
        while at.peek() != closing:
            if parts:
                at.expect(",")
            parts.append(self._operand())
        at.expect(closing)
        return tuple(parts)
