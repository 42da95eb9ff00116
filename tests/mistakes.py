"""Mistakes in specifications on purpose: each function makes one, at its line that ends in `# mistake`."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import pytest

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.declarations import barrier, tile
from sm90_verify.spec.language.pipeline import Pipeline


def told_in_one_line(mistake: Callable[[], None], hint: str) -> None:
    """The mistake gives one line, with its file and line, that says how to fix it."""
    lines, first = inspect.getsourcelines(mistake)
    line = first + next(number for number, text in enumerate(lines) if text.rstrip().endswith("# mistake"))
    with pytest.raises(SpecError) as raised:
        mistake()
    message = str(raised.value)
    assert message.startswith(f"{inspect.getfile(mistake)}:{line}: ")
    assert hint in message
    assert "\n" not in message


class Ring(Pipeline):
    """What most of the mistakes are made in."""

    stages = 2
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=1024)

    def helper(self, at):
        yield self.full[at].wait(at.phase)
        yield self.empty[at].arrive()
