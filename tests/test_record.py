"""Recordings as files, and the commands that make, read and replay them."""

from __future__ import annotations

import gzip
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from simulated import GPU, Simulated, changed, later, model_of, simulated

from sm90_verify.cli.main import main
from sm90_verify.evidence.hardware import everything
from sm90_verify.gpu import record
from sm90_verify.gpu import replay as on_gpu
from sm90_verify.gpu.device import Gpu
from sm90_verify.python_file import load_classes
from sm90_verify.recordings.recording import is_recording, read, recorded, write
from sm90_verify.recordings.run import Event, GpuRun, RoleRun
from sm90_verify.spec.cutlass.classes import TmaAsync
from sm90_verify.spec.errors import SpecError


def test_a_recording_is_read_as_it_was_written(tmp_path):
    plan, model = model_of(TmaAsync(stages=2, trips=3))
    runs = [simulated(plan, model.machine, seed) for seed in range(3)]
    path = str(tmp_path / "x.jsonl.gz")
    write([recorded(GPU, plan, [later(run, 1 << 40) for run in runs], 0)], path)
    assert is_recording(path)
    (again,) = read(path)
    assert again.runs == tuple(runs) and again.model == "tma-async" and again.clock == "clock64"
    assert main(["log", path]) == 0
    assert [one.name for one in tmp_path.iterdir()] == ["x.jsonl.gz"]


def test_a_run_that_is_not_allowed_is_blamed(tmp_path, capsys):
    plan, model = model_of(TmaAsync(stages=2, trips=3))
    run = simulated(plan, model.machine, 1)
    path = str(tmp_path / "x.jsonl.gz")
    reads = tuple((buffer, 7, 7) for buffer, _, _ in run.roles[1].events[1].reads)
    write([recorded(GPU, plan, [changed(run, "consumer", 1, reads=reads)], 0)], path)
    assert main(["log", path]) == 1
    text = capsys.readouterr().out
    assert "error[stale-read]" in text and "found words 7 to 7 in a[0]" in text and "classes.py" in text


def test_a_run_that_hangs_is_a_deadlock(tmp_path, capsys):
    plan, model = model_of(TmaAsync(stages=2, trips=3))
    run = simulated(plan, model.machine, 1)
    path = str(tmp_path / "x.jsonl.gz")
    stuck = replace(run.roles[1], node=4, events=run.roles[1].events[:4])
    write([recorded(GPU, plan, [GpuRun(True, (run.roles[0], stuck))], 0)], path)
    assert main(["log", path]) == 1
    assert "1 of 1 runs hang; consumer did not end" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("damage", "why"),
    [
        (lambda lines: lines[:-1], "cut short"),
        (lambda lines: [lines[0].replace('"version":1', '"version":9'), *lines[1:]], "version"),
        (lambda lines: [lines[0], lines[1][:-9], *lines[2:]], "not JSON"),
        (lambda lines: [lines[0], '{"hangs":false}', *lines[2:]], "no recorder wrote"),
        (lambda lines: [lines[0].replace("tma-async", "tma-sync"), *lines[1:]], "no kernel of the library"),
        (lambda lines: [lines[0], "[]", *lines[2:]], "not a JSON object"),
    ],
)
def test_a_damaged_recording_is_refused(tmp_path, capsys, damage, why):
    plan, model = model_of(TmaAsync(stages=1, trips=2))
    path = tmp_path / "x.jsonl.gz"
    write([recorded(GPU, plan, [simulated(plan, model.machine, seed) for seed in range(2)], 0)], str(path))
    lines = gzip.decompress(path.read_bytes()).decode().splitlines()
    path.write_bytes(gzip.compress("\n".join([*damage(lines), ""]).encode()))
    assert main(["log", str(path)]) == 2
    error = capsys.readouterr().err
    assert why in error and len(error.splitlines()) == 1


OWN = """
from sm90_verify import Pipeline, barrier, role, tile


class Mine(Pipeline):
    rounds = 1
    full = barrier(arrivals=32)
    x = tile(bytes=64)

    @role(warps=1)
    def writer(self):
        for k in range(self.rounds):
            yield self.x[0].write(tag=k)
            yield self.full[0].arrive(32)
            yield self.full[0].wait(k & 1)
"""


def test_a_recording_of_ones_own_pipeline(tmp_path, capsys):
    """It is found again by its file and class."""
    file = tmp_path / "mine.py"
    file.write_text(OWN)
    (kernel,) = load_classes(str(file))
    plan, model = model_of(kernel(rounds=3))
    path = str(tmp_path / "x.jsonl.gz")
    write([recorded(GPU, plan, [simulated(plan, model.machine, 1)], 0, str(file), "Mine")], path)
    (again,) = read(path)
    assert (again.model, again.file, again.parameters["rounds"]) == ("Mine", str(file), 3)
    assert main(["log", path]) == 0
    assert again.parameters["trips"] == "all" and "every trip count" not in capsys.readouterr().out  # these runs are


CORPUS = Path(__file__).parent / "corpus"


def saved_trace(tmp_path, file, kernel, finds):
    """A counterexample of a pipeline of the corpus, as a file."""
    path, trace = CORPUS / file, tmp_path / "trace.json"
    arguments = ["spec", f"{path}:{kernel}", "--property", finds, "--format", "json", "-o", str(trace)]
    assert main(arguments) == 1
    return str(trace)


