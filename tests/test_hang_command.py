"""The command `verify hang`: its text and JSON, bad input, and the example of its page."""

from __future__ import annotations

import json
import re

from commands import run
from dumps import FOLDER, path_of, ptx_file

from sm90_verify.decide.hang import OWN


def test_text_and_json(tmp_path, capsys):
    code, said = run("hang", path_of("tma_async_producer_phase"), capsys=capsys)[:2]
    lines = said.splitlines()
    assert code == 1 and lines[0] == "CTA (0, 0, 0) of pipeline"
    assert lines[1] == "  warp 0, 1 lane: waits for empty[0] at 0x480, phase parity 0: 128 of 128 arrivals missing"
    assert all(len(line) <= 100 for line in lines[:20]) and f"note: {OWN}" in lines
    assert lines[-1].startswith("verify: VIOLATED tma_async_producer_phase.cudacore.xz kernel=pipeline grid=1x1x1")
    code, said = run("hang", path_of("tma_async_producer_phase"), "--format", "json", capsys=capsys)[:2]
    told = json.loads(said)
    assert code == 1 and (told["schema"], told["command"], told["verdict"]) == (1, "hang", "violated")
    (ctas,) = told["hang"]["ctas"]
    assert [one["thing"] for one in ctas["waits"]] == ["empty[0] at 0x480", "full[0] at 0x400"]
    assert {one["name"] for one in ctas["barriers"]} == {"full[0]", "full[1]", "empty[0]", "empty[1]"}
    assert run("hang", path_of("places"), capsys=capsys)[0] == 3


def test_what_cannot_be_read_is_one_line(tmp_path, capsys):
    other = ptx_file(tmp_path, "ws_no_release")
    empty = tmp_path / "empty.cudacore"
    empty.write_bytes(b"")
    good = path_of("tma_async_producer_phase")
    for arguments, said in [
        ([str(empty)], "empty.cudacore: "),
        ([str(tmp_path / "none")], "cannot be read"),
        ([good, "--ptx", str(tmp_path / "none.ptx")], "give the PTX of a kernel"),
        ([good, "--ptx", other], "it is of pipeline, and"),
        ([good, "--property", "race"], "a hang is about deadlock alone"),
    ]:
        code, out, err = run("hang", *arguments, capsys=capsys)
        assert (code, out) == (2, "") and said in err and err.count("\n") == 1


def test_a_long_way_is_told_by_what_is_waited_for(capsys):
    short = run("hang", path_of("ws_no_tail_release"), capsys=capsys)[1]
    long = run("hang", path_of("ws_no_tail_release"), "--all", capsys=capsys)[1]
    found = re.search(r"\((\d+) steps that do not matter here are left out; --all shows them\)", short)
    assert found is not None and int(found[1]) > 300
    assert len(long.splitlines()) > len(short.splitlines()) + int(found[1]) - 20
    steps = [line for line in short.splitlines() if " warp" in line and "empty[0]" in line and "->" in line]
    assert len(steps) > 4


def test_the_example_of_the_page_is_what_is_said(capsys):
    page = (FOLDER.parents[2] / "docs" / "hang.md").read_text()
    (command, *quoted) = page.partition("\n```\n$ ")[2].partition("\n```\n")[0].splitlines()
    said = run("hang", path_of("tma_async_expect_more"), capsys=capsys)[1].splitlines()
    assert command == "verify hang tests/data/cudacore/tma_async_expect_more.cudacore.xz"
    said[-1] = said[-1].rpartition("  ")[0]
    cut = quoted.index("...")
    assert said[:cut] == quoted[:cut] and [line for line in quoted[cut + 1 :] if line not in said] == []
