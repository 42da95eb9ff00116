"""Pipelines on an emulated GPU: what is recorded of them is allowed, and counterexamples happen."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path

import pytest
from emulated_executor import EmulatedExecutor

from sm90_verify.cli.main import main
from sm90_verify.gpu import record
from sm90_verify.gpu import replay as on_gpu
from sm90_verify.gpu.device import Gpu
from sm90_verify.gpu.wrong import wrong_data
from sm90_verify.recordings.acceptance import acceptance_of
from sm90_verify.recordings.lower import lower
from sm90_verify.recordings.recording import recorded
from sm90_verify.spec.cutlass.catalogue import recordable, to_record
from sm90_verify.spec.language.declarations import barrier, role, tile
from sm90_verify.spec.language.pipeline import Pipeline
from sm90_verify.spec.language.walk import trace

CORPUS = Path(__file__).parent / "corpus"
GPU = Gpu("emulated", "0.0", "0.0", 1)


@pytest.mark.parametrize("kernel", recordable())
def test_what_an_emulated_gpu_does_is_allowed(kernel):
    """The emulation knows mbarriers from PTX and nothing of the specification."""
    row = to_record(kernel)
    for pipeline in [row.kernel(**sizes) for sizes in row.record][::5]:
        plan = lower(trace(pipeline))
        done = EmulatedExecutor(plan).run(1)
        held = acceptance_of(recorded(asdict(GPU), plan, done, record.resolution(plan.kernel.launch.ctas)))
        assert held.refused == [] and held.hung == 0 and held.accepted == 1
        assert wrong_data(plan, done[0]) == ""


class LeavesAnMmaInFlight(Pipeline):
    """One MMA is waited for, the other never."""

    full = barrier(arrivals=1)
    a = tile(bytes=1024, slots=2)

    @role(warps=1)
    def producer(self):
        yield self.full.arrive_expect_tx(2048)
        for slot in range(2):
            yield self.a[slot].load(signals=self.full, tag=slot)

    @role(warpgroups=1)
    def consumer(self):
        yield self.full.wait(0)
        for slot in range(2):
            yield self.a[slot].mma(tag=slot)
        yield self.mma_wait(1)


def test_an_mma_that_is_never_waited_for_is_in_flight_to_the_end():
    plan = lower(trace(LeavesAnMmaInFlight()))
    (run,) = EmulatedExecutor(plan).run(1)
    consumer = run.roles[1]
    assert [event.node for event in consumer.events] == [0, 1, 2, 3, 4] and len(plan.nodes["consumer"]) == 5
    assert consumer.events[-1].reads == (("a[1]", 2, 2),) and wrong_data(plan, run) == ""
    last = replace(consumer.events[-1], reads=(("a[1]", 1, 1),))
    torn = replace(run, roles=(run.roles[0], replace(consumer, events=(*consumer.events[:-1], last))))
    assert wrong_data(plan, torn) == "a[1] changed while the MMA of consumer read it"
    kept = recorded(asdict(GPU), plan, [run], 0)
    assert [event.node for event in kept.runs[0].roles[1].events] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("file", "kernel", "finds", "said"),
    [
        ("arrivals.py", "ExpectTxWithoutArrival", "deadlock", "2 of these hang, 2 of them with consumer stuck"),
        ("clusters.py", "ReceiverNeverArmed", "deadlock", "2 of these hang, 2 of them with "),
        ("named_barriers.py", "CountsTwoWarpsOfFive", "deadlock", "2 of these hang, 2 of them with "),
        ("parity.py", "LeaderReleasesForItsWarps trips=3", "deadlock", "2 of these hang, 2 of them with "),
        ("clusters.py", "MulticastReleasedLocally", "race", "wrong data in 2 of 2 runs; consumer0 found b"),
        ("named_barriers.py", "ReadsWhatAnotherWarpWrote", "race", "wrong data in 2 of 2 runs"),
        ("groups.py", "ReleasesBeforeTheMmaIsDone stages=1 trips=2", "race", "wrong data in 2 of 2 runs"),
        ("transactions.py", "ReadsBeforeItWaits", "race", "2 of 2 runs, simt held back; consumer found nothing"),
        ("epilogue.py", "OnlyTheIssuerWaits syncs=True waits=False", "race", "2 runs, copies in flight made late"),
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
