"""Marks of tests that need what not every machine has."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from sm90_verify.evidence.hardware.mbarrier.driver import nvcc
from sm90_verify.gpu.device import gpu


def has_hopper() -> bool:
    """A Hopper GPU, and CuPy that can use it: whatever it is that is missing, there is none."""
    try:
        gpu()
    except Exception:
        return False
    return True


@cache
def python_with(module: str) -> str:
    """An interpreter that imports a module of other people's kernels: this one, or that in build/venv; "" if none."""
    venv = Path(__file__).resolve().parent.parent / "build" / "venv" / "bin" / "python"
    asked = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
    for python in (sys.executable, str(venv)):
        done = Path(python).exists() and subprocess.run([python, "-c", asked], capture_output=True, check=False)
        if done and not done.returncode:
            return python
    return ""


needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
needs_gxx = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
needs_nvcc = pytest.mark.skipif(nvcc() is None, reason="needs nvcc")
needs_gpu = pytest.mark.skipif(not has_hopper(), reason="needs a Hopper GPU and CuPy")
needs_cutlass = pytest.mark.skipif(not python_with("cutlass_library"), reason="needs nvidia-cutlass==4.2.0.0")
needs_cute = pytest.mark.skipif(not python_with("cutlass.cute"), reason="needs nvidia-cutlass-dsl==4.8.1")
needs_triton = pytest.mark.skipif(not python_with("triton"), reason="needs triton==3.9.0")
