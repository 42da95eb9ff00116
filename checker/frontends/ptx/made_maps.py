"""Tensor maps that a kernel makes: 128 bytes, of which those bits are known that the kernel has set."""

from __future__ import annotations

from typing import NamedTuple

from sm90_verify.frontends.ptx.stored import Memory
from sm90_verify.frontends.ptx.tensor_map import (
    BOX,
    ELEMENT,
    ELEMENT_STRIDES,
    IM2COL,
    INTERLEAVE,
    MAP_BYTES,
    RANK,
    SWIZZLE,
    TF32_BIT,
    TensorMap,
    decode,
    replaced,
)

ALL = (1 << 8 * MAP_BYTES) - 1


class MadeMap(NamedTuple):
    """bits: of the map, those that are not known being 0; known: 1 where one is."""

    bits: int = 0
    known: int = 0

    @staticmethod
    def of_memory(memory: Memory, address: int) -> MadeMap:
        """What ordinary stores have left at an address."""
        bits = known = 0
        for number in range(MAP_BYTES):
            byte = memory.bytes.get(address + number)
            if byte is not None:
                bits |= byte << 8 * number
                known |= 255 << 8 * number
        return MadeMap(bits, known)

    def replaced(self, field: str, value: int | None, ordinal: int) -> MadeMap | None:
        """After tensormap.replace; value: None if it is not known. None for what sm_90 does not have."""
        zeros, ones = (replaced(bytes([fill]) * MAP_BYTES, field, value or 0, ordinal) for fill in (0, 255))
        if zeros is None or ones is None:
            return None
        low, high = int.from_bytes(zeros, "little"), int.from_bytes(ones, "little")
        sets = ALL & ~(low ^ high)
        if value is None:
            return MadeMap(self.bits & ~sets, self.known & ~sets)
        return MadeMap(self.bits & ~sets | low & sets, self.known | sets)

    def decoded(self) -> TensorMap | None:
        """The map, if everything is known by which a copy moves bytes into shared memory or out of it."""
        rank = RANK.read(self.bits)
        needed = (IM2COL, RANK, ELEMENT, INTERLEAVE, SWIZZLE, TF32_BIT, *ELEMENT_STRIDES[:rank], *BOX[:rank])
        for field in needed:
            mask = (1 << field.width) - 1 << field.bit
            if self.known & mask != mask:
                return None
        return decode(self.bits.to_bytes(MAP_BYTES, "little"))
