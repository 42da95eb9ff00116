"""verify as scripts use it: exit codes, the last line, JSON, what it says of several models, and its help."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from commands import GOOD, HANG, LOG, RACE, ROOT, run

from sm90_verify.cli.main import main
from sm90_verify.cli.usage import CHECKS, EVIDENCE
from sm90_verify.result import PROPERTIES


def test_a_proof_is_one_line_per_property_and_the_summary(capsys):
    code, out, err = run("pipeline", "--stages", "4", capsys=capsys)
    *properties, scope, engine, summary = out.splitlines()
    assert code == 0 and err == "" and scope == "scope   every trip count"
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
    assert engine == "engine  order: all schedules do what one of them does, which was looked at"
    assert summary.startswith("verify: PROVED tma-async stages=4 consumers=1  320 events  ")
    searched = run("pipeline", "--stages", "4", "--engine", "search", capsys=capsys)[1].splitlines()
    assert searched[:-2] == properties
    assert searched[-1].startswith("verify: PROVED tma-async stages=4 consumers=1  540 states  ")


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
    assert answer["verdict"] == "violated" and answer["engine"] == "order" and answer["scope"] == {"trips": "all"}
    assert {"version", "states", "transitions", "seconds", "properties", "trace"} <= set(answer)
    assert answer["asked"] == "default" and answer["because"] and answer["events"] and answer["shortest"] is True
    verdicts = {entry["id"]: entry["verdict"] for entry in answer["properties"]}
    assert verdicts["race"] == "violated" and verdicts["deadlock"] == "proved"
    assert set(verdicts) <= set(PROPERTIES)
    trace = answer["trace"]
    assert trace["property"] == "race" and trace["because"]
    assert {"role", "op", "object", "file", "line", "changes"} <= set(trace["steps"][0])
    _, out, _ = run("pipeline", "--stages", "2", "--format", "json", capsys=capsys)
    assert json.loads(out)["trace"] is None and json.loads(out)["verdict"] == "proved"


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
    code, out, _ = run("pipeline", "--stages", "4", "--limit", "400", "--engine", "search", capsys=capsys)
    assert code == 3 and "the limit of 400 states (--limit)" in " ".join(out.split())
    assert run("pipeline", "--stages", "4", "--limit", "400", capsys=capsys)[0] == 0  # order visits none


def test_one_property(capsys):
    code, out, _ = run("pipeline", "--property", "race", "--property", "deadlock", capsys=capsys)
    assert code == 0 and out.splitlines()[:-3] == ["proved  deadlock", "proved  race"]


def test_parameters_of_a_specification(capsys, spec_file):
    path = spec_file(GOOD)
    code, out, _ = run("spec", f"{path}:DoubleBuffer", "--stages", "3", "--set", "trips=2", capsys=capsys)
    assert code == 0 and "DoubleBuffer stages=3 trips=2" in out
    code, _, err = run("spec", path, "--set", "depth=2", capsys=capsys)
    assert code == 2 and "has no parameter 'depth'" in err
    for given, said in (
        ("strict=maybe", "'strict' is True or False"),
        ("stages=all", "a whole number from 1 to 64"),
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


def test_logs_are_checked_by_the_command(capsys, tmp_path):
    logs = sorted(str(path) for path in Path(LOG).iterdir())
    assert len(logs) == 10
    code, out, err = run("log", *logs[:2], capsys=capsys)
    assert code == 0 and err == "" and out.count("verify: ALLOWED") == 2 and "mainloop" in out
    assert run("log", logs[0], "--property", "race", capsys=capsys)[1].count("allowed  ") == 1
    assert run("log", logs[0], "--limit", "10", capsys=capsys)[0] == 3
    assert run("log", logs[0], "--property", "register-pool", capsys=capsys)[0] == 2
    code, out, _ = run("log", logs[0], "--format", "json", capsys=capsys)
    assert code == 0 and json.loads(out)["verdict"] == "allowed" and json.loads(out)["table"]
    noise = tmp_path / "noise.log"
    noise.write_bytes(bytes(range(256)) * 9)
    code, out, err = run("log", str(noise), capsys=capsys)
    assert code == 2 and out == "" and err.count("\n") == 1


@pytest.mark.parametrize("id", PROPERTIES)
def test_every_property_is_explained(id, capsys):
    code, out, _ = run("explain", id, capsys=capsys)
    assert code == 0 and out.startswith(f"{id}: ") and "PTX ISA" in out and "Usual fix: " in out


def test_all_properties_are_listed_in_a_line_each(capsys):
    code, out, _ = run("explain", capsys=capsys)
    assert code == 0 and [line.split()[0] for line in out.splitlines()] == list(PROPERTIES)


def test_the_module_is_the_command():
    done = subprocess.run(
        [sys.executable, "-m", "sm90_verify", "pipeline", "--stages", "1"],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0 and done.stdout.splitlines()[-1].startswith("verify: PROVED tma-async stages=1")


def test_help_has_two_groups(capsys):
    """What a user checks with, and what the project shows about itself; every command in one of them."""
    code, text, _ = run("--help", capsys=capsys)
    assert code == 0 and text.startswith("usage: verify")
    checks, evidence = text.split("What you check with:")[1].split("What this project shows about itself:")
    listed = [[line.split()[0] for line in part.splitlines() if line.startswith("  ")] for part in (checks, evidence)]
    assert listed[0] == ["pipeline", "epilogue", "mainloop", "gemm", "spec", "log", "ptx", "hang", "replay", "explain"]
    assert listed[1] == ["record", "claims", "mutants", "epilogue"] and "epilogue --frontier" in evidence


@pytest.mark.parametrize("command", [one.name for one in (*CHECKS, *EVIDENCE)])
def test_every_command_explains_its_options(command, capsys):
    code, text, _ = run(command, "--help", capsys=capsys)
    assert code == 0 and text.startswith(f"usage: verify {command} [-h]")
    assert main([command, "--no-such-option"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("verify: error:") and len(error.splitlines()) == 1
