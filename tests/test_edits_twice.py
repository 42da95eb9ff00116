"""Edits of PTX, decided by order and by a search of the same programs; and what is kept of them."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

import pytest
from ptx_text import wait
from test_mutants_of_own import TWICE, files
from test_ptx import handoff

from sm90_verify.evidence.mutation import two_engines
from sm90_verify.evidence.mutation.__main__ import decided, main, own_kernel
from sm90_verify.evidence.mutation.edit_rows import EditRow, compared, line_of, read_rows, tables
from sm90_verify.evidence.mutation.of_ptx import chosen_edits, read_edited
from sm90_verify.evidence.mutation.score import EQUIVALENT, KILLED, REASONS, SURVIVED
from sm90_verify.evidence.mutation.two_engines import (
    BOTH_FIND,
    BOTH_PROVE,
    CONTRADICTED,
    MISSED,
    NOT_READ,
    ORDER_FINDS,
    ORDER_OPEN,
    ORDER_PROVES,
    EngineAnswer,
    SearchBound,
    decide_twice,
    judged,
)
from sm90_verify.frontends.ptx.operands import Undetermined
from sm90_verify.result import PROPERTIES

DATA = Path(__file__).parent / "data"
KEPT = DATA / "ptx_edits.jsonl.gz"
OWN = DATA / "own_kernels"
STORES, TILES = "tma-store stages=1 consumers=2 trips=5", "cooperative 18 stages=4 k_tiles=1 tiles=3"
"""Own kernels of several tiles: one whose states can be searched in half a second, and a whole GEMM."""
FEW = SearchBound(2_000, 100.0)


# ---------------------------------------------------------------- two answers

PROVES, FINDS, LEAVES = EngineAnswer(proved=("race", "deadlock")), EngineAnswer(("race",)), EngineAnswer(why="open")
OTHER = EngineAnswer(("deadlock",), ("race",))


@pytest.mark.parametrize(
    ("by_order", "by_states", "judgement"),
    [
        (FINDS, FINDS, BOTH_FIND),
        (EngineAnswer(("deadlock",)), FINDS, BOTH_FIND),
        (FINDS, LEAVES, ORDER_FINDS),
        (FINDS, PROVES, CONTRADICTED),
        (OTHER, FINDS, CONTRADICTED),
        (PROVES, FINDS, CONTRADICTED),
        (PROVES, PROVES, BOTH_PROVE),
        (PROVES, LEAVES, ORDER_PROVES),
        (LEAVES, FINDS, MISSED),
        (LEAVES, PROVES, ORDER_OPEN),
        (LEAVES, LEAVES, ORDER_OPEN),
    ],
)
def test_what_two_answers_come_to(by_order, by_states, judgement):
    assert judged(by_order, by_states) == judgement


def judgements(edited, bound=FEW) -> list[tuple[str, str, str]]:
    rows = [decide_twice(edited, number, bound) for number in range(len(edited.edits))]
    return [(one.operator, one.was.split(".")[1].split()[0], one.judgement) for one in rows]


def test_every_edit_of_a_handoff(tmp_path):
    found = judgements(read_edited(*files(tmp_path, handoff())))
    assert Counter(judgement for *_, judgement in found) == {BOTH_FIND: 9}


def test_every_edit_of_a_handoff_that_does_too_much(tmp_path):
    found = judgements(read_edited(*files(tmp_path, TWICE.replace("bar.sync 0;", "bar.sync 0;\n\tbar.sync 0;"))))
    assert [one[:2] for one in found if one[2] == BOTH_PROVE] == [
        ("drop", "sync"),
        ("swap", "sync"),
        ("drop", "sync"),
        ("drop", "try_wait"),
        ("drop", "try_wait"),
    ]


@pytest.fixture
def edited(tmp_path):
    """A kernel with two waits for one phase."""
    return read_edited(*files(tmp_path, handoff(waits=wait("%r1", 0) + wait("%r1", 0))))


def test_an_engine_that_is_wrong_is_told(edited, monkeypatch):
    """Order that proves everything is contradicted, order that decides nothing misses; so does search."""
    arrive = next(number for number, one in enumerate(edited.edits) if "arrive" in one.was and one.operator == "drop")
    assert decide_twice(edited, arrive, FEW).judgement == BOTH_FIND
    with monkeypatch.context() as patched:
        patched.setattr(two_engines, "_by_order", lambda subject, whole: EngineAnswer(proved=PROPERTIES))
        assert decide_twice(edited, arrive, FEW).judgement == CONTRADICTED
        patched.setattr(two_engines, "_by_order", lambda subject, whole: EngineAnswer(why="not looked at"))
        assert decide_twice(edited, arrive, FEW).judgement == MISSED
    monkeypatch.setattr(two_engines, "by_search", lambda subject, bound: EngineAnswer(proved=PROPERTIES))
    assert decide_twice(edited, arrive, FEW).judgement == CONTRADICTED


def test_a_schedule_that_shows_nothing_contradicts(edited, monkeypatch):
    def shown(*_):
        raise AssertionError("no such step")

    monkeypatch.setattr(two_engines, "make_trace", shown)
    one = decide_twice(edited, 0, FEW)
    assert one.judgement == CONTRADICTED and "no such step" in one.why


def test_a_bound_of_search_and_what_nobody_reads(edited):
    last = len(edited.edits) - 1
    bounded = decide_twice(edited, last, SearchBound(1, 100.0))
    assert bounded.search == "undetermined" and "limit of 1 states" in bounded.why
    edited.edits[0].lines[edited.edits[0].line] = "nonsense.b32 %r1;"
    refused = decide_twice(edited, 0, FEW)
    assert refused.judgement == NOT_READ and "nonsense" in refused.why
    row = compared("k", refused)
    assert row.verdict == NOT_READ and row.said == refused.why


def test_what_depends_on_an_unknown_value_is_open(edited, monkeypatch):
    def subjects(*_):
        raise Undetermined("whether it is executed depends on a load")

    monkeypatch.setattr(two_engines, "_subjects", subjects)
    one = decide_twice(edited, 0, FEW)
    assert (one.judgement, one.order) == (ORDER_OPEN, "undetermined") and "depends on a load" in one.why


# ---------------------------------------------------------------- own kernels, and what is kept


def test_edits_of_an_own_kernel_by_both_engines():
    """What is kept of it was decided with more states; no verdict of order is another, and search agrees."""
    kept = {one.number: one for one in read_rows(KEPT) if one.kernel == STORES}
    rows = list(decided(STORES, own_kernel(OWN, STORES), 2, FEW))
    assert Counter(one.verdict for one in rows) == {BOTH_FIND: 5, BOTH_PROVE: 4, ORDER_PROVES: 2, ORDER_FINDS: 1}
    assert [(one.said, one.line) for one in rows] == [(kept[one.number].said, kept[one.number].line) for one in rows]


def test_edits_of_an_own_gemm_are_what_is_kept():
    kept = {one.number: one for one in read_rows(KEPT) if one.kernel == TILES}
    rows = list(decided(TILES, own_kernel(OWN, TILES), 48, None))
    assert len(rows) == 9 and {one.verdict for one in rows} >= {KILLED, SURVIVED}
    for one in rows:
        assert (one.verdict, plain(one.said)) == (kept[one.number].verdict, plain(kept[one.number].said)), one


def plain(said: str) -> str:
    """Without the lines of the program behind those of the PTX."""
    return re.sub(r" \([^()]*<[^()]*\)", "", said)


def test_what_is_kept_has_no_fault_that_is_not_found():
    rows = read_rows(KEPT)
    assert not [one for one in rows if one.verdict in (MISSED, CONTRADICTED)]
    once, twice = [one for one in rows if not one.twice], [one for one in rows if one.twice]
    assert len(once) >= 500 and len({one.kernel for one in once}) == 7
    assert len(twice) >= 340 and len({one.kernel for one in twice}) == 4
    assert all(one.said in PROPERTIES for one in once if one.verdict == KILLED)
    assert all(one.said in REASONS for one in once if one.verdict == SURVIVED)
    assert all(one.said for one in rows if one.verdict not in (KILLED, SURVIVED, EQUIVALENT))


def test_the_page_has_the_tables_of_what_is_kept():
    page = (DATA.parents[1] / "docs" / "results.md").read_text()
    for table in tables(read_rows(KEPT)).split("\n\n"):
        assert table in page


# ---------------------------------------------------------------- rows and tables


def test_one_edit_in_so_many_of_each_operator(tmp_path):
    edits = read_edited(*files(tmp_path, handoff())).edits
    assert [edits[number].operator for number in chosen_edits(edits, 1)] == [one.operator for one in edits]
    chosen = Counter(edits[number].operator for number in chosen_edits(edits, 2))
    assert chosen == {one: (count + 1) // 2 for one, count in Counter(one.operator for one in edits).items()}


ROWS = [
    EditRow("k", 0, "drop", 3, KILLED, "race"),
    EditRow("k", 1, "parity", 4, SURVIVED, "same"),
    EditRow("m", 0, "drop", 3, EQUIVALENT, "the same program"),
    EditRow("m", 0, "drop", 3, BOTH_FIND, "race", "race", 7),
    EditRow("m", 1, "drop", 5, ORDER_PROVES, "proved", "undetermined", 9),
]


def test_tables():
    first, second, third = tables(ROWS).split("\n\n")
    assert first.split("\n")[2:] == [
        "| k | 2 | 1 | 1 | 1 |  | 1 |  |  |",
        "| m | 1 | 1 |  |  | 1 |  |  |  |",
        "| all | 3 | 2 | 1 | 1 | 1 | 1 |  |  |",
    ]
    assert second.split("\n")[2:] == [
        "| race | 1 | 1 |  |",
        "| the same program | 1 |  | 1 |",
        f"| {REASONS['same']} | 1 | 1 |  |",
    ]
    assert third.split("\n")[2:] == ["| m | 2 | 1 | 1 | 9 |", "| all | 2 | 1 | 1 | 9 |"]
    assert tables(ROWS[:3]).split("\n\n") == [first, second]


def test_the_command(tmp_path, capsys):
    ptx, launch = files(tmp_path, handoff())
    kept = str(tmp_path / "rows.jsonl")
    assert main(["score", kept, ptx, launch, "--every", "2"]) == 0
    assert main(["twice", kept, ptx, launch, "--every", "3", "--limit", "1000"]) == 0
    rows = read_rows(Path(kept))
    assert [one.kernel for one in rows] == ["launch"] * len(rows) and len(rows) == 6 + 5
    assert json.loads(line_of(rows[0]))["said"] == "barrier-init"
    capsys.readouterr()
    assert main(["table", kept]) == 0
    assert capsys.readouterr().out == tables(rows) + "\n"


def test_the_command_tells_a_fault_that_is_not_found(tmp_path, monkeypatch):
    monkeypatch.setattr(two_engines, "_by_order", lambda subject, whole: EngineAnswer(proved=PROPERTIES))
    ptx, launch = files(tmp_path, handoff())
    assert main(["twice", str(tmp_path / "rows.jsonl"), ptx, launch, "--every", "9"]) == 1


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (["score", "rows", "k.ptx"], "give KERNEL.ptx LAUNCH.json"),
        (["score", "rows", "--own", str(OWN), "none"], "no kernel 'none' is kept"),
        (["table", "rows"], "rows"),
    ],
)
def test_what_the_command_cannot_do(given, words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(given) == 2
    error = capsys.readouterr().err
    assert words in error and error.count("\n") == 1


def test_a_kernel_that_is_wrong_is_not_edited(tmp_path, capsys):
    ptx, launch = files(tmp_path, handoff(count=33))
    assert main(["twice", str(tmp_path / "rows"), ptx, launch]) == 2
    assert "is violated as it is" in capsys.readouterr().err
