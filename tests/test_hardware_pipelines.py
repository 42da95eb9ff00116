"""The hand-written kernels on a GPU: their mistakes are the models' mistakes, and what an H100 did is what the
specification says.
"""

from __future__ import annotations

import gzip
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from needs import needs_gpu
from taped import SMALL, changed, output_of, taped

from sm90_verify.evidence.hardware.pipelines import kernel as pipelines
from sm90_verify.evidence.hardware.pipelines import mistakes as table
from sm90_verify.evidence.hardware.pipelines import record as pipelines_record
from sm90_verify.evidence.hardware.pipelines import shapes
from sm90_verify.evidence.hardware.pipelines.react import MistakeReaction, contradicts, react
from sm90_verify.evidence.hardware.pipelines.record import read_reactions, write_reactions
from sm90_verify.gpu.device import Gpu
from sm90_verify.gpu.wrong import wrong_data
from sm90_verify.recordings.acceptance import acceptance_of
from sm90_verify.recordings.lower import lower
from sm90_verify.recordings.recording import read
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.walk import trace

# ---------------------------------------------------------------- mistakes


@pytest.mark.parametrize("one", table.mistakes(), ids=lambda one: f"{one.label}-{one.parameters.get('cluster', '')}")
def test_what_the_specification_says_of_a_mistake(one):
    """It is violated in the way that is to show on the GPU; without the mistake nothing is violated."""
    violated = set(one.predict().violated)
    match one.shows:
        case "hang":
            assert violated & {"deadlock", "tx-count"}
            assert one.predict().stuck or "tx-count" in violated
        case "wrong":
            assert violated & {"race", "stale-read"}
        case "fault":
            assert violated == {"exit-hazard"}
        case "nothing":
            assert violated == {"missing-fence"}
    if one.name != "none":
        right = replace(one, model=kernels()[one.kernel], more={})
        assert right.predict().violated == ()


@needs_gpu
@pytest.mark.parametrize("one", table.mistakes(), ids=lambda one: f"{one.label}-{one.parameters.get('cluster', '')}")
def test_what_the_gpu_does_with_a_mistake(one):
    assert contradicts(one, react(one)) == ""


def test_what_contradicts_a_prediction():
    by_label = {one.label: one for one in table.mistakes()}
    hang, race, fault = (
        by_label[label]
        for label in (
            "tma-async expect-more",
            "async commit-before-write",
            "tma-async tail-left-out in a cluster of 2x1",
        )
    )
    stuck = (("consumer", "producer"),)
    hangs = MistakeReaction(100, hangs=100, stuck=stuck)
    assert contradicts(hang, hangs) == ""
    assert "99 runs of 100 hang" in contradicts(hang, replace(hangs, hangs=99))
    assert "stuck are to be" in contradicts(hang, replace(hangs, stuck=(*stuck, ("consumer",))[::-1]))
    assert "without the mistake" in contradicts(hang, replace(hangs, right_hangs=1))
    assert contradicts(race, MistakeReaction(100, wrong=95)) == ""
    assert "94 are wrong" in contradicts(race, MistakeReaction(100, wrong=94))
    assert "without the mistake" in contradicts(race, MistakeReaction(100, wrong=100, right_wrong=1))
    assert contradicts(race, MistakeReaction(100, wrong=100, unlike=("it waits",))) == "it waits"
    assert contradicts(hang, replace(hangs, unordered=("no order",))) == "no order"
    assert contradicts(fault, MistakeReaction(100, fault="the launch faults")) == ""
    assert "ended" in contradicts(fault, MistakeReaction(100))


# ---------------------------------------------------------------- recording, by a GPU that does what the models do


