"""One launch of a kernel: its shape, its parameters, and what is taken for granted about values that it leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import NamedTuple

from sm90_verify.frontends.ptx.counted import Counted, Form
from sm90_verify.frontends.ptx.tensor_map import MAP_BYTES, TensorMap, decode
from sm90_verify.frontends.ptx.values import OfPeriods, One, Unknown

Shape = tuple[int, int, int]
Block = tuple[int, int, int]
"""The index of a CTA in the grid."""


class Assumption(NamedTuple):
    """What an instruction that reads something unknown gives: the same each time, or one value after the other."""

    line: int
    values: tuple[int, ...]


class Bytes(NamedTuple):
    """Bytes of which some are not known. start: the address or offset of the first."""

    start: int
    data: bytes
    known: bytes
    """1 where a byte is known."""

    def read(self, address: int, size: int) -> int | None:
        """An unsigned integer; None if not all of it is here and known."""
        at = address - self.start
        if at < 0 or at + size > len(self.data) or not all(self.known[at : at + size]):
            return None
        return int.from_bytes(self.data[at : at + size], "little")


@dataclass
class InPeriods:
    """running: the warp that executes; warps: those that are in the period of a loop which stands for any number."""

    running: str = ""
    warps: set[str] = field(default_factory=set)


class OpenValue(NamedTuple):
    """A value in the block of parameters that goes on without end: what is written there, and `step` more for each
    period of a loop beyond, of which there are `most` at most. It stays below half of what its bytes hold. name: for
    people. periods: who is in one, where the value is that of the periods done and of those left, which has no form
    here.
    """

    name: str
    offset: int
    size: int
    step: int
    most: int
    periods: InPeriods

    def overlaps(self, offset: int, size: int) -> bool:
        """With bytes of the block."""
        return offset < self.offset + self.size and self.offset < offset + size

    def within(self, offset: int, size: int, written: int) -> One:
        """The value of bytes that overlap with it, of which `written` is in the block."""
        why = f"the value of {self.name}"
        apart = self.offset - offset
        if self.periods.running in self.periods.warps:
            return OfPeriods(0, f"{why}, which is read while a loop goes round")
        if apart < 0 or apart + self.size > size:
            return OfPeriods(0, f"a part of {why}")
        return Counted(Form(written, self.step << 8 * apart, 0, self.most), 0, why)


NO_BYTES = Bytes(0, b"", b"")


@dataclass(frozen=True)
class Launch:
    """path: of the file, for messages. parameters: the block of parameters; tensor_maps: by offset in it, those that
    the file describes. memory: global memory whose contents are known. blocks: the CTAs to look at, None for all.
    """

    path: str
    kernel: str
    grid: Shape
    block: Shape
    cluster: Shape = (1, 1, 1)
    dynamic_shared: int = 0
    parameters: Bytes = NO_BYTES
    tensor_maps: Mapping[int, TensorMap] = field(default_factory=dict)
    described: Mapping[int, TensorMap] = field(default_factory=dict)
    """Tensor maps in global memory, by address."""
    memory: tuple[Bytes, ...] = ()
    registers: int = 0
    blocks: tuple[Block, ...] | None = None
    assume: tuple[Assumption, ...] = ()
    open: OpenValue | None = None

    @property
    def threads(self) -> int:
        """Of a CTA."""
        return prod(self.block)

    @property
    def cluster_size(self) -> int:
        """CTAs."""
        return prod(self.cluster)

    def rank(self, block: Block) -> int:
        """%cluster_ctarank of a CTA."""
        x, y, z = (index % extent for index, extent in zip(block, self.cluster, strict=True))
        return x + self.cluster[0] * (y + self.cluster[1] * z)

    def cluster_of(self, block: Block) -> tuple[Block, ...]:
        """All CTAs of its cluster, by rank."""
        first = [index - index % extent for index, extent in zip(block, self.cluster, strict=True)]
        x, y, z = self.cluster
        return tuple((first[0] + i, first[1] + j, first[2] + k) for k in range(z) for j in range(y) for i in range(x))

    def clusters(self) -> tuple[tuple[Block, ...], ...]:
        """Those to look at: of all CTAs, or of the ones that are asked for."""
        if self.blocks is not None:
            return tuple(dict.fromkeys(self.cluster_of(one) for one in self.blocks))
        counts = [extent // size for extent, size in zip(self.grid, self.cluster, strict=True)]
        steps = [
            (i * self.cluster[0], j * self.cluster[1], k * self.cluster[2])
            for k in range(counts[2])
            for j in range(counts[1])
            for i in range(counts[0])
        ]
        return tuple(self.cluster_of(one) for one in steps)

    def parameter(self, offset: int, size: int, line: int = 0) -> One:
        """A value of the block of parameters, unsigned."""
        found = self.parameters.read(offset, size)
        if found is None:
            return Unknown(
                line, f"bytes {offset} to {offset + size - 1} of the parameters, which the launch leaves out"
            )
        if self.open is not None and self.open.overlaps(offset, size):
            return self.open.within(offset, size, found)
        return found

    def tensor_map(self, offset: int) -> TensorMap | None:
        """The tensor map that lies there in the block of parameters, as far as it is known."""
        if offset in self.tensor_maps:
            return self.tensor_maps[offset]
        if self.open is not None and self.open.overlaps(offset, MAP_BYTES):
            return None
        at = offset - self.parameters.start
        known = self.parameters.known[at : at + MAP_BYTES // 2]
        if at < 0 or len(known) < MAP_BYTES // 2 or not all(known):
            return None
        data = self.parameters.data[at : at + MAP_BYTES]
        return decode(data.ljust(MAP_BYTES, b"\0"))

    def global_value(self, address: int, size: int) -> int | None:
        """What global memory holds, if the launch says so."""
        return next((found for one in self.memory if (found := one.read(address, size)) is not None), None)

    def with_value(self, offset: int, size: int, value: int) -> Launch:
        """The same with another value in the block of parameters."""
        data, known = bytearray(self.parameters.data), bytearray(self.parameters.known)
        data[offset : offset + size] = value.to_bytes(size, "little")
        known[offset : offset + size] = b"\1" * size
        return replace(self, parameters=Bytes(0, bytes(data), bytes(known)))
