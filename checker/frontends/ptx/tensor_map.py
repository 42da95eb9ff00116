"""Tensor maps: the 128 bytes of a CUtensorMap as fields, the fields as bytes, and what tensormap.replace writes.

NVIDIA does not document the bytes. The layout here is the one that the driver writes for every valid argument of
cuTensorMapEncodeTiled and cuTensorMapEncodeIm2col that was tried, and that tensormap.replace writes on a GPU: the first
64 bytes are all that a copy goes by, and of the others the driver sets two words.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

MAP_BYTES = 128
"""Of a CUtensorMap."""
ELEMENTS = {
    "u8": 1,
    "u16": 2,
    "u32": 4,
    "s32": 4,
    "u64": 8,
    "s64": 8,
    "f16": 2,
    "f32": 4,
    "f32.ftz": 4,
    "f64": 8,
    "bf16": 2,
    "tf32": 4,
    "tf32.ftz": 4,
}
"""Bytes of each .elemtype of tensormap.replace that sm_90 has, in the order of its codes (PTX 5.5.8)."""
NAMES = tuple(ELEMENTS)
TF32 = NAMES.index("tf32") - NAMES.index("f32")
"""tf32 and tf32.ftz are f32 and f32.ftz with a bit of their own."""
SPANS = (0, 32, 64, 128)
"""By .swizzle_mode, the bytes of a row within which 16-byte pieces change places."""
SLICES = (0, 16, 32)
"""By .interleave_layout, the bytes of channels that lie together."""
PROMOTIONS = (0, 64, 128, 256)
"""By CUtensorMapL2promotion, bytes."""
CORNER_BITS = {3: 16, 4: 8, 5: 5}
"""By rank, the bits of a coordinate of an im2col corner."""


@dataclass(frozen=True)
class TensorMap:
    """A tensor in global memory and what one copy moves of it; dimensions are those of PTX, the contiguous one first.

    address: of the tensor. element: a key of ELEMENTS. shape: elements. strides: bytes from one index to the next, of
    all dimensions but the first. box: elements, before element_strides leave some out; in im2col mode channels and
    pixels. interleave: bytes of a slice of channels, 0 without. swizzle: bytes of a row, 0 without. nan: whether
    elements out of bounds are filled with NaN and not with zero. promotion: bytes that L2 fetches. corners: None in
    tiled mode; in im2col mode the lower and the upper corner, of the dimensions between the first and the last.
    """

    address: int
    element: str
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    element_strides: tuple[int, ...]
    interleave: int = 0
    swizzle: int = 0
    nan: bool = False
    promotion: int = 0
    corners: tuple[tuple[int, ...], tuple[int, ...]] | None = None

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def element_bytes(self) -> int:
        return ELEMENTS[self.element]


@dataclass(frozen=True)
class _Field:
    """Bits of a map: where they start, how many they are, and what is taken from a value before it is written."""

    bit: int
    width: int
    less: int = 0

    def read(self, words: int) -> int:
        return (words >> self.bit & (1 << self.width) - 1) + self.less

    def write(self, words: int, value: int) -> int:
        mask = (1 << self.width) - 1
        return words & ~(mask << self.bit) | (value - self.less & mask) << self.bit


ADDRESS = _Field(0, 64)
IM2COL = _Field(64, 1)
RANK = _Field(68, 3, 1)
ELEMENT = _Field(71, 4)
INTERLEAVE = _Field(75, 2)
SWIZZLE = _Field(77, 2)
NAN = _Field(79, 1)
TF32_BIT = _Field(80, 1)
PROMOTION = _Field(81, 2)
ATOMICITY = _Field(86, 1)
"""Of swizzling; only later architectures set it, and tensormap.replace of the swizzle mode clears it."""
LOW_STRIDES = tuple(_Field(96 + 32 * dimension, 32) for dimension in range(4))
HIGH_STRIDES = tuple(_Field(224 + 4 * dimension, 4) for dimension in range(4))
SHAPE = tuple(_Field(256 + 32 * dimension, 32, 1) for dimension in range(5))
ELEMENT_STRIDES = tuple(_Field(416 + 3 * dimension, 3, 1) for dimension in range(5))
BOX = tuple(_Field(440 + 8 * dimension, 8, 1) for dimension in range(5))
CORNERS = tuple(_Field(448 + 16 * corner, 16) for corner in range(2))
PIXELS = _Field(480, 10, 1)
IGNORED = (_Field(65, 1), _Field(85, 1))
"""Bits that CuTe DSL sets in the maps that it encodes itself, and by which no copy goes."""
DRIVERS_BYTES = _Field(512, 32)
"""What the driver takes for the bytes of the box in shared memory. No copy goes by it."""
DRIVERS_ALIGNMENT = _Field(576, 32)
"""What the driver takes for their alignment."""
SHARED = (ADDRESS, IM2COL, RANK, ELEMENT, INTERLEAVE, SWIZZLE, NAN, TF32_BIT, PROMOTION, *LOW_STRIDES, *HIGH_STRIDES)
KNOWN = {
    0: (*SHARED, *SHAPE, *ELEMENT_STRIDES, *BOX),
    1: (*SHARED, *SHAPE, *ELEMENT_STRIDES, BOX[0], *CORNERS, PIXELS),
}
"""By IM2COL, the fields of the first 64 bytes."""


def decode(data: bytes) -> TensorMap | None:
    """What 128 bytes say; None for what is no map of sm_90."""
    if len(data) != MAP_BYTES:
        return None
    words = int.from_bytes(data, "little")
    rank, im2col = RANK.read(words), IM2COL.read(words)
    element, tf32 = ELEMENT.read(words), TF32_BIT.read(words)
    known = sum(field.write(0, field.less - 1) for field in (*KNOWN[im2col], *IGNORED))
    interleave = INTERLEAVE.read(words)
    if words & ((1 << 512) - 1) & ~known or rank > 5 or interleave >= len(SLICES):
        return None
    if element >= NAMES.index("tf32") or (tf32 and NAMES[element] not in ("f32", "f32.ftz")):
        return None
    box, corners = tuple(field.read(words) for field in BOX[:rank]), None
    if im2col:
        if rank not in CORNER_BITS:
            return None
        box = (BOX[0].read(words), PIXELS.read(words))
        packed = [corner.read(words) for corner in CORNERS]
        if any(word >> CORNER_BITS[rank] * (rank - 2) for word in packed):
            return None
        corners = (_corner(packed[0], rank), _corner(packed[1], rank))
    return TensorMap(
        ADDRESS.read(words),
        NAMES[element + TF32 * tf32],
        tuple(field.read(words) for field in SHAPE[:rank]),
        tuple(
            (low.read(words) | high.read(words) << 32) * 16
            for low, high in zip(LOW_STRIDES[: rank - 1], HIGH_STRIDES, strict=False)
        ),
        box,
        tuple(field.read(words) for field in ELEMENT_STRIDES[:rank]),
        SLICES[interleave],
        SPANS[SWIZZLE.read(words)],
        bool(NAN.read(words)),
        PROMOTIONS[PROMOTION.read(words)],
        corners,
    )


def encode(map: TensorMap) -> bytes:
    """The bytes that the driver makes of the fields, which must be in the ranges that it accepts."""
    code = NAMES.index(map.element)
    tf32 = code >= NAMES.index("tf32")
    fields = [
        (ADDRESS, map.address),
        (IM2COL, int(map.corners is not None)),
        (RANK, map.rank),
        (ELEMENT, code - TF32 * tf32),
        (INTERLEAVE, SLICES.index(map.interleave)),
        (SWIZZLE, SPANS.index(map.swizzle)),
        (NAN, int(map.nan)),
        (TF32_BIT, int(tf32)),
        (PROMOTION, PROMOTIONS.index(map.promotion)),
        *zip(SHAPE, map.shape, strict=False),
        *zip(LOW_STRIDES, (stride // 16 for stride in map.strides), strict=False),
        *zip(HIGH_STRIDES, (stride // 16 >> 32 for stride in map.strides), strict=False),
        *zip(ELEMENT_STRIDES, map.element_strides, strict=False),
    ]
    if map.corners is None:
        fields += zip(BOX, map.box, strict=False)
        kept = [extent // step for extent, step in zip(map.box, map.element_strides, strict=True)]
    else:
        fields += [(BOX[0], map.box[0]), (PIXELS, map.box[1])]
        fields += zip(CORNERS, (_packed(corner, map.rank) for corner in map.corners), strict=True)
        kept = list(map.box)
    fields.append((DRIVERS_BYTES, prod(kept) * map.element_bytes))
    fields.append((DRIVERS_ALIGNMENT, map.swizzle * 8 or 16))
    words = 0
    for field, value in fields:
        words = field.write(words, value)
    return words.to_bytes(MAP_BYTES, "little")


def replaced(data: bytes, field: str, value: int, ordinal: int = 0) -> bytes | None:
    """The bytes of a map after tensormap.replace of a field (PTX 9.7.9.27.1.3), as a GPU leaves them.

    field: as in the instruction, without the dot: global_address, rank, box_dim, global_dim, global_stride,
    element_stride, elemtype, interleave_layout, swizzle_mode, fill_mode. ordinal: of the dimension. None for a field or
    a value that sm_90 does not have.
    """
    words = int.from_bytes(data, "little")
    match field:
        case "global_address":
            words = ADDRESS.write(words, value)
        case "rank":
            words = RANK.write(words, value + 1)
        case "box_dim" if ordinal in range(5):
            words = BOX[ordinal].write(words, value)
        case "global_dim" if ordinal in range(5):
            words = SHAPE[ordinal].write(words, value)
        case "element_stride" if ordinal in range(5):
            words = ELEMENT_STRIDES[ordinal].write(words, value)
        case "global_stride" if ordinal in range(4):
            words = LOW_STRIDES[ordinal].write(words, value >> 4)
            words = HIGH_STRIDES[ordinal].write(words, value >> 36)
        case "elemtype" if value in range(len(NAMES)):
            tf32 = value >= NAMES.index("tf32")
            words = ELEMENT.write(words, value - TF32 * tf32)
            words = TF32_BIT.write(words, 1) if tf32 else words  # the others leave it as it is
        case "interleave_layout" if value in range(len(SLICES)):
            words = INTERLEAVE.write(words, value)
        case "swizzle_mode" if value in range(len(SPANS)):
            words = ATOMICITY.write(SWIZZLE.write(words, value), 0)
        case "fill_mode" if value in (0, 1):
            words = NAN.write(words, value)
        case _:
            return None
    return words.to_bytes(MAP_BYTES, "little")


def _corner(word: int, rank: int) -> tuple[int, ...]:
    """The signed coordinates of a corner, the innermost first."""
    bits = CORNER_BITS[rank]
    parts = (word >> bits * dimension & (1 << bits) - 1 for dimension in range(rank - 2))
    return tuple(part - (part >> bits - 1 << bits) for part in parts)


def _packed(corner: tuple[int, ...], rank: int) -> int:
    bits = CORNER_BITS[rank]
    return sum((part & (1 << bits) - 1) << bits * dimension for dimension, part in enumerate(corner))
