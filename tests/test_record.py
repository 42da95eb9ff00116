"""Recordings and tables of predictions as files, and the commands that make and read them."""

from __future__ import annotations

import gzip
import json
import re
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
from simulated import GPU, changed, later, model_of, simulated

from sm90_verify.cli.main import main
from sm90_verify.evidence.hardware import everything, reactions, table
from sm90_verify.evidence.hardware.cases import Case, mutants
from sm90_verify.evidence.hardware.reactions import PredictedCase, Prediction, Reaction, predict
from sm90_verify.gpu import record
from sm90_verify.gpu import replay as on_gpu
from sm90_verify.gpu import ways as gpu_ways
from sm90_verify.gpu.device import Gpu
from sm90_verify.gpu.directed import LIMIT, PATIENCE, Direction
from sm90_verify.mutation.catalogue import Model, mutants_of
from sm90_verify.python_file import load_classes
from sm90_verify.recordings.lower import lower
from sm90_verify.recordings.recording import is_recording, read, recorded, write
from sm90_verify.recordings.run import Event, GpuRun, RoleRun
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.cutlass.classes import TmaAsync
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.walk import trace


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


def test_a_recording_of_ones_own_pipeline(tmp_path):
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


# ---------------------------------------------------------------- the command line


CORPUS = Path(__file__).parent / "corpus"


class Simulated:
    """An executor without a GPU: every run takes the whole schedule, and finds what it is told."""

    runs = ()

    def __init__(self, plan, *, record=True):
        pass

    def run(self, runs, **options):
        assert runs == len(self.runs)
        return list(self.runs)


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


# ---------------------------------------------------------------- the table of predictions

WORKER = """
import json, sys, time
rows = json.load(open(sys.argv[1]))
for number in range(int(sys.argv[2]), len(rows)):
    if number == 1:
        sys.stdout.write('{"runs": 9'); sys.stdout.flush(); sys.exit(3)
    if number == 2:
        time.sleep(60)
    row = {"runs": number, "hangs": 0, "wrong": 0, "same": True, "stuck": ["a"], "held": "", "taken": -1}
    print(json.dumps({**row, "fault": False}), flush=True)
"""


def test_the_table_goes_on_behind_what_faults_or_hangs(tmp_path, monkeypatch):
    """Row 1 takes its process with it in the middle of a line, and row 2 never ends."""
    (tmp_path / "worker.py").write_text(WORKER)
    monkeypatch.setattr(table, "WORKER", (sys.executable, str(tmp_path / "worker.py")))
    monkeypatch.setattr(table, "PATIENCE", 1.0)
    cases = [Case("tma-async", (("stages", 1), ("trips", trips), ("bytes", 16))) for trips in range(1, 5)]
    broken = Case("tma-async", (("stages", 1), ("trips", 1), ("peek", True)))
    said = []
    rows = table.table([*cases[:2], broken, *cases[2:]], said.append)
    assert [row.prediction.verdict for row in rows] == ["proved", "proved", "refused", "proved", "proved"]
    assert [row.reaction.fault for row in rows] == [False, True, False, True, False]
    assert [row.reaction.runs for row in rows] == [0, 0, 0, 0, 3]
    assert rows[2].reaction == Reaction() and rows[4].reaction.stuck == ("a",)
    assert said[-1] == "4 of 4 run"


