"""Fixtures of several test files."""

from __future__ import annotations

import pytest


@pytest.fixture
def spec_file(tmp_path):
    """Writes a text as a specification and gives its path."""

    def write(text: str, name: str = "kernel.py") -> str:
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write
