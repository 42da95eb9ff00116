"""Kernels in CuTe DSL and Triton, compiled by their packages without a GPU, and decided."""

from __future__ import annotations

import pytest
from needs import needs_cute, needs_gcc, needs_triton
from packages import built_by
from ptx_text import verdicts

from sm90_verify.decide.ptx import check_ptx
from sm90_verify.result import PROVED, VIOLATED


@needs_gcc
@needs_cute
@pytest.mark.parametrize("name", ["cute_gemm_1x1", "cute_attention"])
def test_cute_is_proved(name, tmp_path):
    result = check_ptx(*built_by("cutlass.cute", name, tmp_path), table=True)
    assert result.verdict == PROVED
    assert result.table is not None and {ring.ring for ring in result.table.rings} >= {"full", "empty"}


@needs_gcc
@needs_triton
@pytest.mark.parametrize("name", ["triton_product", "triton_persistent"])
def test_triton_is_proved(name, tmp_path):
    assert check_ptx(*built_by("triton", name, tmp_path)).verdict == PROVED


@needs_gcc
@needs_triton
def test_triton_initialises_without_a_fence(tmp_path):
    """Nothing makes mbarrier.init visible to the async proxy before the first copy (docs/ptx.md)."""
    result = check_ptx(*built_by("triton", "triton_specialised", tmp_path), engine="order")
    assert verdicts(result)["barrier-init"] == VIOLATED
    assert not [id for id, verdict in verdicts(result).items() if verdict == VIOLATED and id != "barrier-init"]
