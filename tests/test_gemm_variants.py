"""Wrong variants of the GEMM kernels: what is predicted of them, and what a GPU did with them and the right ones."""

from __future__ import annotations

import gzip
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from needs import needs_gpu

from sm90_verify.evidence.hardware.gemm import variants as gemm_variants
from sm90_verify.evidence.hardware.gemm.config import WRONG
from sm90_verify.evidence.hardware.gemm.models import MODELS
from sm90_verify.evidence.hardware.gemm.record import SOURCE, read_reactions, sizes, write_reactions
from sm90_verify.evidence.hardware.gemm.variants import GemmPrediction, GemmReaction, React, contradicts, variants
from sm90_verify.recordings.acceptance import acceptance_of, pipeline_of
from sm90_verify.recordings.lower import lower
from sm90_verify.recordings.recording import read
from sm90_verify.spec.cutlass.gemm import GEMMS
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.walk import trace
from sm90_verify.spec.ptx import operations as op

RECORDINGS = Path(__file__).parent / "recordings"
predict = cache(gemm_variants.predict)
PINGPONG = ("order_swapped", "no_mma_order", "no_epilogue_order")


def test_all_that_the_kernel_can_do_wrong_has_a_model_and_is_run():
    assert list(MODELS) == list(WRONG[1:])
    for schedule in GEMMS:
        run = {one.config.wrong for one in variants() if one.config.schedule == schedule}
        missing = set(WRONG[1:]) - run
        assert missing <= {"no_load_tail", *PINGPONG}
    assert {one.config.wrong for one in variants()} >= set(WRONG[1:])


@cache
def did():
    """What a GPU did with each wrong kernel, by label."""
    return {one.label: reaction for one, reaction in read_reactions(str(RECORDINGS / "gemm_mistakes.jsonl.gz"))}


@pytest.mark.parametrize("variant", list(variants())[::2], ids=lambda one: one.label)
def test_what_is_wrong_is_found_by_the_search_and_is_what_the_gpu_did(variant):
    """Of every other one; `verify record` predicts all of them again."""
    found = predict(variant)
    assert contradicts(found, variant, did()[variant.label]) == ""
    assert found.violations
    match variant.shows:
        case "hang":
            assert "deadlock" in found.violations and found.stuck
        case "wrong":
            assert found.wrong
        case _:
            assert set(found.violations) in ({"race"}, {"missing-fence"})


def test_the_right_kernels_with_the_same_sizes_are_proved():
    """By the search, or by order where there are too many schedules for it."""
    seen = set()
    for variant in variants():
        twin = variant.twin
        if twin is None:
            continue
        twin = replace(twin, config=replace(twin.config, repeat=0))
        key = (twin.config, twin.k_tiles, twin.tiles)
        if key not in seen:
            seen.add(key)
            found = predict(twin)
            assert found.complete and not found.violations, twin.label
    assert len(seen) >= 6


REACTION = GemmReaction(100, 0, 0, (), 0, 0, "", 0, 0)
HANG, RACE = (next(one for one in variants() if one.shows == shows) for shows in ("hang", "wrong"))


@pytest.mark.parametrize(
    ("variant", "reaction", "why"),
    [
        (HANG, REACTION, "0 of 100 runs hang"),
        (HANG, replace(REACTION, hangs=100, wrong=100, stuck=((("consumer.0",), 100),)), "stuck are to be"),
        (RACE, replace(REACTION, wrong=94), "94 of 100 runs are wrong"),
        (RACE, replace(REACTION, wrong=100, twin_wrong=1), "the right kernel"),
        (RACE, replace(REACTION, wrong=100, twin_hangs=1), "the right kernel"),
        (RACE, replace(REACTION, wrong=100, hangs=1), "no deadlock is predicted"),
        (RACE, replace(REACTION, wrong=100, differs=1, because="x"), "not what the model"),
    ],
)
def test_what_contradicts_a_prediction(variant, reaction, why):
    assert why in contradicts(predict(variant), variant, reaction)


def test_what_agrees_with_a_prediction():
    prediction = predict(HANG)
    hangs = replace(REACTION, hangs=100, wrong=100, stuck=((prediction.stuck, 100),))
    assert contradicts(prediction, HANG, hangs) == ""
    assert contradicts(predict(RACE), RACE, replace(REACTION, wrong=95)) == ""
    assert "no race" in contradicts(GemmPrediction({}, True), replace(RACE, shows=""), replace(REACTION, wrong=1))
    assert "no deadlock" in contradicts(GemmPrediction({}, True), replace(RACE, shows=""), replace(REACTION, hangs=1))
    assert contradicts(GemmPrediction({}, False), replace(RACE, shows=""), replace(REACTION, hangs=1)) == ""


