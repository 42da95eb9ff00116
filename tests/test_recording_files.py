"""A recording that no recorder wrote, or that was damaged, is refused with file and line, and never proved."""

from __future__ import annotations

import gzip
import json

import pytest
from simulated import GPU, model_of, simulated

from sm90_verify.cli.main import main
from sm90_verify.recordings.recording import _line, recorded
from sm90_verify.spec.cutlass.classes import TmaAsync

RECORDED = TmaAsync(stages=1, trips=2)


@pytest.fixture(scope="module")
def sound():
    """The head and the one run of a recording, as JSON."""
    plan, model = model_of(RECORDED)
    one = recorded(GPU, plan, [simulated(plan, model.machine, 1)], 0)
    return {
        "kind": "sm90-recording",
        "version": 1,
        "gpu": GPU,
        "model": one.model,
        "parameters": one.parameters,
        "clock": one.clock,
        "resolution": 0,
        "runs": 1,
    }, _line(one.runs[0])


def log_of(path, lines, capsys):
    """verify log on these lines: exit code, standard output and standard error."""
    text = "".join(
        (line if isinstance(line, str) else json.dumps(line, separators=(",", ":"))) + "\n" for line in lines
    )
    path.write_bytes(gzip.compress(text.encode()))
    code = main(["log", str(path)])
    return code, *capsys.readouterr()


HEADS = [
    ({"runs": 0}, "0 runs, and a recording has 1 or more"),
    ({"runs": -1}, "-1 runs, and a recording has 1 or more"),
    ({"runs": None}, "null runs"),
    ({"runs": "1"}, '"1" runs'),
    ({"runs": True}, "true runs"),
    ({"runs": 1.0}, "1.0 runs"),
    ({"runs": 10**30}, "runs are announced and the file ends"),
    ({"gpu": []}, "no recorder wrote gpu: []"),
    ({"gpu": {"name": 3}}, "no recorder wrote gpu: "),
    ({"model": 3}, "no recorder wrote model: 3"),
    ({"model": ""}, 'no recorder wrote model: ""'),
    ({"model": "nope"}, "'nope', which is no kernel of the library"),
    ({"parameters": None}, "no recorder wrote parameters: null"),
    ({"parameters": {"foo": 1}}, "has no parameter 'foo'"),
    ({"parameters": {"stages": -1, "trips": 2}}, "-1 slots"),
    ({"parameters": {"stages": "x", "trips": 2}}, "parameter 'stages' is a number, not 'x'"),
    ({"parameters": {"stages": 1}}, "give a trip count"),
    ({"clock": 3}, "no recorder wrote clock: 3"),
    ({"clock": "sundial"}, 'no recorder wrote clock: "sundial"'),
    ({"clock": "globaltimer"}, "globaltimer, and a launch of 1 CTA is recorded with clock64"),
    ({"resolution": "x"}, 'no recorder wrote resolution: "x"'),
    ({"resolution": True}, "no recorder wrote resolution: true"),
    ({"resolution": -5}, "a resolution of -5, and that of clock64 is 0"),
    ({"resolution": 10**9}, "a resolution of 1000000000, and that of clock64 is 0"),
    ({"resolution": float("nan")}, "no recorder wrote resolution: NaN"),
    ({"file": 3}, "no recorder wrote file: 3"),
    ({"file": "nowhere.py"}, "nowhere.py: no such file"),
]


@pytest.mark.parametrize(("changes", "why"), HEADS, ids=lambda value: str(value)[:40])
def test_a_head_that_no_recorder_wrote_is_refused(sound, tmp_path, capsys, changes, why):
    """With its line, and never proved."""
    head, run = sound
    code, out, error = log_of(tmp_path / "x.gz", [{**head, **changes}, run], capsys)
    assert (code, out, error.count("\n")) == (2, "", 1) and why in error and "x.gz:1: " in error


@pytest.mark.parametrize("name", ["gpu", "model", "parameters", "clock", "resolution", "runs"])
def test_a_head_with_a_field_missing_is_refused(sound, tmp_path, capsys, name):
    head, run = sound
    head = {key: value for key, value in head.items() if key != name}
    code, out, error = log_of(tmp_path / "x.gz", [head, run], capsys)
    assert (code, out, error.count("\n")) == (2, "", 1) and "x.gz:1: " in error and "internal" not in error


def put(*path_and_value):
    """Changes one place of a run; without a value behind the path ..., takes it away."""
    *path, last, value = path_and_value

    def change(run):
        place = run
        for key in path:
            place = place[key]
        if value is ...:
            del place[last]
        else:
            place[last] = value

    return change


def events_of(*roles, keep):
    """Keeps so many events of these roles."""

    def change(run):
        for role in roles:
            run["roles"][role]["events"] = run["roles"][role]["events"][:keep]

    return change


