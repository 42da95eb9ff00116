"""The one family of errors that a wrong specification raises, and where in the user's file it is wrong."""

from __future__ import annotations

import inspect
import linecache
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

_SPEC = os.path.dirname(os.path.abspath(__file__)) + os.sep
_CHECKER = os.path.dirname(os.path.abspath(str(sys.modules[__name__.partition(".")[0]].__file__))) + os.sep


class Source(NamedTuple):
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


@contextmanager
def placed(where: Source | None) -> Iterator[None]:
    """Places the errors of its body, and makes SpecErrors of all others."""
    try:
        yield
    except SpecError as error:
        raise error.at(where) from error.__cause__
    except (Exception, SystemExit) as error:
        raise SpecError(f"{type(error).__name__}: {error}", where) from error


def here() -> Source | None:
    """The line of the user's file that is running; None if it is the checker that calls, or a module of spec that is
    imported.
    """
    frame = sys._getframe(1)
    while frame.f_back is not None and (frame.f_code.co_filename.startswith(_SPEC) or "<" in frame.f_code.co_filename):
        if frame.f_code.co_filename.startswith("<frozen importlib"):
            return None
        frame = frame.f_back
    name = frame.f_code.co_filename
    return None if name.startswith((_SPEC, _CHECKER)) else Source(name, frame.f_lineno)


def place_of(function: Any) -> Source:
    """The line of a function's `def`."""
    code = function.__code__
    line = code.co_firstlineno
    while (text := linecache.getline(code.co_filename, line).lstrip()) and not text.startswith("def "):
        line += 1
    return Source(code.co_filename, line if text else code.co_firstlineno)


def place_of_class(cls: type) -> Source | None:
    """The line of a class, if its source can be found."""
    try:
        return Source(inspect.getfile(cls), inspect.findsource(cls)[1] + 1)
    except (OSError, TypeError):
        return None
