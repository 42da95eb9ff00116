"""From the text of a PTX file to a PtxModule: the directives of a file, its functions and variables.

It reads what nvcc, NVRTC, CuTe DSL and Triton write. Braces open a scope of registers and labels, as inline assembly
has them; registers and labels of all scopes are made different from each other.
"""

from __future__ import annotations

from dataclasses import replace

from sm90_verify.frontends.ptx.body import read_body
from sm90_verify.frontends.ptx.cursor import Cursor
from sm90_verify.frontends.ptx.declarations import parameters, variables
from sm90_verify.frontends.ptx.instruction import Function, PtxModule, PtxVariable
from sm90_verify.frontends.ptx.tokens import tokens_of
from sm90_verify.spec.errors import Source, SpecError

_LINKING = (".visible", ".extern", ".weak", ".common")
_SPACES = (".global", ".shared", ".const", ".local")
_SKIPPED = (".pragma", ".alias", ".attribute", ".tex")


def parse(text: str, path: str) -> PtxModule:
    """The module of a file. Raises SpecError with the line of what is not understood."""
    return _File(Cursor(tokens_of(text, path), path)).module()


class _File:
    def __init__(self, cursor: Cursor) -> None:
        self.at = cursor
        self.version = self.target = ""
        self.files: dict[int, str] = {}
        self.functions: list[Function] = []
        self.variables: list[PtxVariable] = []

    def module(self) -> PtxModule:
        self._look_up_files()
        while not self.at.over:
            self._directive()
        if not self.version or not self.target:
            raise SpecError(
                "no .version and .target: PTX begins with both, is this the text of a .ptx file?",
                Source(self.at.path, 1),
            )
        return PtxModule(self.at.path, self.version, self.target, tuple(self.functions), tuple(self.variables))

    def _look_up_files(self) -> None:
        """.file may come after the code that names it."""
        texts, tokens = self.at.texts, self.at.tokens
        for index, one in enumerate(tokens):
            if one.text == ".file" and texts[index + 1].isdecimal():
                self.files[int(texts[index + 1][:9])] = texts[index + 2].strip('"')

    def _directive(self) -> None:
        word = self.at.peek()
        if word == ".version":
            self.at.next()
            self.version = self.at.next()
        elif word == ".target":
            self.at.next()
            self.target = self.at.name()
            while self.at.peek() == ",":
                self.at.next()
                self.at.name()
        elif word == ".address_size":
            self.at.next()
            self.at.number()
        elif word in (".file", ".loc"):
            self.at.rest_of_line()
        elif word in _LINKING:
            self.at.next()
        elif word in (".entry", ".func"):
            self._function(is_entry=word == ".entry")
        elif word in _SPACES:
            self.variables += variables(self.at, self.variables)
        elif word == ".section":
            self.at.skip_past("{")
            self.at.skip_past("}")
        elif word in _SKIPPED:
            self.at.skip_past(";")
        else:
            raise self.at.wrong(f"{word!r} where a function or a variable should begin")

    def _function(self, *, is_entry: bool) -> None:
        line = self.at.line
        self.at.next()
        results = parameters(self.at) if self.at.peek() == "(" else ()
        name = self.at.name()
        given = parameters(self.at) if self.at.peek() == "(" else ()
        attributes = self._attributes()
        if self.at.peek() == ";":
            self.at.next()
            return
        if any(one.name == name for one in self.functions):
            raise SpecError(f"two functions are called {name}", Source(self.at.path, line))
        body = read_body(self.at, self.files, given, results)
        found = Function(name, line, is_entry, body.parameters, body.results, body.types, body.code, body.variables)
        self.functions.append(replace(found, attributes=attributes))

    def _attributes(self) -> dict[str, tuple[int, ...]]:
        found: dict[str, tuple[int, ...]] = {}
        while self.at.peek() not in ("{", ";"):
            if self.at.peek() == ".pragma":
                self.at.skip_past_only(";")
                continue
            word = self.at.next()
            if not word.startswith("."):
                raise self.at.wrong(f"{word!r} where the body of a function should begin")
            values: list[int] = []
            while not self.at.peek().startswith(".") and self.at.peek() not in ("{", ";"):
                if self.at.peek() == ",":
                    self.at.next()
                else:
                    values.append(self.at.number())
            found[word] = tuple(values)
        return found
