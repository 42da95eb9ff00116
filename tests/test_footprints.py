"""Which bytes of shared memory an instruction touches."""

from __future__ import annotations

from sm90_verify.frontends.ptx.footprints import (
    access_bytes,
    accessed,
    bulk,
    cp_async,
    matrices,
    tensor_box,
    tensor_store,
    wgmma_reads,
)
from sm90_verify.frontends.ptx.tensor_map import TensorMap

TILE = TensorMap(0, "f16", (1024, 512), (2048,), (64, 8), (1, 1), swizzle=128)
NEXT_16 = 1 << 16
"""In a descriptor: a leading dimension byte offset of 16."""


def test_what_threads_access():
    assert access_bytes(("shared", "v4", "f32")) == 16 and access_bytes(("global", "b8")) == 1
    assert accessed([64, 32, 48, 1024], 16) == ((32, 80), (1024, 1040))
    assert matrices([16 * lane for lane in range(32)], 2) == ((0, 256),)
    assert cp_async(64, 16) == ((64, 80),) and cp_async(68, 16) is None


def test_what_copies_move():
    assert bulk(1024, 4096) == ((1024, 5120),) and bulk(1024, 8) is None
    assert tensor_box(TILE, 1024) == ((1024, 2048),)
    assert tensor_store(TILE, 1024, (960, 508)) == ((1024, 1536),)


def test_what_wgmma_reads():
    rows_of_128 = 1 << 62 | (1024 >> 4) << 32 | NEXT_16
    found = wgmma_reads("m64n8k16", ("f16", "f16"), None, rows_of_128 | 2048 >> 4)
    assert found == (
        (),
        tuple((2048 + 128 * row + 32 * (row // 2), 2080 + 128 * row + 32 * (row // 2)) for row in range(8)),
    )