class Obedient:
    """A kernel that does what its model does; `changes`, by number of the run: what it does otherwise."""

    errors = 0
    changes: dict[int, dict[str, int]] = {}

    def __init__(self, model, **options):
        (self.name,) = (name for name in shapes.NAMES if isinstance(model, kernels()[name]))
        self.parameters = model.parameters()
        self.shape = shapes.shape(shapes.NAMES.index(self.name), model)
        self.cost = 1.0 if options.get("record") else 0.5

    def run(self, runs, *, seed, **options):
        tapes, outputs = [], []
        for number in range(runs):
            plan, names, rows, run, _ = taped(self.name, self.parameters, seed + number)
            for role, event, changes in self.changes.get(number, ()):
                rows = changed(rows, role, event, names, **changes)
            tapes.append(rows)
            outputs.append(output_of(plan, run))
        return pipelines.PipelineLaunch(tuple(tapes), (self.errors,) * runs, outputs, self.cost)

    def wrong(self, launch):
        return [bool(one) for one in launch.errors]


@pytest.fixture
def obedient(monkeypatch):
    monkeypatch.setattr(pipelines, "PipelineKernel", Obedient)
    monkeypatch.setattr(pipelines, "gpu", lambda: Gpu("an H100", "13.0", "13.0", 132))
    monkeypatch.setattr(pipelines_record, "PipelineKernel", Obedient)
    monkeypatch.setattr(pipelines_record, "gpu", pipelines.gpu)
    monkeypatch.setattr(pipelines_record, "sizes", lambda kernel: [SMALL[kernel]])
    monkeypatch.setattr(pipelines_record, "in_processes", lambda function, items: [function(one) for one in items])


@pytest.mark.parametrize("kernel", shapes.NAMES)
def test_a_kernel_that_does_what_its_model_does_is_recorded(kernel, obedient):
    recording = pipelines.record(kernel, SMALL[kernel], 3, 1)
    assert len(recording.runs) == 3 and recording.gpu["kernel"] == "kernels/pipelines.cu"
    held = acceptance_of(recording)
    assert held.accepted == 3
    plan = lower(trace(kernels()[kernel](**SMALL[kernel])))
    assert all(wrong_data(plan, run) == "" for run in recording.runs)


def test_what_is_not_recorded(obedient, monkeypatch):
    monkeypatch.setattr(Obedient, "changes", {1: [("producer", 0, {"operand": 0})]})
    with pytest.raises(SpecError, match="operation 0 of producer: the kernel did wait"):
        pipelines.record("async", SMALL["async"], 2, 1)
    _, (one,) = pipelines.differences("async", SMALL["async"], 2, 1)
    assert one.role == "producer"
    assert pipelines.differences("async", SMALL["async"], 1, 1)[1] == []
    monkeypatch.setattr(Obedient, "errors", 7)
    with pytest.raises(SpecError, match="wrong words in 2 of 2 runs"):
        pipelines.record("async", SMALL["async"], 2, 1)


def test_all_sizes_are_recorded(obedient, monkeypatch, tmp_path):
    path = str(tmp_path / "pipelines.jsonl.gz")
    pipelines_record.record_pipelines(path, runs=2)
    assert [(one.model, len(one.runs)) for one in read(path)] == [(name, 2) for name in shapes.NAMES]
    monkeypatch.setattr(Obedient, "changes", {0: [("consumer", 1, {"operand": 4})]})
    with pytest.raises(SpecError, match=r"2 could not be recorded: .*operation 1 of consumer"):
        pipelines_record.record_pipelines(path, runs=2)
    assert [one.model for one in read(path)] == ["tma-async", "tma-store", "ordered-sequence", "epilogue"]


def test_one_kernel_is_recorded(obedient, monkeypatch):
    (one,) = pipelines_record.record_kernel("async", each=3, seed=2)
    assert (one.model, len(one.runs)) == ("async", 3)
    (every,) = pipelines_record.record_kernel("ordered-sequence")
    assert len(every.runs) == pipelines_record.RUNS == 200
    monkeypatch.setattr(Obedient, "changes", {0: [("consumer", 1, {"operand": 4})]})
    with pytest.raises(SpecError, match=r"1 could not be recorded: .*operation 1 of consumer"):
        pipelines_record.record_kernel("async", each=1, seed=2)


