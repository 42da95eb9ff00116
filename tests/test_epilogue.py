"""CUTLASS's TMA epilogue: which stage counts hang, which parts it needs, and what its static assertions let through."""

from __future__ import annotations

import pytest

from sm90_verify.cli.main import main
from sm90_verify.engines.check import check
from sm90_verify.result import PROVED, VIOLATED
from sm90_verify.spec.cutlass.collective import SCHEDULES
from sm90_verify.spec.cutlass.epilogue import Epilogue
from sm90_verify.spec.errors import SpecError


def checked(limit=0, **parameters):
    return check(Epilogue(**parameters), command="epilogue", limit=limit, engine="search")


def violated(**parameters) -> set[str]:
    """What is violated; the limit only cuts the search for the shortest schedule short."""
    return {finding.id for finding in checked(limit=20_000, **parameters).findings if finding.verdict == VIOLATED}


def blocked(result) -> dict[str, str]:
    trace = next(finding.trace for finding in result.findings if finding.id == "deadlock")
    return {entry.role: entry.waits_for for entry in trace.blocked}


SMALL = {"subtiles": 2, "stages_c": 3, "stages_d": 2, "tiles": 2}


@pytest.mark.parametrize("delay", [False, True])
@pytest.mark.parametrize("reuse", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_is_proved(schedule, reuse, delay):
    result = checked(schedule=schedule, reuse_smem_c=reuse, delay_tma_store=delay, **SMALL)
    assert result.verdict == PROVED
    assert result.scope == {"trips": 2}
    asked = {
        "deadlock",
        "race",
        "stale-read",
        "phase-lapped",
        "arrival-count",
        "tx-count",
        "missing-fence",
        "unobserved-phase",
    }
    assert asked <= {finding.id for finding in result.findings}


@pytest.mark.parametrize("schedule", ["ws", "cooperative"])
def test_is_proved_for_every_number_of_tiles(schedule):
    result = checked(schedule=schedule, subtiles=2, stages_c=3, stages_d=2)
    assert result.verdict == PROVED
    assert result.scope == {"trips": "all"}


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("tiles", [0, 1, 3])
def test_is_proved_for_few_tiles(schedule, tiles):
    assert checked(schedule=schedule, subtiles=1, stages_c=2, stages_d=1, tiles=tiles).verdict == PROVED


# ---------------------------------------------------------------- stage counts


@pytest.mark.parametrize("delay", [False, True])
@pytest.mark.parametrize("stages_d", [1, 2, 3])
@pytest.mark.parametrize("stages_c", [1, 2, 3, 4])
def test_reuse_hangs_exactly_with_too_few_stages_of_c(stages_c, stages_d, delay):
    """A stage is released StagesD - 1 stores late, and one more if each store waits for the next subtile."""
    enough = stages_c >= stages_d + delay
    sizes = {"stages_c": stages_c, "stages_d": stages_d, "delay_tma_store": delay, "tiles": 1}
    result = checked(subtiles=stages_c + 2, **sizes)
    if enough:
        assert result.verdict == PROVED
    else:
        assert blocked(result)["epilogue_load_warp.0"].startswith("epi_load.empty")
        assert checked(subtiles=stages_c, **sizes).verdict == PROVED, "a tile that fits needs no release"


@pytest.mark.parametrize("delay", [False, True])
@pytest.mark.parametrize(("stages_c", "stages_d"), [(1, 1), (1, 3), (3, 1), (2, 2)])
def test_two_memories_need_no_relation_of_their_stages(stages_c, stages_d, delay):
    sizes = {"stages_c": stages_c, "stages_d": stages_d, "subtiles": 5, "tiles": 1}
    assert checked(reuse_smem_c=False, delay_tma_store=delay, **sizes).verdict == PROVED


@pytest.mark.parametrize(
    ("stages_d", "subtiles", "hangs"), [(2, 1, False), (3, 1, True), (3, 2, False), (4, 2, True), (4, 3, False)]
)
def test_one_store_tail_for_several_tiles_can_release_too_little(stages_d, subtiles, hangs):
    """store_tail releases min(StagesD - 1, subtiles of one tile) stages (:933), but after several tiles StagesD - 1 are
    held back. No assertion asks for StagesD - 1 <= subtiles; the builder's StagesD = min(subtiles, 2) is safe.
    """
    sizes = {"stages_c": stages_d + 1, "stages_d": stages_d, "subtiles": subtiles}
    assert checked(schedule="cooperative", tiles=1, **sizes).verdict == PROVED
    result = checked(schedule="cooperative", tiles=2, limit=20_000, **sizes)
    assert (result.verdict == VIOLATED) is hangs
    if hangs:
        assert set(blocked(result)) == {"epilogue_load_warp.0"}
    for schedule in ("ws", "pingpong"):
        assert checked(schedule=schedule, tiles=2, **sizes).verdict == PROVED, "a store_tail for each tile is right"


def test_one_store_tail_is_too_little_for_every_number_of_tiles_above_one():
    result = checked(schedule="cooperative", stages_c=4, stages_d=3, subtiles=1, limit=20_000)
    assert result.scope == {"trips": "all"}
    assert set(blocked(result)) == {"epilogue_load_warp.0"}


# ---------------------------------------------------------------- C and D in the same bytes


@pytest.mark.parametrize(("bytes_c", "bytes_d"), [(4096, 8192), (8192, 4096)])
def test_stages_of_different_sizes_cannot_share_their_bytes(bytes_c, bytes_d):
    """support_smem_reuse compares numbers of elements (:170), so half-precision C and single-precision D pass: then
    stage s of D lies over other stages of C.
    """
    sizes = {"schedule": "ws", "stages_c": 3, "stages_d": 2, "tiles": 1, "bytes_c": bytes_c, "bytes_d": bytes_d}
    assert "race" in violated(subtiles=6, **sizes)
    assert checked(subtiles=6, reuse_smem_c=False, **sizes).verdict == PROVED


def test_layouts_that_differ_need_the_threads_to_meet_before_they_overwrite():
    assert checked(same_layout=False, **SMALL).verdict == PROVED
    assert "race" in violated(same_layout=False, without="read_sync", **SMALL)
    assert "read_sync" not in Epilogue(**SMALL).parts(), "with one layout everybody overwrites what only he has read"


@pytest.mark.parametrize("reuse", [False, True])
def test_c_and_d_lie_where_the_storage_types_say(reuse):
    pipeline = Epilogue(stages_c=3, stages_d=2, bytes_c=4096, bytes_d=4096, reuse_smem_c=reuse)
    starts = {r.object: r.start for r in pipeline.layout.regions if r.declaration.endswith(".store_warp")}
    base = 0 if reuse else 3 * 4096
    assert [starts[f"c.store_warp[{stage}]"] for stage in range(3)] == [0, 4096, 8192]
    assert [starts[f"d.store_warp[{stage}]"] for stage in range(2)] == [base, base + 4096]


# ---------------------------------------------------------------- without its parts


@pytest.mark.parametrize(
    ("without", "reuse", "expected"),
    [
        ("store_tail", True, {"deadlock"}),
        ("store_fence", True, {"missing-fence"}),
        ("store_fence", False, {"missing-fence"}),
        ("store_sync", True, {"race", "stale-read", "missing-fence"}),
        ("store_sync", False, {"race", "stale-read", "missing-fence"}),
        ("store_wait", True, {"race"}),
        ("store_wait", False, {"race"}),
        ("acquire_sync", False, {"race"}),
    ],
)
def test_each_part_is_needed(without, reuse, expected):
    assert expected <= violated(schedule="cooperative", reuse_smem_c=reuse, without=without, **{**SMALL, "subtiles": 3})


def test_with_reuse_the_threads_need_not_meet_after_the_wait_for_stores():
    """The empty barrier counts every thread, so C does not come back before the storing warp has waited. That ends
    with beta == 0, when nothing is loaded and nothing released; a stage to spare makes up for it.
    """
    sizes = {**SMALL, "stages_c": 2}
    assert checked(without="acquire_sync", **sizes).verdict == PROVED
    assert checked(source_needed=False, **sizes).verdict == PROVED
    assert "race" in violated(source_needed=False, without="acquire_sync", **sizes)
    assert checked(source_needed=False, without="acquire_sync", **{**sizes, "stages_c": 3}).verdict == PROVED


def test_the_fence_before_the_release_is_for_the_strict_rule():
    assert checked(reuse_smem_c=False, without="release_fence", **SMALL).verdict == PROVED
    assert checked(reuse_smem_c=False, strict=True, **SMALL).verdict == PROVED
    assert "missing-fence" in violated(reuse_smem_c=False, strict=True, without="release_fence", **SMALL)


def test_the_load_tail_is_for_clusters():
    assert checked(without="epilogue_load_tail", **SMALL).verdict == PROVED


def test_without_store_tail_a_store_can_outlive_its_thread():
    assert "exit-hazard" in violated(reuse_smem_c=False, strict=True, without="store_tail", **SMALL)
    assert checked(reuse_smem_c=False, without="store_tail", **SMALL).verdict == PROVED


def test_warpgroups_that_do_not_take_turns():
    found = violated(schedule="pingpong", without="order", **{**SMALL, "subtiles": 1})
    assert {"race", "named-barrier"} <= found


# ---------------------------------------------------------------- sources and fusion


@pytest.mark.parametrize(
    ("reuse", "more"),
    [
        (True, {"aux_load_bytes": 1024}),
        (False, {"aux_store_bytes": 1024}),
        (True, {"aux_store_bytes": 1024}),
        (False, {"source_needed": False}),
        (True, {"source_needed": False}),
    ],
)
def test_fusion_callbacks(reuse, more):
    assert checked(reuse_smem_c=reuse, **SMALL, **more).verdict == PROVED


def test_auxiliary_bytes_are_expected_by_whoever_loads_them():
    result = checked(aux_load_bytes=1024, **SMALL)
    assert result.verdict == PROVED
    assert "tx-count" in {finding.id for finding in result.findings}


def test_an_auxiliary_store_needs_its_own_wait():
    assert "race" in violated(aux_store_bytes=1024, source_needed=False, without="store_wait", **SMALL)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_without_a_source(schedule):
    sizes = {"schedule": schedule, "void_c": True, "reuse_smem_c": False, "stages_d": 2, "subtiles": 3, "tiles": 2}
    result = checked(delay_tma_store=True, **sizes)
    assert result.verdict == PROVED
    assert not any(step.object.startswith("epi_load") for step in _trace_of_race(**sizes))


def _trace_of_race(**sizes):
    result = checked(limit=20_000, delay_tma_store=True, without="store_wait", **sizes)
    return next(finding.trace for finding in result.findings if finding.id == "race").steps


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"schedule": "stream-k"}, "schedule='stream-k': use one of ws, cooperative, pingpong"),
        ({"void_c": True}, "reuse_smem_c needs a source"),
        ({"stages_c": 0}, "stages_c=0: use 1 or more"),
        ({"stages_d": 33}, "stages_d=33: use 1 to 32"),
        ({"subtiles": 0}, "subtiles=0: use 1 or more"),
        ({"bytes_c": 16}, "a stage of 16 bytes: use a multiple of 16 that is at least 32"),
        ({"without": "order"}, "without='order': epilogue has epilogue_load_tail"),
    ],
)
def test_parameters_without_meaning(parameters, message):
    with pytest.raises(SpecError, match=message):
        Epilogue(**parameters)


# ---------------------------------------------------------------- the command


def test_command(capsys):
    sizes = ["epilogue", "--stages-d", "2", "--reuse-smem-c", "--subtiles", "4", "--tiles", "1"]
    assert main([*sizes, "--stages-c", "3", "--delay-tma-store"]) == 0
    assert "stages_c=3 stages_d=2 reuse_smem_c=True delay_tma_store=True subtiles=4" in capsys.readouterr().out
    assert main([*sizes, "--stages-c", "2", "--delay-tma-store"]) == 1
    assert "error[deadlock]" in capsys.readouterr().out
    assert main([*sizes, "--stages-c", "65"]) == 2
    assert "--stages-c: 65: use a whole number from 1 to 64" in capsys.readouterr().err


def test_the_size_of_d_is_that_of_c_unless_it_is_given(capsys):
    sizes = ["epilogue", "--schedule", "ws", "--stages-c", "3", "--stages-d", "2", "--subtiles", "6", "--tiles", "1"]
    assert main([*sizes, "--reuse-smem-c", "--bytes-c", "8192"]) == 0
    assert main([*sizes, "--reuse-smem-c", "--bytes-c", "8192", "--bytes-d", "4096", "--limit", "20000"]) == 1
