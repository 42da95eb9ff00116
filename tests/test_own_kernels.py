"""The hand-written kernels by their PTX alone: what is right is proved, and every mistake of a model is found.

The PTX is kept; that it is what nvcc makes of the sources is a test where nvcc is that of the archive.
"""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from commands import run
from needs import needs_nvcc

from sm90_verify.decide.ptx import check_ptx
from sm90_verify.evidence.hardware.from_ptx.cases import other_cases, right_cases, twin_cases, wrong_cases
from sm90_verify.evidence.hardware.from_ptx.compiled import made_by, ptx_of, read_archive, write_archive
from sm90_verify.evidence.hardware.from_ptx.decided import argued, decide, disagreement, module_of, row
from sm90_verify.evidence.hardware.from_ptx.launches import GLOBAL_MEMORY, gemm_launch
from sm90_verify.evidence.hardware.from_ptx.record import ARCHIVE, MISTAKES_FILE, everything, main, read_rows
from sm90_verify.evidence.hardware.gemm.config import Config
from sm90_verify.evidence.hardware.gemm.variants import variants
from sm90_verify.evidence.hardware.pipelines.mistakes import mistakes
from sm90_verify.frontends.ptx.launch_file import launch_of
from sm90_verify.gpu.device import sources
from sm90_verify.result import PROVED, VIOLATED

FOLDER = Path(__file__).parent / "data" / "own_kernels"
ROWS = {one.name: one for one in read_rows(FOLDER / MISTAKES_FILE)}
WRONG, RIGHT = {one.name: one for one in wrong_cases()}, {one.name: one for one in (*twin_cases(), *right_cases())}
EVERY = 8
"""One in so many of what is right is asked; the command of evidence/hardware/from_ptx/record.py asks about all."""
IN_FULL = [name for name in ROWS if not name.startswith(("cooperative", "pingpong"))][::4]
IN_FULL += ["cooperative expect_more", "cooperative no_release", "pingpong order_swapped"]


@cache
def archive() -> dict[str, str]:
    return read_archive(FOLDER / ARCHIVE)


def kept(case) -> str:
    return archive()[case.compiled]


# ---------------------------------------------------------------- the table of mistakes


def test_the_table_has_each_of_the_85_mistakes():
    assert list(ROWS) == [one.label for one in (*mistakes(), *variants())] == list(WRONG)
    assert len(ROWS) == 85 and set(archive()) == {one.compiled for one in everything()}
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 1 << 19


@pytest.mark.parametrize("name", ROWS)
def test_a_row_agrees_with_its_model_and_has_a_line_to_blame(name):
    one = ROWS[name]
    assert one.model and one.contradicts == ""
    for property in one.found:
        assert one.blamed[property], property
        for place in one.blamed[property]:
            file, _, line = place.rpartition(":")
            path = sources() / file
            assert not path.exists() or path.read_text().split("\n")[int(line) - 1].strip()


@pytest.mark.parametrize("name", ROWS)
def test_every_mistake_is_found_in_its_ptx(name):
    """By the argument of order alone; and nothing is proved that the model violates."""
    found, left = argued(WRONG[name], kept(WRONG[name]))
    assert disagreement(ROWS[name].model, found, left) == ""
    assert found[0] in ROWS[name].found


@pytest.mark.parametrize("name", IN_FULL)
def test_what_is_told_of_a_mistake_is_the_row(name):
    """The property, the lines of the sources that are to blame, and the properties of the model."""
    assert row(WRONG[name], kept(WRONG[name])) == ROWS[name]


def test_the_page_has_these_numbers():
    page = (FOLDER.parents[2] / "docs" / "results.md").read_text()
    lines = [line for line in page.split("\n") if "| of 85 |" in line]
    assert len(lines) == 1
    rows = page.partition(lines[0])[2].strip().partition("\n\n")[0].split("\n")[1:]
    told = {properties.strip(): int(count) for _, properties, count, *_ in (row.split("|") for row in rows)}
    assert told == Counter(", ".join(one.found) for one in ROWS.values())


# ---------------------------------------------------------------- what is right


@pytest.mark.parametrize("name", [one.name for one in twin_cases()] + [one.name for one in right_cases()][::EVERY])
def test_what_is_right_is_proved(name):
    result = decide(RIGHT[name], kept(RIGHT[name]))
    assert {one.id: one.note for one in result.findings if one.verdict != PROVED} == {}
    assert len(result.findings) >= 4


@pytest.mark.parametrize("case", other_cases(), ids=lambda one: one.name)
def test_a_mistake_that_a_parameter_chooses(case):
    one = row(case, kept(case))
    assert one.found == one.model and one.contradicts == ""


# ---------------------------------------------------------------- what a difference is


