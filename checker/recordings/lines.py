"""Compressed JSON lines, the first of which says what the others are and which GPU they were made on."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from typing import Any

from sm90_verify.files import write_whole
from sm90_verify.spec.errors import SpecError

TABLE_VERSION = 1


def packed(lines: Iterable[dict[str, Any]]) -> bytes:
    """The same bytes for the same lines."""
    text = "".join(json.dumps(line, separators=(",", ":")) + "\n" for line in lines)
    return gzip.compress(text.encode(), 9, mtime=0)


def write_lines(kind: str, machine: dict[str, Any], lines: Iterable[dict[str, Any]], path: str) -> None:
    """Writes lines behind their head; the file appears whole or not at all."""
    write_whole(path, packed([{"kind": kind, "version": TABLE_VERSION, "gpu": machine}, *lines]))


def read_lines(path: str, kind: str) -> list[dict[str, Any]]:
    """The lines behind the head; raises SpecError for a file of another kind or version, or of no kind."""
    try:
        with gzip.open(path, "rt", encoding="utf-8") as text:
            head, *lines = map(json.loads, text)
    except (OSError, EOFError, ValueError) as error:
        raise SpecError(f"{path}: no record of kind {kind}: {error}") from error
    if not isinstance(head, dict) or (head.get("kind"), head.get("version")) != (kind, TABLE_VERSION):
        raise SpecError(f"{path}: no record of kind {kind}, version {TABLE_VERSION}: record it again")
    return lines