def test_everything_is_recorded(tmp_path, monkeypatch):
    """A part that fails is told once all others are there; the tables are of every so manieth case."""
    asked = {}

    def part(folder):
        (Path(folder) / "part").write_text("a part")

    def fails(folder):
        raise SpecError("no such thing")

    def react(work, start):
        asked[len(asked)] = len(json.loads(work.read_text()))
        return [Reaction(7)] * asked[len(asked) - 1], ""

    cases = [Case("tma-async", (("stages", 1), ("trips", trips), ("bytes", 16))) for trips in (1, 2, 3)]
    monkeypatch.setattr(everything, "PARTS", {"one": fails, "two": part})
    monkeypatch.setattr(table, "_process", react)
    monkeypatch.setattr(table, "gpu", lambda: Gpu("simulated", "1.0", "1.0", 1))
    monkeypatch.setattr(everything, "gpu", lambda: None)
    monkeypatch.setattr(everything, "epilogues", lambda: cases)
    monkeypatch.setattr(everything, "mutants", lambda: cases[:1])
    said = []
    with pytest.raises(SpecError, match="one: no such thing"):
        everything.record_all(str(tmp_path / "all"), said.append, every=2, folder_of_faults=str(CORPUS))
    names = {f"{name}.jsonl.gz" for name in ("epilogues", "mutants", "faults")}
    assert {path.name for path in (tmp_path / "all").iterdir()} == {"part"} | names
    rows = table.read_table(str(tmp_path / "all" / "epilogues.jsonl.gz"))
    assert [row.case for row in rows] == cases[::2] and all(row.reaction == Reaction(7) for row in rows)
    rows = table.read_table(str(tmp_path / "all" / "faults.jsonl.gz"))
    assert len(rows) > 100 and any(row.case.right for row in rows)
    assert all(lower(trace(row.case.twin().pipeline())) for row in rows if row.case.right)
    broken = next(row.case for row in rows if row.case.model.endswith(":ReadsBeforeItWaits"))
    assert predict(broken).verdict == "race" and predict(broken.twin()).verdict == "proved"
    assert said[:2] == ["one", "two"] and "epilogues: 2 predicted, 2 to run" in said
    with pytest.raises(SpecError, match="no Python file in it has a list CASES"):
        everything.record_all(str(tmp_path / "all"), said.append, folder_of_faults=str(tmp_path))


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


def test_a_mistake_in_what_runs_the_cases_is_no_fault(tmp_path, monkeypatch):
    """As when the GPU's runs cannot be read: it must not be taken for what the GPU did."""
    monkeypatch.setattr(table, "gpu", lambda: Gpu("simulated", "1.0", "1.0", 1))
    script = "import sys; from sm90_verify.evidence.hardware import table; "
    script += "table.react = lambda *a: 1 // 0; table._work(sys.argv[1], int(sys.argv[2]))"
    monkeypatch.setattr(table, "WORKER", (sys.executable, "-c", script))
    cases = [Case("tma-async", (("stages", 1), ("trips", trips), ("bytes", 16))) for trips in (1, 2)]
    with pytest.raises(SpecError, match="ZeroDivisionError"):
        table.table(cases, print)
    failed = []
    rows = table.table(cases, print, failed=failed)
    assert [row.reaction for row in rows] == [Reaction(), Reaction()]
    assert len(failed) == 2 and all("ZeroDivisionError" in one for one in failed)


def test_a_table_is_read_as_it_was_written(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "gpu", lambda: Gpu("simulated", "1.0", "1.0", 1))
    rows = [
        PredictedCase(
            Case("async", (("stages", 1),), "drop: x"), Prediction("deadlock", ("a", "b"), True), Reaction(20, 20)
        ),
        PredictedCase(
            Case("async", (("stages", 2),)), Prediction("race", why="race"), Reaction(100, wrong=99, held="b", taken=7)
        ),
    ]
    path = str(tmp_path / "x.jsonl.gz")
    table.write_table(rows, path)
    assert table.read_table(path) == rows
    assert [one.name for one in tmp_path.iterdir()] == ["x.jsonl.gz"]


def test_a_mutant_is_named_without_the_lines_of_the_specification():
    """So that a table still says what it was about when lines have moved; every mutant has a name of its own."""
    names = {}
    for case in mutants():
        names.setdefault((case.model, case.parameters), []).append(case.mutant)
    for (model, parameters), mine in names.items():
        assert len(mine) == len(mutants_of(Model(kernels()[model], dict(parameters), thin=True)))
        assert not [name for name in mine if re.search(r":\d", name)]
    assert any(name.endswith(" #2") for mine in names.values() for name in mine)


@pytest.mark.parametrize(
    ("case", "verdict", "stuck"),
    [
        (Case("tma-async", (("stages", 1), ("trips", 2))), "proved", ()),
        (
            Case(
                "epilogue",
                (("schedule", "cooperative"), ("stages_c", 5), ("stages_d", 5), ("subtiles", 2), ("tiles", 2)),
            ),
            "deadlock",
            ("epilogue_load_warp.0",),
        ),
        (Case("tma-async", (("stages", 1),)), "refused", ()),
        (Case("tma-async", (("stages", 1),), "no such mutant"), "refused", ()),
    ],
)
def test_what_is_predicted(case, verdict, stuck):
    prediction = predict(case)
    assert (prediction.verdict, prediction.stuck) == (verdict, stuck)
    assert bool(prediction.schedules) == (verdict == "deadlock")