# ---------------------------------------------------------------- what a GPU did


@pytest.fixture(scope="module")
def recordings():
    return read(str(RECORDINGS / "gemm.jsonl.gz"))


def test_every_size_was_recorded(recordings):
    models = [size.config.model(size.k_tiles, size.tiles, collective=False) for size in sizes()]
    wanted = [(one.name, one.parameters()) for one in models]
    assert sorted(wanted, key=str) == sorted(((one.model, one.parameters) for one in recordings), key=str)
    assert all(one.gpu["kernel"] == SOURCE for one in recordings)
    runs = {schedule: sum(len(one.runs) for one in recordings if one.model == f"gemm-{schedule}") for schedule in GEMMS}
    assert min(runs.values()) >= 200


@pytest.mark.parametrize("schedule", GEMMS)
def test_the_specification_allows_every_recorded_run(recordings, schedule):
    taken = steps = waited = 0
    for one in recordings[::3]:
        if one.model == f"gemm-{schedule}":
            found = acceptance_of(one)
            assert found.accepted == found.runs and not found.hung, found.refused[0][1].because
            taken, steps, waited = taken + len(found.taken), steps + found.steps, waited + len(found.waited)
    assert taken > 0.98 * steps and waited


@pytest.mark.parametrize("schedule", GEMMS)
def test_a_recorded_run_that_could_not_be_is_refused(recordings, schedule):
    """A k-tile cannot be multiplied before its copies have begun."""
    one = next(one for one in recordings if one.model == f"gemm-{schedule}" and one.parameters["k_tiles"] == 5)
    plan = lower(trace(pipeline_of(one)))
    loader = "load_warp.0" if schedule == "ws" else "mainloop_load_warp.0"
    (run, *_) = one.runs
    loads = next(role for role in run.roles if role.name == loader)
    start = next(event for event in loads.events if isinstance(plan.nodes[loader][event.node].operation, op.Load))
    roles = []
    for role in run.roles:
        events = list(role.events)
        if role.name.startswith("consumer"):
            nodes = plan.nodes[role.name]
            mmas = [k for k, event in enumerate(events) if getattr(nodes[event.node].operation, "kind", "") == "mma"]
            for k in range(mmas[0] + 1 if mmas else 0):
                events[k] = replace(events[k], before=start.before - 100 + k, after=start.before - 99 + k)
        roles.append(replace(role, events=tuple(events)))
    assert acceptance_of(replace(one, runs=(replace(run, roles=tuple(roles)),))).accepted == 0


def test_wrong_kernels_showed_on_the_gpu_what_they_are_to_show():
    rows = read_reactions(str(RECORDINGS / "gemm_mistakes.jsonl.gz"))
    assert {one.label for one, _ in rows} == {one.label for one in variants()} == set(did())
    assert all(known in variants() for known, _ in rows)
    shown = [(one.shows, did) for one, did in rows]
    assert all(did.hangs == did.runs for shows, did in shown if shows == "hang")
    assert all(did.wrong >= 95 and did.twin_wrong == did.twin_hangs == 0 for shows, did in shown if shows == "wrong")
    assert sum(shows == "hang" for shows, _ in shown) >= 15 and sum(shows == "wrong" for shows, _ in shown) >= 15


def test_reactions_are_read_as_they_were_written(tmp_path):
    path = str(tmp_path / "x.jsonl.gz")
    one = replace(REACTION, hangs=3, stuck=((("consumer.0", "load_warp.0"), 3),))
    write_reactions([(HANG, one), (replace(RACE, k_tiles=1234), one)], path, machine={"name": "none"})
    assert read_reactions(path) == [(HANG, one)]
    (tmp_path / "x.jsonl.gz").write_bytes(gzip.compress(b'{"kind": "other"}\n'))
    with pytest.raises(SpecError, match="no record"):
        read_reactions(path)


# ---------------------------------------------------------------- on a GPU


@needs_gpu
@pytest.mark.parametrize("variant", list(variants()), ids=lambda one: one.label)
def test_the_gpu_does_what_is_predicted(variant):
    assert contradicts(predict(variant), variant, React(variant).reaction) == ""
