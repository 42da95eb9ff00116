"""A text of PTX as words, numbers and marks, each with its line (PTX ISA 4)."""

from __future__ import annotations

import re
from typing import NamedTuple

from sm90_verify.spec.errors import Source, SpecError

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<word>[A-Za-z_.%$](?:[\w.$%]|::)*)
      | (?P<mark>[-+*|!@,;:{}\[\]()<>=~&^?])
      | (?P<number>0[xX][0-9a-fA-F]+U?|0[fFdD][0-9a-fA-F]+|0[bB][01]+U?|\d+\.\d*(?:[eE][-+]?\d+)?|\d+[eE][-+]?\d+|\d+U?)
      | (?P<string>"(?:[^"\\\n]|\\.)*")
      | (?P<rest>/)""",
    re.VERBOSE | re.DOTALL,
)
_SECTION = re.compile(r"(?:[^}/]+|//[^\n]*|/\*.*?\*/|/)*", re.DOTALL)
"""What a .section holds: bytes of debug information, which are many."""


class PtxToken(NamedTuple):
    """kind: "word", "number", "string" or "mark"."""

    text: str
    line: int
    kind: str


def tokens_of(text: str, path: str) -> list[PtxToken]:
    """All tokens but those inside .section. Raises SpecError for what is none."""
    found: list[PtxToken] = []
    position, line, end, in_section = 0, 1, len(text), False
    match = _TOKEN.match
    while position < end:
        one = match(text, position)
        kind = one.lastgroup if one is not None else "rest"
        if one is None or kind == "rest" or kind is None:
            said = text[position : position + 20].split("\n", maxsplit=1)[0]
            raise SpecError(f"{said!r} is no PTX: give the text that the compiler writes", Source(path, line))
        word = one.group()
        position = one.end()
        if kind == "space":
            line += word.count("\n")
            continue
        found.append(PtxToken(word, line, kind))
        if word == ".section":
            in_section = True
        elif word == "{" and in_section:
            in_section = False
            inside = _SECTION.match(text, position)
            assert inside is not None
            line += inside.group().count("\n")
            position = inside.end()
    return found


def integer(word: str) -> int:
    """The value of an integer, or the bits of a floating-point number that is written in hexadecimal."""
    lower = word.rstrip("U").lower()
    if lower[:2] in ("0f", "0d"):
        return int(lower[2:], 16)
    if lower[:1] == "0" and lower[1:].isdecimal():
        return int(lower, 8)
    return int(lower, 0)
