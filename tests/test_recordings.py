"""What an H100 did, held to the current specification: every recorded run, every row of the tables of predictions."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path

import pytest

from checker.check import check_pipeline
from checker.hardware.directed import wrong_data
from checker.hardware.held import hold, pipeline_of
from checker.hardware.lower import lower
from checker.hardware.reactions import Prediction, Reaction, contradicts, predict
from checker.hardware.record import read_table
from checker.hardware.recording import read
from checker.hardware.suite import kernels, sizes
from checker.packed import pack
from checker.result import PROVED, VIOLATED
from spec.compile import compile_pipeline

RECORDINGS = Path(__file__).parent / "recordings"
PARTS = 16


@cache
def recordings():
    return read(str(RECORDINGS / "kernels.jsonl.gz"))


@cache
def rows(name):
    return tuple(row for row in read_table(str(RECORDINGS / f"{name}.jsonl.gz")) if row.reaction != Reaction())


@pytest.mark.parametrize("kernel", kernels())
def test_every_recorded_run_is_allowed(kernel):
    """And finds and stores the right words; the runs together take nearly every step of the models."""
    mine = [one for one in recordings() if one.model == kernel]
    assert len(mine) == len(sizes(kernel))
    taken = steps = 0
    for recording in mine:
        held = hold(recording)
        assert held.refused == [] and held.hung == 0 and held.accepted == len(recording.runs) > 0
        plan = lower(pipeline_of(recording))
        assert [wrong_data(plan, run) for run in recording.runs] == [""] * len(recording.runs)
        taken, steps = taken + len(held.taken), steps + held.steps
        assert "H100" in recording.gpu["name"]
    assert taken >= 0.98 * steps


@pytest.mark.parametrize("part", range(PARTS))
def test_epilogues_did_what_happens_before_says(part):
    for row in rows("epilogues")[part::PARTS]:
        result = check_pipeline(row.case.pipeline(), command="epilogue", engine="order", properties=("deadlock",))
        (finding,) = result.findings
        stuck = () if finding.trace is None else tuple(sorted(one.role for one in finding.trace.blocked))
        assert finding.verdict in (PROVED, VIOLATED)
        prediction = Prediction("proved" if finding.verdict == PROVED else "deadlock", stuck)
        assert contradicts(prediction, row.reaction) == "", row.case.label


@cache
def elsewhere(name):
    """Rows whose directed run did not end where its schedule does."""
    return [row for row in rows(name) if contradicts(row.prediction, row.reaction)]


@pytest.mark.parametrize("part", range(PARTS))
def test_mutants_did_what_the_search_says(part):
    for row in rows("mutants")[part::PARTS]:
        if row not in elsewhere("mutants"):
            assert contradicts(predict(row.case), row.reaction) == "", row.case.label


def test_where_a_copy_landed_earlier_than_in_the_schedule():
    """A directed run cannot keep a copy from landing: what it came to then is a deadlock that the model has too. In the
    fourth, a warp was to go on alone, and had to wait for the rest of its warpgroup where the MMA is waited for.
    """
    *early, alone = elsewhere("mutants")
    assert len(early) == 3 and alone.case.model == "gemm-ws" and alone.prediction.stuck == ("load_warp.0",)
    for row in early:
        assert row.reaction.hangs == row.reaction.runs and row.reaction.same
        assert row.reaction.stuck in deadlocks(row.case.pipeline())


def deadlocks(pipeline):
    """The roles that are stuck in each state in which nothing can happen any more."""
    packed = pack(compile_pipeline(pipeline))
    seen, todo, found = {packed.initial}, [packed.initial], set()
    for state in todo:
        following = [after for _, after in packed.successors(state)]
        todo += [after for after in dict.fromkeys(following) if after not in seen]
        seen.update(following)
        if not following:
            pairs = zip(packed.machine.roles, packed.roles, packed.final, strict=True)
            stuck = [role.name for role, (shift, mask, _), final in pairs if state >> shift & mask not in final]
            found.add(tuple(sorted(stuck)))
    return found


def test_what_the_tables_hold():
    """Deadlocks and their absence, and races that show wrong words in nearly every directed run."""
    epilogues = Counter(row.prediction.verdict for row in rows("epilogues"))
    assert epilogues == {"proved": 1189, "deadlock": 211}
    mutants = Counter(row.prediction.verdict for row in rows("mutants"))
    assert mutants == {"deadlock": 456, "proved": 313, "race": 273}
    races = [row.reaction for row in rows("mutants") if row.prediction.verdict == "race"]
    assert sum(one.wrong >= 95 for one in races) == 132
    assert sum(one.runs > 0 and one.wrong < 95 for one in races) == 138
    assert sum(one.fault for one in races) == 3


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
