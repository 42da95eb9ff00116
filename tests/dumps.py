"""The core dumps in tests/data/cudacore, and what is done to them in tests."""

from __future__ import annotations

import json
import lzma
import struct
from functools import cache
from pathlib import Path

from sm90_verify.frontends.cudacore.container import HEADER, SECTION, container_of
from sm90_verify.frontends.cudacore.dump import CudaCore
from sm90_verify.frontends.cudacore.read import read_core

FOLDER = Path(__file__).parent / "data" / "cudacore"
KNOWN = json.loads((FOLDER / "hangs.json").read_text())
NAMES = sorted(KNOWN)
WITH_MODEL = [name for name in NAMES if "barriers" in KNOWN[name]]
SOURCES_OF_OUR_OWN = [name for name in NAMES if not name.startswith("cutlass")]


def path_of(name: str) -> str:
    return str(FOLDER / f"{name}.cudacore.xz")


@cache
def core_of_name(name: str) -> CudaCore:
    return read_core(path_of(name))


def raw(name: str) -> bytes:
    """The dump as CUDA has written it, less what is left out of it."""
    return lzma.decompress((FOLDER / f"{name}.cudacore.xz").read_bytes())


def ptx_of(name: str) -> list[str]:
    return lzma.decompress((FOLDER / f"{name}.ptx.xz").read_bytes()).decode().split("\n")


def headers(data: bytes) -> list[list[int]]:
    """The section headers of a dump as lists of their fields."""
    return [
        list(SECTION.unpack_from(data, struct.unpack_from("<Q", data, 40)[0] + SECTION.size * one.number))
        for one in container_of("", data).sections
    ]


def rebuilt(data: bytes, change) -> bytes:
    """The dump with other sections: `change(kind, info, row, bytes)` gives the row size and the bytes of each, or None
    for one that is to have no type and no bytes.
    """
    found, content = [], bytearray(data[: HEADER.size])
    for fields in headers(data):
        name, kind, flags, address, start, size, link, info, align, row = fields
        made = change(kind, info, row, data[start : start + size]) if kind else (row, b"")
        kind, (row, bytes_) = (0, (0, b"")) if made is None else (kind, made)
        found.append(SECTION.pack(name, kind, flags, address, len(content), len(bytes_), link, info, align, row))
        content += bytes_
    struct.pack_into("<Q", content, 40, len(content))
    return bytes(content + b"".join(found))


def ptx_file(folder: Path, name: str, change: tuple[str, str] = ("", "")) -> str:
    """The PTX that is kept with a dump, changed at one place."""
    text = "\n".join(ptx_of(name))
    assert text.count(change[0]) == 1 or not change[0]
    path = folder / f"{name}.ptx"
    path.write_text(text.replace(*change) if change[0] else text)
    return str(path)
