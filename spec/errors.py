"""The one family of errors that a wrong specification raises, and where in the user's file it is wrong."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """A place in a Python file: what a trace step or an error message points at."""

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


class SpecError(ValueError):
    """A specification that cannot be given a meaning: what is wrong, where, and how to fix it."""

    def __init__(self, what: str, where: Source | None = None) -> None:
        super().__init__(what)
        self.what = what
        self.where = where

    def at(self, where: Source | None) -> SpecError:
        """This error, placed at `where` unless it already has a place."""
        if self.where is None and where is not None:
            self.where = where
        return self

    def __str__(self) -> str:
        return self.what if self.where is None else f"{self.where}: {self.what}"
