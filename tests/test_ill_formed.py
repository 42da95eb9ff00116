"""Sequences of operations that are illegal by the specification, and how their reactions are collected."""

from __future__ import annotations

import pytest
from test_mbarrier_reference import answers

from sm90_verify.evidence.hardware.mbarrier import ill_formed
from sm90_verify.evidence.hardware.mbarrier.generate import row
from sm90_verify.evidence.hardware.mbarrier.ill_formed import IllFormedReaction, kinds, operations_of, probes, verdict
from sm90_verify.evidence.hardware.mbarrier.menu import operation
from sm90_verify.evidence.hardware.mbarrier.specimens import LEGAL, Kind, Specimen
from sm90_verify.spec.errors import SpecError


def wrongly_listed(kind: Kind) -> list[str]:
    """What is the matter with the sequences of a kind: legal ones, ones that go wrong too early, illegal twins."""
    found = []
    for specimen in kind.specimens:
        said = answers(specimen.operations)
        illegal = isinstance(said[-1], str)
        if len(said) < len(specimen.operations):
            found.append(f"{specimen.operations} is illegal at its operation {len(said)}")
        elif illegal == bool(kind.rule):
            found.append(f"{specimen.operations} is {'illegal' if illegal else 'legal'}")
        if specimen.twin and isinstance(answers(specimen.twin)[-1], str):
            found.append(f"the twin {specimen.twin} is illegal")
    return found


def test_the_table_is_large_enough():
    assert len(kinds()) >= 30
    assert sum(len(kind.specimens) for kind in kinds().values()) >= 300
    for kind in kinds().values():
        assert len(kind.specimens) >= 10, kind.name
        assert len({specimen.operations for specimen in kind.specimens}) == len(kind.specimens), kind.name


@pytest.mark.parametrize("name", kinds())
def test_every_ill_formed_sequence_is_illegal_by_the_spec_and_its_twin_is_legal(name):
    """Where the spec cannot express what is wrong a rule of PTX is named; then, to the spec, nothing is."""
    assert wrongly_listed(kinds()[name]) == []


def test_the_table_shows_every_property_of_an_mbarrier():
    found = {verdict(name, index) for name, kind in kinds().items() for index in range(len(kind.specimens))}
    assert {"barrier-init", "arrival-count", "tx-count", "phase-lapped", LEGAL} <= found
    assert sum(rule.startswith("PTX") for rule in found) >= 4


@pytest.mark.parametrize(
    ("operations", "twin", "complaint"),
    [
        ("init 2; arrive 2", "", "is legal"),
        ("init 2; arrive 3; arrive", "", "is illegal at its operation 2"),
        ("init 2; arrive 3", "init 2; arrive 4", "the twin"),
    ],
)
def test_a_sequence_that_does_not_belong_into_the_table_is_noticed(operations, twin, complaint):
    specimen = Specimen(tuple(operations.split("; ")), tuple(twin.split("; ")) if twin else ())
    assert complaint in wrongly_listed(Kind("", "", (specimen,)))[0]


def test_every_operation_of_the_table_can_be_encoded():
    size = len(row(operation("arrive")))
    for name, kind in kinds().items():
        for index, specimen in enumerate(kind.specimens):
            for operations in (specimen.operations, specimen.twin):
                whole = (*operations, *probes(operations))
                words = ill_formed.encoded(whole)
                assert len(words) == size * len(whole) and len(whole) <= ill_formed.LONGEST
                assert all(0 <= word < 1 << 32 for word in words)
                lifted = [operation(one) for one in operations if operation(one).place == ""]
                assert all(one.lanes <= 32 for one in lifted), (name, index)


def test_a_wait_for_a_token_is_told_which():
    size, operand = len(row(operation("arrive"))), 2
    words = ill_formed.encoded(["init 2", "arrive", "arrive", "test_wait", "test_wait 1"])
    assert [words[size * n + operand] for n in (3, 4)] == [2, 1]


def test_probes_follow_a_live_barrier_only():
    assert probes(("init 1", "arrive 2")) == ill_formed.PROBES
    assert probes(("init 1", "inval", "arrive")) == probes(("arrive",)) == ()
    assert probes(("init 40", "align 4", "arrive")) == ("align 0", *ill_formed.PROBES)
    assert probes(("align 4", "init 1")) == ill_formed.PROBES
    assert probes(("init 1", "peer init 4", "peer exit", "peer's arrive")) == ill_formed.PROBES


def test_what_there_is_not():
    for name, index in (("underflow", 99), ("nothing", 0)):
        with pytest.raises(SpecError, match="there is no sequence"):
            operations_of(name, index)
    assert operations_of("underflow", 0) == ("init 1", "arrive 2")
    assert operations_of("underflow.twin", 0) == ("init 1", "arrive 1")


def test_after_a_fault_another_process_goes_on(monkeypatch):
    asked: list[list[int]] = []

    def process(cubin: str, name: str, indices: list[int]):
        asked.append(list(indices))
        if indices[0] == 3:
            return [], ill_formed.TIME_IS_UP
        lines = [{"index": n, "fault": n % 2 == 1, "code": 719 * (n % 2), "answers": [0, n]} for n in indices[:2]]
        return lines, ""

    monkeypatch.setattr(ill_formed, "_process", process)
    reactions = list(ill_formed._batch("", "underflow", [0, 1, 2, 3, 4]))
    assert asked == [[0, 1, 2, 3, 4], [2, 3, 4], [4]]
    assert [(one.index, one.fault, one.code) for one in reactions] == [
        (0, False, 0),
        (1, True, 719),
        (2, False, 0),
        (3, True, 719),
        (4, False, 0),
    ]
    asked.clear()
    hung = list(ill_formed._batch("", "underflow", [3, 4]))
    assert [(one.index, one.code, one.answers) for one in hung] == [(3, -1, ()), (4, 0, (0, 4))]


def test_a_process_that_cannot_start_is_an_error_and_not_a_fault(monkeypatch):
    monkeypatch.setattr(ill_formed, "_process", lambda *_: ([], "there is no CUDA driver"))
    monkeypatch.setattr(ill_formed.time, "sleep", lambda _: None)
    with pytest.raises(SpecError, match="there is no CUDA driver"):
        list(ill_formed._batch("", "underflow", [0]))


def test_legal_sequences_that_hardware_answers_otherwise_are_told():
    right = IllFormedReaction("underflow.twin", 0, LEGAL, False, (0, 1, 1, 0, 1))
    assert ill_formed.disagreements([right]) == []
    other = IllFormedReaction("underflow.twin", 0, LEGAL, False, (0, 1, 0, 0, 1))
    assert "test_wait.parity 0 is 0, the spec says 1" in ill_formed.disagreements([other])[0]
    faulty = IllFormedReaction("underflow.twin", 0, LEGAL, True, (0,), 719)
    assert "a fault at arrive 1" in ill_formed.disagreements([faulty])[0]
    illegal = IllFormedReaction("underflow", 0, "arrival-count", True, (0,), 719)
    assert ill_formed.disagreements([illegal]) == []
