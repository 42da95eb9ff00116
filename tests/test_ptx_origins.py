"""Beside each line of the PTX that is named, the line of the program that it was made from."""

from __future__ import annotations

import re

import pytest
from ptx_text import asked, launch
from test_ptx import ARRIVES, handoff

from sm90_verify.made_of import compiled_from
from sm90_verify.report.as_json import to_object
from sm90_verify.report.text import render
from sm90_verify.result import PROVED, UNDETERMINED, VIOLATED


def with_lines(text: str) -> str:
    """Each instruction is made from the line a hundred further on."""
    made: list[str] = []
    for line in text.split("\n"):
        if line.strip().endswith(";") and not line.strip().startswith("."):
            made.append(f".loc 1 {len(made) + 2 + 100} 0")
        made.append(line)
    return "\n".join([*made, '.file 1 "/src/kernel.cu"', ""])


def named(text: str) -> list[tuple[int, int]]:
    """The lines of the PTX that are named with one of the program."""
    flat = " ".join(text.split())
    return [(int(one), int(two)) for one, two in re.findall(r"(?:k\.ptx:|line )(\d+) \(kernel\.cu:(\d+)\)", flat)]


def test_who_is_blocked_and_what_is_open(tmp_path):
    result = asked(tmp_path, with_lines(handoff(arrives="")), launch(64))
    told = render(result)
    assert result.verdict == VIOLATED
    blocked = next(one for one in re.split(r"\n  (?=\w)", told) if one.startswith("blocked"))
    assert [two - one for one, two in named(blocked)] == [100]
    (note,) = {one.note for one in result.findings if one.verdict == UNDETERMINED}
    assert [two - one for one, two in named(note)] == [100, 100]


def test_what_is_redundant(tmp_path):
    text = with_lines(handoff(arrives=f"bar.warp.sync 0xffffffff;\n{ARRIVES}"))
    result = asked(tmp_path, text, launch(64), redundancy=True)
    assert result.verdict == PROVED
    assert [two - one for one, two in named(render(result).partition("\nredundant")[2])] == [100]
    (told,) = to_object(result)["redundant"]
    assert list(told["origin"]) == [f"/src/kernel.cu:{told['line'] + 100}"]


@pytest.mark.parametrize("known", [True, False])
def test_notes_and_reasons(tmp_path, known):
    branch = "ld.global.b32 %r9, [%d0];\nsetp.ne.u32 %p9, %r9, 0;\n@%p9 bra DONE;\n"
    text = with_lines(handoff(arrives=branch + ARRIVES))
    line = next(number for number, one in enumerate(text.split("\n"), 1) if "ld.global" in one)
    assume = [{"line": line, "value": 0}] if known else []
    result = asked(tmp_path, text, launch(64, assume=assume))
    said = [note for note in result.notes if note.startswith("assumed")] if known else [result.findings[0].note]
    assert result.verdict == (PROVED if known else UNDETERMINED)
    assert (line, line + 100) in named(said[0]) and all(two - one == 100 for one, two in named(said[0]))
    assert said[0].count("kernel.cu") == (1 if known else 2)


def test_of_many_functions_the_outermost_is_named():
    assert compiled_from(()) == ""
    assert compiled_from(("a/x.h:1", "y.h:2", "z.cu:3")) == " (x.h:1 < y.h:2 < z.cu:3)"
    assert compiled_from(("a/x.h:1", "y.h:2", "z.h:3", "w.h:4", "k.cu:5")) == " (x.h:1 < y.h:2 < … < k.cu:5)"
