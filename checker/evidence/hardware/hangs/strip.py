"""A core dump without what is not about its kernels: other modules, those of the driver too, and unasked memory."""

from __future__ import annotations

import struct

from sm90_verify.frontends.cudacore import tables
from sm90_verify.frontends.cudacore.container import HEADER, SECTION, Container, CoreSection, SectionKind, container_of
from sm90_verify.frontends.cudacore.tables import number, rows

SHT_NOBITS = 8


def stripped(core: bytes) -> bytes:
    """The dump with the same sections under the same numbers; those that are left out have no type and no bytes.

    What remains of memory is the constant bank 0 of each grid, and of modules those that grids run.
    """
    container = container_of("the dump", core)
    used = {
        number(row, "module")
        for section in container.of_kind(SectionKind.GRIDS)
        for row in rows(container, section, tables.GRIDS)
    }
    banks = [
        (number(row, "address"), number(row, "size"))
        for section in container.of_kind(SectionKind.CONSTANT_BANKS)
        for row in rows(container, section, tables.CONSTANT_BANKS)
        if row["bank"] == 0
    ]
    headers, content = [], bytearray(core[: HEADER.size])
    for section in container.sections:
        address, data = section.address, bytes(container.bytes_of(section)) if section.kind != SHT_NOBITS else b""
        kind = section.kind
        if kind in (SectionKind.IMAGE, SectionKind.RELOCATED_IMAGE) and _handle(container, section) not in used:
            kind, data = 0, b""
        elif kind == SectionKind.GLOBAL:
            address, data = _constants(section, data, banks)
            kind = kind if data else 0
        content += bytes(-len(content) % 8)
        headers.append((section, kind, address, len(content), len(data)))
        content += data
    content += bytes(-len(content) % 8)
    table = len(content)
    for section, kind, address, start, size in headers:
        if section.number == 0:
            content += SECTION.pack(0, 0, 0, 0, 0, section.size, section.link, 0, 0, 0)
        else:
            flags, align = 2, 1  # SHF_ALLOC
            content += SECTION.pack(
                section.name, kind, flags, address, start, size, section.link, section.info, align, section.row
            )
    struct.pack_into("<Q", content, 40, table)
    return bytes(content)


def _handle(container: Container, image: CoreSection) -> int:
    """Of the module that an image is of."""
    return number(rows(container, container.sections[image.link], tables.MODULES)[image.info], "handle")


def _constants(section: CoreSection, data: bytes, banks: list[tuple[int, int]]) -> tuple[int, bytes]:
    """The address and the bytes of the constant banks that a piece of memory has; none if it has none."""
    inside = [(at, size) for at, size in banks if section.address <= at and at + size <= section.address + section.size]
    if not inside:
        return section.address, b""
    start, end = min(at for at, _ in inside), max(at + size for at, size in inside)
    return start, data[start - section.address : end - section.address]
