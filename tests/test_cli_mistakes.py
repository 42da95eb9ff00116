"""Every mistake is one line and exit code 2: in a command, in a specification, and in the program itself."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from commands import GOOD, LOG, RACE, run

from sm90_verify.cli.main import main

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
    (("pipeline", "--trips", "x"), "--trips: x: use a whole number from 0 to 10000, or forever"),
    (("pipeline", "--stages", "٣"), "--stages: ٣: use a whole number from 1 to 64"),
    (("pipeline", "--stages", "1_0"), "--stages: 1_0: use a whole number from 1 to 64"),
    (("pipeline", "--cluster", "²x1"), "--cluster: ²x1: use XxY with 1 to 16 CTAs"),
    (("pipeline", "--timeout", "٣"), "--timeout: ٣: use a number of seconds above 0"),
    (("gemm", "--schedule", "ws", "--tile", "²x1x1"), "--tile: ²x1x1: use MxNxK with sizes from 1 to 1024"),
    (("spec", "x.py", "--set", "stages=65"), "--set: stages=65: use a whole number from 1 to 64"),
    (("spec", "x.py", "--set", "stages=0"), "--set: stages=0: use a whole number from 1 to 64"),
    (("spec", "x.py", "--set", "stages=two"), "--set: stages=two: use a whole number from 1 to 64"),
    (("spec", "x.py", "--set", "stages=true"), "--set: stages=true: use a whole number from 1 to 64"),
    (("spec", "x.py", "--set", "stages=²"), "--set: stages=²: use a whole number from 1 to 64"),
    (("spec", "x.py", "--set", "depth=²"), "--set: depth=²: write a number in at most 100 digits 0 to 9"),
    (("spec", "x.py", "--set", f"depth={'1' * 5000}"), "write a number in at most 100 digits 0 to 9"),
    (("spec", "x.py", "--stages", "2", "--set", "stages=3"), "--stages 2 and --set stages=3: give one of them"),
    (("spec", "x.py", "--trips", "2", "--set", "trips=2"), "--trips 2 and --set trips=2: give one of them"),
    (("spec", "x.py:"), "x.py:: name a class behind the colon, or leave it out for all of the file"),
    (("pipeline", "--timeout", "0"), "--timeout: 0: use a number of seconds above 0"),
    (("pipeline", "tma-store", "--producers", "2"), "--producers: tma-store has no producers"),
    (("pipeline", "--property", "hang"), "unknown property 'hang': use one of deadlock, race,"),
    (("pipeline", "async", "--property", "tx-count"), "nothing to check: tx-count cannot be violated by async"),
    (("pipeline", "--engine", "magic"), "--engine: no engine 'magic': use search, order, smt, or several joined by +"),
    (("spec", "nowhere.py"), "nowhere.py: no such file"),
    (("log", "nowhere.log"), "error: nowhere.log: No such file or directory: give a synclog or a recording"),
    (("log", "/"), "error: /: Is a directory: give a synclog or a recording"),
    (("replay", "nowhere.json"), "nowhere.json: No such file"),
    (("pipeline", "--memory", "0.5"), "--memory: 0.5: use a whole number of GiB from 1 to 4096"),
    (("explain", "hang"), "no property 'hang': use one of"),
    (("epilogue", "--processes", "2"), "--processes means nothing without --frontier: leave it out, or add --frontier"),
    (("pipeline", "-o", "/nowhere/x"), "-o /nowhere/x: there is no folder /nowhere: make it, or name another file"),
    (("spec", "nowhere.py", "-o", "/nowhere/x"), "-o /nowhere/x: there is no folder"),  # before anything is looked for
    (("pipeline", "-o", "/"), "-o /: is a folder"),
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


def test_a_file_that_cannot_be_checked_leaves_the_others(capsys, spec_file, tmp_path):
    good, target = spec_file(GOOD), tmp_path / "out.json"
    code, out, err = run("spec", "nowhere.py", good, "elsewhere.py", "nowhere.py", capsys=capsys)
    assert (code, err.count("\n")) == (2, 2) and "verify: PROVED DoubleBuffer" in out
    log = str(Path(LOG) / "ws_void.log.xz")
    code, out, err = run("log", "nowhere.log", log, capsys=capsys)
    assert (code, err.count("\n")) == (2, 1) and "verify: ALLOWED" in out
    assert main(["spec", "nowhere.py", good, "--format", "json", "-o", str(target)]) == 2
    assert json.loads(target.read_text())["verdict"] == "proved"
    target.unlink()
    assert main(["spec", "nowhere.py", "--format", "json", "-o", str(target)]) == 2 and not target.exists()


def test_an_internal_error_exits_2(monkeypatch, capsys):
    monkeypatch.setattr("sm90_verify.engines.check.check", lambda *_, **__: 1 / 0)
    code, _, err = run("pipeline", capsys=capsys)
    assert code == 2 and "internal error, ZeroDivisionError" in err and err.count("\n") == 1


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