@pytest.mark.parametrize(
    ("model", "found", "left", "why"),
    [
        ((), (), (), ""),
        ((), ("race",), (), "the model is proved, and the PTX is not: race"),
        ((), (), ("race",), "the model is proved, and the PTX is not: race"),
        (("deadlock",), (), ("deadlock",), "violated by the model: deadlock; by the PTX: nothing"),
        (("deadlock",), ("race",), ("deadlock",), "violated by the model: deadlock; by the PTX: race"),
        (("race", "deadlock"), ("race",), (), "proved of the PTX, and violated by the model: deadlock"),
        (("race", "deadlock"), ("race",), ("deadlock",), ""),
        (("race", "stale-read"), ("race", "arrival-count"), (), ""),
    ],
)
def test_what_contradicts(model, found, left, why):
    assert disagreement(model, found, left) == why


def test_a_mistake_in_another_place_is_not_taken_for_it():
    """Rows that are exchanged do not pass: of two mistakes that violate different things, each is found as itself."""
    race, hang = WRONG["ws release_before_mma"], WRONG["ws no_release"]
    found = {one.name: argued(one, kept(one)) for one in (race, hang)}
    assert disagreement(ROWS[hang.name].model, *found[race.name]) != ""
    assert disagreement(ROWS[race.name].model, *found[hang.name]) != ""
    right = replace(race, macros={**race.macros, "WRONG": 0})
    assert disagreement(ROWS[race.name].model, *argued(right, kept(right))) != ""


def test_a_row_does_not_depend_on_the_time_that_there_is(monkeypatch):
    def searched(*_):
        raise AssertionError("a shorter schedule is looked for")

    monkeypatch.setattr("sm90_verify.engines.shorten.shortened", searched)
    one = WRONG["tma-store fence-left-out"]
    assert decide(one, kept(one)).verdict == VIOLATED
    with pytest.raises(AssertionError, match="a shorter schedule"):
        check_ptx(module_of(one, kept(one)), launch_of(dict(one.launch), "x.json"))


# ---------------------------------------------------------------- how they are made


def without_debug(text: str) -> str:
    """Without the names for a debugger, into which nvcc puts a hash of the folder."""
    return text[: text.index("\t.section\t.debug")]


@needs_nvcc
@pytest.mark.parametrize("name", ["tma-async expect-more", "epilogue none", "ws no_load_tail", "pingpong no_release"])
def test_the_ptx_that_is_kept_is_what_nvcc_makes(name):
    made = ptx_of(WRONG[name])
    if made_by(made) != made_by(kept(WRONG[name])):
        pytest.skip("needs the nvcc of the archive")
    assert without_debug(made) == without_debug(kept(WRONG[name]))


def test_what_is_kept_names_no_folder():
    for text in archive().values():
        assert not [line for line in text.split("\n") if line.lstrip().startswith(".file") and "/" in line]


@pytest.mark.parametrize("case", [*RIGHT.values(), *WRONG.values(), *other_cases()], ids=lambda one: one.name)
def test_every_launch_is_a_launch_file(case):
    assert launch_of(json.loads(json.dumps(case.launch)), "x.json").kernel in kept(case)


def test_a_launch_has_the_boxes_of_its_copies():
    launch = gemm_launch(Config("pingpong", 2, (64, 128), cluster=True), 5, 3)
    assert [(one["offset"], one["box"], one["swizzle"]) for one in launch["tensor_maps"]] == [
        (0, [64, 64], 128),
        (128, [64, 64], 128),
        (256, [32, 64], 64),
        (384, [32, 64], 64),
    ]
    assert [(one["offset"], one["value"]) for one in launch["parameters"]] == [(512, 6), (516, 2), (520, 5)]
    tensor = next(one for one in right_cases() if one.name.endswith("by tensor maps"))
    assert {int(one["address"], 16) & ~0xFFF for one in tensor.launch["tensor_maps"]} == {4 * GLOBAL_MEMORY}


def test_an_archive_is_read_back(tmp_path):
    write_archive(tmp_path / "x.tar.xz", {"b": "2\n", "a": "1"})
    assert list(read_archive(tmp_path / "x.tar.xz").items()) == [("b", "2\n"), ("a", "1")]


@needs_nvcc
def test_the_files_of_a_kernel_are_taken_by_the_command(tmp_path, capsys):
    assert main(["files", str(tmp_path), "tma-store fence-left-out"]) == 0
    assert Counter(path.suffix for path in tmp_path.iterdir()) == {".ptx": 2, ".json": 2}
    name = str(tmp_path / "tma-store_fence-left-out")
    code, said = run("ptx", f"{name}.ptx", "--launch", f"{name}.json", capsys=capsys)[:2]
    assert code == 1 and "missing-fence" in said
    right = f"{name}_right"
    assert run("ptx", f"{right}.ptx", "--launch", f"{right}.json", capsys=capsys)[0] == 0


def test_without_nvcc(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr("sm90_verify.evidence.hardware.from_ptx.compiled.nvcc", lambda: None)
    assert main(["files", str(tmp_path)]) == 2
    assert "this needs nvcc" in capsys.readouterr().err
