"""CUTLASS's GEMM kernels: proved as the builder makes them, and what happens without each of their parts."""

from __future__ import annotations

import json

import pytest

from sm90_verify.cli.main import main
from sm90_verify.engines.check import check
from sm90_verify.engines.order import order
from sm90_verify.result import PROVED, VIOLATED
from sm90_verify.spec.cutlass.builder import build, epilogue_policy, mainloop_stages
from sm90_verify.spec.cutlass.gemm import GEMMS
from sm90_verify.spec.errors import SpecError
from sm90_verify.spec.language.walk import trace

SMALL = {
    "ws": {"stages": 2, "stages_c": 3, "stages_d": 2, "subtiles": 3, "k_tiles": 3},
    "cooperative": {"stages": 2, "stages_c": 2, "stages_d": 1, "subtiles": 1, "k_tiles": 1, "tiles": 2},
    "pingpong": {"stages": 2, "stages_c": 2, "stages_d": 1, "subtiles": 1, "k_tiles": 1, "tiles": 2},
}


def small(schedule, **changes):
    return GEMMS[schedule](**{**SMALL[schedule], **changes})


def checked(pipeline, limit=0):
    return check(pipeline, command="gemm", limit=limit, engine="search")


def violated(pipeline) -> set[str]:
    """What is violated; the limit only cuts the search for the shortest schedule short."""
    return {finding.id for finding in checked(pipeline, 60_000).findings if finding.verdict == VIOLATED}


@pytest.mark.parametrize("schedule", GEMMS)
@pytest.mark.parametrize("form", ["ss", "rs"])
def test_is_proved(schedule, form):
    changes = {"form": form, "k_tiles": 2} if form == "rs" else {}
    result = checked(small(schedule, **changes))
    assert result.verdict == PROVED
    registers = "register-pool" in {finding.id for finding in result.findings}
    assert registers is (schedule != "ws")


def test_ws_is_proved_as_the_builder_makes_it():
    pipeline = build("ws")
    assert (pipeline.stages, pipeline.stages_c, pipeline.stages_d, pipeline.subtiles) == (6, 4, 2, 8)
    result = checked(pipeline)
    assert result.verdict == PROVED
    assert result.states == 739


@pytest.mark.parametrize("bits_c", [0, 16])
@pytest.mark.parametrize("schedule", GEMMS)
def test_is_proved_at_full_size_by_happens_before(schedule, bits_c):
    """128 x 128 x 64 in half precision, K = 2048, three tiles for each CTA."""
    tiles = {} if schedule == "ws" else {"tiles": 3}
    assert order(trace(build(schedule, bits_c=bits_c, k_tiles=32, **tiles))).verdict == PROVED


BROKEN = [
    ("ws", {"without": "load_tail"}, {"race", "stale-read"}),
    ("ws", {"without": "mma_tail"}, {"deadlock"}),
    ("ws", {"without": "store_tail"}, {"deadlock"}),
    ("ws", {"without": "store_fence"}, {"missing-fence"}),
    ("ws", {"without": "store_sync"}, {"race", "missing-fence"}),
    ("ws", {"without": "store_wait", "subtiles": 4}, {"race"}),
    ("cooperative", {"storage": "union"}, {"race", "stale-read"}),
    ("cooperative", {"without": "mma_tail", "tiles": 1}, {"deadlock"}),
    ("cooperative", {"without": "store_tail", "stages_c": 3, "stages_d": 2, "tiles": 1}, {"deadlock"}),
    ("cooperative", {"without": "store_fence", "tiles": 1}, {"missing-fence"}),
    ("cooperative", {"without": "store_sync", "tiles": 1}, {"stale-read"}),
    ("cooperative", {"without": "register_dealloc"}, {"register-pool"}),
    ("cooperative", {"stages_c": 4, "stages_d": 3}, {"deadlock"}),
    ("pingpong", {"storage": "union"}, {"race", "stale-read"}),
    ("pingpong", {"without": "mma_tail", "tiles": 1}, {"deadlock"}),
    ("pingpong", {"without": "store_fence", "tiles": 1}, {"missing-fence"}),
    ("pingpong", {"without": "mma_order", "k_tiles": 2}, {"race", "stale-read", "phase-lapped"}),
    ("pingpong", {"without": "epilogue_order"}, {"named-barrier"}),
    ("pingpong", {"without": "register_dealloc"}, {"register-pool"}),
]


