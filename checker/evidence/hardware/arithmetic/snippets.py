"""Stretches of PTX that compute in registers, as kernels that read operands from global memory and leave results there.

A snippet is PTX with two more kinds of line: `given KIND NAME` declares a register and reads an operand of each thread,
`keep TYPE NAME` declares a register, unless it is there, and where it stands stores what the register holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import NamedTuple

from sm90_verify.evidence.hardware.arithmetic.operands import REGISTERS, operands_of

THREADS = 128
"""Of a launch, in one CTA or in several."""
WORD = 8
"""Bytes in which an operand or a result of one thread lies."""
ENTRY = "compute"
BITS = {"b16": 16, "b32": 32, "b64": 64, "pred": 1}
"""Of a result."""
PARAMETERS = (0x80FF_7F01_9CE3_55AA, 0x0123_FEDC_8000_FFFF)
"""What `first` and `second` hold, which snippets may read."""


class Snippet(NamedTuple):
    """text: its lines."""

    text: str

    @property
    def given(self) -> list[str]:
        """The kinds of the operands, in order."""
        return [line.split()[1] for line in self.text.splitlines() if line.startswith("given ")]

    @property
    def kept(self) -> list[str]:
        """The types of the results, in order."""
        return [line.split()[1] for line in self.text.splitlines() if line.startswith("keep ")]

    @property
    def meets(self) -> bool:
        """What a lane computes depends on others, or on which lane it is."""
        return any(word in self.text for word in (".sync", "activemask", "%"))

    def operands(self) -> list[list[int]]:
        """By operand, one for each thread: always the same for the same snippet."""
        return operands_of(Random(self.text), self.given, THREADS)


class Rows(NamedTuple):
    """Where the operands and the results of a snippet begin in a kernel, in rows of a word for each thread."""

    given: int
    kept: int


def kernel(snippets: Sequence[Snippet], version: str = "8.3") -> tuple[str, list[Rows]]:
    """The PTX of a kernel that executes them one after the other, and where each has its rows."""
    rows, lines = [], [_BEGIN.format(version=version, entry=ENTRY, word=WORD)]
    given = kept = 0
    for one in snippets:
        rows.append(Rows(given, kept))
        lines += ["{", *_body(one, given, kept), "}"]
        given, kept = given + len(one.given), kept + len(one.kept)
    return "\n".join([*lines, "ret;", "}", ""]), rows


def _body(one: Snippet, given: int, kept: int) -> list[str]:
    found: list[str] = []
    there: set[str] = set()
    for line in one.text.splitlines():
        what, kind, name, *_ = (*line.split(), "", "")
        if what == "given":
            there.add(name)
            found += [f".reg .{REGISTERS[kind]} {name};", *_load(REGISTERS[kind], name, given * THREADS * WORD)]
            given += 1
        elif what == "keep":
            found += _store(kind, name, kept * THREADS * WORD)
            kept += 1
        else:
            found.append(line)
    return [f".reg .{kind} {name};" for kind, name in _results(one) if name not in there] + found


def _results(one: Snippet) -> list[tuple[str, str]]:
    """Registers that are kept and that no line of the snippet declares."""
    lines = one.text.splitlines()
    told = [line for line in lines if line.startswith(".reg")]
    found = {line.split()[2]: line.split()[1] for line in lines if line.startswith("keep ")}
    return [(kind, name) for name, kind in found.items() if not any(f" {name};" in line for line in told)]


def _load(kind: str, name: str, offset: int) -> list[str]:
    if kind == "pred":
        return [f"ld.global.b32 word, [in+{offset}];", f"setp.ne.b32 {name}, word, 0;"]
    return [f"ld.global.{kind} {name}, [in+{offset}];"]


def _store(kind: str, name: str, offset: int) -> list[str]:
    if kind == "pred":
        return [f"selp.b32 word, 1, 0, {name};", f"st.global.b32 [out+{offset}], word;"]
    return [f"st.global.{kind} [out+{offset}], {name};"]


_BEGIN = """.version {version}
.target sm_90a
.address_size 64
.visible .entry {entry}(.param .u64 given, .param .u64 found, .param .u64 first, .param .u64 second) {{
.reg .b32 cta, size, lane, thread, word;
.reg .b64 at, in, out;
mov.u32 cta, %ctaid.x;
mov.u32 size, %ntid.x;
mov.u32 lane, %tid.x;
mad.lo.u32 thread, cta, size, lane;
mul.wide.u32 at, thread, {word};
ld.param.u64 in, [given];
ld.param.u64 out, [found];
add.u64 in, in, at;
add.u64 out, out, at;"""
