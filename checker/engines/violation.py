"""What every engine hands on when it has found a violation: a schedule, as the numbers of its actions."""

from __future__ import annotations

from typing import NamedTuple


class Violation(NamedTuple):
    """A property violated after a sequence of actions; the last action is the guilty one if `by_step`."""

    property: str
    because: str
    object: str
    actions: tuple[int, ...]
    by_step: bool
    stuck: tuple[str, ...] = ()
