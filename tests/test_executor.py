"""From a pipeline to instructions, from a schedule to gates, and from what a run did to an order that is allowed."""

from __future__ import annotations

import gzip
import random
import shutil
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest

from checker.cli import main
from checker.hardware import record
from checker.hardware import replay as on_gpu
from checker.hardware.cases import Case
from checker.hardware.device import Gpu, sources
from checker.hardware.directed import directions, wrong_data
from checker.hardware.linearise import Linearise, _written
from checker.hardware.lower import CODES, lower
from checker.hardware.reactions import Prediction, Reaction, Row, predict
from checker.hardware.recording import is_recording, read, recorded, write
from checker.hardware.run import Event, RoleRun, Run
from checker.load import load_classes
from checker.packed import pack
from checker.search import explore
from spec import operations as op
from spec.compile import compile_programs
from spec.epilogue import Epilogue
from spec.errors import SpecError
from spec.gemm import GemmPingpong
from spec.library import Async, OrderedSequence, TmaAsync, TmaStore, TransactionAsync
from spec.pipeline import Pipeline, barrier, role, tile

GPU = {"name": "simulated"}
PIPELINES = [
    TmaAsync(stages=2, trips=5),
    TmaAsync(stages=2, trips=3, cluster="2x1", bytes=4096),
    TransactionAsync(stages=2, trips=3),
    Async(stages=2, trips=3, consumers=2),
    TmaStore(stages=2, trips=3),
    OrderedSequence(stages=2, trips=2),
    Epilogue(schedule="cooperative", stages_c=2, stages_d=1, subtiles=2, tiles=2),
    GemmPingpong(stages=2, k_tiles=2, subtiles=2, stages_c=2, stages_d=1, tiles=2, bytes_a=4096, bytes_b=4096),
]


def simulated(plan, machine, seed):
    """A run as a GPU would have recorded it, from a random walk through the model."""
    chance = random.Random(seed)
    packed = pack(machine)
    state, now = packed.initial, 0
    names = [one.name for one in machine.roles]
    inside = {one.name: [place.kind == "inside" for place in one.locations] for one in machine.roles}
    events = {name: [] for name in names}
    began = dict.fromkeys(names, 0)
    memory, flying, stores = {}, [], {}
    nodes = {program.name: program.nodes for program in plan.programs}
    numbers = {}
    for number, key in plan.writers.items():
        numbers.setdefault(key, []).append(number)

    def words(access):
        return [memory.get((access.cta, at), 0) for at in range(access.start, access.stop, 16)]

    def fill(access, number):
        memory.update({(access.cta, at): number for at in range(access.start, access.stop, 16)})

    reads, groups, opened = {name: {} for name in names}, {name: [] for name in names}, {name: [] for name in names}
    while choices := packed.successors(state):
        index, state = chance.choice(choices)
        action, now = machine.actions[index], now + 10
        if action.location is None:
            touched = dict(action.updates)
            info = next(one for one in machine.structure.copies if one.variable in touched)
            one = next(one for one in flying if (one[0].object, one[1]) == (info.buffer, info.barrier))
            flying.remove(one)
            fill(one[0], one[2])
            continue
        name = action.role
        node = len(events[name])
        operation = nodes[name][node].operation
        if inside[name][action.target]:
            continue
        found = []
        match operation:
            case op.Load():
                (number,) = numbers[name, node]
                flying += [(access, barrier, number) for access, barrier in operation.destinations]
            case op.Touch(kind="write"):
                for access, number in zip(operation.accesses, numbers[name, node], strict=True):
                    fill(access, number)
            case op.Touch():
                found = [(access.object, min(words(access)), max(words(access))) for access in operation.accesses]
                if operation.kind == "mma":
                    opened[name] += operation.accesses
                    if operation.commit:
                        groups[name].append(opened[name])
                        opened[name] = []
            case op.Group(kind="mma_wait"):
                done = groups[name][: len(groups[name]) - operation.pending]
                groups[name] = groups[name][len(done) :]
                found = [(one.object, min(words(one)), max(words(one))) for group in done for one in group]
            case op.Store():
                for access in operation.sources:
                    stores[name, node, access] = (min(words(access)), max(words(access)))
        after = now + chance.randrange(12)
        events[name].append(Event(node, began[name], after, chance.random() < 0.2, tuple(found)))
        began[name] = now + chance.randrange(5)
    assert all(len(events[name]) == len(nodes[name]) - 1 for name in names), reads
    return Run(
        False,
        tuple(RoleRun(name, -1, tuple(events[name])) for name in names),
        tuple(stores[name, node, access] for name, node, access, _ in plan.stores),
    )


