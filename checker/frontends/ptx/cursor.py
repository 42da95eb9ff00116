"""Where a parser is in the tokens of a PTX file."""

from __future__ import annotations

from collections.abc import Sequence

from sm90_verify.frontends.ptx.tokens import PtxToken, integer
from sm90_verify.spec.errors import Source, SpecError


class Cursor:
    """Reads tokens one after the other; every error has the line of a token."""

    def __init__(self, tokens: Sequence[PtxToken], path: str) -> None:
        self.tokens, self.path, self.index = tokens, path, 0
        self.texts = [one.text for one in tokens] + ["", ""]

    @property
    def over(self) -> bool:
        return self.index >= len(self.tokens)

    @property
    def line(self) -> int:
        """Of the next token; at the end, of the last one."""
        if self.over:
            return self.tokens[-1].line if self.tokens else 1
        return self.tokens[self.index].line

    @property
    def kind(self) -> str:
        """Of the next token; "" at the end."""
        return "" if self.over else self.tokens[self.index].kind

    def peek(self, ahead: int = 0) -> str:
        """The text of the next token, or of the one after it; "" at the end."""
        return self.texts[self.index + ahead]

    def next(self) -> str:
        """The next token, which is passed."""
        found = self.texts[self.index]
        if not found:
            raise self.wrong("the text ends here in the middle of something: is the file complete?")
        self.index += 1
        return found

    def expect(self, text: str) -> None:
        """Passes this token."""
        if self.texts[self.index] != text:
            if self.over:
                self.next()
            raise self.wrong(f"{self.peek()!r} where {text!r} should stand")
        self.index += 1

    def name(self) -> str:
        """A word, which is passed."""
        if not self.over and self.tokens[self.index].kind != "word":
            raise self.wrong(f"{self.peek()!r} where a name should stand")
        return self.next()

    def number(self) -> int:
        """An integer, which is passed."""
        sign = 1
        if self.peek() == "-":
            self.next()
            sign = -1
        if not self.over and self.tokens[self.index].kind != "number":
            raise self.wrong(f"{self.peek()!r} where a number should stand")
        line = self.line
        word = self.next()
        try:
            return sign * integer(word)
        except ValueError:
            raise SpecError(f"{word!r} where an integer should stand", Source(self.path, line)) from None

    def rest_of_line(self) -> list[str]:
        """The tokens up to the end of the line, which are passed."""
        first, line = self.index, self.line
        while not self.over and self.tokens[self.index].line == line:
            self.index += 1
        return self.texts[first : self.index]

    def skip_past(self, text: str) -> None:
        """Passes everything up to this token, and the token."""
        while self.next() != text:
            pass

    def skip_past_only(self, text: str) -> None:
        """The same, for what may be at the end of a directive that need not have it."""
        line = self.line
        while not self.over and self.line == line:
            if self.next() == text:
                return

    def wrong(self, what: str) -> SpecError:
        """An error at the next token."""
        return SpecError(what, Source(self.path, self.line))

    def wrong_before(self, what: str) -> SpecError:
        """An error at the token that was passed last."""
        return SpecError(what, Source(self.path, self.tokens[self.index - 1].line))
