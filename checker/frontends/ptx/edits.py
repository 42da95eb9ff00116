"""Small changes of a kernel's PTX, at every instruction that synchronises: left out, or with another operand.

A change is one of text, in the lines where the instruction stands, so that whatever reads PTX can be shown it.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

INSTRUCTION = re.compile(
    r"^(?P<label>\s*(?:[\w$%]+:\s*)*)(?P<guard>(?:@!?[\w%$]+\s+)?)(?P<opcode>[a-z][\w.:]*)(?P<rest>[^;{}]*(?:\{[^{}]*\}[^;{}]*)*);"
    r"(?P<tail>[^;]*)$"
)
LABEL = re.compile(r"^\s*[\w$%]+:\s*$")
NUMBER = re.compile(r"^-?(?:0[xX][0-9a-fA-F]+|\d+)U?$")
ADDRESS = re.compile(r"^\[\s*(?P<base>[\w%$]+)\s*(?:\+\s*(?P<offset>-?\d+))?\s*\]$")

SYNCHRONISES = (
    "mbarrier.",
    "bar.",
    "barrier.",
    "fence.",
    "membar.",
    "cp.async.",
    "cp.reduce.async.",
    "st.async.",
    "red.async.",
    "wgmma.fence.",
    "wgmma.commit_group.",
    "wgmma.wait_group.",
)
LEFT_ALONE = ("mbarrier.pending_count", "fence.proxy.tensormap", "cp.async.bulk.prefetch", "mbarrier.inval")
"""What has nothing to do with shared memory, or only with what comes after the kernel."""
SLOT = 8
"""Bytes from one mbarrier to the next."""


@dataclass(frozen=True)
class PtxEdit:
    """operator: of mutation.variation. line: of the instruction; was: what it is; change: what it becomes; lines: by
    number, what stands there instead.
    """

    operator: str
    line: int
    was: str
    change: str
    lines: Mapping[int, str]

    def of(self, text: str) -> str:
        """The PTX with this change."""
        found = text.split("\n")
        for number, line in self.lines.items():
            found[number - 1] = line
        return "\n".join(found)


@dataclass(frozen=True)
class _Site:
    """An instruction that stands alone in its line."""

    line: int
    label: str
    guard: str
    opcode: str
    operands: tuple[str, ...]

    @property
    def said(self) -> str:
        return f"{self.guard}{self.opcode} {', '.join(self.operands)}".strip()

    def with_operand(self, place: int, operand: str, before: str = "") -> str:
        """The line with another operand. before: an instruction that makes it, `{0}` being its name."""
        operands = [operand if number == place else one for number, one in enumerate(self.operands)]
        text = f"{self.guard}{self.opcode} {', '.join(operands)};"
        return f"{self.label}{text}" if not before else f"{self.label}{{ .reg .b32 {operand}; {before}; {text} }}"

    def instead(self, text: str) -> str:
        return f"{self.label}{text}"


def edits_of(text: str, executed: Collection[int]) -> Iterator[PtxEdit]:
    """All edits of the instructions in these lines, by line."""
    lines = text.split("\n")
    sites = {number: site for number in sorted(executed) if (site := _site(lines, number)) is not None}
    for site in sites.values():
        yield from _left_out(site)
        yield from _other_operands(site)
        yield from _later(lines, site, sites)


def _site(lines: Sequence[str], number: int) -> _Site | None:
    match = INSTRUCTION.match(lines[number - 1].split("//")[0].rstrip())
    if match is None:
        return None
    opcode = match["opcode"]
    if not opcode.startswith(SYNCHRONISES) or opcode.startswith(LEFT_ALONE) or ".mma_async." in opcode:
        return None
    return _Site(number, match["label"], match["guard"], opcode, tuple(_operands(match["rest"])))


def _operands(text: str) -> Iterator[str]:
    """Between commas outside of brackets and braces."""
    depth, start = 0, 0
    for place, letter in enumerate(text):
        depth += (letter in "[{") - (letter in "]}")
        if letter == "," and not depth:
            yield text[start:place].strip()
            start = place + 1
    if text[start:].strip():
        yield text[start:].strip()


def _edit(operator: str, site: _Site, change: str, line: str) -> PtxEdit:
    return PtxEdit(operator, site.line, site.said, change, {site.line: line})


def _left_out(site: _Site) -> Iterator[PtxEdit]:
    if site.opcode.startswith(("mbarrier.try_wait", "mbarrier.test_wait")):
        yield _edit("drop", site, "", site.instead(f"{site.guard}setp.eq.u32 {site.operands[0]}, 0, 0;"))
    else:
        yield _edit("drop", site, "", site.instead(""))


def _other_operands(site: _Site) -> Iterator[PtxEdit]:
    opcode, last = site.opcode, len(site.operands) - 1
    if opcode.startswith(("mbarrier.try_wait.parity", "mbarrier.test_wait.parity")):
        yield _changed("parity", site, 2, "xor", 1)
    if opcode.startswith("mbarrier.init"):
        yield _changed("init", site, 1, "add", 1)
    elif opcode.startswith("mbarrier.") and ".expect_tx" in opcode:
        yield _changed("bytes", site, last, "add", 16)
    elif opcode.startswith("mbarrier.arrive") and last == 2:
        yield _changed("count", site, 2, "add", 1)
    if ".wait_group" in opcode and NUMBER.match(site.operands[0]):
        yield _changed("pending", site, 0, "add", 1)
    if opcode.startswith(("bar.sync", "bar.arrive", "barrier.sync", "barrier.arrive", "barrier.cta")) and last == 1:
        yield _changed("threads", site, 1, "add", 32)
    if opcode.startswith("mbarrier."):
        for place, operand in enumerate(site.operands):
            if (match := ADDRESS.match(operand)) is not None:
                address = f"[{match['base']}+{int(match['offset'] or 0) + SLOT}]"
                yield _edit("stage", site, f"{operand} -> {address}", site.with_operand(place, address))


def _changed(operator: str, site: _Site, place: int, how: str, by: int) -> PtxEdit:
    operand = site.operands[place]
    if NUMBER.match(operand):
        number = int(operand.rstrip("U"), 0)
        other = str(number ^ by if how == "xor" else number + by)
        return _edit(operator, site, f"{operand} -> {other}", site.with_operand(place, other))
    sign = "^" if how == "xor" else "+"
    line = site.with_operand(
        place, "edited", f"{how}.b32 edited, {operand}, {by}" if how == "xor" else f"add.u32 edited, {operand}, {by}"
    )
    return _edit(operator, site, f"{operand} {sign} {by}", line)


def _later(lines: Sequence[str], site: _Site, sites: Mapping[int, _Site]) -> Iterator[PtxEdit]:
    """The instruction behind the next one that synchronises, where nothing branches, and no scope ends, in between."""
    if site.label.strip() or site.opcode.startswith(("mbarrier.try_wait", "mbarrier.test_wait")):
        return
    for number in range(site.line + 1, len(lines) + 1):
        other = sites.get(number)
        if other is not None:
            if not other.label.strip() and not other.opcode.startswith(("mbarrier.try_wait", "mbarrier.test_wait")):
                moved = f"{lines[number - 1]} {site.guard}{site.opcode} {', '.join(site.operands)};"
                change = f"behind line {number}, {other.said}"
                yield PtxEdit("swap", site.line, site.said, change, {site.line: "", number: moved})
            return
        text = lines[number - 1].split("//")[0]
        if LABEL.match(text) or re.search(r"[{}]|\b(?:bra|brx|ret|exit|call)\b", text):
            return
