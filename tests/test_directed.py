"""Pipelines on an emulated GPU: what is recorded of them is allowed, and counterexamples happen."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import pytest
from emulated_executor import EmulatedExecutor

from checker.cli import main
from checker.hardware import record
from checker.hardware import replay as on_gpu
from checker.hardware.device import Gpu
from checker.hardware.directed import wrong_data
from checker.hardware.held import hold
from checker.hardware.lower import lower
from checker.hardware.recording import recorded
from checker.hardware.suite import kernels, pipelines

CORPUS = Path(__file__).parent / "corpus"
GPU = Gpu("emulated", "0.0", "0.0", 1)


@pytest.mark.parametrize("kernel", kernels())
def test_what_an_emulated_gpu_does_is_allowed(kernel):
    """The emulation knows mbarriers from PTX and nothing of the specification."""
    for pipeline in pipelines(kernel)[::5]:
        plan = lower(pipeline)
        done = EmulatedExecutor(plan).run(1)
        held = hold(recorded(asdict(GPU), plan, done, record.resolution(plan.cluster)))
        assert held.refused == [] and held.hung == 0 and held.accepted == 1
        assert wrong_data(plan, done[0]) == ""


@pytest.mark.parametrize(
    ("file", "kernel", "finds", "said"),
    [
        ("arrivals.py", "ExpectTxWithoutArrival", "deadlock", "2 of these hang, 2 of them with consumer stuck"),
        ("clusters.py", "ReceiverNeverArmed", "deadlock", "2 of these hang, 2 of them with "),
        ("named_barriers.py", "CountsTwoWarpsOfFive", "deadlock", "2 of these hang, 2 of them with "),
        ("parity.py", "LeaderReleasesForItsWarps trips=3", "deadlock", "2 of these hang, 2 of them with "),
        (
            "clusters.py",
            "MulticastReleasedLocally",
            "race",
            "2 of 2 runs, consumer0 held back; consumer0 found b",
        ),
        ("named_barriers.py", "ReadsWhatAnotherWarpWrote", "race", "wrong data in 2 of 2 runs"),
        ("groups.py", "ReleasesBeforeTheMmaIsDone stages=1 trips=2", "race", "wrong data in 2 of 2 runs"),
        ("transactions.py", "ReadsBeforeItWaits", "race", "wrong data in 2 of 2 runs"),
    ],
)
def test_a_counterexample_happens_on_an_emulated_gpu(file, kernel, finds, said, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(on_gpu, "Executor", EmulatedExecutor)
    trace = str(tmp_path / "trace.json")
    kernel, *settings = kernel.split(" ")
    arguments = ["spec", f"{CORPUS / file}:{kernel}", "--property", finds, "--format", "json", "-o", trace]
    arguments += [word for setting in settings for word in ("--set", setting)]
    assert main(arguments) == 1
    assert main(["replay", trace, "--hardware", "--runs", "2"]) == 1
    out = " ".join(capsys.readouterr().out.split())
    assert said in out
    assert finds == "race" or "on the GPU: 2 of 2 runs took the schedule to its end" in out