def model_of(pipeline):
    plan = lower(pipeline)
    return plan, Linearise(plan, compile_programs(pipeline, plan.programs))


def changed(run, name, number, **changes):
    """The run with one event of a role changed."""
    roles = []
    for one in run.roles:
        events = list(one.events)
        if one.name == name:
            events[number] = replace(events[number], **changes)
        roles.append(replace(one, events=tuple(events)))
    return replace(run, roles=tuple(roles))


def later(run, time):
    """The run by a clock that shows so much more."""
    return replace(
        run,
        roles=tuple(
            replace(
                one,
                events=tuple(replace(each, before=each.before + time, after=each.after + time) for each in one.events),
            )
            for one in run.roles
        ),
    )


# ---------------------------------------------------------------- orders of runs


@pytest.mark.parametrize("pipeline", PIPELINES, ids=lambda one: f"{one.name}-{one.cluster}")
def test_what_the_model_did_is_allowed(pipeline):
    plan, model = model_of(pipeline)
    for seed in range(6):
        run = simulated(plan, model.machine, seed)
        order = model.order(run)
        assert order.accepted, order.because
        assert wrong_data(plan, run) == ""


@pytest.mark.parametrize("seed", range(6))
def test_what_no_order_explains(seed):
    plan, model = model_of(TmaAsync(stages=2, trips=5))
    run = simulated(plan, model.machine, seed)
    arrive = run.roles[0].events[1]
    wait = run.roles[1].events[0]
    too_early = changed(run, "consumer", 0, before=0, after=arrive.before - 1)
    if arrive.before:
        assert model.order(too_early).property == "phase-lapped"
    read = run.roles[1].events[5]
    stale = changed(run, "consumer", 5, reads=tuple((buffer, low - 1, high) for buffer, low, high in read.reads))
    order = model.order(stale)
    assert not order.accepted and order.property == "stale-read" and "found words" in order.because
    lost = replace(run, roles=(replace(run.roles[0], events=run.roles[0].events[:-3]), run.roles[1]))
    assert wait.node == 0 and not model.order(lost).accepted
    other = model.order(changed(run, "consumer", 0, node=1))
    assert not other.accepted and "another operation" in other.because


def test_the_resolution_of_the_clock_is_allowed_for():
    pipeline = TmaAsync(stages=1, trips=1)
    plan = lower(pipeline)
    machine = compile_programs(pipeline, plan.programs)
    run = simulated(plan, machine, 1)
    arrive = run.roles[0].events[1]
    shifted = changed(run, "producer", 1, before=arrive.before + 300, after=arrive.after + 300)
    shifted = changed(shifted, "consumer", 0, before=0, after=arrive.after + 200)
    assert not Linearise(plan, machine).order(shifted).accepted
    assert Linearise(plan, machine, tolerance=400).order(shifted).accepted


def test_a_remote_arrival_may_take_effect_later():
    """The clock is read before it is known to have arrived."""
    plan, model = model_of(TmaAsync(stages=1, trips=2, cluster="2x1", bytes=4096))
    run = simulated(plan, model.machine, 2)
    nodes = {program.name: program.nodes for program in plan.programs}
    for one in run.roles:
        for number, event in enumerate(one.events):
            operation = nodes[one.name][event.node].operation
            if isinstance(operation, op.Arrive) and operation.cta >= 0:
                run = changed(run, one.name, number, before=0, after=0)
    assert model.order(run).accepted


def test_a_run_in_which_something_is_wrong_has_no_order():
    """The second copy landed before the read, which found its words: that happened, and is a race all the same."""
    _, model = model_of(Overwrites())
    producer = [Event(node, 10 * node, 10 * node + 9, False) for node in range(6)]
    consumer = [Event(0, 0, 15, True), Event(1, 90, 99, False, (("a", 2, 2),))]
    order = model.order(
        Run(False, (RoleRun("producer", -1, tuple(producer)), RoleRun("consumer", -1, tuple(consumer))))
    )
    assert not order.accepted and order.property in ("race", "stale-read")