def test_all_mistakes_are_recorded(obedient, monkeypatch, tmp_path):
    path = str(tmp_path / "mistakes.jsonl.gz")
    did = MistakeReaction(100, hangs=100, wrong=100)
    monkeypatch.setattr(pipelines_record, "react", lambda one: did)
    pipelines_record.record_mistakes(path)
    assert read_reactions(path) == [(one, did) for one in table.mistakes()]

    def fails(one):
        if one.name == "expect-more":
            raise RuntimeError("no memory")
        return did

    monkeypatch.setattr(pipelines_record, "react", fails)
    with pytest.raises(SpecError, match=r"1 could not be recorded: tma-async expect-more: .*no memory"):
        pipelines_record.record_mistakes(path)
    assert [one for one, _ in read_reactions(path)] == [one for one in table.mistakes() if one.name != "expect-more"]


def test_what_recording_costs(obedient):
    lines = pipelines_record.overheads(1)
    assert len(lines) == len(shapes.NAMES) and lines[0].endswith("0.500 ms, recorded 1.000 ms, 2.00 times")


# ---------------------------------------------------------------- recordings


FOLDER = Path(__file__).parent / "recordings"
RECORDINGS, REACTIONS = FOLDER / "pipelines.jsonl.gz", FOLDER / "pipelines_mistakes.jsonl.gz"


@cache
def recordings():
    return read(str(RECORDINGS))


@pytest.mark.parametrize("kernel", shapes.NAMES)
def test_what_an_h100_did_is_allowed(kernel):
    """At every second size, the last among them; `verify log` holds all runs of the file to the specification."""
    ours = [one for one in recordings() if one.model == kernel]
    asked = [kernels()[kernel](**one).parameters() for one in pipelines.sizes(kernel)]
    assert [one.parameters for one in ours] == asked
    for one in ours[::-2]:
        held = acceptance_of(one)
        assert held.accepted == held.runs, (one.parameters, held.refused[0][1].because)
        assert not held.hung


def test_what_an_h100_did_with_mistakes():
    rows = read_reactions(str(REACTIONS))
    assert [one for one, _ in rows] == list(table.mistakes())
    faults = [one.label for one, did in rows if did.fault]
    assert faults == ["tma-async tail-left-out in a cluster of 2x1"]
    assert sum(did.wrong == did.runs for one, did in rows if one.shows == "wrong") == 18
    assert sum(did.hangs == did.runs for one, did in rows if one.shows == "hang") == 13
    assert [(one.label, why) for one, did in rows if (why := contradicts(one, did))] == []


def test_reactions_are_read_as_written(tmp_path, monkeypatch):
    monkeypatch.setattr(pipelines_record, "gpu", lambda: Gpu("an H100", "13.0", "13.0", 132))
    one, other = table.mistakes()[:2]
    did = MistakeReaction(100, 3, 2, (("consumer", "producer"), ("consumer",)), "", 1, 0, ("a", "b"), ("c",))
    path = str(tmp_path / "pipelines_mistakes.jsonl.gz")
    write_reactions([(one, did), (other, MistakeReaction(20, fault="the launch faults"))], path)
    assert read_reactions(path) == [(one, did), (other, MistakeReaction(20, fault="the launch faults"))]
    write_reactions([(replace(one, parameters={"stages": 9}), did)], path)
    assert read_reactions(path) == []
    (tmp_path / "pipelines_mistakes.jsonl.gz").write_bytes(gzip.compress(b'{"kind":"another"}\n'))
    with pytest.raises(SpecError, match="no record"):
        read_reactions(path)


@needs_gpu
@pytest.mark.parametrize("kernel", shapes.NAMES)
def test_a_gpu_does_what_the_models_do(kernel):
    recording = pipelines.record(kernel, pipelines.sizes(kernel)[-1], 4, 1)
    held = acceptance_of(recording)
    assert held.accepted == held.runs == 4
