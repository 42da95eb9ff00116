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
"""Bytes of a row of the pattern in which 16-byte pieces change places."""


def merged(pieces: Iterable[tuple[int, int]]) -> Ranges:
    """The same bytes as ranges."""
    found: list[tuple[int, int]] = []
    for start, stop in sorted(piece for piece in pieces if piece[0] < piece[1]):
        if found and start <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], stop))
        else:
            found.append((start, stop))
    return tuple(found)


def swizzled(address: int, span: int, base: int = 0) -> int:
    """Where swizzling within rows of `span` bytes puts a byte; 0: nowhere else. base: the number of the row from which
    on the pattern is counted.
    """
    return address ^ ((address // REPEAT - base) % (span // PIECE) * PIECE if span else 0)


# ---------------------------------------------------------------- by threads


def access_bytes(modifiers: Sequence[str]) -> int | None:
    """How many bytes a thread accesses: ("shared", "v4", "f32") 16. Of ld, st, atom, red, st.async and red.async."""
    vector = [int(found[1]) for word in modifiers if (found := re.fullmatch(r"v(\d)", word))]
    types = [found for word in modifiers if (found := re.fullmatch(r"(?:[usbf]|bf)(8|16|32|64|128)(x2)?", word))]
    if not types or vector not in ([], [2], [4], [8]):
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
    rows = None if shape != "m8n8" else _rows(addresses, count)
    return None if rows is None else accessed(rows, PIECE)


def _rows(addresses: Sequence[int], count: int) -> Sequence[int] | None:
    """Where the rows of that many matrices begin; None where that cannot be."""
    rows = addresses[: 8 * count]
    return None if count not in (1, 2, 4) or len(rows) < 8 * count or any(row % PIECE for row in rows) else rows


def of_lane(addresses: Sequence[int], lane: int, count: int, *, transposed: bool = False) -> Ranges | None:
    """The part of `matrices` that one lane gets, or gives: two elements of each matrix, side by side in a row or, with
    .trans, one below the other (PTX 9.7.14.5.15).
    """
    rows = _rows(addresses, count)
    if rows is None:
        return None
    pieces = []
    for matrix in range(0, 8 * count, 8):
        if transposed:
            places = [rows[matrix + 2 * (lane % 4) + number] + 2 * (lane // 4) for number in range(2)]
            pieces += [(place, place + 2) for place in places]
        else:
            place = rows[matrix + lane // 4] + 4 * (lane % 4)
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
    """What a tensor load writes to shared memory, and by how much it completes the tx-count, in bounds or not."""
    box = _box(map)
    return None if box is None else box[0] * prod(box[1])


def tensor_box(map: TensorMap, address: int) -> Ranges | None:
    """What cp.async.bulk.tensor and cp.reduce.async.bulk.tensor write or read in shared memory: the box.

    A load writes all of it, since what is out of bounds is filled. What a store or a reduction takes of it, says
    `tensor_store`. A row that is narrower than the swizzling has a row of that to itself, whose rest is left alone.
    """
    box = _box(map)
    if box is None or address % REPEAT:
        return None
    row, counts = box
    return _placed(address, row, (range(count) for count in counts), counts, map, range(row))


def tensor_store(map: TensorMap, address: int, coordinates: Sequence[int] | None = None) -> Ranges | None:
    """What a tiled tensor store or reduction takes from shared memory: the part of the box that is in bounds, or all of
    it where the coordinates are not known.

    Along the first dimension bounds are those of 16 bytes: elements behind the last one are read, and written to global
    memory, up to a multiple of that, which is not what PTX says of elements out of bounds. None in im2col mode, with
    interleaving, and where a GPU faults: at a negative coordinate, and at a first one that is not of 16 bytes.
    """
    box = _box(map)
    if box is None or address % REPEAT or map.corners is not None or map.interleave:
        return None
    if coordinates is None:
        return tensor_box(map, address)
    if len(coordinates) != map.rank or min(coordinates) < 0 or coordinates[0] * map.element_bytes % PIECE:
        return None
    row, counts = box
    first, *others = (max(0, length - start) for start, length in zip(coordinates, map.shape, strict=True))
    kept = [
        range(min(count, -(-inside // step)))
        for count, inside, step in zip(counts, others, map.element_strides[1:], strict=True)
    ]
    inside = -(-first * map.element_bytes // PIECE) * PIECE
    return _placed(address, row, kept, counts, map, range(min(row, inside)))


def _box(map: TensorMap) -> tuple[int, tuple[int, ...]] | None:
    """The bytes of a row of the box in shared memory, and how many rows there are along each further dimension.

    Element strides leave out rows, but nothing within them (they do not apply to the first dimension). With
    interleaving a row is a slice of the channels of one pixel, whatever the box says of channels.
    """
    stepping = any(step != 1 for step in map.element_strides)
    if map.interleave:
        if stepping or map.rank < 3:
            return None
        return map.interleave, map.box[1:] if map.corners else (*map.box[:-2], map.box[-1])
    row = map.box[0] * map.element_bytes
    if row % PIECE or (map.swizzle and row > map.swizzle):
        return None
    if map.corners:
        return row, map.box[1:]
    return row, tuple(-(-extent // step) for extent, step in zip(map.box[1:], map.element_strides[1:], strict=True))


def _placed(
    address: int, row: int, kept: Iterable[range], counts: Sequence[int], map: TensorMap, within: range
) -> Ranges:
    """The bytes `within` each kept row, where swizzling puts them. counts: of rows along each dimension."""
    whole = len(within) == row and row in (map.swizzle or row, map.interleave)
    pitch = row if map.interleave else map.swizzle or row
    kept = list(kept)
    if whole and (pitch == map.swizzle or not map.swizzle) and [len(one) for one in kept] == list(counts):
        return ((address, address + row * prod(counts)),)
    pieces = []
    for indices in product(*reversed(kept)):
        number = 0
        for index, count in zip(indices, reversed(counts), strict=True):
            number = number * count + index
        start, stop = address + number * pitch + within.start, address + number * pitch + within.stop
        while start < stop:
            end = min(stop, start // PIECE * PIECE + PIECE) if map.swizzle else stop
            place = swizzled(start, map.swizzle)
            pieces.append((place, place + end - start))
            start = end
    return merged(pieces)


# ---------------------------------------------------------------- wgmma

DEPTH = 32
"""Bytes of a row of a dense operand along K, whatever its type: 16 f16, 8 tf32, 32 e4m3, 256 b1."""
WINDOW = 1 << 18
"""Bytes that the address of a descriptor can tell apart."""
FIELDS = 0xC00E_3FFF_3FFF_3FFF
"""The bits of a descriptor: address, leading and stride byte offset, base offset, layout."""
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
    if (
        any(OPERANDS[one] << sparse != depth for one in types)
        or columns % 8
        or not 8 <= columns <= 256
        or (wide and any(transposed))
    ):
        return None
    of_a = () if a is None else operand(a, ROWS, DEPTH, mn_major=bool(transposed[0]))
    of_b = operand(b, columns, DEPTH << sparse, mn_major=bool(transposed[1]))
    return None if of_a is None or of_b is None else (of_a, of_b)


def operand(descriptor: int, rows: int, depth: int, *, mn_major: bool = False) -> Ranges | None:
    """What a matrix descriptor of wgmma stands for (PTX 9.7.15.5.1.2): `rows` along M or N, `depth` bytes along K.

    Swizzling goes by the bits 7 to 9 of each address, less the base offset. An operand that is MN-major has elements of
    two bytes. None for a descriptor with other bits, and for one that leads out of its own window.
    """
    start, leading, stride = (descriptor >> bit << 4 & WINDOW - 1 for bit in (0, 16, 32))
    base, span = descriptor >> 49 & 7, LAYOUTS[descriptor >> 62 & 3]
    if descriptor & ~FIELDS:
        return None
    places = _mn_major(rows, depth, leading, stride, span) if mn_major else _k_major(rows, depth, leading, stride, span)
    pieces = []
    for place in places:
        at = swizzled(start + place, span, base)
        if at >= WINDOW:
            return None
        pieces.append((at, at + PIECE))
    return merged(pieces)


def _k_major(rows: int, depth: int, leading: int, stride: int, span: int) -> Iterator[int]:
    """16-byte pieces along K; eight rows lie together, and `stride` bytes further the next eight.

    With swizzling a row has `span` bytes, without it 16; what is beyond follows after `leading` bytes.
    """
    width = span or PIECE
    for row in range(rows):
        for along in range(0, depth, PIECE):
            yield row // 8 * stride + row % 8 * width + along // width * leading + along % width


def _mn_major(rows: int, depth: int, leading: int, stride: int, span: int) -> Iterator[int]:
    """A 16-byte piece holds eight rows at one K; eight K lie together, a row of `span` bytes each."""
    width = span or PIECE
    across, along = (leading, stride) if span else (stride, leading)
    for first in range(0, rows * 2, PIECE):
        for k in range(depth // 2):
            yield first // width * across + first % width + k // 8 * along + k % 8 * width
