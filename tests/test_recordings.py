"""What an H100 did, held to the current specification: every recorded run, every row of the tables of predictions."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path

import pytest
from emulated_executor import EmulatedExecutor

from sm90_verify.engines.check import check
from sm90_verify.evidence.hardware import reactions
from sm90_verify.evidence.hardware.cases import faults
from sm90_verify.evidence.hardware.reactions import Prediction, Reaction, contradicts, predict, react
from sm90_verify.evidence.hardware.table import read_table
from sm90_verify.evidence.hardware.twins import twins
from sm90_verify.gpu.device import Fault
from sm90_verify.gpu.wrong import wrong_data
from sm90_verify.recordings.acceptance import acceptance_of, pipeline_of
from sm90_verify.recordings.lower import lower
from sm90_verify.recordings.recording import read
from sm90_verify.result import PROVED, VIOLATED
from sm90_verify.spec.cutlass.catalogue import recordable, to_record
from sm90_verify.spec.language.walk import trace

RECORDINGS = Path(__file__).parent / "recordings"
PARTS = 16
EVERY = 3
"""Mutants and faults of which one is directed on an ideal GPU."""
UNSEEN = {
    r"bulk\.(commit|wait)_group": "a load over what a store still reads comes after it in the copy engine",
    r"swap: .* store k=0 d\.store_warp,d\.other_warps,d\.second": "the same",
    r"mainloop\.full\[1\]: the next": "the copy that is waited for lands after the one that is not",
    r"RegistersWrittenUnderTheMma|AccumulatorReadInFlight|ConvertedInPlace": "the executor has no registers",
    r"words.py.*(relaxed|weak|scope=cta)|RelaxedArr|scope=cluster|sem=relaxed|passes=relaxed": "no GPU is so weak",
    r"WritesAfterItsArrival|SignalsBeforeTheWriteIsVisible": "the same",
    r"RaisesAFlag": "the same",
    r"(TilesOfClusters|SplitK|Tickets|CountsInGlobalMemory|ReduceOfTwoCtas|OnePlaceForTwo)": "no word tells",
    r"cp_async.py:(CopiedForTheMma|OneGroupTooFew|SourceOverwritten)": "a cp.async is done before anybody can look",
    r"OverwritesTheInput|FlagBetweenGrids|ReadsThePartials.*between|HandedOnBesideTheWait": "no word tells",
    r"ReadByTheGridBefore": "no word tells",
    r"sources.py:(SendsToItsPeer|LoadsWhatOthersWrite|OverwritesTheSource)": "so is a copy",
    r"IndexRangesOverlap": "each role reads what it has written itself",
}
"""Races that wrong words do not show, and why."""
UNTAKEN = r"TileFromASlot.*waits=False"
"""A deadlock whose schedule goes the other way behind a read of a slot in which nothing is yet."""


@cache
def recordings():
    return read(str(RECORDINGS / "kernels.jsonl.gz"))


@cache
def rows(name):
    return tuple(row for row in read_table(str(RECORDINGS / f"{name}.jsonl.gz")) if row.reaction != Reaction())


@pytest.mark.parametrize("kernel", recordable())
def test_every_recorded_run_is_allowed(kernel):
    """And finds and stores the right words; the runs together take nearly every step of the models. Of every second
    recording: `verify log` holds all of them to the specification.
    """
    mine = [one for one in recordings() if one.model == kernel]
    assert len(mine) == len(to_record(kernel).record)
    taken = steps = 0
    for recording in mine[::2]:
        held = acceptance_of(recording)
        assert held.refused == [] and held.hung == 0 and held.accepted == len(recording.runs) > 0
        plan = lower(trace(pipeline_of(recording)))
        assert [wrong_data(plan, run) for run in recording.runs] == [""] * len(recording.runs)
        taken, steps = taken + len(held.taken), steps + held.steps
        assert "H100" in recording.gpu["name"]
    assert taken >= 0.98 * steps


@pytest.mark.parametrize("part", range(0, PARTS, 4))
def test_epilogues_did_what_happens_before_says(part):
    """Of one in four; `verify record` predicts all of them again."""
    for row in rows("epilogues")[part::PARTS]:
        result = check(row.case.pipeline(), command="epilogue", engine="order", properties=("deadlock",))
        (finding,) = result.findings
        stuck = () if finding.trace is None else tuple(sorted(one.role for one in finding.trace.blocked))
        assert finding.verdict in (PROVED, VIOLATED)
        prediction = Prediction("proved" if finding.verdict == PROVED else "deadlock", stuck)
        assert prediction.verdict == row.prediction.verdict, row.case.label
        assert contradicts(prediction, row.reaction) == "", row.case.label


def test_mutants_did_what_the_search_says():
    """Of one in 32; `verify record` predicts all of them again."""
    for number, row in enumerate(rows("mutants")[:: 2 * PARTS]):
        prediction = predicted_again(row)
        if row.reaction.fault:
            with pytest.raises(Fault):
                on_an_ideal_gpu(row.case, prediction)
        elif number % EVERY == 0:
            assert_shows_on_an_ideal_gpu(row.case, prediction)


def predicted_again(row):
    """The same as when it was run, which the GPU did not contradict; but that registers of wgmma in flight were a race
    then, which a run could show.
    """
    prediction = predict(row.case)
    if prediction.why == "register-hazard":
        assert (prediction.verdict, row.prediction.verdict) == ("other", "race")
        return prediction
    assert prediction.verdict == row.prediction.verdict, (row.case.label, prediction.why)
    assert contradicts(prediction, row.reaction) == "", row.case.label
    return prediction


def on_an_ideal_gpu(case, prediction):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reactions, "Executor", EmulatedExecutor)
        return react(case, prediction, runs=1, directed=1)


def assert_shows_on_an_ideal_gpu(case, prediction):
    """What a directed run is to bring about, and not by the gates: the same of the right pipeline does not."""
    shown = on_an_ideal_gpu(case, prediction)
    taken = shown.taken in (-1, 1) or re.search(UNTAKEN, case.label)
    assert contradicts(prediction, shown) == "" and taken, case.label
    if prediction.verdict == "race":
        assert shown.wrong or any(re.search(one, case.label) for one in UNSEEN), case.label
        assert shown.twin_wrong <= 0, case.label


def test_faults_did_what_the_search_says(monkeypatch):
    """Those of the corpus, which is named as it is seen from the root of the project."""
    monkeypatch.chdir(RECORDINGS.parents[1])
    for number, row in enumerate(rows("faults")):
        prediction = predicted_again(row)
        if number % EVERY == 0 and prediction.verdict != "other":
            assert_shows_on_an_ideal_gpu(row.case, prediction)
        if row.case.right:
            assert predict(row.case.twin()).verdict == "proved"


def test_the_faults_that_were_run_are_those_of_the_corpus(monkeypatch):
    """With their twins, which have the trip count of the fault where the executor needs one."""
    monkeypatch.chdir(RECORDINGS.parents[1])
    assert {row.case for row in rows("faults")} <= set(faults("tests/corpus"))
    bounded = [row.case for row in rows("faults") if "BeforeTheMmaIsDone" in row.case.model]
    assert [dict(case.right[1])["trips"] for case in bounded] == [2, 2]


@pytest.mark.parametrize("part", range(PARTS))
def test_every_recorded_twin_is_allowed(part, monkeypatch):
    """Right pipelines of the corpus with words, branches, ordinary copies and several grids, on an H200."""
    monkeypatch.chdir(RECORDINGS.parents[1])
    for recording in read(str(RECORDINGS / "twins.jsonl.gz"))[part::PARTS]:
        held = acceptance_of(recording)
        assert held.refused == [] and held.hung == 0 and held.accepted == len(recording.runs) == 40
        assert "H200" in recording.gpu["name"] and not recording.file.startswith("/")


def test_the_twins_that_were_run_are_those_of_the_corpus(monkeypatch):
    monkeypatch.chdir(RECORDINGS.parents[1])
    known = {(file, str(pipeline.parameters())) for file, pipeline, _ in twins("tests/corpus")}
    recorded = {(one.file, str(one.parameters)) for one in read(str(RECORDINGS / "twins.jsonl.gz"))}
    assert recorded <= known and len(recorded) >= 63


def test_some_dependent_grids_began_before_the_end_of_the_first(monkeypatch):
    """As griddepcontrol.launch_dependents lets them; where nobody executes it, none did."""
    early = Counter()
    for recording in read(str(RECORDINGS / "twins.jsonl.gz")):
        if recording.model == "ReadsThePartials":
            for run in recording.runs:
                first, second = run.roles
                early[recording.parameters["triggers"]] += second.events[0].before < first.events[-1].after
    assert early["early"] > 0 and early[""] == 0


def shown(name):
    """Races with wrong words in at least 95 of 100 directed runs, and in none of their twin's."""
    races = [row.reaction for row in rows(name) if row.prediction.verdict == "race"]
    return [one for one in races if one.runs >= 100 and one.wrong >= 0.95 * one.runs and one.twin_wrong == 0]


