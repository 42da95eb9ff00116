"""Marks of tests that need what not every machine has."""

from __future__ import annotations

import shutil

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


needs_gcc = pytest.mark.skipif(shutil.which("gcc") is None, reason="needs gcc")
needs_gxx = pytest.mark.skipif(shutil.which("g++") is None, reason="needs g++")
needs_nvcc = pytest.mark.skipif(nvcc() is None, reason="needs nvcc")
needs_gpu = pytest.mark.skipif(not has_hopper(), reason="needs a Hopper GPU and CuPy")
