"""The bytes of tensor maps: held to what the driver encodes, and to what tensormap.replace leaves of them."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from random import Random

import pytest

from sm90_verify.evidence.hardware.footprints.maps import random_map, read_maps, replacements
from sm90_verify.frontends.ptx.tensor_map import MAP_BYTES, TensorMap, decode, encode, replaced

RECORDED = Path(__file__).parent / "data" / "tensor_maps.jsonl.gz"
FULL = TensorMap(
    4096, "f32", (64, 5, 6, 7, 8), (256, 1280, 7680, 53760), (8, 2, 3, 4, 5), (1, 2, 3, 4, 5), 16, 64, True, 128
)
IMAGE = replace(FULL, box=(8, 100), corners=((-1, 2, -3), (4, -5, 6)))


@lru_cache(maxsize=1)
def recorded():
    return read_maps(str(RECORDED))


# ---------------------------------------------------------------- what the driver and a GPU do


def test_maps_are_what_the_driver_makes_of_their_fields():
    maps, _ = recorded()
    assert len(maps) == 400
    assert [map for map, data in maps if encode(map) != data] == []


def test_fields_are_read_back():
    assert [map for map, data in recorded()[0] if decode(data) != map] == []


def test_all_ranks_modes_and_elements_were_tried():
    maps = [map for map, _ in recorded()[0]]
    assert {(map.rank, map.corners is not None) for map in maps} == {
        *((rank, False) for rank in range(1, 6)),
        *((rank, True) for rank in range(3, 6)),
    }
    assert len({map.element for map in maps}) == 13
    assert {(map.interleave, map.swizzle) for map in maps if map.rank > 2} == {
        (interleave, swizzle) for interleave in (0, 16, 32) for swizzle in (0, 32, 64, 128)
    }
    assert {(map.nan, map.promotion) for map in maps} == {
        (nan, bytes) for nan in (False, True) for bytes in (0, 64, 128, 256)
    }


def test_a_replacement_leaves_what_it_leaves_on_a_gpu():
    _, changes = recorded()
    wrong = [one for one in changes if replaced(one.before, one.field, one.value, one.ordinal) != one.after]
    assert len(changes) == 4 * len(list(replacements())) and wrong == []


# ---------------------------------------------------------------- what the bytes mean


@pytest.mark.parametrize("map", [FULL, IMAGE], ids=["tiled", "im2col"])
def test_every_bit_that_copies_go_by_says_something(map):
    """But for two that CuTe DSL sets in maps that work all the same."""
    data = encode(map)
    assert decode(data) == map
    words = int.from_bytes(data, "little")
    for bit in range(MAP_BYTES * 8):
        other = decode((words ^ 1 << bit).to_bytes(MAP_BYTES, "little"))
        assert (other == map) == (bit >= MAP_BYTES * 4 or bit in (65, 85)), bit


def test_what_is_no_map():
    data = encode(FULL)
    assert decode(data[:64]) is None and decode(b"") is None
    assert decode(b"\xff" * MAP_BYTES) is None
    zeros = decode(bytes(MAP_BYTES))
    assert zeros is not None and (zeros.rank, zeros.box, zeros.element) == (1, (1,), "u8")
    tf32 = replaced(data, "elemtype", 11)
    assert tf32 is not None and decode(tf32) == replace(FULL, element="tf32")
    stuck = replaced(tf32, "elemtype", 6)  # the bit of tf32 stays, and f16 has no such
    assert stuck is not None and decode(stuck) is None


def test_a_map_made_of_zeros_by_replacements():
    data = bytes(MAP_BYTES)
    fields = [
        ("global_address", 0, FULL.address),
        ("rank", 0, FULL.rank - 1),
        ("elemtype", 0, 7),
        ("interleave_layout", 0, 1),
        ("swizzle_mode", 0, 2),
        ("fill_mode", 0, 1),
        *(("box_dim", ordinal, value) for ordinal, value in enumerate(FULL.box)),
        *(("global_dim", ordinal, value) for ordinal, value in enumerate(FULL.shape)),
        *(("global_stride", ordinal, value) for ordinal, value in enumerate(FULL.strides)),
        *(("element_stride", ordinal, value) for ordinal, value in enumerate(FULL.element_strides)),
    ]
    for field, ordinal, value in fields:
        changed = replaced(data, field, value, ordinal)
        assert changed is not None
        data = changed
    assert decode(data) == replace(FULL, promotion=0)


@pytest.mark.parametrize(
    ("field", "value", "ordinal"),
    [
        ("swizzle_atomicity", 0, 0),
        ("box_dim", 8, 5),
        ("global_stride", 64, 4),
        ("elemtype", 13, 0),
        ("interleave_layout", 3, 0),
        ("swizzle_mode", 4, 0),
        ("fill_mode", 2, 0),
    ],
)
def test_what_sm_90_does_not_replace(field, value, ordinal):
    assert replaced(encode(FULL), field, value, ordinal) is None


def test_random_fields_are_in_the_ranges_of_the_bytes():
    random = Random(5)
    maps = [random_map(random) for _ in range(300)]
    assert all(decode(encode(map)) == map for map in maps)