def test_a_write_replaces_all_that_it_overlaps():
    def at(start, stop, cta=0):
        return op.Access("x", "shared", start, stop, True, "generic", cta)

    content = {(0, 0, 64): 1, (0, 64, 128): 2, (1, 0, 64): 3}
    assert _written(content, at(32, 48), 4) == {(0, 32, 48): 4, (0, 64, 128): 2, (1, 0, 64): 3}
    assert _written(content, at(32, 80), 4) == {(0, 32, 80): 4, (1, 0, 64): 3}
    assert _written(content, at(64, 128), 4) == {(0, 0, 64): 1, (0, 64, 128): 4, (1, 0, 64): 3}
    assert content[0, 0, 64] == 1


# ---------------------------------------------------------------- instructions


def test_codes_are_those_of_the_kernel():
    text = (sources() / "executor.cu").read_text()
    body = text[text.index("enum Code") : text.index("};")]
    names = [line.split(",")[0].strip() for line in body.splitlines()[1:] if "," in line]
    assert [name.lower() for name in names] == list(CODES)


def test_a_role_is_lowered_operation_by_operation():
    plan = lower(TmaAsync(stages=1, trips=1))
    producer, consumer = plan.roles
    assert [one.code for one in producer.instructions] == ["wait", "arrive", "load", "wait"]
    assert [one.code for one in consumer.instructions] == ["wait", "read", "nothing", "read", "meet", "arrive"]
    assert (producer.warp, producer.warps, consumer.warp, consumer.warps) == (0, 1, 4, 4)
    wait, arrive, load, _ = producer.instructions
    assert (wait.a, wait.b) == (128, 1) and (arrive.a, arrive.b, arrive.c, arrive.d) == (0, 1, 32_768, -1)
    assert (load.a, load.b, load.c, load.d, load.e) == (256, 32_768, 0, 1, 0)
    assert plan.barriers == ((0, 0, 1), (0, 128, 128)) and plan.writers == {1: ("producer", 2)}


def test_a_multicast_copy_has_a_mask():
    plan = lower(TmaAsync(stages=1, trips=1, cluster="2x1", bytes=4096))
    masks = {one.e for one in plan.roles[0].instructions if one.code == "load"}
    assert masks == {0, 3} and plan.cluster == 2


class Odd(Pipeline):
    """Things that the executor cannot do, one at a time."""

    what: str = ""

    full = barrier(arrivals=1)
    x = tile(bytes=64)
    far = tile(bytes=64, space="global")
    wide = tile(bytes=256 * 1024, slots=lambda self: int(self.what == "wide"))

    @role(threads=lambda self: 1024 if self.what == "warps" else 64)
    def one(self):
        if self.what == "try":
            yield self.full[0].try_wait(0)
        if self.what == "global":
            yield self.far[0].read()
        if self.what == "cluster":
            yield self.cluster_arrive()
        if self.what == "groups":
            yield self.bulk_wait_read(8)
        if self.what == "loop":
            for _ in self.loop():
                yield self.x[0].read()
        yield self.full[0].arrive()


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ("try", "no branch"),
        ("global", "no global memory"),
        ("cluster", "cannot do ClusterArrive"),
        ("groups", "7 groups"),
        ("loop", "give a trip count"),
        ("wide", "bytes of shared memory"),
        ("warps", "32 is most"),
    ],
)
def test_what_the_executor_refuses(what, why):
    with pytest.raises(SpecError, match=why):
        lower(Odd(what=what))


