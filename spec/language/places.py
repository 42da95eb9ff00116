"""Where a role is in its user's file, and running it as far as its next yield.

What is on Python's stack above the user's line is the language, which nobody wants to be shown: a call of `arrive` is
a place in the role that calls it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from functools import cache
from types import FrameType, GeneratorType
from typing import Any, Protocol

from sm90_verify.spec.errors import Source, SpecError
from sm90_verify.spec.ptx import operations as op

MAX_LINES_BETWEEN_YIELDS = 200_000
NOTHING, LINES, OPCODES = range(3)
"""What of a frame is counted."""
_SPEC = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_KERNELS = os.path.join(_SPEC, "cutlass", "")
_VERBS = os.path.join(_KERNELS, "pipelines.py")


@cache
def is_plumbing(file: str) -> bool:
    """Whether the file is no place of a role: all of spec but CUTLASS's kernels, whose roles are read like a user's.
    The verbs of the pipeline classes are places of whoever calls them.
    """
    return file.startswith(_SPEC) and (file == _VERBS or not file.startswith(_KERNELS))


class Watcher(Protocol):
    """What sees to it that a role depends on nothing but its own variables; see spec.language.watch."""

    counted: dict[int, int]

    def begin(self) -> None: ...

    def called(self, frame: FrameType) -> int: ...

    def held(self, value: object, name: str) -> None: ...

    def head(self, loop: object, frame: FrameType | None, place: Source) -> None: ...

    def suspended(self, generator: object) -> None: ...

    def unchanged(self, default: Source) -> None: ...


def next_within(generator: Any, send: Any, where: Source, watch: Watcher | None = None) -> op.Operation | None:
    """generator.send, that gives up on a role that runs on without yielding; None where it ends. Other exceptions,
    and SystemExit, become SpecErrors. where: the role's declaration. watch: None for a role of the library.
    """
    called, learn = (None, None) if watch is None else _followed(watch, where)
    tracing, profiling = sys.gettrace(), sys.getprofile()
    if tracing is None and watch is not None:
        sys.settrace(called)
    elif profiling is None and watch is not None:  # under a debugger, or while coverage is measured
        sys.setprofile(learn)
    try:
        result: op.Operation | None = generator.send(send)
        if result is None:
            what = "a role yielded None, which is no operation: yield what a verb gives, or leave the yield out"
            raise SpecError(what, yielding_place(generator, where))
        return result
    except StopIteration:
        return None
    except SpecError:
        raise
    except (Exception, SystemExit, GeneratorExit) as error:
        raise SpecError(f"{type(error).__name__}: {error}", innermost_user_place(error, where)) from error
    finally:
        if tracing is None:
            sys.settrace(None)
        elif profiling is None:
            sys.setprofile(None)


BELOW = next_within.__code__
"""What runs a role: its frame is below all of the role's own."""


def _followed(watch: Watcher, where: Source) -> tuple[Callable[..., Any], Callable[..., None]]:
    """What is called for each function that a role calls: one that counts its lines, and one that learns its code."""
    lines, known = 0, watch.counted

    def called(frame: FrameType, event: str, _: Any) -> Any:
        counted = known.get(id(frame.f_code))
        if counted is None:
            counted = watch.called(frame)
        if not counted:
            return None
        frame.f_trace_opcodes = counted == OPCODES
        return count_lines(frame, event, _)

    def count_lines(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal lines
        lines += 1
        if lines > MAX_LINES_BETWEEN_YIELDS:
            raise SpecError(
                "the role runs on and on without yielding: yield an operation in the loop", user_place(frame, where)
            )
        return count_lines

    def learn(frame: FrameType, event: str, _: Any) -> None:
        if event == "call":
            watch.called(frame)

    return called, learn


def user_place(frame: FrameType | None, default: Source) -> Source:
    """The innermost place on the role's stack that is not the language itself."""
    while frame is not None and frame.f_code is not BELOW:
        if not is_plumbing(frame.f_code.co_filename):
            return Source(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return default


def yielding_place(generator: Any, default: Source) -> Source:
    """The innermost place in the generators that a role is suspended in."""
    innermost: FrameType | None = None
    while isinstance(generator, GeneratorType):
        frame = generator.gi_frame
        if frame is not None and not is_plumbing(frame.f_code.co_filename):
            innermost = frame
        generator = generator.gi_yieldfrom
    return default if innermost is None else Source(innermost.f_code.co_filename, innermost.f_lineno)


def innermost_user_place(error: BaseException, default: Source) -> Source:
    """Where an error came from in the file of the role; for CUTLASS's own roles, in any of their files."""
    traceback, found = error.__traceback__, default
    while traceback is not None:
        file = traceback.tb_frame.f_code.co_filename
        ours = default.file.startswith(_SPEC) and file.startswith(_SPEC) and not is_plumbing(file)
        if ours or (file == default.file and not file.startswith(_SPEC)):
            found = Source(file, traceback.tb_lineno)
        traceback = traceback.tb_next
    return found
