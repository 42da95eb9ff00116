"""`verify log --against`: the ten logs do, warp by warp, what the models of their configurations do, and no others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from log_edits import LOGS, as_text, config_of, path_of, records_of, renumbered, with_value

from sm90_verify.cli.main import main
from sm90_verify.spec.cutlass.collective import SCHEDULES


def model_of(log: str) -> list[str]:
    """The words for the model of a log's configuration."""
    config = config_of(log)
    cta, grid = ([int(one) for one in config[name].split("x")] for name in ("tile", "cluster"))
    schedule = SCHEDULES[int(config["kind"])]
    tiles = int(config["M"]) * int(config["N"]) // (cta[0] * cta[1] * grid[0] * grid[1])
    words = ["gemm", "--schedule", schedule, "--k-tiles", str(int(config["K"]) // cta[2])]
    words += ["--stages", config["MainStages"], "--stages-c", config["StagesC"], "--stages-d", config["StagesD"]]
    words += ["--cluster", config["cluster"]]
    words += ["--reuse-smem-c" if config["ReuseSmemC"] == "1" else "--no-reuse-smem-c"]
    words += ["--delay-tma-store" if config["DelayTmaStore"] == "1" else "--no-delay-tma-store"]
    return [
        *words,
        *([] if schedule == "ws" else ["--tiles", str(tiles // 2)]),
        *(["--void-c"] if config["source"] == "0" else []),
    ]


@pytest.mark.parametrize("log", LOGS)
def test_the_ten_logs_are_what_their_models_do(log: str, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["log", path_of(log), "--against", *model_of(log)])
    out = capsys.readouterr().out
    assert code == 0 and "verify: ALLOWED" in out and "against gemm-" in out, out


@pytest.mark.parametrize(
    ("log", "words", "line"),
    [
        ("ws", ["--k-tiles", "15"], True),
        ("ws", ["--stages", "5"], True),
        ("ws", ["--mmas-in-flight", "2"], True),
        ("pp", ["--stages-c", "3"], True),
        ("coop", ["--tiles", "1"], True),
    ],
)
def test_another_model_is_told_by_its_first_difference(
    log: str, words: list[str], line: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", path_of(log), "--against", *model_of(log), *words]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert "error[sequence]" in out and "(line " in out and ".py:" in out


CHANGES = {
    "parity": ("cluster_barrier_wait", 20, "phase", lambda value: 1 - value),
    "bytes": ("cluster_transaction_barrier_arrive_and_expect_tx", 5, "transaction_bytes", lambda value: value + 16),
    "threads": ("named_barrier_arrive_and_wait", 9, "num_threads", lambda value: value + 32),
    "groups": ("warpgroup_wait", 7, "n", lambda value: value + 1),
    "barrier": ("cluster_barrier_arrive_cluster", 12, "smem_addr", lambda value: value + 8),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_change_of_the_log_is_told_with_its_line(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kind, number, field, change = CHANGES[name]
    records = list(records_of("ws"))
    index = [i for i, one in enumerate(records) if one.kind == kind][number]
    place = {"phase": 1, "transaction_bytes": 1, "num_threads": 0, "n": 0, "smem_addr": 0}[field]
    records[index] = with_value(records[index], field, change(records[index].values[place]))
    path = tmp_path / "edited.log"
    path.write_text(as_text(renumbered(records)))
    assert main(["log", str(path), "--against", *model_of("ws")]) == 1
    assert f"(line {index + 2})" in capsys.readouterr().out.replace("\n           ", " ")


def test_entries_that_are_swapped_or_left_out_are_told(tmp_path: Path) -> None:
    records = list(records_of("ws_void"))
    own = [i for i, one in enumerate(records) if one.warp == 4]
    wait = next(i for i in own if records[i].kind == "warpgroup_wait")
    release = next(i for i in own if i > wait)
    swapped = list(records)
    swapped[wait], swapped[release] = (
        replace(records[release], time=records[wait].time),
        replace(records[wait], time=records[release].time),
    )
    for number, edited in enumerate((swapped, [*records[:release], *records[release + 1 :]])):
        path = tmp_path / f"{number}.log"
        path.write_text(as_text(renumbered(edited)))
        assert main(["log", str(path), "--against", *model_of("ws_void")]) == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name a model: gemm, mainloop, epilogue, pipeline"),
        (["nothing"], "name a model"),
        (["gemm"], "--schedule"),
        (["gemm", "--schedule", "ws", "--tiles", "2"], "the ws kernel has one output tile"),
        (["pipeline", "--stages", "2"], "no single sequence"),
        (["pipeline", "nothing", "--stages", "2"], "no pipeline class 'nothing'"),
        (["gemm", "--schedule", "pingpong", "--tiles", "forever"], "no single sequence"),
    ],
)
def test_models_that_do_not_fit_are_told_in_a_line(
    words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["log", path_of("ws_void"), "--against", *words]) == 2
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1 and said in err


def test_bounds_mean_nothing_to_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["log", path_of("ws_void"), "--timeout", "5", "--against", *model_of("ws_void")]) == 2
    assert "mean nothing with --against" in capsys.readouterr().err
