"""One line on a terminal about what is being done, written over again and again, and gone at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

EVERY = 0.5
"""Seconds between two lines."""
WIDTH = 78
"""Columns that a line may take, so that it is one line."""
CLEAR = "\r\x1b[K"
"""Back to the first column, and nothing behind it."""


@contextmanager
def progress_line() -> Iterator[Line | None]:
    """What is to be told of the progress; None unless standard error is a terminal."""
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    line = Line(sys.stderr)
    try:
        yield line
    finally:
        line.end()


class Line:
    """The line itself; what it cannot write is not worth an error."""

    def __init__(self, stream: TextIO) -> None:
        self.stream, self.last, self.shown = stream, time.monotonic(), False

    def __call__(self, words: str) -> None:
        now = time.monotonic()
        if now - self.last >= EVERY:
            self.last, self.shown = now, True
            self._write(f"{CLEAR}{words[:WIDTH]}")

    def end(self) -> None:
        if self.shown:
            self._write(CLEAR)

    def _write(self, text: str) -> None:
        try:
            self.stream.write(text)
            self.stream.flush()
        except (OSError, ValueError):
            self.shown = False
