"""Output files: a regular one appears under its name only when it is complete; anything else is written through."""

from __future__ import annotations

import os
import stat

from sm90_verify.spec.errors import SpecError

STREAMS = ("/dev/", "/proc/")
"""Where names stand for devices and for what a process has open, even where that is a regular file."""


def write_whole(path: str, content: bytes) -> None:
    """Writes a regular file whole or not at all, the one that a link points to rather than the link; writes into a
    device or a pipe. Raises SpecError with the reason.
    """
    try:
        if _is_stream(path):
            _append(path, content)
        else:
            _replace(os.path.realpath(path), content)
    except OSError as error:
        raise SpecError(f"-o {path}: {error.strerror or error}") from None


def must_have_a_folder(path: str, option: str = "-o") -> None:
    """Raises SpecError at once if write_whole cannot write there for want of a folder, before there is anything to.
    option: which names the path.
    """
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder):
        raise SpecError(f"{option} {path}: there is no folder {folder}: make it, or name another file")
    if os.path.isdir(path):
        raise SpecError(f"{option} {path}: is a folder: name a file in it")


def _is_stream(path: str) -> bool:
    if _named_by_a_process(path):
        return True
    try:
        return not stat.S_ISREG(os.stat(path).st_mode)
    except FileNotFoundError:
        return False


def _named_by_a_process(path: str) -> bool:
    """Whether a path leads through /dev or /proc, such as /dev/stdout, which is a link to what standard output is."""
    for _ in range(40):
        path = os.path.abspath(path)
        if path.startswith(STREAMS):
            return True
        if not os.path.islink(path):
            return False
        path = os.path.join(os.path.dirname(path), os.readlink(path))
    return False


def _append(path: str, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_APPEND), "wb") as file:
        file.write(content)


def _replace(path: str, content: bytes) -> None:
    import tempfile

    mode = stat.S_IMODE(os.stat(path).st_mode) if os.path.exists(path) else 0o644
    handle, temporary = tempfile.mkstemp(dir=os.path.dirname(path), prefix=".verify-")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(temporary, mode)
        os.replace(temporary, path)
    except BaseException:
        os.unlink(temporary)
        raise