def hanging(name):
    """Deadlocks whose schedule every run took, and that hang in every run with the same roles stuck as predicted.

    Held at gates, roles hang too: that shows nothing.
    """
    deadlocks = [row for row in rows(name) if row.prediction.verdict == "deadlock"]
    taken = [row for row in deadlocks if row.reaction.taken == row.reaction.runs > 0]
    return [row for row in taken if contradicts(row.prediction, row.reaction) == ""]


def test_what_the_tables_hold():
    """Deadlocks and their absence, and races that show wrong words in nearly every directed run."""
    found = {name: Counter(row.prediction.verdict for row in rows(name)) for name in ("epilogues", "mutants", "faults")}
    assert found == {
        "epilogues": {"proved": 1189, "deadlock": 211},
        "mutants": {"deadlock": 456, "proved": 313, "race": 273},
        "faults": {"deadlock": 65, "race": 68, "proved": 1},
    }
    assert {name: len(hanging(name)) for name in found} == {"epilogues": 211, "mutants": 456, "faults": 64}
    assert {name: len(shown(name)) for name in ("mutants", "faults")} == {"mutants": 259, "faults": 30}


def test_no_twin_of_a_race_found_wrong_words_or_hung():
    twins = [row.reaction.twin_wrong for name in ("mutants", "faults") for row in rows(name)]
    assert {one for one in twins if one >= 0} == {0}


