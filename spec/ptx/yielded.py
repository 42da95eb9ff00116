"""What every operation is: something that only means anything when it is yielded."""

from __future__ import annotations

from typing import Annotated, NoReturn, TypeAlias

from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.limits import COUNT_LIMIT

Count: TypeAlias = Annotated[int, range(COUNT_LIMIT + 1)]
"""Of arrivals, or of bytes."""


class Yielded:
    """Something that only means anything when it is yielded."""

    _effects = None
    """Its Effects, once they have been asked for (spec.ptx.effects)."""
    _led = None
    """The Held before it that was asked about last, and the one after it (spec.ptx.groups)."""

    def __bool__(self) -> bool:
        raise SpecError(
            "an operation has no truth value: write `yield` in front of it (try_wait, test_wait and choose give their "
            "answer as the value of the yield)"
        )

    def __iter__(self) -> NoReturn:
        raise SpecError("an operation has no parts: write `yield` in front of it, not `yield from`")