ROLES = ("producer", "consumer")
RUNS = [
    (put("roles", {}), "no run of tma-async: producer is missing"),
    (put("roles", "consumer", ...), "no run of tma-async: consumer is missing"),
    (put("roles", "other", {"node": -1, "events": []}), "it has no role 'other', but producer, consumer"),
    (put("roles", "consumer", []), "no recorder wrote consumer: []"),
    (put("roles", []), "no recorder wrote roles: []"),
    (put("hangs", 0), "no recorder wrote hangs: 0"),
    (put("hangs", ...), "no recorder wrote a line without hangs"),
    (put("stored", [[1]]), "no recorder wrote stored: [1]"),
    (put("stored", [[1, 1]]), "it stores 0 times, not 1"),
    (put("roles", "consumer", "node", None), "no recorder wrote node: null"),
    (put("roles", "consumer", "node", 99), "consumer has no operation at node 99 to be in"),
    (put("roles", "consumer", "node", 2), "it is said to have ended, and consumer is at node 2"),
    (put("roles", "consumer", "events", None), "no recorder wrote events: null"),
    (put("roles", "consumer", "events", 0, 0, 99), "consumer has no operation at node 99"),
    (put("roles", "consumer", "events", 0, 0, -1), "no recorder wrote an event: [-1, "),
    (put("roles", "consumer", "events", 0, 1, float("nan")), "no recorder wrote an event: [0, NaN, "),
    (put("roles", "consumer", "events", 0, 1, None), "no recorder wrote an event: [0, null, "),
    (put("roles", "consumer", "events", 0, 1, 1 << 63), "no recorder wrote an event: [0, "),
    (put("roles", "consumer", "events", 0, 2, -1), "no recorder wrote an event: [0, "),
    (put("roles", "consumer", "events", 0, 3, 2), "no recorder wrote an event: [0, "),
    (put("roles", "consumer", "events", 0, []), "no recorder wrote an event: []"),
    (put("roles", "consumer", "events", 1, 4, [["b", 1, 1]]), "it has no buffer 'b'"),
    (put("roles", "consumer", "events", 1, 4, [[["a[0]"], 1, 1]]), "no recorder wrote an event: [1, "),
    (put("roles", "consumer", "events", 1, 4, [["a[0]", 1]]), "no recorder wrote an event: [1, "),
    (put("roles", "consumer", "events", 1, 4, 3), "no recorder wrote an event: [1, "),
    (events_of(*ROLES, keep=0), "not a whole run: producer has no events"),
    (events_of(*ROLES, keep=2), "not a whole run: producer is recorded up to node 1 of "),
    (events_of("consumer", keep=-1), "not a whole run: consumer is recorded up to node "),
]


@pytest.mark.parametrize(("change", "why"), RUNS, ids=[why for _, why in RUNS])
def test_a_run_that_no_recorder_wrote_is_refused(sound, tmp_path, capsys, change, why):
    """With its line: a run that was cut short would have an order, and so be proved."""
    head, run = json.loads(json.dumps(sound))
    change(run)
    code, out, error = log_of(tmp_path / "x.gz", [{**head, "runs": 2}, sound[1], run], capsys)
    assert (code, out, error.count("\n")) == (2, "", 1) and "x.gz:3: " in error and why in error


@pytest.mark.parametrize("line", ["[" * 100_000, '{"a":' + "1" * 5000 + "}"], ids=["deep", "long number"])
def test_json_that_python_cannot_read_is_refused(sound, tmp_path, capsys, line):
    code, out, error = log_of(tmp_path / "x.gz", [sound[0], line], capsys)
    assert (code, out, error.count("\n")) == (2, "", 1) and "x.gz:2: no JSON that a recorder wrote" in error


def test_a_damaged_file_is_refused(sound, tmp_path, capsys):
    """Whichever byte behind its first line is another one, or the last that is there."""
    path = tmp_path / "x.gz"
    assert log_of(path, sound, capsys)[0] == 0
    whole = path.read_bytes()
    for at in range(10, len(whole), 7):
        changed = bytearray(whole)
        changed[at] ^= 0x55
        for damaged in (bytes(changed), whole[:at]):
            path.write_bytes(damaged)
            assert main(["log", str(path)]) == 2
            out, error = capsys.readouterr()
            assert out == "" and error.count("\n") == 1 and "x.gz:" in error and "internal" not in error
    path.write_bytes(whole + b"more")
    assert main(["log", str(path)]) == 2 and "x.gz:3: a damaged recording" in capsys.readouterr().err


def test_a_hang_in_which_nobody_is_said_to_be_stuck(sound, tmp_path, capsys):
    head, run = sound
    code, out, _ = log_of(tmp_path / "x.gz", [head, {**run, "hangs": True}], capsys)
    assert code == 1 and "1 of 1 runs hang; which roles did not end is not recorded" in out