@pytest.mark.parametrize(("schedule", "changes", "expected"), BROKEN)
def test_each_part_is_needed(schedule, changes, expected):
    pipeline = small(schedule, **changes)
    assert expected <= violated(pipeline)
    assert order(trace(pipeline)).verdict == VIOLATED


def test_the_blame_is_on_the_bytes_that_the_union_shares():
    result = checked(small("ws", without="load_tail"), 60_000)
    trace = next(finding.trace for finding in result.findings if finding.id == "race")
    assert trace.because.startswith("load_warp.0 starts the async-proxy write of c.store_warp[0]")
    assert trace.steps[-1].file.endswith("epilogue.py")


@pytest.mark.parametrize(
    ("schedule", "changes"),
    [
        ("ws", {"storage": "struct"}),
        ("ws", {"storage": "struct", "without": "load_tail"}),
        ("ws", {"without": "epilogue_load_tail"}),
        ("ws", {"without": "warp_sync"}),
        ("cooperative", {"without": "load_tail"}),
        ("cooperative", {"without": "epilogue_load_tail"}),
        ("cooperative", {"without": "load_order"}),
        ("pingpong", {"without": "load_tail"}),
        ("pingpong", {"without": "load_order"}),
    ],
)
def test_what_one_cta_does_not_need(schedule, changes):
    """load_tail waits for the sake of other CTAs, except in a union; the order of the load warps is one of speed."""
    pipeline = small(schedule, **changes)
    assert checked(pipeline).verdict == PROVED
    assert order(trace(pipeline)).verdict == PROVED


def test_a_union_without_a_source_relies_on_wgmma_being_over_for_the_whole_warpgroup():
    """Nothing in the kernel itself orders the first warp's D after the operand reads of the other three."""
    without_source = {"void_c": True, "reuse_smem_c": False, "delay_tma_store": True}
    assert checked(small("ws", **without_source)).verdict == PROVED
    assert "race" in violated(small("ws", collective_wgmma=False, **without_source))
    assert checked(small("ws", collective_wgmma=False, storage="struct", **without_source)).verdict == PROVED
    assert checked(small("ws", collective_wgmma=False)).verdict == PROVED, (
        "C comes after load_tail, which saw all release"
    )


def test_half_of_an_order_barrier_hangs():
    """A warp that waits for the other's first tile, which nobody announces."""

    class Waits(GEMMS["cooperative"]):
        def has(self, part):
            return super().has(part) if part != "load_order" else self._tracer.me.name.startswith("epilogue")

    result = checked(Waits(**{**SMALL["cooperative"], "tiles": 1}))
    trace = next(finding.trace for finding in result.findings if finding.id == "deadlock")
    assert ("epilogue_load_warp.0", "load_order.barrier[1]") in {(b.role, b.waits_for) for b in trace.blocked}


def test_more_registers_than_the_pool_has():
    assert "register-pool" in violated(small("pingpong", mma_registers=240))
    assert checked(small("pingpong", mma_registers=240, load_registers=24)).verdict == PROVED


# ---------------------------------------------------------------- what the builder chooses

