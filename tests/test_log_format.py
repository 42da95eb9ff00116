"""The format of a synclog: everything that synclog_print writes is read, and nothing else."""

from __future__ import annotations

import random
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from log_edits import FIELDS, LOGS, as_text, path_of, renumbered, text_of

from sm90_verify.frontends.log.check import check_log
from sm90_verify.frontends.log.synclog import Record, parse_log
from sm90_verify.spec.errors import SpecError


def refused(text: str) -> SpecError:
    with pytest.raises(SpecError) as caught:
        parse_log(text, "bad.log")
    assert caught.value.where is not None and caught.value.where.file == "bad.log"
    assert "\n" not in str(caught.value)
    return caught.value


def test_every_kind_of_entry_is_read() -> None:
    records = []
    for number, (kind, fields) in enumerate(FIELDS.items()):
        values = tuple(n % 2 if name in ("phase", "pred") else 16 * (n + 1) for n, name in enumerate(fields))
        records.append(Record(0, 0, kind, number, 5, number % 4, values))
    assert len(records) == 33
    assert parse_log(as_text(renumbered(records)), "x") == renumbered(records)


@pytest.mark.parametrize("log", LOGS)
def test_edits_that_leave_the_offsets_alone_are_refused(log: str) -> None:
    """Whatever is removed, added or moved: the buffer offsets no longer fit, and the first wrong line is named."""
    lines = text_of(log).split("\n")
    rng = random.Random(log)
    first = lines.index("synclog start") + 1
    last = len(lines) - 2
    for _ in range(12):
        i = rng.randrange(first, last - 1)
        error = refused("\n".join(lines[:i] + lines[i + 1 :]))
        assert error.where is not None and (error.where.line == i + 1 or i + 1 == last)
        error = refused("\n".join([*lines[:i], lines[i], *lines[i:]]))
        assert error.where is not None and error.where.line == i + 2
        error = refused("\n".join([*lines[:i], lines[i + 1], lines[i], *lines[i + 2 :]]))
        assert error.where is not None and error.where.line == i + 1
        assert refused("\n".join(lines[:i])).what.startswith("the log ends without")


ENTRY = "synclog at 1: cluster_barrier_wait line=411 time=7 thread=64,0,0 block=0,0,0 smem_addr=1024 phase=1"

DESCRIPTOR = "synclog at 1: wgmma_reg_smem line=1 time=1 thread=0,0,0 block=0,0,0 desc_b_smem_int_ptr=8"


def one_entry(entry: str) -> str:
    return f"synclog start\n{entry}\nsynclog end\n"


@pytest.mark.parametrize(
    "old, new",
    [
        ("synclog at 1:", "synclog at 01:"),
        ("synclog at 1:", "synclog at 2:"),
        ("synclog at 1:", "synclog 1:"),
        ("cluster_barrier_wait", "cluster_barrier_weight"),
        ("cluster_barrier_wait", "cluster_barrier_init"),
        ("line=411", "line=-1"),
        ("line=411 ", ""),
        ("line=411", "line=4294967296"),
        ("time=7", "time=18446744073709551616"),
        ("thread=64", "thread=65"),
        ("thread=64", "thread=1024"),
        ("thread=64,0", "thread=64,1"),
        ("0,0 block", "0,1 block"),
        ("block=0,0,0", "block=1,0,0"),
        ("block=0,0,0", "block=0,0,3"),
        ("block=0,0,0", "block=0,0"),
        ("phase=1", "phase=2"),
        ("phase=1", "phase=1 pred=1"),
        ("phase=1", "phase=1 "),
        (" phase=1", ""),
        ("smem_addr=1024 phase=1", "phase=1 smem_addr=1024"),
        ("smem_addr=1024", "smem_addr=4294967296"),
        ("smem_addr=1024", "smem_addr=0x400"),
        ("smem_addr=1024", "smem_addr= 1024"),
        ("smem_addr=1024", "smem_addr=\u0661"),
        ("synclog at 1:", "\nsynclog at 1:"),
        ("phase=1", "phase=1\r"),
    ],
)
def test_garbled_entry_is_refused(old: str, new: str) -> None:
    parse_log(one_entry(ENTRY), "good.log")
    assert old in ENTRY
    error = refused(one_entry(ENTRY.replace(old, new)))
    assert error.where is not None and error.where.line == 2


