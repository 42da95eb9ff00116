"""Executing instructions to see what they touch: what is recorded of it, and the same again on a GPU."""

from __future__ import annotations

from random import Random

import pytest
from footprints_seen import read_by, recorded, said, seen
from needs import needs_gpu

from sm90_verify.evidence.hardware.footprints import maps, record
from sm90_verify.evidence.hardware.footprints.cases import between_ctas, executable, products, touches
from sm90_verify.evidence.hardware.footprints.forms import products as multiplied
from sm90_verify.evidence.hardware.footprints.forms import source, touching
from sm90_verify.evidence.hardware.footprints.maps import Replacement
from sm90_verify.evidence.hardware.footprints.record import from_gaps, gaps, packed, ranges
from sm90_verify.frontends.ptx import footprints
from sm90_verify.frontends.ptx.tensor_map import MAP_BYTES, encode, replaced
from sm90_verify.gpu.device import Gpu
from sm90_verify.spec.errors import SpecError


def test_places_are_recorded_as_gaps():
    found = ranges([0, 1, 2, 5, 6], 16, 1024)
    assert found == ((1024, 1072), (1104, 1136))
    assert gaps(found) == [1024, 48, 32, 32] and from_gaps(gaps(found)) == found


def test_cases_are_the_same_for_a_seed_and_none_faults():
    some = touches(3, 8)
    assert some == touches(3, 8) and some != touches(4, 8)
    assert all(executable(one, one.map) for one in some if one.map)
    stores = [one for one in some if one.stores and one.map]
    assert min(min(one.coordinates) for one in stores) == 0
    assert all(
        one.coordinates[0] * one.map.element_bytes % 16 == 0 for one in some if one.map and not one.map.interleave
    )
    assert len(packed(some[0], 0, 0)) == 15 * 8 + 32 * 4


def test_the_macros_have_a_case_for_each_form():
    text = source(touching(), multiplied())
    assert text.count("asm volatile(") == len(touching()) + len(multiplied())
    assert "%17" not in text and "{at}" not in text and text.count("\n") == 2


def test_what_was_seen_is_read_as_it_was_written(monkeypatch, tmp_path):
    there, read = recorded()
    one_cta, two = [one for one in there if not one.far][:40], [one for one in there if one.far]
    monkeypatch.setattr(record, "gpu", lambda: Gpu("simulated", "1.0", "1.0", 4))
    monkeypatch.setattr(record, "module", lambda: None)
    monkeypatch.setattr(record, "touch", lambda module, cases, ctas: one_cta if ctas == 1 else two)
    monkeypatch.setattr(record, "multiply", lambda module, cases: read[:9])
    path = str(tmp_path / "x.jsonl.gz")
    assert record.main(["--each", "8", "--to", path]) == 0
    assert record.read_footprints(path) == ([*one_cta, *two], read[:9])


def test_what_the_driver_made_is_read_as_it_was_written(monkeypatch, tmp_path):
    changes = [Replacement(bytes(MAP_BYTES), "rank", 0, 1, bytes(MAP_BYTES - 1) + b"1")]
    monkeypatch.setattr(maps, "gpu", lambda: Gpu("simulated", "1.0", "1.0", 4))
    monkeypatch.setattr(maps, "driver", lambda: None)
    monkeypatch.setattr(maps, "encoded", lambda cuda, map: None if map.nan else encode(map))
    monkeypatch.setattr(maps, "replaced", lambda some: changes)
    path = str(tmp_path / "x.jsonl.gz")
    assert maps.main(["--count", "20", "--to", path]) == 0
    found, again = maps.read_maps(path)
    assert again == changes and len(found) == 20 and all(encode(map) == data for map, data in found)
    monkeypatch.setattr(maps, "encoded", lambda cuda, map: None)
    with pytest.raises(SpecError, match="made 0 of 40"):
        maps.record_maps(path, 20)
    assert maps.main(["--to", path]) == 1


# ---------------------------------------------------------------- on a GPU


@needs_gpu
def test_a_gpu_touches_what_is_said_of_other_operands():
    module = record.module()
    found = record.touch(module, touches(2, 8), 1) + record.touch(module, list(between_ctas(Random(2), 2)), 2)
    assert [one for one in found if said(footprints, one) != seen(one)] == []
    read = record.multiply(module, products(2, 4))
    assert [one for one in read if read_by(footprints, one) != one.reads] == []


@needs_gpu
def test_the_driver_makes_other_maps_as_they_are_encoded():
    cuda, random = maps.driver(), Random(2)
    made = [(map, maps.encoded(cuda, map)) for map in (maps.random_map(random) for _ in range(200))]
    assert sum(data is not None for _, data in made) > 150
    assert [map for map, data in made if data is not None and encode(map) != data] == []
    assert [
        one
        for one in maps.replaced([encode(made[0][0])])
        if replaced(one.before, one.field, one.value, one.ordinal) != one.after
    ] == []
