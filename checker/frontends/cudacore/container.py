"""A core dump as a file: plain or compressed, an ELF file of sections that belong to each other.

The header cudacoredump.h of the CUDA toolkit (extras/Debugger/include) describes the sections. A section says whose it
is by the number of its parent, a table, and the row there. There can be some hundred thousand of them, three for each
thread; so their headers are read here, all at once.
"""

from __future__ import annotations

import lzma
import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from sm90_verify.spec.errors import SpecError

EM_CUDA, ET_CORE = 190, 4
HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
"""Elf64_Ehdr."""
SECTION = struct.Struct("<IIQQQQIIQQ")
"""Elf64_Shdr."""
LARGEST = 1 << 33
"""Bytes of a dump that is compressed: more is taken for a file that is none."""
HOW = "run the program with CUDA_ENABLE_USER_TRIGGERED_COREDUMP=1, and write a byte into its CUDA_COREDUMP_PIPE"


class SectionKind(IntEnum):
    """Types of sections, as CudbgSectionHeaderTypes numbers them from SHT_LOUSER on."""

    GLOBAL = 0x80000002
    LOCAL = 0x80000003
    SHARED = 0x80000004
    REGISTERS = 0x80000005
    IMAGE = 0x80000006
    RELOCATED_IMAGE = 0x80000007
    CALLS = 0x80000008
    DEVICES = 0x80000009
    CONTEXTS = 0x8000000A
    MULTIPROCESSORS = 0x8000000B
    GRIDS = 0x8000000C
    CTAS = 0x8000000D
    WARPS = 0x8000000E
    LANES = 0x8000000F
    MODULES = 0x80000010
    PREDICATES = 0x80000011
    PARAMETERS = 0x80000012
    UNIFORM_REGISTERS = 0x80000013
    CONSTANT_BANKS = 0x80000015
    METADATA = 0x80000016


class CoreSection(NamedTuple):
    """name: where it is in the table of names. row: bytes of an entry, 0 for plain bytes. link, info: the section that
    it belongs to, and the row there. number: of the section itself.
    """

    number: int
    name: int
    kind: int
    address: int
    start: int
    size: int
    link: int
    info: int
    row: int


@dataclass(frozen=True)
class Container:
    """The sections of a dump. path: for messages. children: by kind, parent and row."""

    path: str
    data: memoryview
    sections: tuple[CoreSection, ...]
    children: Mapping[tuple[int, int, int], tuple[CoreSection, ...]]
    names: CoreSection | None

    def bytes_of(self, section: CoreSection) -> memoryview:
        return self.data[section.start : section.start + section.size]

    def of_kind(self, kind: SectionKind) -> Iterator[CoreSection]:
        return (one for one in self.sections if one.kind == kind)

    def below(self, kind: SectionKind, parent: CoreSection, row: int) -> tuple[CoreSection, ...]:
        """Those of a kind that belong to a row of a table."""
        return self.children.get((kind, parent.number, row), ())

    def one_below(self, kind: SectionKind, parent: CoreSection, row: int) -> memoryview | None:
        """The bytes of the only one; None if there is none."""
        found = self.below(kind, parent, row)
        return self.bytes_of(found[0]) if found else None

    def name_of(self, section: CoreSection) -> str:
        return text_at(self.bytes_of(self.names), section.name) if self.names else ""

    def refuse(self, why: str) -> SpecError:
        return SpecError(f"{self.path}: {why}")


def text_at(table: memoryview, offset: int) -> str:
    """The text that starts there in a table of texts that end in a 0 byte; empty if it is outside."""
    if not 0 <= offset < len(table):
        return ""
    return bytes(table[offset : offset + 4096]).split(b"\0", 1)[0].decode("utf-8", "replace")


def read_container(path: str) -> Container:
    """Reads a dump, which may be compressed by gzip or xz. Raises SpecError for what is none, or is cut off."""
    try:
        with open(path, "rb") as file:
            data = file.read()
    except OSError as error:
        raise SpecError(f"{path}: cannot be read: {error.strerror or error}") from None
    return container_of(path, data)


def container_of(path: str, data: bytes) -> Container:
    """The same of bytes."""
    view = memoryview(_unpacked(path, data))
    if not view.nbytes:
        raise SpecError(f"{path}: is empty: the dump was not written; {HOW}")
    if bytes(view[:4]) != b"\x7fELF":
        raise SpecError(f"{path}: is no core dump: it does not begin like an ELF file; {HOW}")
    if len(view) < HEADER.size:
        raise SpecError(f"{path}: is cut off in its header, at byte {len(view)}: copy the whole dump")
    identity, kind, machine, *_ = HEADER.unpack_from(view)
    if machine != EM_CUDA or identity[4:6] != b"\x02\x01":
        raise SpecError(
            f"{path}: is an ELF file, but of no GPU (machine {machine}): a core dump of the host program? {HOW}"
        )
    if kind != ET_CORE:
        raise SpecError(f"{path}: is compiled GPU code and no core dump (ELF type {kind}): {HOW}")
    sections = _sections(path, view)
    children: dict[tuple[int, int, int], list[CoreSection]] = {}
    for one in sections:
        children.setdefault((one.kind, one.link, one.info), []).append(one)
    names = HEADER.unpack_from(view)[13]
    names = sections[0].link if names == 0xFFFF and sections else names
    return Container(
        path,
        view,
        sections,
        {key: tuple(some) for key, some in children.items()},
        sections[names] if 0 < names < len(sections) else None,
    )


def _sections(path: str, view: memoryview) -> tuple[CoreSection, ...]:
    _, _, _, _, _, _, table, _, _, _, _, size, count, _ = HEADER.unpack_from(view)
    cut = f"{path}: is cut off at byte {len(view)}"
    if not table:
        raise SpecError(f"{path}: has no sections: the dump was not completed; wait until the file stops growing")
    if size != SECTION.size:
        raise SpecError(f"{path}: is damaged: section headers of {size} bytes, and ELF has {SECTION.size}")
    if table + size > len(view):
        raise SpecError(f"{cut}, before its section headers at byte {table}: wait for the whole dump, and copy all")
    if count == 0:  # more than the field holds: section 0 has it
        count = SECTION.unpack_from(view, table)[5]
    end = table + size * count
    if end > len(view):
        raise SpecError(f"{cut}, and its section headers end at byte {end}: copy the whole dump")
    rows = SECTION.iter_unpack(view[table:end])
    found = tuple(
        CoreSection(number, name, kind, address, start, size, link, info, row)
        for number, (name, kind, _, address, start, size, link, info, _, row) in enumerate(rows)
    )
    for one in found[1:]:
        if one.start + one.size > len(view) and one.kind not in (0, 8):  # SHT_NULL, SHT_NOBITS
            raise SpecError(f"{cut}, and section {one.number} ends at byte {one.start + one.size}: copy the whole dump")
    return found


def _unpacked(path: str, data: bytes) -> bytes:
    unpacker: zlib._Decompress | lzma.LZMADecompressor
    if data[:2] == b"\x1f\x8b":
        unpacker = zlib.decompressobj(zlib.MAX_WBITS | 16)
    elif data[:6] == b"\xfd7zXZ\0":
        unpacker = lzma.LZMADecompressor()
    else:
        return data
    try:
        whole = unpacker.decompress(data, LARGEST)
    except (zlib.error, lzma.LZMAError) as error:
        raise SpecError(f"{path}: the compressed file is damaged ({error}): copy it again") from None
    if not unpacker.eof:
        raise SpecError(f"{path}: the compressed file is cut off, behind {len(whole)} bytes of the dump: copy it again")
    return whole
