"""verify replay: a saved trace is executed again, and a file that holds none is refused with one line."""

from __future__ import annotations

import json

import pytest
from commands import GOOD, HANG, RACE, run

from sm90_verify.cli.main import main
from sm90_verify.counterexample.replay import replay
from sm90_verify.report.text import render


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
    assert code == 2 and "not a JSON file" in err and f"-o {target}" not in err  # which may be a kernel


@pytest.mark.parametrize("field", ["file", "class"])
@pytest.mark.parametrize("value", [3, 0, True, None, 10**30, 1.5, [], ["x"], {}], ids=repr)
def test_a_replay_of_a_file_or_class_that_is_no_name(field, value, spec_file, tmp_path, capsys):
    target = tmp_path / "trace.json"
    main(["spec", spec_file(HANG), "--format", "json", "-o", str(target)])
    written = json.loads(target.read_text())
    written["model"][field] = value
    target.write_text(json.dumps(written))
    code, out, err = run("replay", str(target), capsys=capsys)
    assert (code, out, err.count("\n")) == (2, "", 1) and "internal" not in err
