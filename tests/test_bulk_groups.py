"""kernels/bulk_groups.cu: an H100 waits for the bulk groups of a thread's whole warp."""

from __future__ import annotations

import subprocess

import pytest
from needs import needs_gpu, needs_nvcc

from checker.hardware.device import Module, sources

BLOCKS, WORDS, BUSY = 100, 64, 200 << 10


@needs_nvcc
def test_it_compiles(tmp_path):
    command = ["nvcc", "-std=c++17", "-gencode", "arch=compute_90a,code=sm_90a", "-cubin", "-o", str(tmp_path / "x")]
    done = subprocess.run([*command, str(sources() / "bulk_groups.cu")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@needs_gpu
@pytest.mark.parametrize(("other", "stored"), [(0, 1), (1, 1), (31, 1), (32, 2), (33, 2)])
def test_a_gpu_waits_for_the_bulk_groups_of_the_warp(other, stored):
    """PTX would let thread 0 go on at once unless it is the one that stores: then 2 would be stored."""
    module = Module((sources() / "bulk_groups.cu").read_text())
    cupy = module.cupy
    output = cupy.zeros((BLOCKS, WORDS), dtype=cupy.uint32)
    sums = cupy.zeros(BUSY // 4, dtype=cupy.uint32)
    module.launch("bulk_groups", BLOCKS, 64, (sums, output, cupy.int32(other)), shared=BUSY)
    assert {int(word) for word in output.get().ravel()} == {stored}
