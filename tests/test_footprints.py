"""Which bytes of shared memory an instruction touches: sentences of PTX, and what an H200 did with 2,131 operands."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest
from footprints_seen import KINDS, differences, of_kind, recorded

from sm90_verify.evidence.hardware.footprints.forms import products, touching
from sm90_verify.frontends.ptx import footprints
from sm90_verify.frontends.ptx.footprints import (
    access_bytes,
    accessed,
    bulk,
    cp_async,
    matrices,
    merged,
    tensor_box,
    tensor_bytes,
    tensor_store,
    wgmma_reads,
)
from sm90_verify.frontends.ptx.tensor_map import TensorMap

TILE = TensorMap(0, "f16", (1024, 512), (2048,), (64, 8), (1, 1), swizzle=128)
F16 = ("f16", "f16")


def descriptor(start: int, leading: int = 16, stride: int = 1024, *, layout: int = 1, base: int = 0) -> int:
    return layout << 62 | base << 49 | (stride >> 4) << 32 | (leading >> 4) << 16 | start >> 4


# ---------------------------------------------------------------- what PTX says


def test_ranges_are_merged():
    assert merged([(8, 16), (0, 4), (4, 6), (12, 20), (30, 30)]) == ((0, 6), (8, 20))


@pytest.mark.parametrize(
    ("modifiers", "size"),
    [
        ("shared.b8", 1),
        ("shared::cta.u16", 2),
        ("volatile.shared.f32", 4),
        ("shared.v2.b64", 16),
        ("shared.v4.f32", 16),
        ("shared.b128", 16),
        ("shared.add.noftz.f16x2", 4),
        ("shared.add.noftz.bf16", 2),
        ("async.weak.shared::cluster.mbarrier::complete_tx::bytes.v2.s64", 16),
        ("shared.v3.b32", None),
        ("shared", None),
    ],
)
def test_bytes_of_a_thread(modifiers, size):
    assert access_bytes(modifiers.split(".")) == size


def test_what_threads_access():
    assert accessed([64, 32, 48, 1024], 16) == ((32, 80), (1024, 1040))
    assert matrices([16 * lane for lane in range(32)], 2) == ((0, 256),)
    assert matrices([16 * lane for lane in range(32)], 1, "m16n16") is None
    assert matrices([8] * 32, 1) is None and matrices([0] * 32, 3) is None
    assert cp_async(64, 16) == ((64, 80),)
    assert cp_async(68, 16) is None and cp_async(64, 12) is None


def test_what_bulk_copies_move():
    assert bulk(1024, 4096) == ((1024, 5120),) and bulk(1024, 0) == ()
    assert bulk(1024, 8) is None and bulk(1032, 16) is None


def test_a_box_is_written_whole_and_read_as_far_as_it_is_in_bounds():
    assert tensor_box(TILE, 1024) == ((1024, 2048),) and tensor_bytes(TILE) == 1024
    assert tensor_store(TILE, 1024, (0, 0)) == tensor_store(TILE, 1024) == ((1024, 2048),)
    assert tensor_store(TILE, 1024, (0, 508)) == ((1024, 1536),)
    assert tensor_store(TILE, 1024, (0, 512)) == ()
    assert tensor_store(TILE, 1024, (1000, 511)) == ((1024, 1072),)


def test_what_is_not_known_of_a_tensor_copy():
    assert tensor_box(TILE, 1040) is None
    assert tensor_store(TILE, 1024, (-64, 0)) is None and tensor_store(TILE, 1024, (4, 0)) is None
    assert tensor_store(TILE, 1024, (0,)) is None
    wide = TensorMap(0, "f16", (1024, 512), (2048,), (64, 8), (1, 1), swizzle=64)
    assert tensor_box(wide, 1024) is None and tensor_bytes(wide) is None
    image = TensorMap(0, "f16", (64, 8, 8), (128, 1024), (64, 16), (1, 1, 1), corners=((0,), (0,)))
    assert tensor_box(image, 1024) == ((1024, 3072),) and tensor_store(image, 1024) is None
    slices = TensorMap(0, "f16", (8, 8, 8), (128, 1024), (8, 8, 4), (2, 1, 1), 16)
    assert tensor_box(slices, 1024) is None


def test_what_wgmma_reads():
    found = wgmma_reads("m64n8k16", F16, None, descriptor(2048))
    rows = [2048 + 128 * row + 32 * (row // 2) for row in range(8)]
    assert found == ((), tuple((at, at + 32) for at in rows))
    whole = wgmma_reads("m64n64k16", F16, descriptor(0), descriptor(8192, 4096, 1024), (0, 1))
    assert whole is not None and whole[1] == ((8192, 10240),)
    assert sum(stop - start for start, stop in whole[0]) == 64 * 32


def test_what_is_not_known_of_a_wgmma():
    good = descriptor(2048)
    assert wgmma_reads("m64n8k8", ("tf32", "tf32"), good, good) is not None
    assert wgmma_reads("m64n8k8", ("tf32", "tf32"), good, good, (0, 1)) is None
    assert wgmma_reads("m64n8k32", F16, good, good) is None
    assert wgmma_reads("m64n8k32", F16, good, good, sparse=True) is not None
    assert wgmma_reads("m64n264k16", F16, good, good) is None
    assert wgmma_reads("m64n8k16", ("f16", "e4m3"), good, good) is None
    assert wgmma_reads("m64n8k16", F16, good, good | 1 << 46) is None
    assert wgmma_reads("m64n256k16", F16, good, descriptor((1 << 18) - 2048)) is None


# ---------------------------------------------------------------- what a GPU did


@pytest.mark.parametrize("kind", [*KINDS, "wgmma"])
def test_a_gpu_touched_what_is_said(kind):
    assert differences(footprints, kind) == []


def test_every_form_was_seen_but_stores_in_im2col_mode():
    seen, read = recorded()
    assert len(seen) + len(read) == 2131
    assert set(touching()) - {one.form for one in seen} == {form for form in touching() if "im2col_no_offs" in form}
    assert set(products()) == {one.form for one in read}
    assert sorted(one.form for kind in KINDS for one in of_kind(kind)) == sorted(one.form for one in seen)


def changed(old: str, new: str) -> ModuleType:
    """The module with a piece of its text exchanged."""
    text = inspect.getsource(footprints)
    assert text.count(old) == 1, old
    module = ModuleType("changed")
    exec(compile(text.replace(old, new), "changed", "exec"), module.__dict__)
    return module


CHANGES = [
    ("wgmma", "for bit in (0, 16, 32)", "for bit in (0, 32, 16)"),
    ("wgmma", "(address // REPEAT - base)", "(address // REPEAT)"),
    ("wgmma", "(address // REPEAT - base)", "(address // REPEAT + base)"),
    ("wgmma", "LAYOUTS = (0, 128, 64, 32)", "LAYOUTS = (0, 32, 64, 128)"),
    ("wgmma", "if span else (stride, leading)", "if span else (leading, stride)"),
    ("wgmma", "DEPTH << sparse, mn_major", "DEPTH, mn_major"),
    ("wgmma", "// width * leading + along % width", "// PIECE * leading"),
    ("wgmma", "k // 8 * along + k % 8 * width", "k * width"),
    ("wgmma", "mn_major=bool(transposed[1])", "mn_major=bool(transposed[0])"),
    ("wgmma", "row // 8 * stride", "row // 16 * stride"),
    ("tiled tensor copies", "pitch = row if map.interleave else map.swizzle or row", "pitch = row"),
    ("tiled tensor copies", "place = swizzled(start, map.swizzle)", "place = start"),
    ("tiled tensor copies", "swizzled(start, map.swizzle)", "swizzled(start - address, map.swizzle)"),
    ("tiled tensor copies", "-(-extent // step)", "extent // step"),
    ("tiled tensor copies", "-(-extent // step)", "extent"),
    ("tiled tensor copies", "-(-inside // step)", "inside"),
    ("tiled tensor copies", "-(-first * map.element_bytes // PIECE) * PIECE", "first * map.element_bytes"),
    ("tiled tensor copies", "range(min(row, inside))", "range(row)"),
    ("tiled tensor copies", "max(0, length - start)", "length"),
    ("tiled tensor copies", "(*map.box[:-2], map.box[-1])", "map.box"),
    ("im2col tensor copies", "return row, map.box[1:]", "return row, map.box[1:] + map.box[1:]"),
    ("im2col tensor copies", "return map.interleave, map.box[1:]", "return map.box[0], map.box[1:]"),
    ("bulk copies", "((address, address + size),) if size", "((address, address + size - 16),) if size"),
    ("cp.async", "address % size else ((address, address + size),)", "address % size else ((address, address + 4),)"),
    ("matrices", "rows = addresses[: 8 * count]", "rows = addresses"),
    ("ordinary accesses", "* (vector[0] if vector else 1)", "* 1"),
    ("ordinary accesses", "(2 if types[-1][2] else 1)", "1"),
    ("accesses of other CTAs", "* (vector[0] if vector else 1)", "* 1"),
]


@pytest.mark.parametrize(("kind", "old", "new"), CHANGES, ids=range(len(CHANGES)))
def test_what_is_said_otherwise_is_not_what_a_gpu_did(kind, old, new):
    assert differences(changed(old, new), kind)
