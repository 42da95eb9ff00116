"""The word of an mbarrier: every one that was recorded reads as the specification says."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sm90_verify.evidence.hardware.hangs.words import BARRIERS, CTAS, ORDER, after, packed, read_words, watched
from sm90_verify.frontends.cudacore.mbarrier_word import MbarrierWord, decode, encode, is_plausible
from sm90_verify.gpu.device import sources
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.limits import COUNT_LIMIT

RECORDED = read_words(str(Path(__file__).parent / "data" / "mbarrier_words.jsonl.gz"))


def of_state(state):
    return MbarrierWord(state.phase, state.pending, state.expected, state.tx)


@pytest.mark.parametrize("waited_for", [False, True])
def test_every_recorded_word_reads_as_the_specification_says(waited_for):
    some = [one for one in RECORDED if one.watched == waited_for]
    assert len(some) == CTAS * BARRIERS // 2
    for one in some:
        assert decode(one.word) == of_state(one.state), one.operations
        assert encode(of_state(one.state)) == one.word


def test_the_recording_has_what_can_be():
    states = [one.state for one in RECORDED]
    assert {state.phase for state in states} == {0, 1}
    assert min(state.expected for state in states) == 1 and max(state.expected for state in states) == COUNT_LIMIT
    assert sum(state.tx < 0 for state in states) > 100 and sum(state.tx > 0 for state in states) > 100
    assert max(abs(state.tx) for state in states) == COUNT_LIMIT
    assert sum(state.pending == 0 for state in states) > 50
    assert {name.split()[0] for one in RECORDED for name in one.operations} == set(ORDER)


@pytest.mark.parametrize(
    ("word", "parts"),
    [
        (0x7FFFD800001FFFF6, (0, 5, 5, 0)),  # init 5
        (0x7FFFF800001FFFFC, (0, 1, 2, 0)),  # init 2, one arrival
        (0xFFFFF800001FFFFE, (1, 1, 1, 0)),  # init 1, one phase
        (0x000003FF801FFFFE, (0, 0, 1, 1024)),  # init 1, arrive.expect_tx 1024
        (0x7FFFC800401FFFF2, (0, 7, 7, -512)),  # init 7, complete_tx 512
        (0x0000080000000002, (0, COUNT_LIMIT, COUNT_LIMIT, 0)),
    ],
)
def test_some_words(word, parts):
    assert decode(word) == MbarrierWord(*parts) and encode(MbarrierWord(*parts)) == word


COUNTS = st.integers(1, COUNT_LIMIT)


@given(st.integers(0, 1), COUNTS, COUNTS, st.integers(-COUNT_LIMIT, COUNT_LIMIT))
def test_what_is_encoded_is_decoded(phase, one, other, tx):
    parts = MbarrierWord(phase, min(one, other), max(one, other), tx)
    assert decode(encode(parts)) == parts


@pytest.mark.parametrize(
    "word",
    [
        0,
        (1 << 64) - 1,
        1 << 64,
        -1,
        0x7FFFF800001FFFFE | 1,
        0x7FFFF800001FFFFE | 1 << 42,
        0x7FFFF00000000000,  # no count at all
        0x7FFFF000001FFFFE,  # two pending of one
        0x00000000001FFFFE,  # nothing pending, and no bytes
        0x7FFFFA00001FFFFE,  # 2^20 bytes too early
    ],
)
def test_words_that_no_barrier_has(word):
    assert not is_plausible(word)
    with pytest.raises(SpecError, match="is not the word of an mbarrier: was it initialised, and is the address right"):
        decode(word)


def test_parts_that_do_not_fit():
    for parts in ((2, 1, 1, 0), (0, -1, 1, 0), (0, 1, COUNT_LIMIT + 1, 0), (0, 1, 1, COUNT_LIMIT + 1)):
        with pytest.raises(SpecError, match="MbarrierWord"):
            encode(MbarrierWord(*parts))


# ---------------------------------------------------------------- how it was recorded


def test_the_program_knows_the_operations():
    text = (sources() / "hang_words.cu").read_text()
    names = text.partition("enum Verb {")[2].partition("}")[0].split(",")
    plain = [name.replace("_", "").replace(".", "").lower() for name in ORDER]
    assert [name.strip().replace("_", "").lower() for name in names] == plain


def test_what_the_program_is_given():
    names = RECORDED[1].operations
    data = packed([("init 3", "arrive"), names])
    assert len(data) == 2 * (40 * 8 + 4)
    assert data[:24] == bytes.fromhex("0000000003000000 0300000001000000 ffffffff00000000")
    assert data[-8:-4] == b"\xff" * 4 and watched(1) and not watched(0)
    assert int.from_bytes(data[-4:], "little") == after(names).phase


def test_an_illegal_sequence_is_refused():
    with pytest.raises(SpecError, match="arrive 2: more arrivals than"):
        after(("init 1", "arrive 2"))