@pytest.mark.parametrize(
    "text, line",
    [
        ("", 1),
        ("# only a comment\n", 2),
        (ENTRY + "\nsynclog end\n", 1),
        ("synclog start\nsynclog end\n", 2),
        ("synclog start\n" + ENTRY + "\n", 2),
        ("synclog start\n# late\n" + ENTRY + "\nsynclog end\n", 2),
        ("\nsynclog start\n" + ENTRY + "\nsynclog end\n", 1),
        (one_entry(ENTRY) * 2, 4),
        (one_entry(ENTRY) + "Passed\n", 4),
        ("synclog start\nsynclog start\n" + ENTRY + "\nsynclog end\n", 2),
        (one_entry(ENTRY + "\nsynclog was truncated (exceeded capacity of 268435452 bytes)"), 3),
        (one_entry(ENTRY + "\n" + ENTRY.replace("at 1:", "at 13:").replace("time=7", "time=6")), 3),
        (one_entry(ENTRY.replace("at 1:", "at 67108864:")), 2),
        (one_entry(DESCRIPTOR), 2),
    ],
)
def test_malformed_log_is_refused(text: str, line: int) -> None:
    error = refused(text)
    assert error.where is not None and error.where.line == line


def test_time_may_stand_still_and_differ_between_warps() -> None:
    second = ENTRY.replace("at 1:", "at 13:")
    assert len(parse_log(one_entry(ENTRY + "\n" + second), "x")) == 2
    assert len(parse_log(one_entry(ENTRY + "\n" + second.replace("time=7 thread=64", "time=1 thread=32")), "x")) == 2


def outcome_of(path: Path) -> str:
    try:
        return check_log(str(path)).verdict
    except SpecError as error:
        assert error.where is not None
        return "refused"


@settings(max_examples=60, deadline=None)
@given(data=st.one_of(st.binary(max_size=400), st.text(max_size=200).map(str.encode)))
def test_random_bytes_are_refused(tmp_path_factory: pytest.TempPathFactory, data: bytes) -> None:
    path = tmp_path_factory.mktemp("random") / "x.log"
    for prefix in (b"", b"\x1f\x8b", b"\xfd7zXZ\x00", b"synclog start\n"):
        path.write_bytes(prefix + data)
        assert outcome_of(path) == "refused"


@settings(max_examples=60, deadline=None)
@given(share=st.floats(0, 1, exclude_max=True), packed=st.booleans())
def test_log_that_ends_anywhere_is_never_allowed(
    tmp_path_factory: pytest.TempPathFactory, share: float, packed: bool
) -> None:
    data = Path(path_of("ws_void")).read_bytes() if packed else text_of("ws_void").encode()
    end = len(data) - 12 if not packed else len(data)
    path = tmp_path_factory.mktemp("cut") / "x.log"
    path.write_bytes(data[: int(share * end)])
    assert outcome_of(path) in (("refused",) if packed else ("refused", "undetermined"))


@settings(max_examples=60, deadline=None)
@given(place=st.floats(0, 1, exclude_max=True), byte=st.integers(0, 255))
def test_any_changed_byte_gets_an_answer(tmp_path_factory: pytest.TempPathFactory, place: float, byte: int) -> None:
    """Never another exception; what is accepted differs only in what a log may say: a time, a line of a header."""
    data = bytearray(text_of("ws_void").encode())
    index = int(place * len(data))
    old = data[index]
    data[index] = byte
    path = tmp_path_factory.mktemp("byte") / "x.log"
    path.write_bytes(bytes(data))
    if outcome_of(path) == "allowed" and byte != old:
        line_start = data.rfind(b"\n", 0, index) + 1
        line = bytes(data[line_start:]).split(b"\n")[0].decode()
        assert line.startswith("#") or re.search(
            r"line=|time=|thread=|_desc=|count=", line[: index - line_start + 1]
        ), line


def test_missing_file_is_refused(tmp_path: Path) -> None:
    """Without a line, since there is none."""
    for path, why in ((tmp_path / "none.log", "No such file or directory"), (tmp_path, "Is a directory")):
        with pytest.raises(SpecError, match=f"^{path}: {why}: give a synclog or a recording$"):
            check_log(str(path))
