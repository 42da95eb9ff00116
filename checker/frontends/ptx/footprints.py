"""Footprints: which bytes of shared memory an instruction reads or writes, computed from its operands.

All functions are pure: addresses and sizes in, ranges out. None stands for what is not known for certain, whether
because PTX leaves it undefined (a misaligned copy) or because sm_90 does not have the form; a caller must then leave
the verdict open. Addresses are absolute, in the window shared::cta or shared::cluster.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from math import prod

from sm90_verify.frontends.ptx.tensor_map import TensorMap

Ranges = tuple[tuple[int, int], ...]
"""Half-open ranges of bytes, in order, that neither overlap nor touch."""
PIECE = 16
"""Bytes: what swizzling moves as a whole, and the unit of bulk copies, matrices and descriptors."""
REPEAT = 1 << 7
"""Bytes from which on the bits of an address say how 16-byte pieces change places."""


def merged(pieces: Iterable[tuple[int, int]]) -> Ranges:
    """The same bytes as ranges."""
    found: list[tuple[int, int]] = []
    for start, stop in sorted(piece for piece in pieces if piece[0] < piece[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], stop))
        else:
            found.append((start, stop))
    return tuple(found)


def swizzled(address: int, span: int) -> int:
    """Where swizzling within rows of `span` bytes puts a byte; 0: nowhere else."""
    return address ^ (address // REPEAT % (span // PIECE) * PIECE if span else 0)


# ---------------------------------------------------------------- by threads


def access_bytes(modifiers: Sequence[str]) -> int | None:
    """How many bytes a thread accesses: ("shared", "v4", "f32") 16. Of ld, st, atom, red, st.async and red.async."""
    vector = [int(found[1]) for word in modifiers if (found := re.fullmatch(r"v([248])", word))]
    types = [found for word in modifiers if (found := re.fullmatch(r"(?:[usbf]|bf)(8|16|32|64|128)(x2)?", word))]
    if not types or len(vector) > 1:
        return None
    return int(types[-1][1]) // 8 * (2 if types[-1][2] else 1) * (vector[0] if vector else 1)


def accessed(addresses: Iterable[int], size: int) -> Ranges:
    """What threads access that each access `size` bytes, at the addresses of those that execute the instruction."""
    return merged((address, address + size) for address in addresses)


def matrices(addresses: Sequence[int], count: int, shape: str = "m8n8") -> Ranges | None:
    """What ldmatrix reads or stmatrix writes (PTX 9.7.14.5.15): eight rows of 16 bytes for each of 1, 2 or 4 matrices.

    addresses: of the 32 lanes, of which the first eight say the rows of the first matrix, and so on; .trans changes
    which lane gets what, and no byte. The shapes m16n16, m8n16 and m16n8 are of later architectures.
    """
    if shape != "m8n8" or count not in (1, 2, 4) or len(addresses) < 8 * count:
        return None
    rows = addresses[: 8 * count]
    return None if any(row % PIECE for row in rows) else accessed(rows, PIECE)


def of_lane(addresses: Sequence[int], lane: int, count: int, *, transposed: bool = False) -> Ranges | None:
    """The part of `matrices` that one lane gets, or gives: two elements of each matrix, side by side in a row or, with
    .trans, one below the other (PTX 9.7.14.5.15).
    """
    if matrices(addresses, count) is None:
        return None
    pieces = []
    for matrix in range(count):
        rows = addresses[8 * matrix : 8 * matrix + 8]
        if transposed:
            places = [rows[2 * (lane % 4) + number] + 2 * (lane // 4) for number in range(2)]
            pieces += [(place, place + 2) for place in places]
        else:
            place = rows[lane // 4] + 4 * (lane % 4)
            pieces.append((place, place + 4))
    return merged(pieces)


def cp_async(address: int, size: int) -> Ranges | None:
    """What cp.async writes for one thread: all of cp-size, since what src-size or ignore-src leave out is zeros."""
    return None if size not in (4, 8, 16) or address % size else ((address, address + size),)


# ---------------------------------------------------------------- bulk copies


def bulk(address: int, size: int) -> Ranges | None:
    """What cp.async.bulk and cp.reduce.async.bulk read or write at an address in shared memory: `size` bytes."""
    if address % PIECE or size % PIECE:
        return None
    return ((address, address + size),) if size else ()


def tensor_bytes(map: TensorMap) -> int | None:
    """What a tensor copy moves into shared memory, and by how much it completes the tx-count, in bounds or not."""
    if map.interleave or (map.corners is None and any(step != 1 for step in map.element_strides)):
        return None
    return prod(map.box) * map.element_bytes


def tensor_box(map: TensorMap, address: int) -> Ranges | None:
    """What cp.async.bulk.tensor and cp.reduce.async.bulk.tensor write or read in shared memory: the box.

    A load writes all of it, since what is out of bounds is filled. Of a store or a reduction nothing else is read;
    `tensor_store` says which of it is used. In im2col mode the box is channels by pixels.
    """
    size, row = tensor_bytes(map), map.box[0] * map.element_bytes
    if size is None or address % REPEAT or row % PIECE or (map.swizzle and row != map.swizzle):
        return None
    return ((address, address + size),)


def tensor_store(map: TensorMap, address: int, coordinates: Sequence[int]) -> Ranges | None:
    """What a tiled tensor store or reduction takes from shared memory: the elements of the box that are in bounds."""
    box, size = tensor_box(map, address), map.element_bytes
    if box is None or map.corners is not None or len(coordinates) != map.rank:
        return None
    kept = [
        range(max(0, -first), min(extent, length - first))
        for first, extent, length in zip(coordinates, map.box, map.shape, strict=True)
    ]
    if all(len(here) == extent for here, extent in zip(kept, map.box, strict=True)):
        return box
    return merged(_rows(map, address, kept, size))


def _rows(map: TensorMap, address: int, kept: Sequence[range], size: int) -> Iterator[tuple[int, int]]:
    """The pieces of the kept indices of each dimension, where swizzling puts them."""
    for outer in product(*reversed(kept[1:])):
        row = 0
        for index, extent in zip(outer, reversed(map.box[1:]), strict=True):
            row = row * extent + index
        start = address + row * map.box[0] * size
        yield from _placed(start + kept[0].start * size, start + kept[0].stop * size, map.swizzle)


def _placed(start: int, stop: int, span: int) -> Iterator[tuple[int, int]]:
    while start < stop:
        end = min(stop, start // PIECE * PIECE + PIECE) if span else stop
        place = swizzled(start, span)
        yield place, place + end - start
        start = end


# ---------------------------------------------------------------- wgmma

DEPTH = 32
"""Bytes of a row of a dense operand along K, whatever its type: 16 f16, 8 tf32, 32 e4m3, 256 b1."""
WINDOW = 1 << 18
"""Bytes that the address of a descriptor can tell apart."""
LAYOUTS = (0, 128, 64, 32)
"""By the two highest bits of a descriptor, the bytes of a row within which 16-byte pieces change places."""
OPERANDS = {
    "f16": 16,
    "bf16": 16,
    "tf32": 8,
    "e4m3": 32,
    "e5m2": 32,
    "s8": 32,
    "u8": 32,
    "b1": 256,
}
"""By type, K of a dense wgmma."""
ROWS = 64
"""M of every wgmma."""


def wgmma_reads(
    shape: str,
    types: tuple[str, str],
    a: int | None,
    b: int,
    transposed: tuple[int, int] = (0, 0),
    *,
    sparse: bool = False,
) -> tuple[Ranges, Ranges] | None:
    """What wgmma.mma_async reads of A and of B in shared memory (PTX 9.7.15.5).

    shape: as in the instruction, "m64n128k16". types: of A and B, "f16". a, b: the descriptors; None for an A in
    registers. transposed: the immediates imm-trans-a and imm-trans-b, 1 for an operand that is MN-major. sparse: of
    wgmma.mma_async.sp, whose A has half of the columns; its metadata are in registers.
    """
    sizes = re.fullmatch(r"m64n(\d+)k(\d+)", shape)
    if sizes is None or any(one not in OPERANDS for one in types):
        return None
    columns, depth = int(sizes[1]), int(sizes[2])
    wide = types[0] not in ("f16", "bf16")
    if depth != OPERANDS[types[0]] << sparse or columns % 8 or not 8 <= columns <= 256 or (wide and any(transposed)):
        return None
    of_a = () if a is None else operand(a, ROWS, DEPTH, mn_major=bool(transposed[0]))
    of_b = operand(b, columns, DEPTH << sparse, mn_major=bool(transposed[1]))
    return None if of_a is None or of_b is None else (of_a, of_b)


def operand(descriptor: int, rows: int, depth: int, *, mn_major: bool = False) -> Ranges | None:
    """What a matrix descriptor of wgmma stands for (PTX 9.7.15.5.1.2): `rows` along M or N, `depth` bytes along K.

    An operand that is MN-major has elements of two bytes.
    """
    start, leading, stride = (descriptor >> bit << 4 & WINDOW - 1 for bit in (0, 16, 32))
    base, span = descriptor >> 49 & 7, LAYOUTS[descriptor >> 62 & 3]
    if base or (depth != DEPTH and not mn_major):
        return None
    pieces = []
    for place in _mn_major(rows, depth, leading, stride, span) if mn_major else _k_major(rows, leading, stride, span):
        at = swizzled(start + place, span)
        if at >= WINDOW:
            return None
        pieces.append((at, at + PIECE))
    return merged(pieces)


def _k_major(rows: int, leading: int, stride: int, span: int) -> Iterator[int]:
    """Two 16-byte pieces of each row; eight rows lie together, and `stride` bytes further the next eight.

    Without swizzling the second piece of a row is `leading` bytes from the first, otherwise next to it.
    """
    for row in range(rows):
        for piece in range(DEPTH // PIECE):
            yield row // 8 * stride + row % 8 * (span or PIECE) + piece * (PIECE if span else leading)


def _mn_major(rows: int, depth: int, leading: int, stride: int, span: int) -> Iterator[int]:
    """A 16-byte piece holds eight rows at one K; eight K lie together, a row of `span` bytes each."""
    wide = (span or PIECE) // PIECE
    across, along = (leading, stride) if span else (stride, leading)
    for eight in range(rows // 8):
        for k in range(depth // 2):
            yield eight // wide * across + eight % wide * PIECE + k // 8 * along + k % 8 * (span or PIECE)
