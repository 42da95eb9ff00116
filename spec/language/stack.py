"""What a generator that has yielded is in the midst of, beside its variables: what its `for` loops go through, and the
operands of expressions that have a `yield` in them.

CPython keeps that on the evaluation stack of the generator's frame, which its garbage collector goes through with the
variables, in order. Only a generator that is suspended shows it.
"""

from __future__ import annotations

import gc
import sys
from types import FunctionType, GeneratorType
from typing import Any

READABLE = ((3, 11), (3, 12), (3, 13))
"""The versions of CPython of which it is known that the garbage collector is shown the whole stack."""


def stack_of(generator: GeneratorType[Any, Any, Any]) -> list[object] | None:
    """What is in the variables of a suspended generator and on its evaluation stack, in order; None if this Python does
    not show it.
    """
    frame = generator.gi_frame
    if frame is None or generator.gi_running or not is_readable():
        return None
    code, shown = frame.f_code, gc.get_referents(generator)
    for at, one in enumerate(shown[:-1]):
        if isinstance(one, FunctionType) and one.__code__ is code and shown[at + 1] is code:
            return shown[at + 2 :]  # what comes before is the generator itself, the same for all that run this code
    return None


def is_readable() -> bool:
    """Whether this Python shows what is on a generator's stack."""
    if sys.implementation.name != "cpython" or sys.version_info[:2] not in READABLE:
        return False
    probe = _probe()
    next(probe)
    return any(type(one) is type(iter(range(1))) for one in gc.get_referents(probe))


def _probe() -> Any:
    for _ in range(2):
        yield
