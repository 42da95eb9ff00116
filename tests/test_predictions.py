"""The table of predictions: what is predicted of each case, how a GPU reacts to it, and the file of both."""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import pytest
from simulated import Simulated

from sm90_verify.evidence.hardware import everything, reactions, table
from sm90_verify.evidence.hardware.cases import Case, mutants
from sm90_verify.evidence.hardware.reactions import PredictedCase, Prediction, Reaction, predict
from sm90_verify.gpu import ways as gpu_ways
from sm90_verify.gpu.device import Gpu
from sm90_verify.gpu.directed import LIMIT, PATIENCE, Direction
from sm90_verify.mutation.catalogue import Model, mutants_of
from sm90_verify.recordings.lower import lower
from sm90_verify.recordings.run import Event, GpuRun, RoleRun
from sm90_verify.spec.cutlass.catalogue import kernels
from sm90_verify.spec.cutlass.classes import TmaAsync
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.walk import trace

CORPUS = Path(__file__).parent / "corpus"


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
    broken = Case("tma-async", (("stages", 1), ("trips", "all")))
    said = []
    rows = table.table([*cases[:2], broken, *cases[2:]], said.append)
    assert [row.prediction.verdict for row in rows] == ["proved", "proved", "refused", "proved", "proved"]
    assert [row.reaction.fault for row in rows] == [False, True, False, True, False]
    assert [row.reaction.runs for row in rows] == [0, 0, 0, 0, 3]
    assert rows[2].reaction == Reaction() and rows[4].reaction.stuck == ("a",)
    assert said[-1] == "4 of 4 run"


def test_everything_is_recorded(tmp_path, monkeypatch):
    """A part that fails is told once all others are there; the tables are of every so manieth case. Those of the whole
    corpus are in test_recordings.
    """
    asked, faulty = {}, tmp_path / "faults"
    faulty.mkdir()
    for name in ("arrivals.py", "groups.py", "transactions.py"):
        shutil.copy(CORPUS / name, faulty)

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
        everything.record_all(str(tmp_path / "all"), said.append, every=2, folder_of_faults=str(faulty))
    names = {f"{name}.jsonl.gz" for name in ("epilogues", "mutants", "faults")}
    assert {path.name for path in (tmp_path / "all").iterdir()} == {"part"} | names
    rows = table.read_table(str(tmp_path / "all" / "epilogues.jsonl.gz"))
    assert [row.case for row in rows] == cases[::2] and all(row.reaction == Reaction(7) for row in rows)
    rows = table.read_table(str(tmp_path / "all" / "faults.jsonl.gz"))
    assert len(rows) > 15 and any(row.case.right for row in rows)
    assert all(lower(trace(row.case.twin().pipeline())) for row in rows if row.case.right)
    broken = next(row.case for row in rows if row.case.model.endswith(":ReadsBeforeItWaits"))
    assert predict(broken).verdict == "race" and predict(broken.twin()).verdict == "proved"
    assert said[:2] == ["one", "two"] and "epilogues: 2 predicted, 2 to run" in said
    with pytest.raises(SpecError, match="no Python file in it has a list CASES"):
        everything.record_all(str(tmp_path / "all"), said.append, folder_of_faults=str(tmp_path))


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

        def run(self, runs, *, limit, roles, choices):
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
