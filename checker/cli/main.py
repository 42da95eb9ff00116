"""verify: an exit code and at most one line about what went wrong, whatever happens and whenever it does."""

from __future__ import annotations

import gc
from collections.abc import Sequence

OBJECTS = 50_000
"""To be made before the next look for garbage in cycles. Nearly all that a run makes is needed to its end, and looking
for it as often as Python does by itself takes an eighth of the time.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs `verify`; gives the exit code: 0 proved, 1 violated, 2 could not run, 3 undetermined.

    Everything else is imported in here, so that a Ctrl-C during the imports is told as one that comes later.
    """
    gc.set_threshold(OBJECTS, 20, 20)
    try:
        from sm90_verify.cli.commands import run

        return run(arguments)
    except BaseException as error:
        from sm90_verify.cli.output import say
        from sm90_verify.result import EXIT_CANNOT_RUN

        say(error)
        return EXIT_CANNOT_RUN
