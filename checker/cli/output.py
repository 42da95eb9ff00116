"""What the command writes: answers to standard output or whole to a file, and one line for what cannot be answered."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TextIO

from sm90_verify.files import write_whole
from sm90_verify.result import EXIT_CANNOT_RUN, EXIT_CODE, Result, worst
from sm90_verify.spec.errors import SpecError

if TYPE_CHECKING:
    from sm90_verify.report.sections import Report


def say(error: BaseException) -> None:
    """One line about what kept a question from being answered; nothing, where it cannot be written."""
    message, is_ours = " ".join(str(error).splitlines()), False
    if is_interrupt(error):
        message = "interrupted"
    elif isinstance(error, SystemExit):
        message = f"the specification ends the program (SystemExit: {message}): leave sys.exit() out"
    elif not isinstance(error, SpecError):
        message, is_ours = f"internal error, {type(error).__name__}: {message}", True
    if sys.stderr is None:
        return
    try:
        if is_ours and os.environ.get("VERIFY_TRACEBACK"):
            import traceback

            traceback.print_exception(error)
        print(f"verify: error: {message}", file=sys.stderr, flush=True)
    except OSError:
        _discard(sys.stderr)


def is_interrupt(error: BaseException | None) -> bool:
    """Ctrl-C, also where ctypes was at work for Z3: it makes an ArgumentError of it, and keeps only the words."""
    while error is not None:
        if isinstance(error, KeyboardInterrupt):
            return True
        if type(error).__name__ == "ArgumentError" and "KeyboardInterrupt" in str(error):
            return True
        error = error.__cause__
    return False


@dataclass
class Questions:
    """Several questions: one that cannot be answered leaves the others, and the exit code is 2."""

    results: list[Result] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def ask(self, about: Callable[[], Iterable[Result]]) -> None:
        """Takes the results, or says why there are none (once, where the reason is the same)."""
        try:
            self.results += about()
        except BaseException as error:
            if is_interrupt(error):
                raise
            if str(error) not in self.said:
                say(error)
            self.said.append(str(error))

    def finish(self, options: argparse.Namespace) -> int:
        code = finish(self.results, options) if self.results else EXIT_CANNOT_RUN
        return EXIT_CANNOT_RUN if self.said else code


def finish(results: list[Result], options: argparse.Namespace, again: str | None = None) -> int:
    """Writes the results; the worst verdict decides: violated over undetermined over proved. again: the command that
    finds their traces again, if it is known.
    """
    from sm90_verify.report.of_result import sections_of

    every_step = getattr(options, "every_step", False)
    write([sections_of(result, every_step=every_step, again=again) for result in results], options)
    return EXIT_CODE[worst(result.verdict for result in results)]


def write(reports: list[Report], options: argparse.Namespace) -> None:
    """To standard output, or whole to a file."""
    from sm90_verify.report.formats import FORMATS

    text = FORMATS[options.format](reports)
    if options.output is None:
        tell(text)
    else:
        write_whole(options.output, f"{text}\n".encode())


def tell(text: str, *, is_answer: bool = False) -> None:
    """Prints a text. Raises SpecError if it cannot be written; where nobody reads on, that is no error: the exit code
    still tells the verdict. is_answer: no exit code tells it, so that standard output must at least be open.
    """
    if sys.stdout is None:
        if is_answer:
            raise SpecError("standard output is closed: leave >&- out")
        return
    try:
        print(text, flush=True)
    except BrokenPipeError:
        _discard(sys.stdout)
    except OSError as error:
        _discard(sys.stdout)
        raise SpecError(f"standard output: {error.strerror}") from None
    except UnicodeEncodeError as error:
        what = f"standard output: {error.object[error.start]!a} is not in {error.encoding}"
        raise SpecError(f"{what}: set PYTHONIOENCODING=utf-8, or give -o FILE") from None


def _discard(stream: TextIO) -> None:
    """What is left in the buffer is not to fail again when the program ends."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