@pytest.mark.parametrize(
    ("prediction", "reaction", "because"),
    [
        (Prediction("proved"), Reaction(20), ""),
        (Prediction("proved"), Reaction(20, hangs=1), "1 of 20 runs hang"),
        (Prediction("proved"), Reaction(20, wrong=2), "2 of 20 runs find wrong words"),
        (Prediction("proved"), Reaction(fault=True), "faults"),
        (Prediction("deadlock", ("a",)), Reaction(20, hangs=20, stuck=("a",)), ""),
        (Prediction("deadlock", ("a",)), Reaction(20, hangs=19, stuck=("a",)), "19 of 20"),
        (Prediction("deadlock", ("a",)), Reaction(20, hangs=20, stuck=("a", "b")), "a, b are"),
        (Prediction("deadlock", ("a",), others=True), Reaction(20, hangs=20, stuck=("a", "b")), ""),
        (Prediction("deadlock", ("a",), others=True), Reaction(20, hangs=20, stuck=("b",)), "b are"),
        (Prediction("deadlock", ("a",)), Reaction(20, hangs=20, stuck=("a",), same=False), "20 of 20"),
        (Prediction("deadlock", ("a",)), Reaction(fault=True), "faults"),
        (Prediction("deadlock", ("a",)), Reaction(20, hangs=20, stuck=("a", "b"), taken=19), ""),
        (Prediction("deadlock", ("a",)), Reaction(20, hangs=19, stuck=("a",), taken=20), "19 of 20"),
        (Prediction("race"), Reaction(100, wrong=3), ""),
    ],
)
def test_what_contradicts_a_prediction(prediction, reaction, because):
    found = contradicts(prediction, reaction)
    assert because in found and bool(found) == bool(because)
