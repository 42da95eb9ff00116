"""Kernels that are built from the packages of other people, where these are installed."""

from __future__ import annotations

import subprocess
from pathlib import Path

from needs import python_with

BUILD = Path(__file__).resolve().parent / "ptx" / "build.py"


def built_by(module: str, name: str, folder: Path) -> tuple[str, str]:
    """The PTX and the launch of a kernel of tests/ptx/build.py, made by an interpreter that has the module."""
    done = subprocess.run(
        [python_with(module), str(BUILD), str(folder), name], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return str(folder / f"{name}.ptx"), str(folder / f"{name}.json")
