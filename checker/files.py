"""Output files: they appear under their names only when they are complete."""

from __future__ import annotations

import os
import tempfile

from sm90_verify.spec.errors import SpecError


def write_whole(path: str, content: bytes) -> None:
    """Writes a file whole or not at all; raises SpecError with the reason."""
    folder = os.path.dirname(os.path.abspath(path))
    try:
        handle, temporary = tempfile.mkstemp(dir=folder, prefix=".verify-")
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(content)
            os.chmod(temporary, 0o644)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise
    except OSError as error:
        raise SpecError(f"-o {path}: {error.strerror or error}") from None
