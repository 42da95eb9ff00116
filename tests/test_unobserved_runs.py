"""Arrivals in phases that nobody has seen begin: in logs and recordings, and what a GPU did with them."""

from __future__ import annotations

import json
import linecache
import re
from dataclasses import replace
from pathlib import Path

import pytest
from corpus.unobserved import HandsOnBeforeItLooks
from needs import needs_gpu
from short_logs import Entry
from short_logs import check as check_entries
from simulated import GPU, changed, simulated

from sm90_verify import explain
from sm90_verify.cli.main import main
from sm90_verify.evidence.hardware import unobserved
from sm90_verify.evidence.hardware.unobserved import WAYS, UnobservedCount, count, read_unobserved
from sm90_verify.frontends.bounds import bounded
from sm90_verify.gpu.device import Gpu
from sm90_verify.recordings.acceptance import check_recording
from sm90_verify.recordings.lower import lower
from sm90_verify.recordings.recording import read, recorded, write
from sm90_verify.result import ALLOWED
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.model.compile import compile_kernel

UNOBSERVED = "unobserved-phase"
CORPUS = Path(__file__).parent / "corpus" / "unobserved.py"
RECORDED = Path(__file__).parent / "recordings" / "unobserved.jsonl.gz"

# ---------------------------------------------------------------- recordings


def recording_of(pipeline, runs=4):
    plan = lower(trace(pipeline))
    machine = compile_kernel(plan.kernel)
    return recorded(GPU, plan, [simulated(plan, machine, seed) for seed in range(runs)], 0, str(CORPUS), pipeline.name)


def test_a_run_that_makes_one_is_allowed_and_noted():
    result = check_recording(recording_of(HandsOnBeforeItLooks(trips=6)))
    assert result.verdict == ALLOWED and UNOBSERVED not in {one.id for one in result.findings}
    (note,) = result.noted
    assert note.property == UNOBSERVED and ".arrive()" in linecache.getline(note.file, note.line)
    assert any("4 of 4 runs have an order" in text for text in result.notes)


def test_a_run_that_need_not_have_made_one_proves_that_none_was_made():
    result = check_recording(recording_of(HandsOnBeforeItLooks(trips=6, looks=True)))
    assert result.verdict == ALLOWED and result.noted == () and UNOBSERVED in {one.id for one in result.findings}


def test_a_strict_pipeline_does_not_allow_it():
    result = check_recording(recording_of(HandsOnBeforeItLooks(trips=6, strict=True)))
    assert result.noted == () and result.trace is not None


def test_a_run_without_any_order_is_told_as_if_it_were_no_violation():
    whole = recording_of(HandsOnBeforeItLooks(trips=6))
    early = changed(whole.runs[0], "second", 22, before=0, after=1)  # its last look at `done`
    result = check_recording(replace(whole, runs=(early,)))
    assert result.trace is not None and result.trace.property != UNOBSERVED and result.noted == ()


def test_a_recording_from_before_may_name_the_parameter_that_is_gone(tmp_path):
    path = str(tmp_path / "x.jsonl.gz")
    whole = recording_of(HandsOnBeforeItLooks(trips=2), runs=1)
    write([replace(whole, parameters={**whole.parameters, "observation": True})], path)
    (one,) = read(path)
    assert "observation" not in one.parameters and check_recording(one).verdict == ALLOWED


def test_a_trace_from_before_may_name_the_parameter_that_is_gone(tmp_path, capsys):
    path = tmp_path / "trace.json"
    model = f"{CORPUS}:HandsOnBeforeItLooks"
    assert main(["spec", model, "--set", "strict=true", "--format", "json", "-o", str(path)]) == 1
    written = json.loads(path.read_text())
    written["model"]["parameters"]["observation"] = True
    path.write_text(json.dumps(written))
    assert main(["replay", str(path)]) == 1
    assert f"error[{UNOBSERVED}]" in capsys.readouterr().out


# ---------------------------------------------------------------- logs

ARRIVES: Entry = (0, "cluster_barrier_arrive", (1024,))
LOG: list[Entry] = [
    (0, "cluster_barrier_init", (1024, 2)),
    (0, "fence_barrier_init", ()),
    (0, "syncthreads", ()),
    (4, "syncthreads", ()),
    ARRIVES,
    (4, "cluster_barrier_arrive", (1024,)),
    ARRIVES,
    (4, "cluster_barrier_wait", (1024, 0)),
    (4, "cluster_barrier_arrive", (1024,)),
    (4, "cluster_barrier_wait", (1024, 1)),
    (0, "cluster_barrier_wait", (1024, 1)),
]


def test_a_log_that_shows_one_is_allowed_and_noted():
    result = check_entries(LOG)
    (note,) = result.noted
    assert result.verdict == ALLOWED and (note.property, note.line, note.role) == (UNOBSERVED, 8, "warp 0 (idle)")
    assert UNOBSERVED not in {one.id for one in result.findings}
    seen = [*LOG[:6], LOG[7], LOG[6], *LOG[8:]]
    assert check_entries(seen).noted == () and UNOBSERVED in {one.id for one in check_entries(seen).findings}


def test_one_property_of_a_log():
    result = check_entries(LOG)
    assert len(bounded(result, ["race", UNOBSERVED]).noted) == 1 and bounded(result, ["race"]).noted == ()
    with pytest.raises(SpecError, match="all that was asked, and no more than a note"):
        bounded(result, [UNOBSERVED])


# ---------------------------------------------------------------- what a GPU did


def test_what_a_gpu_did_is_what_is_said_of_it():
    found = read_unobserved(str(RECORDED))
    assert [what for what, _ in found] == [way.what for way in WAYS]
    assert all(one.wrong == 0 and one.unobserved >= 10**6 for _, one in found)
    assert all(one.phases - one.unobserved <= 132 for _, one in found)  # the first phase of each barrier
    millions = f"{sum(one.unobserved for _, one in found) / 1e6:.1f} million"
    pages = (Path(__file__).parent.parent / name for name in ("README.md", "docs/results.md"))
    assert all(millions in text for text in (explain(UNOBSERVED), *(page.read_text() for page in pages)))


@pytest.mark.parametrize("field", ["not_complete", "too_early", "wrong_pending", "gave_up"])
def test_what_is_not_as_it_should_be_is_told(monkeypatch, tmp_path, field):
    right = UnobservedCount(10, 9, 0, 0, 0, 0)
    monkeypatch.setattr(unobserved, "gpu", lambda: Gpu("simulated", "1.0", "1.0", 4))
    monkeypatch.setattr(unobserved, "count", lambda way, phases, ctas: right)
    path = str(tmp_path / "x.jsonl.gz")
    assert unobserved.record_unobserved(path) == read_unobserved(path)
    monkeypatch.setattr(unobserved, "count", lambda way, phases, ctas: replace(right, **{field: way.mode == 1}))
    with pytest.raises(SpecError, match=re.escape(WAYS[1].what)):
        unobserved.record_unobserved(path)
    assert unobserved.main(["--to", path]) == 1


@needs_gpu
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.what)
def test_a_gpu_counts_arrivals_in_phases_that_nobody_saw_begin(way):
    found = count(way, 200, 8)
    assert found.wrong == 0 and found.phases == 200 * (8 // way.ctas) and found.unobserved == 199 * (8 // way.ctas)
