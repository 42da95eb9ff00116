"""Fixtures of several test files."""

from __future__ import annotations

import gc

import pytest

from sm90_verify.cli.main import OBJECTS

gc.set_threshold(OBJECTS, 20, 20)  # as the command does


@pytest.fixture
def spec_file(tmp_path):
    """Writes a text as a specification and gives its path."""

    def write(text: str, name: str = "kernel.py") -> str:
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write