def test_a_race_is_replayed_on_the_gpu(tmp_path, capsys, monkeypatch):
    wrong = RoleRun("consumer", -1, (Event(0, 0, 1, False, (("s", 0, 0),)),))
    right = RoleRun("consumer", -1, (Event(0, 0, 1, False, (("s", 2, 2),)),))
    monkeypatch.setattr(on_gpu, "Executor", Simulated)
    monkeypatch.setattr(Simulated, "runs", (GpuRun(False, (wrong,)), GpuRun(False, (right,)), GpuRun(False, (wrong,))))
    trace = saved_trace(tmp_path, "transactions.py", "ReadsBeforeItWaits", "race")
    assert main(["replay", trace, "--hardware", "--runs", "3"]) == 1
    assert "on the GPU: wrong data in 2 of 3 runs" in " ".join(capsys.readouterr().out.split())


def test_a_deadlock_is_replayed_on_the_gpu(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(on_gpu, "Executor", Simulated)
    stuck = GpuRun(True, (RoleRun("producer", -1, ()), RoleRun("consumer", 0, ())), steps=99)
    other = GpuRun(True, (RoleRun("producer", 2, ()), RoleRun("consumer", 0, ())), steps=99)
    halfway = replace(stuck, steps=0)
    monkeypatch.setattr(Simulated, "runs", (halfway, stuck, stuck, other))
    path, trace = CORPUS / "arrivals.py", saved_trace(tmp_path, "arrivals.py", "ExpectTxWithoutArrival", "deadlock")
    assert main(["replay", trace, "--hardware", "--runs", "4"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "on the GPU: 3 of 4 runs took the schedule to its end; 3 of these hang, 2 of them with consumer stuck" in said
    )
    assert "note: producer: at its end" in said
    before, _, _ = path.read_text().partition("class ExpectTxWithoutArrival")
    consumer = next(text for text in said.split("note: ") if text.startswith("consumer: wait parity 0 full"))
    assert "arrivals.py:" in consumer and int(consumer.split("arrivals.py:")[1].split(" ")[0]) > before.count("\n")


def test_record_needs_to_know_what(tmp_path, capsys):
    assert main(["record", "-o", str(tmp_path / "x")]) == 2
    assert "which kernels?" in capsys.readouterr().err
    assert main(["record", "--all", "epilogue", "-o", str(tmp_path / "x")]) == 2


def test_without_cupy_one_line_says_what_is_needed(tmp_path, capsys):
    if find_spec("cupy"):
        pytest.skip("CuPy is installed")
    assert main(["record", "--all", "-o", str(tmp_path / "x")]) == 2
    assert main(["record", "tma-async", "-o", str(tmp_path / "x")]) == 2
    (error, again) = capsys.readouterr().err.splitlines()
    assert error == again
    assert "sm90-verify[gpu]" in error and len(error.splitlines()) == 1 and not list(tmp_path.iterdir())
    trace = saved_trace(tmp_path, "transactions.py", "ReadsBeforeItWaits", "race")
    capsys.readouterr()
    assert main(["replay", trace, "--hardware"]) == 2
    assert "sm90-verify[gpu]" in capsys.readouterr().err


def test_hand_written_kernels_are_recorded_by_name(tmp_path, capsys, monkeypatch):
    asked = []
    plan, model = model_of(TmaAsync(stages=1, trips=2))
    one = recorded(GPU, plan, [simulated(plan, model.machine, 1)], 0)

    def kernel(name, *, each, seed):
        asked.append((name, each, seed))
        return [one]

    monkeypatch.setattr(everything, "gpu", lambda: None)
    monkeypatch.setattr(everything.pipelines_record, "record_kernel", kernel)
    monkeypatch.setattr(everything.gemm_record, "record_kernel", kernel)
    path = str(tmp_path / "x.jsonl.gz")
    assert main(["record", "--by-hand", "tma-async", "gemm-pingpong", "--runs", "5", "--seed", "9", "-o", path]) == 0
    assert asked == [("tma-async", 5, 9), ("pingpong", 5, 9)] and read(path) == (one, one)
    assert "RECORDED 2 runs, 0 of them hang" in capsys.readouterr().out
    assert main(["record", "--by-hand", "mainloop", "-o", path]) == 2
    assert "no hand-written kernel 'mainloop': use one of tma-async" in capsys.readouterr().err
    assert main(["record", "--by-hand", "async", "--set", "stages=2", "-o", path]) == 2


def test_a_kernel_is_recorded_two_hundred_times_over_its_sizes(monkeypatch):
    asked = []

    def run(self, runs, **options):
        asked.append((runs, options["seed"]))
        return [GpuRun(False, ())] * runs

    monkeypatch.setattr(Simulated, "run", run)
    monkeypatch.setattr(record, "Executor", Simulated)
    monkeypatch.setattr(record, "gpu", lambda: Gpu("simulated", "1.0", "1.0", 1))
    found = record.record_kernels(["ordered-sequence"], seed=5)
    assert asked == [(34, 5)] * 6 and sum(len(one.runs) for one in found) >= 200
    assert {(one.model, one.clock, one.resolution) for one in found} == {("ordered-sequence", "clock64", 0)}
    (own,) = record.record_kernels([f"{CORPUS}/arrivals.py:ArriveExpectTx"], runs=3)
    assert (own.model, own.file, len(own.runs)) == ("ArriveExpectTx", f"{CORPUS}/arrivals.py", 3)
    with pytest.raises(SpecError, match="settings are for FILE"):
        record.record_kernels(["async"], settings={"stages": 2})
    with pytest.raises(SpecError, match="no kernel 'asink'"):
        record.record_kernels(["asink"])
