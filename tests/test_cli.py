"""verify as scripts use it: exit codes, one line for every mistake, JSON, and files that appear whole or not at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from sm90_verify.cli.main import main
from sm90_verify.cli.usage import CHECKS, EVIDENCE
from sm90_verify.counterexample.replay import replay
from sm90_verify.files import write_whole
from sm90_verify.report.text import render
from sm90_verify.result import PROPERTIES
from sm90_verify.spec.errors import SpecError

ROOT = Path(__file__).resolve().parent.parent
RACE = """
from sm90_verify import Pipeline, barrier, role, tile


class DoubleBuffer(Pipeline):
    stages = 2
    full = barrier(arrivals=1)
    empty = barrier(arrivals=1)
    a = tile(bytes=16_384)

    @role(warps=1)
    def producer(self, at):
        yield self.empty[at].wait(at.phase ^ 1)
        yield self.full[at].arrive_expect_tx(self.a.bytes)
        yield self.a[at].load(signals=self.full[at])

    @role(warps=4)
    def consumer(self, at):
        yield self.full[at].wait(at.phase)
        yield self.a[at].mma()
        yield self.empty[at].arrive()
        yield self.mma_wait(0)
"""
HANG = RACE.replace("yield self.empty[at].arrive()", "yield self.mma_wait(0)")
GOOD = RACE.replace(
    "        yield self.empty[at].arrive()\n        yield self.mma_wait(0)",
    "        yield self.mma_wait(0)\n        yield self.empty[at].arrive()",
)


@pytest.fixture
def spec_file(tmp_path):
    def write(text: str, name: str = "kernel.py") -> str:
        path = tmp_path / name
        path.write_text(text)
        return str(path)

    return write


def run(*arguments: str, capsys) -> tuple[int, str, str]:
    code = main(arguments)
    out, err = capsys.readouterr()
    return code, out, err


def test_a_proof_is_one_line_per_property_and_the_summary(capsys):
    code, out, err = run("pipeline", "--stages", "4", capsys=capsys)
    *properties, summary = out.splitlines()
    assert code == 0 and err == ""
    assert [line.split() for line in properties] == [
        ["proved", id]
        for id in (
            "deadlock",
            "race",
            "stale-read",
            "phase-lapped",
            "arrival-count",
            "tx-count",
            "exit-hazard",
            "unobserved-phase",
        )
    ]
    assert summary.startswith("verify: PROVED tma-async stages=4 consumers=1  540 states  ")


def test_a_violation_names_the_line_to_blame(capsys, spec_file):
    path = spec_file(RACE)
    code, out, err = run("spec", path, capsys=capsys)
    assert code == 1 and err == ""
    assert out.startswith("error[race]: ")
    guilty = 1 + RACE.splitlines().index("        yield self.empty[at].arrive()")
    assert f"kernel.py:{guilty}" in out
    assert f">{guilty:4d}|         yield self.empty[at].arrive()" in out
    assert "\n  because  " in out and "\n  proved   " in out
    assert out.splitlines()[-1].startswith("verify: VIOLATED DoubleBuffer stages=2  ")
    assert max(map(len, out.splitlines())) <= 100 or len(path) > 40


def test_a_deadlock_says_who_waits_for_what(capsys, spec_file):
    code, out, _ = run("spec", spec_file(HANG), capsys=capsys)
    assert code == 1
    assert out.startswith("error[deadlock]: ")
    words = " ".join(out.split())
    assert "producer waits for empty[0] phase parity 0, line 13: 0 of 1 arrivals, nobody can arrive any more" in words


def test_json_has_the_promised_keys(capsys, spec_file):
    code, out, _ = run("spec", spec_file(RACE), "--format", "json", capsys=capsys)
    answer = json.loads(out)
    assert code == 1
    assert answer["schema"] == 1 and answer["tool"] == "verify" and answer["command"] == "spec"
    assert answer["model"]["name"] == "DoubleBuffer" and answer["model"]["parameters"]["stages"] == 2
    assert answer["verdict"] == "violated" and answer["engine"] == "search" and answer["scope"] == {"trips": "all"}
    assert {"version", "states", "transitions", "seconds", "properties", "trace"} <= set(answer)
    verdicts = {entry["id"]: entry["verdict"] for entry in answer["properties"]}
    assert verdicts["race"] == "violated" and verdicts["deadlock"] == "proved"
    assert set(verdicts) <= set(PROPERTIES)
    trace = answer["trace"]
    assert trace["property"] == "race" and trace["because"]
    assert {"role", "op", "object", "file", "line", "changes"} <= set(trace["steps"][0])
    _, out, _ = run("pipeline", "--stages", "2", "--format", "json", capsys=capsys)
    assert json.loads(out)["trace"] is None and json.loads(out)["verdict"] == "proved"


def test_the_trace_alone_is_enough_to_replay(capsys, spec_file, tmp_path):
    target = tmp_path / "trace.json"
    assert main(["spec", spec_file(RACE), "--format", "json", "-o", str(target)]) == 1
    code, out, _ = run("replay", str(target), capsys=capsys)
    assert code == 1 and "error[race]" in out
    written = json.loads(target.read_text())
    del written["trace"]["steps"][3]
    target.write_text(json.dumps(written))
    code, _, err = run("replay", str(target), capsys=capsys)
    assert code == 2 and "cannot be taken" in err
    written["trace"]["steps"] = written["trace"]["steps"][:2]
    target.write_text(json.dumps(written))
    assert run("replay", str(target), capsys=capsys)[0] == 3


def test_a_deadlock_can_be_replayed(spec_file, tmp_path, capsys):
    target = tmp_path / "trace.json"
    assert main(["spec", spec_file(HANG), "--format", "json", "-o", str(target)]) == 1
    assert run("replay", str(target), capsys=capsys)[0] == 1


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("property",), 3),
        (("because",), None),
        (("steps", 0, "role"), None),
        (("steps", 0, "action"), ["x"]),
        (("steps", 0, "line"), "8"),
        (("steps", 0, "changes"), []),
        (("blocked", 0, "missing"), 3),
        (("blocked", 0, "line"), None),
    ],
)
def test_a_trace_with_a_part_of_another_kind_is_refused_with_one_line(where, value, spec_file, tmp_path, capsys):
    target = tmp_path / "trace.json"
    main(["spec", spec_file(HANG), "--format", "json", "-o", str(target)])
    written = json.loads(target.read_text())
    part = written["trace"]
    for key in where[:-1]:
        part = part[key]
    part[where[-1]] = value
    target.write_text(json.dumps(written))
    code, _, err = run("replay", str(target), capsys=capsys)
    assert code == 2 and err.count("\n") == 1 and "no trace of a pipeline or spec in it" in err


def test_a_trace_that_blocks_a_role_which_is_not_there_shows_nothing(spec_file, tmp_path, capsys):
    target = tmp_path / "trace.json"
    main(["spec", spec_file(HANG), "--format", "json", "-o", str(target)])
    written = json.loads(target.read_text())
    written["trace"]["blocked"][0]["role"] = "nobody"
    target.write_text(json.dumps(written))
    assert run("replay", str(target), capsys=capsys)[0] == 3


def test_what_a_replay_wrote_can_be_replayed(spec_file, tmp_path, capsys):
    first, second, third = (str(tmp_path / f"{name}.json") for name in ("first", "second", "third"))
    mainloop = ["mainloop", "--stages", "2", "--k-tiles", "4", "--mmas-in-flight", "0", "--pending", "1"]
    for command in (["spec", spec_file(HANG)], mainloop):
        assert main([*command, "--format", "json", "-o", first]) == 1
        assert main(["replay", first, "--format", "json", "-o", second]) == 1
        assert main(["replay", second, "--format", "json", "-o", third]) == 1
        one, two = (json.loads((tmp_path / f"{name}.json").read_text()) for name in ("second", "third"))
        assert one["trace"] == two["trace"] == json.loads((tmp_path / "first.json").read_text())["trace"]
        assert one["model"] == two["model"]


def test_a_replay_never_says_to_write_over_its_file(spec_file, tmp_path, capsys):
    target = tmp_path / "my trace.json"
    assert main(["spec", spec_file(RACE), "--format", "json", "-o", str(target)]) == 1
    code, out, _ = run("replay", str(target), capsys=capsys)
    assert code == 1 and " -o " not in out and f"  again: verify replay '{target}'" in out
    assert "again" not in render(replay(str(target))) and " -o " not in render(replay(str(target)))


def test_a_replay_reads_the_schema_that_it_knows(spec_file, tmp_path, capsys):
    path = tmp_path / "trace.json"
    assert main(["spec", spec_file(RACE), "--format", "json", "-o", str(path)]) == 1
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema": 2}))
    assert main(["replay", str(path)]) == 2
    assert "it is written in schema 2, and this version reads 1" in capsys.readouterr().err


def test_a_replay_is_of_one_result_with_a_trace(spec_file, tmp_path, capsys):
    target = tmp_path / "trace.json"
    main(["spec", spec_file(GOOD), spec_file(RACE, "bad.py"), "--format", "json", "-o", str(target)])
    code, _, err = run("replay", str(target), capsys=capsys)
    assert code == 2 and err.count("\n") == 1
    assert f"{target}: 2 results in it: ask about the one of DoubleBuffer alone, with --format json -o FILE" in err
    main(["spec", spec_file(GOOD), "--format", "json", "-o", str(target)])
    code, _, err = run("replay", str(target), capsys=capsys)
    assert code == 2 and err.count("\n") == 1
    assert f"{target}: no trace in it, its verdict is proved: give what a violation wrote" in err
    for results in ([], [3], [{"trace": 3}]):
        target.write_text(json.dumps({"results": results}))
        code, _, err = run("replay", str(target), capsys=capsys)
        assert code == 2 and err.count("\n") == 1 and "internal error" not in err


def test_a_file_that_is_nested_too_deeply_is_no_json(tmp_path, capsys):
    target = tmp_path / "trace.json"
    target.write_text("[" * 100_000)
    code, _, err = run("replay", str(target), capsys=capsys)
    assert code == 2 and "not a JSON file" in err


def test_several_models_give_the_worst_verdict(capsys, spec_file):
    good = spec_file(GOOD, "good.py")
    bad = spec_file(RACE, "bad.py")
    assert run("spec", good, capsys=capsys)[0] == 0
    assert run("spec", good, bad, capsys=capsys)[0] == 1
    code, out, _ = run("spec", good, bad, "--format", "json", capsys=capsys)
    answer = json.loads(out)
    assert code == 1 and answer["verdict"] == "violated" and len(answer["results"]) == 2
    assert run("spec", good, bad, "--limit", "5", capsys=capsys)[0] == 3
    assert run("spec", good, str(ROOT / "missing.py"), capsys=capsys)[0] == 2


def test_a_search_that_is_cut_short_decides_nothing(capsys):
    code, out, _ = run("pipeline", "--stages", "4", "--limit", "10", capsys=capsys)
    assert code == 3
    assert "the limit of 10 states (--limit)" in " ".join(out.split())
    assert out.splitlines()[-1].startswith("verify: UNDETERMINED tma-async")
    assert run("pipeline", "--stages", "8", "--consumers", "2", "--timeout", "0.001", capsys=capsys)[0] == 3


def test_one_property(capsys):
    code, out, _ = run("pipeline", "--property", "race", "--property", "deadlock", capsys=capsys)
    assert code == 0 and out.splitlines()[:-1] == ["proved  deadlock", "proved  race"]


MISTAKES = [
    ((), "which command"),
    (("pipelines",), "invalid choice"),
    (("pipeline", "tma"), "no pipeline class 'tma': use one of tma-async,"),
    (("pipeline", "--stages", "0"), "--stages: 0: use a whole number from 1 to 64"),
    (("pipeline", "--stages", "-3"), "--stages: -3: use a whole number from 1 to 64"),
    (("pipeline", "--stages", "65"), "--stages: 65: use a whole number from 1 to 64"),
    (("pipeline", "--stages", "four"), "--stages: four: use a whole number from 1 to 64"),
    (("pipeline", "--consumers", "9000"), "--consumers: 9000: use a whole number from 1 to 7"),
    (("pipeline", "--cluster", "5x4"), "--cluster: 5x4: use XxY with 1 to 16 CTAs"),
    (("pipeline", "--cluster", "big"), "--cluster: big: use XxY with 1 to 16 CTAs"),
    (("pipeline", "async", "--cluster", "2x1"), "cluster 2x1: async stays in its CTA"),
    (("pipeline", "--bytes", "40"), "--bytes: 40: use a multiple of 16"),
    (("pipeline", "--bytes", "0"), "--bytes: 0: use a whole number from 16"),
    (("pipeline", "--trips", "-1"), "--trips: -1: use a whole number from 0"),
    (("pipeline", "--timeout", "0"), "--timeout: 0: use a number of seconds above 0"),
    (("pipeline", "tma-store", "--producers", "2"), "--producers: tma-store has no producers"),
    (("pipeline", "--property", "hang"), "unknown property 'hang': use one of deadlock, race,"),
    (("pipeline", "async", "--property", "tx-count"), "nothing to check: tx-count cannot be violated by async"),
    (("pipeline", "--engine", "magic"), "--engine: no engine 'magic': use search, order, smt, or several joined by +"),
    (("spec", "nowhere.py"), "nowhere.py: no such file"),
    (("log", "nowhere.log"), "nowhere.log"),
    (("replay", "nowhere.json"), "nowhere.json: No such file"),
    (("explain", "hang"), "no property 'hang': use one of"),
    (("epilogue", "--processes", "2"), "--processes means nothing without --frontier: leave it out, or add --frontier"),
    (("pipeline", "-o", "/nowhere/x"), "-o /nowhere/x: No such file or directory"),
]


@pytest.mark.parametrize(
    ("arguments", "text"), MISTAKES, ids=lambda value: " ".join(value) if isinstance(value, tuple) else ""
)
def test_a_mistake_is_one_line_and_exit_2(arguments, text, capsys):
    code, out, err = run(*arguments, capsys=capsys)
    assert code == 2 and out == ""
    assert err.startswith("verify: error: ") and err.count("\n") == 1
    assert text in err


SPECS = [
    ("x = 1\n", "defines no pipeline"),
    ("def broken(:\n", "kernel.py:1: "),
    ("import nothing_of_the_kind\n", "kernel.py:1: ModuleNotFoundError"),
    (GOOD.replace("self.full[at].wait", "self.fool[at].wait"), "kernel.py:19: "),
    (GOOD.replace("yield self.mma_wait(0)", "if self.full[at].test_wait(0): yield self.mma_wait(0)"), "kernel.py:21: "),
    (GOOD.replace("arrivals=1", "arrivals=1 << 20"), "use 1 to 1048575"),
    (GOOD.replace("self.a.bytes", "1 << 30"), "kernel.py:14: "),
    (GOOD.replace("16_384", "100"), "kernel.py:15: "),
    (GOOD.replace("yield self.empty[at].arrive()", "self.empty[at].arrive()"), "kernel.py:22: "),
]


@pytest.mark.parametrize(("text", "expected"), SPECS)
def test_a_mistake_in_a_specification_has_file_and_line(text, expected, capsys, spec_file):
    code, out, err = run("spec", spec_file(text), capsys=capsys)
    assert code == 2 and out == ""
    assert err.count("\n") == 1 and expected in err


def test_parameters_of_a_specification(capsys, spec_file):
    path = spec_file(GOOD)
    code, out, _ = run("spec", f"{path}:DoubleBuffer", "--stages", "3", "--set", "trips=2", capsys=capsys)
    assert code == 0 and "DoubleBuffer stages=3 trips=2" in out
    code, _, err = run("spec", path, "--set", "depth=2", capsys=capsys)
    assert code == 2 and "has no parameter 'depth'" in err
    for given, said in (
        ("strict=maybe", "'strict' is True or False"),
        ("stages=two", "a number"),
        ("stages=all", "a number"),
        ("trips=some", "a number, 'all' or"),
        ("cluster=2", "a word"),
    ):
        code, out, err = run("spec", path, "--set", given, capsys=capsys)
        assert (code, out, err.count("\n")) == (2, "", 1) and said in err
    for given in ("True", "true", "1", "False", "false", "0"):
        code, out, _ = run("spec", path, "--set", "trips=2", "--set", f"strict={given}", capsys=capsys)
        assert f"strict={given in ('True', 'true', '1')}" in out
    code, _, err = run("spec", f"{path}:Other", capsys=capsys)
    assert code == 2 and "defines no pipeline 'Other': it has DoubleBuffer" in err


LOG = str(ROOT / "tests" / "data" / "synclog")


def test_logs_are_checked_by_the_command(capsys, tmp_path):
    logs = sorted(str(path) for path in Path(LOG).iterdir())
    assert len(logs) == 10
    code, out, err = run("log", *logs[:2], capsys=capsys)
    assert code == 0 and err == "" and out.count("verify: PROVED") == 2 and "mainloop" in out
    assert run("log", logs[0], "--property", "race", capsys=capsys)[1].count("proved  ") == 1
    assert run("log", logs[0], "--limit", "10", capsys=capsys)[0] == 3
    assert run("log", logs[0], "--property", "register-pool", capsys=capsys)[0] == 2
    code, out, _ = run("log", logs[0], "--format", "json", capsys=capsys)
    assert code == 0 and json.loads(out)["verdict"] == "proved" and json.loads(out)["table"]
    noise = tmp_path / "noise.log"
    noise.write_bytes(bytes(range(256)) * 9)
    code, out, err = run("log", str(noise), capsys=capsys)
    assert code == 2 and out == "" and err.count("\n") == 1


def test_output_files_are_whole_or_absent(tmp_path, monkeypatch, capsys):
    target = tmp_path / "out.json"
    assert main(["pipeline", "--stages", "1", "--format", "json", "-o", str(target)]) == 0
    assert json.loads(target.read_text())["verdict"] == "proved"
    assert capsys.readouterr().out == ""
    before = target.read_text()

    def fail(*_: object) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", fail)
    assert main(["pipeline", "--stages", "2", "--format", "json", "-o", str(target)]) == 2
    assert target.read_text() == before and [path.name for path in tmp_path.iterdir()] == ["out.json"]


def test_a_link_is_written_through(tmp_path):
    target, link, chain = tmp_path / "there" / "out.txt", tmp_path / "link", tmp_path / "chain"
    target.parent.mkdir()
    link.symlink_to("there/out.txt")
    chain.symlink_to(link)
    for name in (link, chain):
        assert main(["pipeline", "--stages", "1", "-o", str(name)]) == 0
        assert name.is_symlink() and not target.is_symlink()
        assert target.read_text().splitlines()[-1].startswith("verify: PROVED")
        assert [path.name for path in target.parent.iterdir()] == ["out.txt"]
        target.unlink()


def test_a_file_keeps_its_mode(tmp_path):
    target = tmp_path / "out.txt"
    target.write_text("old")
    target.chmod(0o600)
    write_whole(str(target), b"new")
    assert (target.read_bytes(), target.stat().st_mode & 0o777) == (b"new", 0o600)
    write_whole(str(tmp_path / "fresh"), b"new")
    assert (tmp_path / "fresh").stat().st_mode & 0o777 == 0o644


def test_a_device_or_pipe_is_never_replaced(tmp_path):
    device = tmp_path / "null"
    device.symlink_to("/dev/null")
    before = os.stat("/dev/null")
    for name in ("/dev/null", str(device)):
        assert main(["pipeline", "--stages", "1", "-o", name]) == 0
    assert os.path.samestat(before, os.stat("/dev/null")) and device.is_symlink()
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        write_whole(str(pipe), b"through")
        assert os.read(end, 100) == b"through" and not pipe.is_file()
    finally:
        os.close(end)
    with pytest.raises(SpecError, match="Is a directory"):
        write_whole(str(tmp_path), b"")


@pytest.mark.parametrize("output", ["-o /dev/stdout", "-o /proc/self/fd/1", "-o /dev/fd/1", ""])
def test_standard_output_by_name_is_what_it_is(tmp_path, output):
    target = tmp_path / "out.txt"
    target.write_text("before\n")
    command = f"{sys.executable} -m sm90_verify pipeline --stages 1 {output}"
    for redirection in (f">> {target}", f"| cat >> {target}"):
        subprocess.run(f"{command} {redirection}", shell=True, check=True, cwd=ROOT)
    lines = target.read_text().splitlines()
    assert lines[0] == "before" and sum(line.startswith("verify: PROVED") for line in lines) == 2


def test_an_exit_code_tells_the_verdict_also_where_nobody_reads_it(tmp_path):
    path = tmp_path / "race.py"
    path.write_text(RACE)
    for output, code in (("| true", 1), (">&-", 1), ("> /dev/full", 2)):
        text = f"{sys.executable} -m sm90_verify spec {path} {output}; exit ${{PIPESTATUS[0]}}"
        done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, cwd=ROOT, check=False)
        assert done.returncode == code, (output, done.stderr)
        assert done.stderr == ("verify: error: standard output: No space left on device\n" if code == 2 else "")


EXITS = {
    "early": "import sys\nsys.exit(0)\n",
    "late": f"{GOOD}\nraise SystemExit\n",
    "in a class": GOOD.replace("    stages = 2", "    stages = 2\n    quit()"),
    "in a role": GOOD.replace(
        "        yield self.a[at].mma()", "        raise SystemExit(0)\n        yield self.a[at].mma()"
    ),
    "when it is made": f"{GOOD}\n    def __init__(self, **_):\n        raise SystemExit(0)\n",
    "not an Exception": "class Stop(BaseException): pass\nraise Stop\n",
}


@pytest.mark.parametrize("text", EXITS.values(), ids=EXITS)
def test_a_specification_that_ends_the_program_proves_nothing(text, capsys, spec_file):
    path = spec_file(text, "ends.py")
    code, out, err = run("spec", path, capsys=capsys)
    assert (code, out, err.count("\n")) == (2, "", 1) and err.startswith("verify: error: ")
    code, out, err = run("spec", path, spec_file(RACE), capsys=capsys)
    assert (code, err.count("\n")) == (2, 1) and out.splitlines()[-1].startswith("verify: VIOLATED DoubleBuffer")
    with pytest.raises(SystemExit) as ends:
        main(["--help"])
    assert ends.value.code == 0


def test_a_file_that_cannot_be_checked_leaves_the_others(capsys, spec_file, tmp_path):
    good, target = spec_file(GOOD), tmp_path / "out.json"
    code, out, err = run("spec", "nowhere.py", good, "elsewhere.py", "nowhere.py", capsys=capsys)
    assert (code, err.count("\n")) == (2, 2) and "verify: PROVED DoubleBuffer" in out
    log = str(Path(LOG) / "ws_void.log.xz")
    code, out, err = run("log", "nowhere.log", log, capsys=capsys)
    assert (code, err.count("\n")) == (2, 1) and "verify: PROVED" in out
    assert main(["spec", "nowhere.py", good, "--format", "json", "-o", str(target)]) == 2
    assert json.loads(target.read_text())["verdict"] == "proved"
    target.unlink()
    assert main(["spec", "nowhere.py", "--format", "json", "-o", str(target)]) == 2 and not target.exists()


def test_an_internal_error_exits_2(monkeypatch, capsys):
    monkeypatch.setattr("sm90_verify.engines.check.check", lambda *_, **__: 1 / 0)
    code, _, err = run("pipeline", capsys=capsys)
    assert code == 2 and "internal error, ZeroDivisionError" in err and err.count("\n") == 1


@pytest.mark.parametrize("id", PROPERTIES)
def test_every_property_is_explained(id, capsys):
    code, out, _ = run("explain", id, capsys=capsys)
    assert code == 0 and out.startswith(f"{id}: ") and "PTX ISA" in out and "Usual fix: " in out


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "sm90_verify", "pipeline", "--stages", "1"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0 and done.stdout.splitlines()[-1].startswith("verify: PROVED tma-async stages=1")


# ---------------------------------------------------------------- help


def test_help_has_two_groups(capsys):
    """What a user checks with, and what the project shows about itself; every command in one of them."""
    with pytest.raises(SystemExit) as ended:
        main(["--help"])
    text = capsys.readouterr().out
    assert not ended.value.code and text.startswith("usage: verify")
    checks, evidence = text.split("What you check with:")[1].split("What this project shows about itself:")
    listed = [[line.split()[0] for line in part.splitlines() if line.startswith("  ")] for part in (checks, evidence)]
    assert listed[0] == ["pipeline", "epilogue", "mainloop", "gemm", "spec", "log", "replay", "explain"]
    assert listed[1] == ["record", "claims", "mutants", "epilogue"] and "epilogue --frontier" in evidence


@pytest.mark.parametrize("command", [one.name for one in (*CHECKS, *EVIDENCE)])
def test_every_command_explains_its_options(command, capsys):
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    text = capsys.readouterr().out
    assert not ended.value.code and text.startswith(f"usage: verify {command} [-h]")
    assert main([command, "--no-such-option"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("verify: error:") and len(error.splitlines()) == 1


@pytest.mark.parametrize("relative", [False, True])
def test_a_mistake_in_a_class_body_has_its_line_however_the_file_is_named(tmp_path, monkeypatch, capsys, relative):
    text = "from sm90_verify import Pipeline, tile\n\n\nclass Own(Pipeline):\n    a = tile(1, 2, 3)\n"
    (tmp_path / "own.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    assert main(["spec", "own.py" if relative else str(tmp_path / "own.py")]) == 2
    assert "own.py:5: TypeError" in capsys.readouterr().err


def test_a_folder_is_no_file(tmp_path, capsys):
    assert main(["spec", str(tmp_path)]) == 2
    assert "a folder: name a Python file in it" in capsys.readouterr().err
