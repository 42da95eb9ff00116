"""What an H100 did with single mbarriers, held to the current specification."""

from __future__ import annotations

import gzip
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from sm90_verify.evidence.hardware.mbarrier.ill_formed import (
    PROBES,
    TWIN,
    IllFormedReaction,
    disagreements,
    kinds,
    operations_of,
    verdict,
)
from sm90_verify.evidence.hardware.mbarrier.menu import menu
from sm90_verify.evidence.hardware.mbarrier.specimens import LEGAL
from sm90_verify.evidence.hardware.mbarrier.tables import meaning, read_fuzz, read_reactions, write_reactions
from sm90_verify.recordings.lines import packed, write_lines
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.ptx.mbarrier import NONE_PENDING

RECORDINGS = Path(__file__).parent / "recordings"


@cache
def reactions():
    return read_reactions(str(RECORDINGS / "ill_formed.jsonl.gz"))


def by_kind():
    """(silently accepted, fault) of the ill-formed sequences of each kind."""
    found = {}
    for one in reactions():
        if not one.name.endswith(TWIN) and one.spec != LEGAL:
            found.setdefault(one.name, Counter())["fault" if one.fault else "accepted"] += 1
    return found


def test_every_kind_of_ill_formed_sequence_was_tried():
    assert set(by_kind()) == {name for name, kind in kinds().items() if kind.rule != LEGAL}
    assert len(by_kind()) >= 30 and sum(sum(one.values()) for one in by_kind().values()) >= 300


def test_the_spec_still_calls_each_sequence_what_it_did():
    """Illegal, and why; or legal, as the twins are."""
    assert [(one.name, one.index, verdict(one.name, one.index)) for one in reactions()] == [
        (one.name, one.index, one.spec) for one in reactions()
    ]
    assert all(one.spec == LEGAL for one in reactions() if one.name.endswith(TWIN))


def test_legal_sequences_were_answered_as_the_spec_says():
    legal = [one for one in reactions() if one.spec == LEGAL]
    assert len(legal) >= 300
    assert disagreements(legal) == []


@pytest.mark.parametrize("number", range(0, 300, 37))
def test_another_answer_would_be_noticed(number):
    legal = [one for one in reactions() if one.spec == LEGAL and one.answers[-1:] != ()]
    one = legal[number % len(legal)]
    assert disagreements([replace(one, fault=True)])
    if operations_of(one.name, one.index)[-1].split(" ")[0] != "inval":  # behind it nothing is answered
        assert disagreements([replace(one, answers=(*one.answers[:-1], one.answers[-1] + 7))])


def test_what_faults_and_what_is_accepted_silently():
    """Counts that underflow fault; what only later goes wrong, and init, are accepted."""
    found = by_kind()
    faults = {name for name, counts in found.items() if not counts["accepted"]}
    accepted = {name for name, counts in found.items() if not counts["fault"]}
    assert {"underflow", "one-too-many", "underflow-drop", "remote-underflow", "exited-cta", "misaligned"} <= faults
    assert {"init-0", "init-twice", "drop-to-0", "two-phases-late", "unobserved", "bytes-match-late"} <= accepted
    assert len(faults) + len(accepted) >= len(found) - 8


def test_the_corner_that_ptx_leaves_open():
    """expect_tx brings a negative tx-count to 0 while no arrival is pending: the phase completes."""
    seen = [one for one in reactions() if one.name == "bytes-match-late"]
    assert seen
    for one in seen:
        count = int(operations_of(one.name, one.index)[0].split(" ")[1])
        assert one.answers[-len(PROBES) :] == (1, 0, count)


def test_the_pending_count_of_no_arrival():
    seen = [one.answers[-1] for one in reactions() if one.name == "cp-async-bytes-match" and one.index % 2]
    assert seen and set(seen) == {NONE_PENDING}


def test_more_than_a_thousand_million_legal_operations_and_no_mismatch():
    runs = read_fuzz(str(RECORDINGS / "mbarriers.jsonl.gz"))
    assert {cluster for _, cluster, _ in runs} == {False, True}
    assert sum(report.operations for _, _, report in runs) >= 10**9
    for digest, cluster, report in runs:
        assert report.mismatches == () and report.overdue == 0
        assert digest == meaning(cluster=cluster), "the spec of the mbarrier has another meaning now: record it again"
        assert report.operations == sum(done for done, _ in report.by_operation.values())
        assert all(report.by_operation[str(one)][0] > 1000 for one in menu(cluster=cluster))


def test_reactions_to_other_sequences_are_not_taken_for_these(tmp_path, monkeypatch):
    path = str(tmp_path / "x.jsonl.gz")
    one = IllFormedReaction("underflow", 1, "arrival-count", True, (0,), 719)
    write_reactions({"name": "simulated"}, [one], path)
    assert read_reactions(path) == [one]
    monkeypatch.setattr("sm90_verify.evidence.hardware.mbarrier.tables.operations_of", lambda name, index: ("init 1",))
    with pytest.raises(SpecError, match="record it again"):
        read_reactions(path)
    with pytest.raises(SpecError, match="no record of kind sm90-mbarrier-fuzz"):
        read_fuzz(path)


@pytest.mark.parametrize(
    "content",
    [b"", b"no gzip", gzip.compress(b"[]\n"), gzip.compress(b"{not json\n"), gzip.compress(b"")],
    ids=["empty", "no gzip", "no object", "no json", "nothing compressed"],  # not of bytes: gzip writes the time
)
def test_what_is_no_record_is_told_in_one_line(tmp_path, content):
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(content)
    with pytest.raises(SpecError, match="no record of kind sm90-ill-formed"):
        read_reactions(str(path))
    write_lines("sm90-ill-formed", {}, [], str(path))
    assert read_reactions(str(path)) == []
    path.write_bytes(packed([{"kind": "sm90-ill-formed", "version": 2}]))
    with pytest.raises(SpecError, match="version 1: record it again"):
        read_reactions(str(path))
