"""kernels/bulk_groups.cu: an H100 waits for the bulk groups of a thread's whole warp."""

from __future__ import annotations

import pytest
from needs import needs_gpu

from sm90_verify.gpu.device import Module, sources
from sm90_verify.gpu.executor import BALLAST

BLOCKS, WORDS = 100, 64


@needs_gpu
@pytest.mark.parametrize(("other", "stored"), [(0, 1), (1, 1), (31, 1), (32, 2), (33, 2)])
def test_a_gpu_waits_for_the_bulk_groups_of_the_warp(other, stored):
    """PTX would let thread 0 go on at once unless it is the one that stores: then 2 would be stored."""
    module = Module((sources() / "bulk_groups.cu").read_text())
    cupy = module.cupy
    output = cupy.zeros((BLOCKS, WORDS), dtype=cupy.uint32)
    sums = cupy.zeros(BALLAST // 4, dtype=cupy.uint32)
    module.launch("bulk_groups", BLOCKS, 64, (sums, output, cupy.int32(other)), shared=BALLAST)
    assert {int(word) for word in output.get().ravel()} == {stored}
