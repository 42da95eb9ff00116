"""Which line of a source an instruction comes from: the line tables of compiled GPU code (DWARF 2 to 4).

NVIDIA's compilers add two operations of their own (DW_LNE 0x90 and 0x91) that name, for each row, the function it is in
and the row of the call that was inlined there; so an instruction has a chain of places, the innermost first.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

COPY, ADVANCE_PC, ADVANCE_LINE, SET_FILE, SET_COLUMN = 1, 2, 3, 4, 5
CONST_ADD_PC, FIXED_ADVANCE_PC = 8, 9
END_SEQUENCE, SET_ADDRESS, INLINED_CALL, FUNCTION_NAME = 1, 2, 0x90, 0x91
DEEPEST = 64
"""Calls that are followed."""


class CodePlace(NamedTuple):
    """file: as the compiler was given it, with its folder if there is one. function: mangled; empty where unknown."""

    file: str
    line: int
    function: str = ""


@dataclass(frozen=True)
class LineTable:
    """starts: addresses from which on a row counts, ascending. rows: by start, its row, or -1 where no line is known.
    places, callers: by row, and the row that called it, or -1.
    """

    starts: Sequence[int] = ()
    rows: Sequence[int] = ()
    places: Sequence[CodePlace] = ()
    callers: Sequence[int] = ()

    def at(self, address: int) -> tuple[CodePlace, ...]:
        """The places of an instruction, the innermost first; none where no line is known."""
        found = bisect_right(self.starts, address) - 1
        row = self.rows[found] if found >= 0 else -1
        chain: list[CodePlace] = []
        while 0 <= row < len(self.places) and len(chain) < DEEPEST:
            chain.append(self.places[row])
            row = self.callers[row]
        return tuple(chain)


class DamagedLines(ValueError):
    """A line table that is not to be understood."""


def line_table(section: bytes, names: bytes = b"") -> LineTable:
    """Of all programs of a section, .debug_line or .nv_debug_line_sass. names: the section .debug_str.

    Raises DamagedLines.
    """
    pairs: dict[int, int] = {}
    places: list[CodePlace] = []
    callers: list[int] = []
    at = 0
    try:
        while at + 4 <= len(section):
            (length,) = struct.unpack_from("<I", section, at)
            end = at + 4 + length
            if length < 6 or end > len(section):
                raise DamagedLines(f"a program of {length} bytes at byte {at} of {len(section)}")
            _Program(section, at, end, names, pairs, places, callers).run()
            at = end
    except (struct.error, IndexError) as error:
        raise DamagedLines(f"a program at byte {at} ends too early ({error})") from None
    starts = sorted(pairs)
    return LineTable(starts, [pairs[one] for one in starts], places, callers)


@dataclass
class _Program:
    """One program while it runs. first: the number of its first row among all."""

    data: bytes
    at: int
    end: int
    names: bytes
    pairs: dict[int, int]
    places: list[CodePlace]
    callers: list[int]
    files: list[str] = field(default_factory=lambda: [""])

    def run(self) -> None:
        version, header = struct.unpack_from("<HI", self.data, self.at + 4)
        if not 2 <= version <= 4:
            return
        start = self.at + 10 + header
        self.at += 10
        self.minimum = self._byte()
        if version == 4:
            self._byte()
        self._byte()  # default_is_stmt
        (self.line_base,) = struct.unpack("b", bytes([self._byte()]))
        self.line_range, self.opcode_base = self._byte(), self._byte()
        if not self.line_range or not self.opcode_base:
            raise DamagedLines("a program without opcodes")
        self.lengths = [self._byte() for _ in range(self.opcode_base - 1)]
        folders = [""]
        while text := self._text():
            folders.append(text)
        while text := self._text():
            folder = self._number()
            self._number(), self._number()  # time, length
            inside = folders[folder] if folder < len(folders) else ""
            self.files.append(f"{inside}/{text}" if inside and not text.startswith("/") else text)
        self.names_at = struct.unpack_from("<I", self.data, self.at)[0] if start - self.at >= 4 else 0
        self.at = start
        self.first = len(self.places)
        while self.at < self.end:
            self._sequence()

    def _sequence(self) -> None:
        self.address, self.file, self.line, self.function, self.caller = 0, 1, 1, "", -1
        while self.at < self.end:
            code = self._byte()
            if code >= self.opcode_base:
                advance, line = divmod(code - self.opcode_base, self.line_range)
                self.address += advance * self.minimum
                self.line += self.line_base + line
                self._row()
            elif code == 0:
                if self._extended():
                    return
            elif code == COPY:
                self._row()
            elif code == ADVANCE_PC:
                self.address += self._number() * self.minimum
            elif code == ADVANCE_LINE:
                self.line += self._signed()
            elif code == SET_FILE:
                self.file = self._number()
            elif code == CONST_ADD_PC:
                self.address += (255 - self.opcode_base) // self.line_range * self.minimum
            elif code == FIXED_ADVANCE_PC:
                self.address += self._byte() | self._byte() << 8
            else:
                for _ in range(self.lengths[code - 1]):
                    self._number()

    def _extended(self) -> bool:
        """Whether the sequence has ended."""
        length = self._number()
        after = self.at + length
        if not length or after > self.end:
            raise DamagedLines(f"an operation of {length} bytes at byte {self.at}")
        code = self._byte()
        if code == SET_ADDRESS:
            self.address = int.from_bytes(self.data[self.at : after], "little")
        elif code == INLINED_CALL:
            caller = self._number()
            self.caller = self.first + caller - 1 if caller else -1
            self.function = self._name(self._number()) if caller else ""
        elif code == FUNCTION_NAME:
            self.function = self._name(self._number())
        elif code == END_SEQUENCE:
            self.pairs.setdefault(self.address, -1)
        self.at = after
        return code == END_SEQUENCE

    def _row(self) -> None:
        file = self.files[self.file] if self.file < len(self.files) else ""
        self.pairs[self.address] = len(self.places)
        self.callers.append(self.caller if self.caller < len(self.places) else -1)
        self.places.append(CodePlace(file, self.line, self.function))

    def _name(self, offset: int) -> str:
        start = self.names_at + offset
        return (
            self.names[start : self.names.find(b"\0", start)].decode("utf-8", "replace")
            if start < len(self.names)
            else ""
        )

    def _byte(self) -> int:
        if self.at >= self.end:
            raise DamagedLines("a program ends too early")
        self.at += 1
        return self.data[self.at - 1]

    def _number(self) -> int:
        """ULEB128."""
        value, shift = 0, 0
        while True:
            byte = self._byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def _signed(self) -> int:
        """SLEB128."""
        start = self.at
        value = self._number()
        bits = 7 * (self.at - start)
        return value - (1 << bits) if value >> bits - 1 else value

    def _text(self) -> str:
        end = self.data.find(b"\0", self.at, self.end)
        if end < 0:
            raise DamagedLines("a text does not end")
        text = self.data[self.at : end].decode("utf-8", "replace")
        self.at = end + 1
        return text