BUILT = """
ws          128 128  64 16 16 16  6 4 2 1 0  8 17408
pingpong    128 128  64 16 16 16  6 4 2 1 0  8 17408
cooperative 128 128  64 16 16 16  6 4 2 1 0  4 33792
ws          128 128  64 16  0 16  6 4 2 0 1  8  9216
cooperative 128 128  64 16  0 16  6 4 2 0 1  4 17408
pingpong    128 128  64 16 32 32  6 4 2 1 0  8 34816
cooperative 128 128  64 16 32 32  5 4 2 1 0  4 67584
ws          128 128  64 16 16 32  6 4 2 0 0  8 34816
cooperative 128 128  64 16 16 32  5 4 2 0 0  4 67584
pingpong     64 128  64 16 16 16  8 4 2 1 0  4 17408
ws           64  32  64 16 16 16 18 2 1 1 0  1  9216
cooperative 256 128  64 16 16 16  4 4 2 1 0  8 33792
ws          128 256  64 16 32 16  3 4 2 0 0 16 43008
cooperative 128 256  64 16 32 16  3 4 2 0 0  8 83968
ws          128  64  32 16 16 16 17 4 2 1 0  4 17408
pingpong     64  16  64 16 16 16 22 2 1 1 0  1  4608
cooperative 128  80  64 16 16 16  8 4 2 1 0  5 16896
ws          128 128 128  8  8  8  6 4 2 0 0  4 25600
cooperative 128 128 128  8  8  8  6 4 2 0 0  4 25088
"""
"""schedule; M, N, K; bits of A and B, of C and of D; then what CUTLASS 4.2's builder gave when nvcc compiled it:
stages, StagesC, StagesD, ReuseSmemC, DelayTmaStore, subtiles, bytes of the epilogue's shared storage.
"""


@pytest.mark.parametrize("line", BUILT.split("\n")[1:-1])
def test_the_builder_is_cutlass_s(line):
    schedule, *numbers = line.split()
    m, n, k, bits, bits_c, bits_d, stages, *expected = map(int, numbers)
    policy = epilogue_policy(schedule, m, n, bits_c=bits_c, bits_d=bits_d)
    found = [policy.stages_c, policy.stages_d, policy.reuse_smem_c, policy.delay_tma_store]
    assert [*found, policy.subtiles, policy.storage] == expected
    assert mainloop_stages(m, n, k, bits_a=bits, bits_b=bits, carveout=policy.storage) == stages


@pytest.mark.parametrize(
    ("schedule", "tile", "message"),
    [
        ("stream-k", (128, 128, 64), "schedule 'stream-k': use one of ws, cooperative, pingpong"),
        ("cooperative", (64, 128, 64), "a cooperative kernel with 64 rows: use 128 or more"),
        ("ws", (96, 128, 64), "a tile of 96 x 128: the epilogue tile 64 x 32 must divide it"),
        ("ws", (256, 256, 256), "0 stages fit into shared memory"),
    ],
)
def test_tiles_that_do_not_compile(schedule, tile, message):
    with pytest.raises(SpecError, match=message):
        build(schedule, tile)


@pytest.mark.parametrize("schedule", GEMMS)
def test_tensors_lie_apart_unless_they_are_a_union(schedule):
    def overlaps(pipeline):
        loads = [r for r in pipeline.layout.regions if r.declaration in ("a.stage", "b.stage")]
        others = [r for r in pipeline.layout.regions if r.declaration.startswith(("c.", "d."))]
        return any(one.access().overlaps(other.access()) for one in loads for other in others)

    assert not overlaps(build(schedule, storage="struct"))
    assert overlaps(build(schedule, storage="union"))
    assert build(schedule).storage == ("union" if schedule == "ws" else "struct")


# ---------------------------------------------------------------- the command


def test_command(capsys):
    assert main(["gemm", "--schedule", "ws"]) == 0
    assert "verify: PROVED gemm-ws stages=6 k_tiles=4 stages_c=4 stages_d=2" in capsys.readouterr().out
    assert main(["gemm", "--schedule", "ws", "--tiles", "2"]) == 2
    assert "--tiles: the ws kernel has one output tile" in capsys.readouterr().err
    assert main(["gemm", "--schedule", "ws", "--tile", "64x64"]) == 2
    assert "use MxNxK" in capsys.readouterr().err


def test_a_counterexample_can_be_replayed(capsys, tmp_path):
    path = str(tmp_path / "trace.json")
    sizes = ["--stages", "2", "--k-tiles", "2", "--subtiles", "2", "--limit", "60000"]
    assert main(["gemm", "--schedule", "cooperative", "--union", *sizes, "--format", "json", "-o", path]) == 1
    with open(path, encoding="utf-8") as file:
        assert json.load(file)["model"]["parameters"]["storage"] == "union"
    assert main(["replay", path]) == 1
    assert "verify: VIOLATED gemm-cooperative" in capsys.readouterr().out
