"""verify: an exit code and at most one line about what went wrong, whatever happens and whenever it does."""

from __future__ import annotations

from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `verify`; gives the exit code: 0 proved, 1 violated, 2 could not run, 3 undetermined.

    Everything else is imported in here, so that a Ctrl-C during the imports is told as one that comes later.
    """
    try:
        from sm90_verify.cli.commands import run

        return run(arguments)
    except BaseException as error:
        from sm90_verify.cli.output import say
        from sm90_verify.result import EXIT_CANNOT_RUN

        say(error)
        return EXIT_CANNOT_RUN
