"""The compiled code in a core dump: its functions, where they lie, and which lines they come from.

A module is an ELF file of its own (a cubin). Compiled with -lineinfo it has a table of CUDA lines, one of PTX lines,
and the PTX itself, without comments and directives of debugging, but line by line.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from sm90_verify.frontends.cudacore.instructions import CODE_BYTES
from sm90_verify.frontends.cudacore.lines import CodePlace, DamagedLines, LineTable, line_table
from sm90_verify.spec.errors import SpecError

CUDA_LINES, PTX_LINES, STRINGS, PTX_TEXT = ".debug_line", ".nv_debug_line_sass", ".debug_str", ".nv_debug_ptx_txt"
TEXT, SHARED, ATTRIBUTES = ".text.", ".nv.shared.", ".nv.info."

SIZED, PARAMETER = 4, 0x17
"""Of an attribute of a kernel: the format that says its size, and EIATTR_KPARAM_INFO."""


@dataclass(frozen=True)
class CodeFunction:
    """A kernel or another function. name: mangled. shared: bytes of static shared memory, those included that CUDA
    reserves at its start (0x400 on Hopper); None for what is no kernel. parameters: of a kernel, where each begins in
    the block of parameters that a dump has, and its bytes.
    """

    name: str
    address: int
    size: int
    shared: int | None = None
    parameters: tuple[tuple[int, int], ...] = ()

    def has(self, pc: int) -> bool:
        return self.address <= pc < self.address + self.size


@dataclass(frozen=True)
class CodeModule:
    """handle: as grids name it. image: of the ELF file as it was loaded, so that its addresses are those of PCs; empty
    where the dump has none.
    """

    handle: int
    image: bytes = field(repr=False)
    path: str = ""

    @cached_property
    def functions(self) -> tuple[CodeFunction, ...]:
        """By address. Raises SpecError for a damaged image, as all that follows."""
        kernels = {name.removeprefix(TEXT): one for name, one in self._sections.items() if name.startswith(TEXT)}
        found = {
            name: CodeFunction(name, address, size, self._shared(name), self._parameters(name))
            for name, (address, size, _) in kernels.items()
        }
        for name, address, size in self._symbols:
            if name not in found:
                found[name] = CodeFunction(name, address, size)
        return tuple(sorted(found.values(), key=lambda one: (one.address, one.shared is None, one.name)))

    def function_at(self, pc: int) -> CodeFunction | None:
        """The innermost that has an instruction: a function that a kernel calls can lie in the kernel's section."""
        holding = [one for one in self.functions if one.has(pc)]
        return min(holding, key=lambda one: one.size) if holding else None

    def kernel_at(self, entry: int) -> CodeFunction | None:
        """The kernel that begins at an address."""
        return next((one for one in self.functions if one.address == entry and one.shared is not None), None)

    def code(self, pc: int) -> bytes:
        """The instruction at an address, 16 bytes; none outside of the module."""
        for address, size, content in self._code:
            if address <= pc < address + size:
                return content[pc - address : pc - address + CODE_BYTES]
        return b""

    def places(self, pc: int) -> tuple[CodePlace, ...]:
        """The CUDA lines of an instruction, the innermost first, and behind it the calls that were inlined."""
        return self._cuda_lines.at(pc)

    def ptx_line(self, pc: int) -> int | None:
        """The line of the PTX that an instruction comes from."""
        found = self._ptx_lines.at(pc)
        return found[0].line if found else None

    @cached_property
    def ptx(self) -> str | None:
        """The PTX that it was compiled from, as far as it is kept; its lines have their numbers."""
        text = self._bytes(PTX_TEXT)
        return "\n".join(text.decode("utf-8", "replace").split("\0")) if text else None

    @cached_property
    def _cuda_lines(self) -> LineTable:
        return self._table(CUDA_LINES)

    @cached_property
    def _ptx_lines(self) -> LineTable:
        return self._table(PTX_LINES)

    def _table(self, name: str) -> LineTable:
        try:
            return line_table(self._bytes(name), self._bytes(STRINGS))
        except DamagedLines as error:
            raise self._damaged(f"{name}: {error}") from None

    def _shared(self, kernel: str) -> int:
        return self._sections.get(SHARED + kernel, (0, 0, b""))[1]

    def _parameters(self, kernel: str) -> tuple[tuple[int, int], ...]:
        """Of the attributes: each has a format, a number, and 2 bytes or, in one format, as many as these say."""
        data, at = self._bytes(ATTRIBUTES + kernel), 0
        found: dict[int, tuple[int, int]] = {}
        while at + 4 <= len(data):
            kind, attribute, size = struct.unpack_from("<BBH", data, at)
            at += 4
            if kind != SIZED:
                continue
            if attribute == PARAMETER and size >= 12 and at + 12 <= len(data):
                _, ordinal, offset, packed = struct.unpack_from("<IHHI", data, at)
                found[ordinal] = offset, packed >> 18
            at += size
        return tuple(found[ordinal] for ordinal in sorted(found))

    def _bytes(self, name: str) -> bytes:
        return self._sections.get(name, (0, 0, b""))[2]

    def _damaged(self, why: object) -> SpecError:
        return SpecError(f"{self.path}: its module {self.handle:#x} is damaged ({why}): make the dump again")

    @cached_property
    def _elf(self) -> tuple[dict[str, tuple[int, int, bytes]], list[tuple[str, int, int]]]:
        """Sections by name: address, size and content; and the functions of the table of symbols."""
        if not self.image:
            return {}, []
        try:
            return _read(self.image)
        except Exception as error:  # the package raises whatever comes of bytes that are none
            raise self._damaged(f"{type(error).__name__} {error}".strip()) from None

    @cached_property
    def _code(self) -> list[tuple[int, int, bytes]]:
        return [one for name, one in self._sections.items() if name.startswith(TEXT)]

    @property
    def _sections(self) -> dict[str, tuple[int, int, bytes]]:
        return self._elf[0]

    @property
    def _symbols(self) -> list[tuple[str, int, int]]:
        return self._elf[1]


def _read(image: bytes) -> tuple[dict[str, tuple[int, int, bytes]], list[tuple[str, int, int]]]:
    from elftools.elf.elffile import ELFFile

    file: Any = ELFFile(io.BytesIO(image))
    sections: dict[str, tuple[int, int, bytes]] = {}
    symbols: list[tuple[str, int, int]] = []
    for section in file.iter_sections():
        kind, size = section["sh_type"], section["sh_size"]
        empty = kind == "SHT_NOBITS"
        if not empty and section["sh_offset"] + size > len(image):
            raise ValueError(f"{section.name} ends behind the image")
        wanted = section.name in (CUDA_LINES, PTX_LINES, STRINGS, PTX_TEXT) or section.name.startswith(
            (TEXT, ATTRIBUTES)
        )
        sections[section.name] = (section["sh_addr"], size, section.data() if wanted and not empty else b"")
        if kind == "SHT_SYMTAB":
            symbols += [
                (_plain(one.name), one["st_value"], one["st_size"])
                for one in section.iter_symbols()
                if one["st_info"]["type"] == "STT_FUNC"
            ]
    return sections, symbols


def _plain(name: str) -> str:
    """A function that a kernel calls is called $kernel$function."""
    return name.split("$", 2)[2] if name.startswith("$") and name.count("$") > 1 else name


def module_with(modules: Sequence[CodeModule], pc: int) -> CodeModule | None:
    """The module that has an instruction."""
    return next((one for one in modules if one.function_at(pc)), None)
