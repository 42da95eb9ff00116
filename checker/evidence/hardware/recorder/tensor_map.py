"""Tensor maps: what a TMA tensor copy takes instead of an address, encoded by the driver from an array and a box.

A map is 128 bytes. Kernels take them from global memory, 64-byte aligned, so that any number of them is one argument;
a thread that uses one first acquires it with `fence.proxy.tensormap::generic.acquire`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from sm90_verify.spec.errors import SpecError

BYTES = 128
"""Of a CUtensorMap."""
ALIGNMENT = 64
RANKS = range(1, 6)
MOST_BOX = 256
"""Elements of a box along one dimension."""
ELEMENTS = {
    "uint8": (0, 1),
    "uint16": (1, 2),
    "uint32": (2, 4),
    "int32": (3, 4),
    "uint64": (4, 8),
    "int64": (5, 8),
    "float16": (6, 2),
    "float32": (7, 4),
    "float64": (8, 8),
    "bfloat16": (9, 2),
}
"""By name, the CUtensorMapDataType and the bytes of an element."""
SWIZZLES = {0: 0, 32: 1, 64: 2, 128: 3}
"""By bytes of a row of the pattern, the CUtensorMapSwizzle; 0: none."""
PROMOTE_128 = 2
"""CU_TENSOR_MAP_L2_PROMOTION_L2_128B."""


def encode(
    address: int,
    shape: Sequence[int],
    box: Sequence[int],
    element: str,
    *,
    strides: Sequence[int] | None = None,
    swizzle: int = 0,
) -> bytes:
    """The map of a tensor in global memory.

    shape, box: elements, the contiguous dimension last; the box is what one copy moves. strides: bytes from one index
    to the next, of all dimensions but the last; without, the tensor is contiguous. swizzle: bytes, 0, 32, 64 or 128.
    Raises SpecError for what the hardware cannot do, and where there is no driver.
    """
    if element not in ELEMENTS:
        raise SpecError(f"a tensor map of {element}: use one of {', '.join(ELEMENTS)}")
    code, size = ELEMENTS[element]
    if strides is None:
        strides = _contiguous(shape, size)
    _check(address, shape, box, size, strides, swizzle)
    room = ctypes.create_string_buffer(BYTES + ALIGNMENT)
    start = ctypes.addressof(room)
    aligned = -(-start // ALIGNMENT) * ALIGNMENT
    rank = len(shape)
    result = _driver().cuTensorMapEncodeTiled(
        ctypes.c_void_p(aligned),
        ctypes.c_int(code),
        ctypes.c_uint32(rank),
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * rank)(*reversed(shape)),
        (ctypes.c_uint64 * max(rank - 1, 1))(*reversed(strides)),
        (ctypes.c_uint32 * rank)(*reversed(box)),
        (ctypes.c_uint32 * rank)(*(1,) * rank),
        ctypes.c_int(0),  # no interleaving
        ctypes.c_int(SWIZZLES[swizzle]),
        ctypes.c_int(PROMOTE_128),
        ctypes.c_int(0),  # zeros for what is out of bounds
    )
    if result:
        raise SpecError(
            f"the driver makes no tensor map of {tuple(shape)} {element} in boxes of {tuple(box)}: {result}"
        )
    return ctypes.string_at(aligned, BYTES)


def of_array(array: Any, box: Sequence[int], *, swizzle: int = 0, element: str = "") -> bytes:
    """The map of a CuPy array, whose last dimension is contiguous. element: if it is not what its dtype is named."""
    *strides, last = array.strides
    if last != array.itemsize:
        raise SpecError("a tensor map needs an array whose last dimension is contiguous")
    return encode(
        array.data.ptr, array.shape, box, element or str(array.dtype), strides=tuple(strides), swizzle=swizzle
    )


def on_device(cupy: Any, maps: Sequence[bytes]) -> Any:
    """The maps one after the other in an array in global memory, which must live as long as kernels use them."""
    return cupy.asarray([byte for one in maps for byte in one], dtype=cupy.uint8)


def _contiguous(shape: Sequence[int], size: int) -> tuple[int, ...]:
    strides = []
    for extent in reversed(shape[1:]):
        size *= extent
        strides.append(size)
    return tuple(reversed(strides))


def _check(
    address: int, shape: Sequence[int], box: Sequence[int], size: int, strides: Sequence[int], swizzle: int
) -> None:
    """What cuTensorMapEncodeTiled answers with an error code only, said in words."""
    if len(shape) not in RANKS or len(box) != len(shape) or len(strides) != len(shape) - 1:
        raise SpecError(f"a tensor map has 1 to 5 dimensions, and a box of as many: {tuple(shape)}, {tuple(box)}")
    if swizzle not in SWIZZLES:
        raise SpecError(f"swizzle={swizzle}: use one of {', '.join(map(str, SWIZZLES))} bytes")
    if address % 16 or any(stride % 16 for stride in strides):
        raise SpecError(f"the address {address:#x} and the strides {tuple(strides)} must be multiples of 16 bytes")
    if any(not 1 <= extent <= 1 << 32 for extent in shape):
        raise SpecError(f"a tensor of {tuple(shape)}: 1 to 2^32 elements in each dimension")
    if any(not 1 <= extent <= MOST_BOX for extent in box):
        raise SpecError(f"a box of {tuple(box)}: 1 to {MOST_BOX} elements in each dimension")
    row = box[-1] * size
    if row % 16 or (swizzle and row > swizzle):
        most = f", at most {swizzle} with this swizzle" if swizzle else ""
        raise SpecError(f"a row of the box has {row} bytes: use a multiple of 16{most}")


@lru_cache(maxsize=1)
def _driver() -> Any:
    try:
        return ctypes.CDLL("libcuda.so.1")
    except OSError as error:
        raise SpecError("tensor maps are made by the CUDA driver, and this machine has none") from error
