"""kernels/proxy_fences.cu: a proxy fence by the reader, behind its wait, does what one by the writer does."""

from __future__ import annotations

import pytest
from needs import needs_gpu

from sm90_verify.gpu.device import Module, sources

BLOCKS, ROUNDS, WORDS = 264, 4_000, 512
"""More than a million hand-overs."""


@needs_gpu
@pytest.mark.parametrize("reader", [0, 1], ids=["store", "wgmma"])
@pytest.mark.parametrize("fence", [1, 2], ids=["writer", "reader"])
def test_a_fence_on_the_way_shows_what_was_written(reader, fence):
    module = Module((sources() / "proxy_fences.cu").read_text())
    cupy = module.cupy
    wrong, output = cupy.zeros(1, dtype=cupy.uint32), cupy.zeros((BLOCKS, WORDS), dtype=cupy.uint32)
    arguments = (wrong, output, cupy.int32(reader), cupy.int32(fence), cupy.int32(ROUNDS))
    module.launch("proxy_fences", BLOCKS, 256, arguments)
    assert int(wrong[0]) == 0