def test_warps_meet_before_what_one_of_them_does():
    """The specification takes a role's step for one step of all its threads."""
    (lowered,) = lower(Odd()).roles
    assert [one.code for one in lowered.instructions] == ["meet", "arrive"]


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
@pytest.mark.parametrize("macros", [[], ["-DRECORD"], ["-DRECORD", "-DCLUSTER=2"]])
def test_the_executor_compiles(tmp_path, macros):
    command = ["nvcc", "-std=c++17", "-gencode", "arch=compute_90a,code=sm_90a", "-cubin", *macros]
    done = subprocess.run(
        [*command, "-o", str(tmp_path / "x"), str(sources() / "executor.cu")],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.skipif(shutil.which("nvcc") is None, reason="needs nvcc")
def test_without_recording_nothing_of_it_is_compiled(tmp_path):
    found = {}
    for macro in ("-DRECORD", "-DPLAIN"):
        command = ["nvcc", "-std=c++17", "-gencode", "arch=compute_90a,code=compute_90a", "-ptx", macro]
        subprocess.run(
            [*command, "-o", str(tmp_path / "x"), str(sources() / "executor.cu")], check=True, capture_output=True
        )
        found[macro] = (tmp_path / "x").read_text().count("%clock64")
    assert found["-DRECORD"] == 2 and found["-DPLAIN"] == 0


# ---------------------------------------------------------------- directed runs


class Overwrites(Pipeline):
    """A slot is filled again before it has been read."""

    stages = 1
    full = barrier(arrivals=1)
    a = tile(bytes=1024)

    @role(warps=1)
    def producer(self):
        for k in range(2):
            yield self.full[0].arrive_expect_tx(1024)
            yield self.a[0].load(signals=self.full[0], tag=k)
            yield self.full[0].wait(k & 1)

    @role(warps=1)
    def consumer(self):
        yield self.full[0].wait(0)
        yield self.a[0].read(tag=0)


def test_the_steps_of_a_schedule_take_turns():
    pipeline = Overwrites()
    plan = lower(pipeline)
    machine = compile_programs(pipeline, plan.programs)
    race = explore(machine).violations["race"]
    free, *held = directions(plan, machine, race.actions)
    assert free.held == "" and "consumer" in [way.held for way in held]
    turns = sorted(one.gate for lowered in free.roles for one in lowered.instructions if 0 <= one.gate < free.steps)
    assert turns == list(range(free.steps))
    consumer = next(way for way in held if way.held == "consumer").roles[1].instructions
    assert [(one.code, one.gate, one.hold > 0) for one in consumer][-1] == ("read", free.steps, True)


@pytest.mark.parametrize(
    ("reads", "wrong"),
    [
        ((("a", 1, 1),), ""),
        ((("a", 2, 2),), "of 1, not of 0"),
        ((("a", 1, 2),), "writes 1 and 2"),
        ((("a", 0, 0),), "nothing in a"),
    ],
)
def test_wrong_words_are_recognised(reads, wrong):
    plan = lower(Overwrites())
    run = Run(False, (RoleRun("consumer", -1, (Event(0, 0, 1, False), Event(1, 1, 2, False, reads))),))
    found = wrong_data(plan, run)
    assert wrong in found and bool(found) == bool(wrong)


def test_wrong_words_in_the_output_are_recognised():
    plan = lower(Epilogue(schedule="ws", stages_c=2, stages_d=1, subtiles=2, tiles=1))
    nodes = {program.name: program.nodes for program in plan.programs}
    written = {}
    for number, (name, node) in plan.writers.items():
        operation = nodes[name][node].operation
        if isinstance(operation, op.Touch):
            written[operation.accesses[0].start, operation.tags[0]] = number
    right = []
    for name, node, access, _ in plan.stores:
        (tag, _) = nodes[name][node].operation.tags
        right.append(written[access.start, tag])
    assert len(set(right)) == 4

    def wrong(*stored):
        return wrong_data(plan, Run(False, (), tuple((low, high) for low, high in stored)))

    good = [(number, number) for number in right]
    assert wrong(*good) == ""
    assert f"writes {right[0]} and {right[1]} from d.store_warp[0]" in wrong((right[0], right[1]), *good[1:])
    assert "of 1, not of 0" in wrong((right[2], right[2]), *good[1:])


# ---------------------------------------------------------------- recordings


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
    assert "error[stale-read]" in text and "found words 7 to 7 in a[0]" in text and "library.py" in text


def test_a_run_that_hangs_is_a_deadlock(tmp_path, capsys):
    plan, model = model_of(TmaAsync(stages=2, trips=3))
    run = simulated(plan, model.machine, 1)
    path = str(tmp_path / "x.jsonl.gz")
    stuck = replace(run.roles[1], node=4, events=run.roles[1].events[:4])
    write([recorded(GPU, plan, [Run(True, (run.roles[0], stuck))], 0)], path)
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
from spec.pipeline import Pipeline, barrier, role, tile


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
    write([recorded(GPU, plan, [simulated(plan, model.machine, 1)], 0, str(file))], path)
    (again,) = read(path)
    assert (again.model, again.file, again.parameters["rounds"]) == ("Mine", str(file), 3)
    assert main(["log", path]) == 0


# ---------------------------------------------------------------- the command line


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
    path, trace = Path(__file__).parent / "corpus" / file, tmp_path / "trace.json"
    arguments = ["spec", f"{path}:{kernel}", "--property", finds, "--format", "json", "-o", str(trace)]
    assert main(arguments) == 1
    return str(trace)


def test_a_race_is_replayed_on_the_gpu(tmp_path, capsys, monkeypatch):
    wrong = RoleRun("consumer", -1, (Event(0, 0, 1, False, (("s", 0, 0),)),))
    right = RoleRun("consumer", -1, (Event(0, 0, 1, False, (("s", 1, 1),)),))
    monkeypatch.setattr(on_gpu, "Executor", Simulated)
    monkeypatch.setattr(Simulated, "runs", (Run(False, (wrong,)), Run(False, (right,)), Run(False, (wrong,))))
    trace = saved_trace(tmp_path, "transactions.py", "ReadsBeforeItWaits", "race")
    assert main(["replay", trace, "--hardware", "--runs", "3"]) == 1
    assert "on the GPU: wrong data in 2 of 3 runs" in " ".join(capsys.readouterr().out.split())


def test_a_deadlock_is_replayed_on_the_gpu(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(on_gpu, "Executor", Simulated)
    stuck = Run(True, (RoleRun("producer", -1, ()), RoleRun("consumer", 0, ())))
    other = Run(True, (RoleRun("producer", 2, ()), RoleRun("consumer", 0, ())))
    monkeypatch.setattr(Simulated, "runs", (stuck, stuck, other))
    path, trace = Path(__file__).parent / "corpus" / "arrivals.py", str(tmp_path / "trace.json")
    assert (
        main(["spec", f"{path}:ExpectTxWithoutArrival", "--property", "deadlock", "--format", "json", "-o", trace]) == 1
    )
    assert main(["replay", trace, "--hardware", "--runs", "3"]) == 1
    said = " ".join(capsys.readouterr().out.split())
    assert "on the GPU: 3 of 3 runs hang, 2 of them with consumer stuck, as predicted" in said


def test_record_needs_to_know_what(tmp_path, capsys):
    assert main(["record", "-o", str(tmp_path / "x")]) == 2
    assert "which kernels?" in capsys.readouterr().err
    assert main(["record", "--all", "epilogue", "-o", str(tmp_path / "x")]) == 2


def test_without_cupy_one_line_says_what_is_needed(tmp_path, capsys):
    if find_spec("cupy"):
        pytest.skip("CuPy is installed")
    assert main(["record", "tma-async", "-o", str(tmp_path / "x")]) == 2
    error = capsys.readouterr().err
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
    monkeypatch.setattr(record, "WORKER", (sys.executable, str(tmp_path / "worker.py")))
    monkeypatch.setattr(record, "PATIENCE", 1.0)
    cases = [Case("tma-async", (("stages", 1), ("trips", trips), ("bytes", 16))) for trips in range(1, 5)]
    broken = Case("tma-async", (("stages", 1), ("trips", 1), ("peek", True)))
    said = []
    rows = record.table([*cases[:2], broken, *cases[2:]], said.append)
    assert [row.prediction.verdict for row in rows] == ["proved", "proved", "refused", "proved", "proved"]
    assert [row.reaction.fault for row in rows] == [False, True, False, True, False]
    assert [row.reaction.runs for row in rows] == [0, 0, 0, 0, 3]
    assert rows[2].reaction == Reaction() and rows[4].reaction.stuck == ("a",)
    assert said[-1] == "4 of 4 run"


def test_a_table_is_read_as_it_was_written(tmp_path, monkeypatch):
    monkeypatch.setattr(record, "gpu", lambda: Gpu("simulated", "1.0", "1.0", 1))
    rows = [
        Row(Case("async", (("stages", 1),), "drop: x"), Prediction("deadlock", ("a", "b"), True), Reaction(20, 20)),
        Row(
            Case("async", (("stages", 2),)), Prediction("race", why="race"), Reaction(100, wrong=99, held="b", taken=7)
        ),
    ]
    path = str(tmp_path / "x.jsonl.gz")
    record.write_table(rows, path)
    assert record.read_table(path) == rows
    assert [one.name for one in tmp_path.iterdir()] == ["x.jsonl.gz"]


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
    assert bool(prediction.actions) == (verdict == "deadlock")
