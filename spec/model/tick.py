"""How long work on a kernel tells whoever asked for it how far it has come, so that they can end it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from sm90_verify.spec.errors import Source

Tick: TypeAlias = Callable[[str, str, int, Source | None], None]
"""Called again and again with what is being done ("tracing"), to which role, its operations so far, and where in the
user's file. What it raises ends the work.
"""


def unheard(what: str, role: str, done: int, where: Source | None) -> None:
    """Nobody asked to be told."""


ROUND_WITHOUT_EVENT = "going round without an event in"
EVENTS_OF = "recording the events of"
"""Work of which whoever hears it may bound the operations."""
