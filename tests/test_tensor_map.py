"""Tensor maps: what the driver is asked for, and what is refused before it is asked."""

from __future__ import annotations

import ctypes
import re

import pytest

from sm90_verify.evidence.hardware.recorder import tensor_map
from sm90_verify.evidence.hardware.recorder.tensor_map import BYTES, encode, of_array
from sm90_verify.spec.errors import SpecError


class Driver:
    """Stands in for the driver: keeps the arguments, and writes what it was told to."""

    def __init__(self, result=0):
        self.result, self.arguments = result, ()

    def cuTensorMapEncodeTiled(self, *arguments):
        self.arguments = arguments
        ctypes.memset(arguments[0], 7, BYTES)
        return self.result


def test_a_tensor_map_is_asked_for_innermost_dimension_first(monkeypatch):
    driver = Driver()
    monkeypatch.setattr(tensor_map, "_driver", lambda: driver)
    assert encode(4096, (3, 5, 64), (1, 4, 32), "float16", swizzle=64) == bytes([7]) * BYTES
    map_, kind, rank, address, shape, strides, box, steps, interleave, swizzle, _, fill = driver.arguments
    assert map_.value % 64 == 0 and (kind.value, rank.value, address.value) == (6, 3, 4096)
    assert [list(one) for one in (shape, strides, box, steps)] == [[64, 5, 3], [128, 640], [32, 4, 1], [1, 1, 1]]
    assert (interleave.value, swizzle.value, fill.value) == (0, 2, 0)


def test_a_tensor_map_of_an_array_has_its_strides(monkeypatch):
    class Array:
        class data:
            ptr = 256

        shape, strides, itemsize, dtype = (8, 64), (256, 2), 2, "float16"

    driver = Driver()
    monkeypatch.setattr(tensor_map, "_driver", lambda: driver)
    of_array(Array, (8, 64), swizzle=128, element="bfloat16")
    assert driver.arguments[1].value == 9 and list(driver.arguments[5]) == [256]
    Array.strides = (2, 16)
    with pytest.raises(SpecError, match="contiguous"):
        of_array(Array, (8, 64))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({"element": "float8"}, "use one of"),
        ({"shape": (64,)}, "a box of as many"),
        ({"address": 8}, "multiples of 16"),
        ({"strides": (100,)}, "multiples of 16"),
        ({"box": (0, 64)}, "1 to 256"),
        ({"box": (257, 64)}, "1 to 256"),
        ({"shape": (0, 64)}, "1 to 2^32"),
        ({"box": (8, 4)}, "a multiple of 16"),
        ({"swizzle": 128, "box": (8, 128)}, "at most 128"),
        ({"swizzle": 96}, "use one of 0, 32, 64, 128"),
    ],
)
def test_what_no_tensor_map_can_be_made_of_is_refused(monkeypatch, arguments, why):
    monkeypatch.setattr(tensor_map, "_driver", Driver)
    good = {"address": 4096, "shape": (64, 128), "box": (8, 64), "element": "float16"}
    encode(**good)
    with pytest.raises(SpecError, match=re.escape(why)):
        encode(**{**good, **arguments})


def test_the_driver_refuses(monkeypatch):
    monkeypatch.setattr(tensor_map, "_driver", lambda: Driver(1))
    with pytest.raises(SpecError, match="makes no tensor map"):
        encode(4096, (64, 128), (8, 64), "float16")