def test_the_reaction_of_each_kind_of_case(monkeypatch):
    """Proved runs freely; a deadlock as it is told; of a race the way that shows most."""
    monkeypatch.setattr(reactions, "Executor", Simulated)
    ended, hung = RoleRun("producer", -1, ()), RoleRun("producer", 1, ())
    torn = RoleRun("consumer", -1, (Event(1, 0, 1, False, (("a[0]", 1, 2),)),))
    case = Case("tma-async", (("stages", 2), ("trips", 2)))
    seen = []

    def run(self, runs, **options):
        seen.append((runs, options.get("jitter", 0), options.get("roles")))
        return [GpuRun(False, (ended, torn)), GpuRun(True, (hung,), steps=99), GpuRun(False, (ended,))]

    monkeypatch.setattr(Simulated, "run", run)
    assert reactions.react(case, Prediction("proved"), runs=3) == Reaction(3, hangs=1, wrong=1)
    assert seen == [(3, 2000, None)]
    stuck = reactions.react(case, Prediction("deadlock", ("producer",), schedules=((),)), runs=3)
    assert stuck == Reaction(3, hangs=1, same=False, stuck=("producer",), taken=3)
    assert seen[-1][0] == 3 and seen[-1][2]
    race = reactions.react(case, Prediction("race", schedules=((0, 1),)), directed=3)
    assert race == Reaction(3, hangs=1, wrong=1, held="", taken=1)
    assert len(seen) > 3


def test_a_deadlock_is_told_of_the_way_that_takes_its_schedule(monkeypatch):
    """Late copies are tried only where the schedule is not taken without, and kept only where they take it further."""
    monkeypatch.setattr(reactions, "Executor", Simulated)
    monkeypatch.setattr(reactions, "deadlock_directions", lambda *_: [Direction((), "", 5), Direction((), "", 5, True)])
    case = Case("tma-async", (("stages", 2), ("trips", 2)))
    hung = [GpuRun(True, (RoleRun("producer", 1, ()),), steps=steps) for steps in (5, 4)]

    limits = []

    def told(*ways):
        left = list(ways)

        def run(self, runs, *, limit, roles):
            limits.append(limit)
            return left.pop(0)

        monkeypatch.setattr(Simulated, "run", run)
        found = reactions.react(case, Prediction("deadlock", ("producer",), schedules=((),)), runs=2)
        return found.late, found.taken, len(left)

    full, half, none = [hung[0]] * 2, hung, [hung[1]] * 2
    assert told(full, half) == (False, 2, 1)
    assert told(half, full) == (True, 2, 0)
    assert told(half, none) == (False, 1, 0)
    assert limits == [LIMIT, *[LIMIT, 4 * LIMIT] * 2]


def test_of_ways_that_go_wrong_equally_often_the_first_is_told(monkeypatch):
    plan = lower(trace(TmaAsync(stages=2, trips=2)))
    torn, fine = (
        GpuRun(False, (RoleRun("consumer", -1, (Event(1, 0, 1, False, (("a[0]", 1, high),)),)),)) for high in (2, 1)
    )
    ways = [Direction((), name, 5) for name in ("first", "second", "third")]
    for runs, told in (([[torn, fine]] * 3, "first"), ([[fine, fine], [torn, fine], [fine, torn]], "second")):
        left = list(runs)
        monkeypatch.setattr(Simulated, "run", lambda self, runs, left=left, **_: left.pop(0))
        assert gpu_ways.go_wrong(Simulated(plan), ways, plan, 2).way.held == told


def test_the_twin_of_a_race_is_run_with_patience(monkeypatch):
    monkeypatch.setattr(reactions, "Executor", Simulated)
    parameters = (("stages", 2), ("trips", 2))
    case = Case("tma-async", parameters, right=("tma-async", parameters))
    torn = GpuRun(False, (RoleRun("consumer", -1, (Event(1, 0, 1, False, (("a[0]", 1, 2),)),)),))
    fine, hung = GpuRun(False, (RoleRun("consumer", -1, ()),)), GpuRun(True, (RoleRun("consumer", 1, ()),))
    patience = []

    def run(self, runs, **options):
        patience.append(options.get("patience", 0))
        assert options["limit"] == (10 * LIMIT if patience[-1] else LIMIT)  # time to lose patience at every gate
        return [torn, hung, fine] if patience[-1] else [torn] * 3

    monkeypatch.setattr(Simulated, "run", run)
    found = reactions.react(case, Prediction("race", schedules=((0, 1),)), directed=3)
    assert (found.wrong, found.twin_wrong) == (3, 2) and patience == [0, PATIENCE]


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
