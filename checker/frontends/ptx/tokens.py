"""A text of PTX as words, numbers and marks, each with its line."""

from __future__ import annotations

import re
from typing import NamedTuple

from sm90_verify.spec.errors import Source, SpecError

_TOKEN = re.compile(
    r"""(?P<space>\s+|//[^\n]*|/\*.*?\*/)
      | (?P<string>"(?:[^"\\]|\\.)*")
      | (?P<number>0[xX][0-9a-fA-F]+U?|0[fFdD][0-9a-fA-F]+|0[bB][01]+U?|\d+\.\d*(?:[eE][-+]?\d+)?|\d+U?)
      | (?P<word>[A-Za-z_.%$](?:[\w.$%]|::)*)
      | (?P<mark>[-+*|!@,;:{}\[\]()<>=~&^/?])""",
    re.VERBOSE | re.DOTALL,
)


class Token(NamedTuple):
    """kind: "word", "number", "string" or "mark"."""

    text: str
    line: int
    kind: str


def tokens_of(text: str, path: str) -> list[Token]:
    """All tokens. Raises SpecError for what is none."""
    found: list[Token] = []
    position, line, end = 0, 1, len(text)
    match = _TOKEN.match
    while position < end:
        one = match(text, position)
        if one is None:
            said = text[position : position + 20].split("\n", maxsplit=1)[0]
            raise SpecError(f"{said!r} is no PTX: give the text that the compiler writes", Source(path, line))
        kind, word = str(one.lastgroup), one.group()
        if kind != "space":
            found.append(Token(word, line, kind))
        if kind in ("space", "string"):
            line += word.count("\n")
        position = one.end()
    return found


def integer(word: str) -> int:
    """The value of an integer, or the bits of a floating-point number that is written in hexadecimal."""
    lower = word.rstrip("U").lower()
    if lower[:2] in ("0f", "0d"):
        return int(lower[2:], 16)
    if lower[:1] == "0" and lower[1:].isdecimal():
        return int(lower, 8)
    return int(lower, 0)
